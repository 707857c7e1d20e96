"""Metalink 4: the best source first, hostile XML refused, memory flat."""

import io
import sys
import tracemalloc

import pytest

from cfetch.base.errors import UsageError
from cfetch.manifest.reading import read_entries
from cfetch.manifest.source import MAX_ROW_CHARS

SHA = "ab" * 32
HEAD = '<?xml version="1.0" encoding="UTF-8"?>\n<metalink xmlns="urn:ietf:params:xml:ns:metalink">\n'
SAMPLE = (
    HEAD
    + f"""  <published>2026-01-01T00:00:00Z</published>
  <file name="d/example.ext">
    <size>14471447</size>
    <identity>Example</identity>
    <hash type="sha-256">{SHA.upper()}</hash>
    <hash type="md5">{"0" * 32}</hash>
    <hash type="whirlpool">xyz</hash>
    <pieces length="262144" type="sha-1"><hash>{"1" * 40}</hash></pieces>
    <url location="de">http://last.example/example.ext</url>
    <url location="fr" priority="2">http://second.example/example.ext</url>
    <url priority="1">ftp://first.example/example.ext</url>
    <url priority="1">https://best.example/example.ext?a=1&amp;b=2</url>
    <metaurl mediatype="torrent">http://best.example/example.torrent</metaurl>
    <x:url xmlns:x="urn:other">http://evil.example/</x:url>
  </file>
  <file name="two"><url> http://h/two </url></file>
</metalink>
"""
)


def file(inside, name='name="a"'):
    return f"{HEAD}<file {name}>{inside}</file></metalink>"


def test_sample(frozen):
    """Sources by priority, http alone; the strongest known hash; nothing of pieces and foreign elements."""
    plan = frozen(SAMPLE, "-")
    entry = plan.entry(0)
    assert entry.url.reveal() == "https://best.example/example.ext?a=1&b=2"
    assert [m.reveal() for m in entry.mirrors] == [
        "http://second.example/example.ext",
        "http://last.example/example.ext",
    ]
    assert (entry.path, entry.size_bytes, entry.line) == ("d/example.ext", 14471447, 4)
    assert (entry.digest.algorithm, entry.digest.hex) == ("sha256", SHA)
    assert (plan.entry(1).url.reveal(), plan.entry(1).digest, plan.entry(1).line) == (
        "http://h/two",
        None,
        18,
    )


URL = "<url>http://h/a</url>"


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (file(URL, 'name="../a"'), "component"),
        (file(URL, 'name="/a"'), "absolute"),
        (file(URL, 'name="a&#xA;b"'), "control"),
        (file(URL, ""), "path"),
        (file(""), "url: it is missing"),
        (file("<url>sftp://h/a</url>"), "scheme"),
        (file("<size>-5</size>" + URL), "size"),
        (file("<size>1e3</size>" + URL), "size"),
        (file("<size>1</size><size>2</size>" + URL), "given twice"),
        (file('<hash type="sha-256">abc</hash>' + URL), "64 hexadecimal"),
        (file('<hash type="whirlpool">abc</hash>' + URL), "none is of a type"),
        (file('<url priority="0">http://h/a</url>'), "priority"),
    ],
)
def test_faults(error_of, text, word):
    """What a file states wrongly is a fault on its line."""
    error = error_of(text, "m.meta4")
    assert (error.total, error.problems[0].line) == (1, 3)
    assert word in error.problems[0].message


LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">' for i in range(1, 10))


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (f'<!DOCTYPE m [<!ENTITY l0 "ha">{LAUGHS}]><m>&l9;</m>', "document type or an entity"),
        ('<!DOCTYPE m SYSTEM "file:///etc/passwd"><m/>', "document type or an entity"),
        ('<!DOCTYPE m [<!ENTITY x SYSTEM "file:///etc/passwd">]><m>&x;</m>', "document type or an entity"),
        ("<metalink/>", "version 4"),
        ('<metalink xmlns="urn:other"/>', "version 4"),
        (HEAD + "<file>", "not XML"),
        (HEAD + "</metalink>more", "not XML"),
        (HEAD + "<a>" * 40, "deep"),
        ('<metalink xmlns="http://www.metalinker.org/">' + "<files>" * 40, "deep"),
        (HEAD + "<!--" + "x" * (2 * MAX_ROW_CHARS), "longer than"),
        (HEAD + "<file name='a'><size>" + "1" * (2 * MAX_ROW_CHARS), "longer than"),
        (HEAD + "<file name='" + "x" * (2 * MAX_ROW_CHARS), "longer than"),
        ("", "empty"),
    ],
    ids=range(13),
)
def test_hostile(error_of, text, word):
    """A document that attacks the parser, or is none, ends the reading with one fault."""
    error = error_of(text, "m.meta4")
    assert error.total == 1
    assert word in error.problems[0].message
    assert "root:" not in str(error)


