"""Lists that are near to a known format, and texts about which a refusal said what was not true."""

import json

import pytest

from cfetch.base.config.reading import ReadingOptions
from tests.manifest.sample import MD5, SHA, H
from tests.plugins.formats.test_lists_outside import BASE, entries_of
from tests.plugins.formats.test_near_lists import message_of

RPM = "http://linux.duke.edu/metadata/common"
INVENIO = {
    "created": "2024",
    "id": "1",
    "links": {"self": f"{H}records/1"},
    "metadata": {},
    "files": {
        "entries": {
            "a.zip": {
                "key": "a.zip",
                "size": 1,
                "checksum": f"md5:{MD5}",
                "links": {"content": f"{H}a.zip/content"},
            }
        }
    },
}
OSF = {
    "data": [{"attributes": {"name": "a.csv", "size": 1}, "links": {"download": f"{H}1", "delete": f"{H}x"}}],
    "links": {"next": f"{H}page=2", "meta": {}},
}
GOOGLE = {
    "kind": "storage#objects",
    "items": [
        {"kind": "storage#object", "mediaLink": f"{H}a", "name": "d/a", "bucket": "b", "size": "1"},
    ],
}
DCAT = {
    "@context": {},
    "@graph": [
        {
            "dcat:downloadURL": {"@id": f"{H}a"},
            "dcat:byteSize": {"@value": "1"},
            "spdx:checksum": {
                "spdx:algorithm": {"@id": "spdx:checksumAlgorithm_sha256"},
                "spdx:checksumValue": SHA,
            },
        }
    ],
}
PRIMARY = (
    f'<metadata xmlns="{RPM}"><package><checksum type="sha256">{SHA}</checksum><url>{H}</url>'
    '<size package="1"/><location href="P/a.rpm"/></package></metadata>'
)
POWERSHELL = f"\nAlgorithm  Hash  Path\n---------  ----  ----\nSHA256  {SHA}  sub\\a.bin\n"


@pytest.mark.parametrize(
    ("name", "text", "entry"),
    [
        ("r.json", json.dumps(INVENIO), (f"{H}a.zip/content", "a.zip", 1, f"md5:{MD5}")),
        ("o.json", json.dumps(OSF), (f"{H}1", "a.csv", 1, None)),
        ("g.json", json.dumps(GOOGLE), ("gs://b/d/a", "d/a", 1, None)),
        ("d.json", json.dumps(DCAT), (f"{H}a", "a", 1, f"sha256:{SHA}")),
        ("deno.lock", json.dumps({"version": "3", "remote": {f"{H}a.ts": SHA}}), None),
        ("primary.xml", PRIMARY, (f"{BASE}P/a.rpm", "P/a.rpm", 1, f"sha256:{SHA}")),
        ("sums.txt", POWERSHELL, (f"{BASE}sub/a.bin", "sub/a.bin", None, f"sha256:{SHA}")),
        ("a.csv", f"# exported, today\nurl\n{H}a\n".replace(",", ""), (f"{H}a", "a", None, None)),
        ("a.csv", f"url,size,md5\n{H}a,?,N/A\n", (f"{H}a", "a", None, None)),
        ("a.md", f"| file | url |\n|---|:--|\n| a | {H}a |\n", (f"{H}a", "a", None, None)),
    ],
)
def test_a_list_that_a_program_writes_is_read(frozen, name, text, entry):
    """Each was refused, or read without what it states."""
    expected = entry or (f"{H}a.ts", f"{H}a.ts".partition("://")[2], None, f"sha256:{SHA}")
    assert entries_of(frozen(text, name, base_url=BASE)) == [expected]


@pytest.mark.parametrize(("key", "value"), [("md5", "N/A"), ("size", "-")])
def test_a_value_that_is_stated_as_not_known_is_counted(frozen, key, value):
    """A file without its hash is not verified, so the user learns of it."""
    assert any(
        "not known, such as N/A: 1" in note for note in frozen(f"url,{key}\n{H}a,{value}\n", "a.csv").notes
    )


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.xml", "<EnumerationResults><Blobs/></EnumerationResults>", "az://NAME/"),
        ("a.csv", f"Report,\n,\nurl,size\n{H}a,1\n", "line 3 names such a column"),
        ("a.json", '[{"version": "1", "files": [{"filename": "a"}]}]', "--query '[].files[]' reads these"),
        ("a.json", f'{{"resources": [{{"type": "x"}}], "o": {{"url": "{H}a"}}}}', "--query 'o.{url: url}'"),
        ("a.json", '{"schemaVersion": 2, "manifests": []}', "container image (OCI)"),
        ("a.json", f'"{H}a"', "it is one text of JSON"),
        ("a.json", f'{{"kind": "List", "items": [{{"url": "{H}a"}}]}}', "no list that cfetch knows"),
        ("a.jsonl", f'{{"url": "{H}a", "size": "1k"}}', "--size-column none"),
        ("a.jsonl", f'{{"url": "{H}a", "md5": ""}}', "null says that there is none"),
        ("a.txt", f"{H}a\n  dir=/home/u\n  out=x\n", "--path-column none leaves such directories out"),
        ("a.md5", f"{MD5}  C:\\d\\a.bin\n", "'C:/d/a.bin' is absolute"),
        ("a.xml", f"<metadata><x>{H}a</x></metadata>", "it has 1 link within it"),
        ("a.jsonl", f'{{"url": "{H}a {H}b"}}', "a second URL stands in it"),
    ],
)
def test_a_refusal_says_what_it_is_and_the_way_out(error_of, name, text, words):
    """Each said what was not true, or no next step."""
    assert words in message_of(error_of, text, name, base_url=BASE)


