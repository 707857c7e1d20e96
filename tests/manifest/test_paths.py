"""Safe relative paths: refused, never repaired."""

import posixpath
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.manifest import entry
from cfetch.manifest.entry import UnsafePathError, safe_path
from cfetch.manifest.folding import collision_key

TRICKY = st.text(
    alphabet=st.sampled_from("ab./\\~:%C\0\n\x1b\x9b\u202e\u2066\u200b\ufeffé\ud800 "), max_size=12
)


@pytest.mark.parametrize(
    "path",
    [
        *("../x", "a/../../x", "./", "./a", "a/.", "a/", ".", "..", "a//b", ""),
        *("/a", "//h/a", "C:\\a", "c:a", "\\\\h\\a", "a\\b", "~", "~u/a"),
        *(
            "a\0",
            "a\nb",
            "\x1b[31m",
            "a\x7f",
            "\x9b31m",
            "\u202ea",
            "a\u2066",
            "a\u200b",
            "\ufeffa",
            "\ud800",
        ),
        *("a" * 256, "é" * 128, "a/" * 2000 + "a", "é/" * 1400 + "é"),
        *(".cfetch", ".cfetch/x", ".CFETCH/x"),
        *(
            ".cfetch./x",
            ".cfetch /x",
            ".cfetch. .",
            ".cfe\ufe0ftch/x",
            ".CFETCH:s/x",
            "CFETCH~1/x",
            "\uff0ecfetch/x",
        ),
    ],
)
def test_refused(path):
    """Every form that leaves the root, hides, is too long, or is cfetch's own is refused."""
    with pytest.raises(UnsafePathError):
        safe_path(path)


@pytest.mark.parametrize(
    "path",
    [
        "a",
        "a/b.c",
        "...",
        "..a/b..",
        "%2e%2e/a",
        "café",
        "名前/ファイル",
        "a b",
        "a~",
        "a" * 255,
        "é" * 127,
        "a/.cfetch",
        ".cfetch.d/x",
        "cfetch~",
        "-rf",
    ],
)
def test_accepted(path):
    """Odd but harmless names are kept as they are."""
    assert safe_path(path) == path


@given(st.one_of(TRICKY, st.text()))
def test_accepted_paths_stay_beneath_the_root(text):
    """What is accepted stays beneath any root, holds no control, and can be encoded."""
    try:
        path = safe_path(text)
    except UnsafePathError:
        return
    assert posixpath.normpath(posixpath.join("/root/x", path)) == f"/root/x/{path}"
    assert all(char >= " " and not "\x7f" <= char <= "\x9f" for char in path)
    assert path.encode().decode() == path


@given(st.text(max_size=8))
def test_collision_key_folds(text):
    """A path has one key in whichever Unicode form it is written."""
    forms = {collision_key(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")}
    assert forms == {collision_key(text)}


def test_collision_key_keeps_apart():
    """Names that differ in more than case and form have different keys."""
    assert len({collision_key(name) for name in ("a", "A", "b", "é", "É", "e\u0301", "e", "a/b", "ab")}) == 6


@pytest.mark.parametrize("text", ["/".join(["a" * 255] * 15), "a/" * 14 + "b", "a.b/_c-d/9"])
def test_a_path_that_is_plain_needs_no_closer_look(text):
    """The longest plain path and shorter ones: what the pattern takes, the rules take."""
    assert entry._PLAIN_PATH.match(text)
    assert entry._find_fault(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/",
        "/a",
        "a//b",
        "./a",
        "a/../b",
        ".cfetch/a",
        "~a",
        "c:a",
        "a\\b",
        "a\n",
        "\u00e9",
        "a" * 256,
        "a/" * 15 + "b",
    ],
)
def test_all_other_paths_get_it(text):
    assert not entry._PLAIN_PATH.match(text)