def test_document_type_alone(error_of):
    """A document type is refused even where it declares nothing."""
    text = SAMPLE.replace("<metalink", "<!DOCTYPE metalink>\n<metalink", 1)
    assert "document type" in error_of(text, "m.meta4").problems[0].message


def test_foreign_element_inside_a_source(frozen):
    """What stands in an element of another namespace is no text of ours."""
    inner = '<x:i xmlns:x="urn:other">http://evil.example/</x:i>'
    entry = frozen(file(f"<url>{inner}http://h/a</url><size>{inner}5</size>"), "-").entry(0)
    assert (entry.url.reveal(), entry.mirrors, entry.size_bytes) == ("http://h/a", (), 5)


def test_too_many_sources(frozen):
    """Of very many sources the best hundred and one are kept."""
    urls = "".join(f'<url priority="{200 - i}">http://h/{i}</url>' for i in range(150))
    entry = frozen(file(urls), "-").entry(0)
    assert entry.url.reveal() == "http://h/149"
    assert len(entry.mirrors) == 100


def test_memory_is_flat():
    """Five times the document takes no more memory: files are let go as they are read."""

    class Long(io.BytesIO):
        """Many files, made as they are read."""

        def __init__(self, files):
            super().__init__()
            one = b'<file name="a%07d"><size>1</size><url>http://h/a</url></file>\n'
            self.data = HEAD.encode() + b"".join(one % i for i in range(files)) + b"</metalink>"
            self.position = 0

        def seek(self, position, whence=0):
            self.position = position
            return position

        def read(self, size=-1):
            return self.data[self.position : self.position + size]

    def peak(files):
        source = Long(files)
        tracemalloc.start()
        try:
            assert len([entry.id for entry in read_entries(source, name="m.meta4")]) == files
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    assert peak(20_000) < 2 * peak(4_000)


def test_missing_library(monkeypatch):
    """Without defusedxml the message says what to install; Python's own parser is never used."""
    monkeypatch.setitem(sys.modules, "defusedxml", None)
    with pytest.raises(UsageError, match=r"cfetch\[metalink\]"):
        list(read_entries(io.BytesIO(SAMPLE.encode()), name="-"))


@pytest.mark.parametrize("cut", range(0, len(SAMPLE), 37))
def test_cut_short(error_of, cut):
    """A document that was cut short is never taken for a shorter one."""
    assert error_of(SAMPLE[:cut], "m.meta4").total >= 1


OLD = """<?xml version="1.0" encoding="utf-8"?>
<metalink version="3.0" xmlns="http://www.metalinker.org/" xmlns:mm0="http://fedorahosted.org/mirrormanager">
 <publisher><name>A</name><url>http://h/</url></publisher>
 <files>
  <file name="repomd.xml">
   <mm0:timestamp>1337942396</mm0:timestamp>
   <size>4309</size>
   <verification>
    <hash type="md5">20b6d77930574ae541108e8e7987ad3f</hash>
    <hash type="sha256">076fcf6cb5bc4b1d5f6c4ad6ee5d4e5a5ec5f8f5a6d5c1e3d0c6a3f39bb1b0a1</hash>
    <pieces length="2" type="sha1"><hash piece="0">179463a88d79cbf0b1923991708aead914f26142</hash></pieces>
   </verification>
   <mm0:alternates><mm0:alternate><size>1</size></mm0:alternate></mm0:alternates>
   <resources maxconnections="1">
    <url protocol="rsync" type="rsync" preference="100">rsync://h/repomd.xml</url>
    <url type="http" location="CZ" preference="99">http://second/repomd.xml</url>
    <url type="http" location="DE" preference="100">http://first/repomd.xml</url>
    <url type="http">http://last/repomd.xml</url>
   </resources>
  </file>
  <file name="b"><resources><url>http://h/b</url></resources></file>
 </files>
</metalink>
"""


def test_version_3_as_mirror_lists_of_linux_distributions_have_it(frozen):
    """Preference is the other way round, and elements around files, hashes and sources mean nothing."""
    plan = frozen(OLD, "metalink.xml")
    entry = plan.entry(0)
    assert (entry.path, entry.size_bytes) == ("repomd.xml", 4309)
    assert [entry.digest.algorithm, entry.digest.hex[:8]] == ["sha256", "076fcf6c"]
    sources = [entry.url.reveal(), *(mirror.reveal() for mirror in entry.mirrors)]
    assert sources == [f"http://{host}/repomd.xml" for host in ("first", "second", "last")]
    assert plan.entry(1).path == "b"