def test_no_link_that_changes_or_deletes_files_is_advised(error_of):
    """An expression for them would ask for each."""
    links = {"delete": f"{H}x", "move": f"{H}y", "upload": f"{H}z", "get": f"{H}a"}
    message = message_of(error_of, json.dumps({"a": [{"links": links}]}), "a.json")
    assert "{url: get}" in message
    assert "delete" not in message


def test_an_absolute_directory_of_aria2_can_be_left_out(frozen):
    """It is one of another machine; the name in it stays."""
    text = f"{H}a\n  dir=/home/u\n  out=x\n"
    assert entries_of(frozen(text, options=ReadingOptions(from_format="aria2", path_column="none"))) == [
        (f"{H}a", "x", None, None)
    ]


def test_sizes_that_are_texts_are_numbers_for_an_expression(frozen):
    """The APIs of stores write them so, and the refusal advises such an expression."""
    options = ReadingOptions(query="x[].{url: u, size: s}")
    plan = frozen(json.dumps({"x": [{"u": f"{H}a", "s": "7"}]}), options=options)
    assert entries_of(plan) == [(f"{H}a", "a", 7, None)]


@pytest.mark.parametrize("written", ["iso-8859-1", "utf-8"])
def test_xml_has_the_encoding_that_it_declares_unless_it_is_utf8(frozen, written):
    """Programs declare Latin 1 and write UTF-8, too."""
    begin = '<?xml version="1.0" encoding="ISO-8859-1"?>'
    feed = f'{begin}<rss><item><enclosure url="{H}\u00e9.mp3"/></item></rss>'
    entry = f'<file name="\u00e9.mp3"><url>{H}e</url></file>'
    metalink = f'{begin}<metalink xmlns="urn:ietf:params:xml:ns:metalink">{entry}</metalink>'
    for text in (feed, metalink, f"{begin}<urlset><url><loc>{H}\u00e9.mp3</loc></url></urlset>"):
        assert [entry[1] for entry in entries_of(frozen(text.encode(written), "a.xml"))] == ["\u00e9.mp3"]


ZENODO = (
    '{"id": 1, "links": {"files": "http://h/f"}, "files": [{"key": "a", "checksum": "%s", '
    '"links": {"self": "http://h/a"}}]}'
)
NPM = '{"lockfileVersion": 3, "packages": {"a": {"resolved": "http://h/a.tgz", "integrity": "%s"}}}'
PACKAGE = '{"name": "x", "resources": [{"path": "http://h/a.csv", "hash": "%s"}]}'
HAL = (
    '{"_links": {}, "_embedded": {"bitstreams": [{"name": "a", "_links": {"content": {"href": "http://h/a"}}'
    ', "checkSum": {"checkSumAlgorithm": "%s", "value": "00"}}]}}'
)


@pytest.mark.parametrize(("name", "text", "unknown", "known"), [
    ("record.json", ZENODO, "whirlpool:00", "md5:" + "0" * 32), ("datapackage.json", PACKAGE, "tiger:00", ""),
    ("package-lock.json", NPM, "whirl-AAAA", ""), ("item.json", HAL, "Tiger", ""),
])  # fmt: skip
def test_hashes_of_unknown_kinds_are_counted(frozen, name, text, unknown, known):
    """A hash that is dropped is a note with its number; where none is stated, nothing is said."""
    said = "hashes of a kind that cfetch does not know, which are left out: 1"
    assert [said in frozen(text % stated, name).notes for stated in (unknown, known)] == [True, False]


NGINX = '[{"name":"a b","type":"file","mtime":"x","size":5},{"name":"d","type":"directory","mtime":"x"}]'
CADDY = """[{"name":"a b","size":5,"url":"./a%20b","mod_time":"x","mode":420,"is_dir":false},
{"name":"d/","size":64,"url":"./d/","mod_time":"x","mode":420,"is_dir":true}]"""


@pytest.mark.parametrize("text", [NGINX, CADDY])
def test_directories_of_web_servers_in_json_are_lists(text, frozen):
    """Of their files; directories make the list a part, so that nothing is deleted by it."""
    plan = frozen(text, "index.json", base_url="http://h/x/")
    entry = plan.entry(0)
    assert (entry.url.reveal(), entry.path, entry.size_bytes, len(plan)) == ("http://h/x/a%20b", "a b", 5, 1)
    assert plan.partial == "directories that are left out: 1; give their own lists of files"


def test_a_table_with_urls_and_such_columns_is_any_table(frozen):
    """Its URLs count, and not its names."""
    plan = frozen('[{"name":"a","type":"file","mtime":"x","url":"http://h/b"}]', "a.json")
    assert plan.entry(0).url.reveal() == "http://h/b"
