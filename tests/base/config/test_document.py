"""The YAML that cfetch reads: text only, nothing that expands or runs, and errors that name file and line."""

import pytest

from cfetch.base.config.document import MAX_DOCUMENT_BYTES, load, quote
from cfetch.base.errors import ConfigError


@pytest.fixture
def read(tmp_path):
    """Loads the given bytes or text as a document."""

    def load_text(content):
        path = tmp_path / "some.yaml"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load(path)

    return load_text


def test_scalars_stay_text(read):
    """No type is guessed, so NO is not False and 010 is not 8."""
    assert read("a: NO\nb: 010\nc: 1_000\nd: 2026-01-01\ne: ~\nf: [1, {g: 2.50}]") == {
        "a": "NO",
        "b": "010",
        "c": "1_000",
        "d": "2026-01-01",
        "e": "~",
        "f": ["1", {"g": "2.50"}],
    }


@pytest.mark.parametrize("content", ["", "\n\n", "# only a comment\n", "---\n"])
def test_empty_document_is_an_empty_mapping(read, content):
    """A file in which everything is commented out changes nothing."""
    assert read(content) == {}


def test_byte_order_mark_is_not_part_of_the_first_key(read):
    """An editor's UTF-8 BOM does no harm."""
    assert read(b"\xef\xbb\xbfpadding: 1s\n") == {"padding": "1s"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a: 1\nb: 2\na: 3\n", r"some\.yaml:3: 'a' stands twice"),
        ("x: &one 1\ny: *one\n", r"some\.yaml:2: aliases are not allowed"),
        ("a: [1, 2\nb: 3\n", r"some\.yaml:2: "),
        ("? [1, 2]\n: 3\n", r"some\.yaml:1: a key must be a word"),
        ("? {a: b}\n: 3\n", r"some\.yaml:1: a key must be a word"),
        ("a: 1\n---\nb: 2\n", r"some\.yaml:2: "),
        ("- a\n- b\n", r"some\.yaml must hold `key: value` lines"),
        ("just text", r"some\.yaml must hold `key: value` lines"),
        (b"a: \xff\n", r"some\.yaml is not UTF-8 at byte 3"),
        ("a: 1\n".encode("utf-16"), r"some\.yaml is not UTF-8 at byte 0"),
        (b"a: \x00\n", r"some\.yaml is not YAML"),
        ("[" * 20_000, r"some\.yaml is not YAML"),
    ],
)
def test_unusable_document_is_refused_by_file_and_line(read, content, said):
    """Duplicates, aliases, broken grammar, other encodings, bottomless nesting: errors, never a crash."""
    with pytest.raises(ConfigError, match=said):
        read(content)


def test_aliases_cannot_expand(read):
    """The billion-laughs document is refused at its first alias."""
    rows = ["a0: &a0 [x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 30)]
    with pytest.raises(ConfigError, match=r":2: aliases"):
        read("\n".join(rows))


@pytest.mark.parametrize(
    "tag", ["!!python/object/apply:os.abort []", "!!python/name:os.system ''", "!Custom [1]"]
)
def test_tags_make_nothing(read, tag):
    """A tag is not obeyed: what stands behind it stays a list or text."""
    assert read(f"a: {tag}\n")["a"] in ([], "", ["1"])


def test_size_is_capped(read):
    """A file of the largest size is read, one byte more is refused before it is parsed."""
    head = b"a: 1\n#"
    assert read(head + b"x" * (MAX_DOCUMENT_BYTES - len(head))) == {"a": "1"}
    with pytest.raises(ConfigError, match="is larger than"):
        read(head + b"x" * (MAX_DOCUMENT_BYTES - len(head) + 1))


def test_unreadable_file_is_named(tmp_path):
    """A missing file and a directory are errors that name the path and the cause."""
    with pytest.raises(ConfigError, match=r"missing\.yaml: No such file"):
        load(tmp_path / "missing.yaml")
    with pytest.raises(ConfigError, match="Is a directory"):
        load(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "plain",
        "",
        " lead",
        "a: b",
        "x #y",
        "*z",
        "- a",
        "a\nb",
        "\x1b[31m",
        "it's",
        '"q"',
        "=",
        "~",
        "é日🎉",
        "x " * 500,
    ],
)
def test_quoted_text_reads_back_from_one_line(read, text):
    """Whatever a path holds, its quoted form is one line that means the same text."""
    line = quote(text)
    assert "\n" not in line
    assert read(f"key: {line}  # a comment\n") == {"key": text}
