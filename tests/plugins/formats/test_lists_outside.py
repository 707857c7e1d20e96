"""Lists of real shape: each entry has the URL, path, size and hash that its list states."""

import io
import json

import pytest

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import ManifestError
from cfetch.manifest.reading import Reading
from cfetch.manifest.source import Source
from tests.manifest.lists import SAMPLES, read
from tests.manifest.sample import MD5, SHA, H

BASE = "https://h.example/d/"
WORSE = "ff" * 32


def entries_of(plan):
    """What is stated of each entry; a hash as ``NAME:DIGITS``."""
    return [
        (
            entry.url.reveal(),
            entry.path,
            entry.size_bytes,
            None if entry.digest is None else f"{entry.digest.algorithm}:{entry.digest.hex}",
        )
        for entry in map(plan.entry, range(len(plan)))
    ]


@pytest.mark.parametrize(
    ("name", "line", "stated"),
    [
        ("sums.txt", f"SHA256(a.bin)= {SHA}", f"sha256:{SHA}"),
        ("sums.txt", f"SHA3-256(a.bin)= {SHA}", f"sha3_256:{SHA}"),
        ("sums.txt", f"BLAKE2b (a.bin) = {'ab' * 64}", f"blake2b:{'ab' * 64}"),
        ("sums.txt", f"SHA384 (a.bin) = {'ab' * 48}", f"sha384:{'ab' * 48}"),
        ("sums.txt", f"{SHA}\ta.bin", f"sha256:{SHA}"),
        ("sums.txt", f"{SHA}   a.bin", f"sha256:{SHA}"),
        ("sums.txt", f"a.bin: {SHA}", f"sha256:{SHA}"),
        ("sums.txt", f"a.bin {MD5}", f"md5:{MD5}"),
        ("sums.txt", f"{'ab' * 64}  a.bin", f"sha512:{'ab' * 64}"),
        ("b2sums.txt", f"{'ab' * 64}  a.bin", f"blake2b:{'ab' * 64}"),
        ("a.b3", f"{SHA}  a.bin", f"blake3:{SHA}"),
        ("SHA384SUMS", f"{'ab' * 48}  a.bin", f"sha384:{'ab' * 48}"),
        ("sha3-256.txt", f"{SHA}  a.bin", f"sha3_256:{SHA}"),
        ("a.sfv", "a.bin e8b7be43", "crc32:e8b7be43"),
        ("a.hash", f"sha256  {SHA}  a.bin", f"sha256:{SHA}"),
        ("a.hash", f"md5  {MD5}  a.bin", f"md5:{MD5}"),
    ],
)
def test_the_sort_of_a_hash_is_what_the_line_or_the_name_of_the_list_says(frozen, name, line, stated):
    """Hashes of several sorts have as many digits, and a wrong guess refuses every right file."""
    assert entries_of(frozen(line + "\n", name, base_url=BASE)) == [(BASE + "a.bin", "a.bin", None, stated)]


@pytest.mark.parametrize(
    "text",
    [
        f"{MD5}  a.bin\n{SHA}  a.bin\n",
        f"{SHA}  a.bin\n{MD5}  a.bin\n",
        f"# SHA256 HASH\n{SHA}  a.bin\n# BLAKE3 HASH\n{WORSE}  a.bin\n",
    ],
)
def test_two_sorts_of_hashes_of_one_file_are_one_entry_with_the_stronger(frozen, text):
    """A heading tells the sort of the lines below it."""
    assert entries_of(frozen(text, "DIGESTS", base_url=BASE)) == [
        (BASE + "a.bin", "a.bin", None, f"sha256:{SHA}")
    ]


def test_two_hashes_of_one_sort_still_contradict_each_other(frozen):
    """The file comes only with the first of them, and the other entry fails."""
    text = f"{SHA}  a.bin\n{WORSE}  a.bin\n"
    first, second = frozen(text, "x.sha256", base_url=BASE).entries()
    assert first.clash is None
    assert "is stated twice" in second.clash.message


@pytest.mark.parametrize(
    ("name", "text", "stated"),
    [
        ("x.txt", f"{H}a#{MD5}\n", f"md5:{MD5}"),
        ("x.txt", f"@EXPLICIT\n{H}a#sha256:{SHA}\n", f"sha256:{SHA}"),
        ("x.csv", f"url\n{H}a#sha256={SHA}\n", f"sha256:{SHA}"),
        ("x.csv", f"url,sha256\n{H}a#md5={MD5},{SHA}\n", f"sha256:{SHA}"),
        ("x.csv", f"url,SHA-256\n{H}a,sha256:{SHA}\n", f"sha256:{SHA}"),
        ("x.txt", f"{H}a#chapter-2\n", None),
        ("x.txt", f"{H}a#sha256={MD5}\n", None),
    ],
)
def test_a_hash_in_a_fragment_counts_in_every_list(frozen, name, text, stated):
    """It says nothing to the server, and the stronger of two hashes counts."""
    assert [entry[1::2] for entry in entries_of(frozen(text, name))] == [("a", stated)]


def test_a_list_of_resourcesync_states_hashes_and_lengths_and_what_is_gone(frozen):
    """What is in a comment is not listed."""
    urls = (
        f'<url><loc>{H}a</loc><rs:md hash="md5:{MD5} sha-256:{SHA}" length="4"/></url>'
        f'<url><loc>{H}b</loc><rs:md change="deleted"/></url><!-- <url><loc>{H}c</loc></url> -->'
        f"<url><loc>{H}d</loc></url>"
    )
    plan = frozen(
        f'<?xml version="1.0"?><urlset xmlns:rs="r"><rs:md capability="changelist"/>{urls}</urlset>'
    )
    assert entries_of(plan) == [(H + "a", "a", 4, f"sha256:{SHA}"), (H + "d", "d", None, None)]
    assert "states as deleted, and that are left out: 1" in plan.notes[0]


def test_the_files_of_a_playlist_are_its_segments_with_their_ranges_maps_and_keys(frozen):
    """A range without a begin follows the one before it."""
    text = (
        f'#EXTM3U\n#EXT-X-MAP:URI="{H}init.mp4"\n#EXT-X-KEY:METHOD=AES-128,URI="{H}key"\n'
        f"#EXT-X-BYTERANGE:10@5\n{H}m.mp4\n#EXT-X-BYTERANGE:7\n{H}m.mp4\n#EXT-X-ENDLIST\n"
    )
    plan = frozen(text, "a.m3u8")
    assert [entry[1:3] for entry in entries_of(plan)] == [
        ("init.mp4", None), ("key", None), ("5-10-m.mp4", 10), ("15-7-m.mp4", 7),
    ]  # fmt: skip


def test_a_length_of_zero_in_a_fetch_list_is_unknown(frozen):
    """NCBI states no other length, and each file would be refused as too long."""
    plan = frozen(f"{H}a\t0\tdata/a\n{H}b\t3\tdata/b\n", "fetch.txt")
    assert [entry[1:3] for entry in entries_of(plan)] == [("data/a", None), ("data/b", 3)]
    assert "taken for unknown: 1" in plan.notes[0]


@pytest.mark.parametrize("key", ["distribution", "resources", "hasPart", "assets", "files", "@type"])
def test_a_record_that_lists_files_beside_its_url_is_no_row(error_of, frozen, key):
    """Its url is a page; who means the page says so."""
    value = "Dataset" if key[0] == "@" else [{"url": H + "a.csv"}]
    text = json.dumps({"url": H + "page", "id": 1, key: value}) + "\n"
    assert "its url is a page about it" in error_of(text * 2, "x.jsonl").problems[0].message
    assert entries_of(frozen(text * 2, "x.jsonl", options=ReadingOptions(url_column="url")))[0][1] == "page"


def test_only_the_signed_lines_of_a_signed_list_are_read(frozen):
    """Lines that begin with a dash have another before them."""
    text = (
        "-----BEGIN PGP SIGNED MESSAGE-----\nHash: SHA512\n\n"
        f"# a: 4 bytes\n{SHA}  a\n- -----x  y\n-----BEGIN PGP SIGNATURE-----\n\n{WORSE}  b\n"
    )
    with pytest.raises(ManifestError, match="not a line of a checksum list"):
        frozen(text, "x", base_url=BASE)
    plan = frozen(text.replace("- -----x  y\n", ""), "x", base_url=BASE)
    assert entries_of(plan) == [(BASE + "a", "a", None, f"sha256:{SHA}")]
    assert "does not verify" in plan.notes[0]


def sample(name):
    return next(each for each in SAMPLES if each.name == name)


@pytest.mark.parametrize(
    ("name", "url", "size", "stated"),
    [
        ("reply to PROPFIND (WebDAV)", f"{H}dav/x/y/a%20b.bin", 7, None),
        ("feed with enclosures (RSS, a podcast)", f"{H}1.mp3", None, None),
        (
            "files of an item of the Internet Archive (XML)",
            "https://archive.org/download/x/y/a.mp3",
            10,
            f"md5:{MD5}",
        ),
        (
            "metadata of an item of the Internet Archive",
            "https://archive.org/download/x/a.mp3",
            10,
            f"md5:{MD5}",
        ),
        ("repomd.xml", f"{H}os/repodata/p.xml.gz", 4, f"sha256:{SHA}"),
        ("index of NLTK's data", f"{H}a.zip", 4, f"md5:{MD5}"),
        ("Packages of Debian", f"{BASE}pool/a_1.deb", 4, f"sha256:{SHA}"),
        ("Release of Debian", f"{BASE}main/binary-all/Packages.xz", 4, f"sha256:{SHA}"),
        ("pylock.toml, uv.lock", f"{H}a-1.whl", 4, f"sha256:{SHA}"),
        ("Cargo.lock", "https://static.crates.io/crates/a/a-1.0.0.crate", None, f"sha256:{SHA}"),
        ("package-lock.json", f"{H}@s/a/-/a-1.tgz", None, f"sha256:{SHA}"),
        ("granules that NASA's CMR has found", f"{H}a.h5", None, None),
        ("repodata.json of conda", f"{BASE}a-1.tar.bz2", 4, f"md5:{MD5}"),
        ("Modrinth's pack index", f"{H}x", 4, None),
        ("package of CKAN", f"{H}a.csv", None, f"md5:{MD5}"),
        ("files of a project of the OSF", f"{H}download/1", 4, f"sha256:{SHA}"),
        ("GeoJSON of a search (Alaska Satellite Facility)", f"{H}a", 4, f"md5:{MD5}"),
        ("hashdeep", f"{BASE}x/a.bin", 4, f"sha256:{SHA}"),
    ],
)
def test_each_list_gives_what_it_states(tmp_path, name, url, size, stated):
    """Address, size and the strongest hash; the paths are those of the table of samples."""
    each = sample(name)
    source = Source(io.BytesIO(each.content), each.file, own_url=each.own_url)
    reading = Reading(source, BASE if "--base-url" in each.flags else None)
    (entry,) = list(reading)
    digest = None if entry.digest is None else f"{entry.digest.algorithm}:{entry.digest.hex}"
    assert (entry.url.reveal(), entry.size_bytes, digest) == (url, size, stated)


def test_what_a_list_says_beside_its_files_is_told():
    """What is private, what is no file, and what a feed states and is not believed."""
    wanted = {
        "metadata of an item of the Internet Archive": "files that are private, and that are left out: 1",
        "feed with enclosures (RSS, a podcast)": "lengths that the feed states",
        "package-lock.json": "packages without a file of a server, which are left out: 1",
        "files of an item of the Internet Archive (XML)": "lists of the item's files, which are left out: 1",
    }
    for name, words in wanted.items():
        assert any(words in note for note in read(sample(name)).notes), name


def test_an_answer_of_any_length_is_read_item_by_item(frozen, monkeypatch):
    """A search for satellite images has hundreds of megabytes."""
    monkeypatch.setattr("cfetch.manifest.formats.whole_json.MAX_DOCUMENT_BYTES", 10_000)
    items = [{"id": str(n), "type": "Feature", "assets": {"a": {"href": f"{H}{n}"}}} for n in range(1000)]
    plan = frozen(json.dumps({"type": "FeatureCollection", "features": items}), "items.json")
    assert len(plan) == 1000


@pytest.mark.parametrize(
    "text",
    [
        '<!DOCTYPE x [<!ENTITY a "b">]><rss>&a;</rss>',
        "<rss>" + "<a>" * 100,
        "<rss><item></rss>",
        "<rss>\x00</rss>",
    ],
)
def test_a_hostile_document_ends_the_reading_of_xml(error_of, text):
    """No entities, no depth without end, no half documents."""
    assert error_of(text, "x.rss").total >= 1


@pytest.mark.parametrize(("kind", "digest"), [("sha", f"sha1:{'ab' * 20}"), ("crc128", None)])
def test_a_hash_of_a_repository_is_used_or_its_loss_is_said(frozen, kind, digest):
    """Old repositories call SHA-1 so."""
    checksum = f'<checksum type="{kind}">{"ab" * 20}</checksum>'
    plan = frozen(f'<repomd><data><location href="p.gz"/>{checksum}</data></repomd>', base_url=BASE)
    assert entries_of(plan)[0][3] == digest
    assert any("hashes of a kind" in note for note in plan.notes) == (digest is None)


def test_images_of_the_pages_of_a_sitemap_are_counted(frozen):
    """They are left out, as a sitemap lists pages; the note has the way to them."""
    image = f"<image:image><image:loc>{H}i.jpg</image:loc></image:image>"
    plan = frozen(f"<urlset><url><loc>{H}page.html</loc>{image}</url></urlset>", "sitemap.xml")
    assert [entry[1] for entry in entries_of(plan)] == ["page.html"]
    assert any("left out: 1; --from-format links reads them" in note for note in plan.notes)


@pytest.mark.parametrize(("given", "url"), [(None, f"{H}d/e/a.mp3"), (BASE, f"{BASE}a.mp3")])
def test_the_base_of_a_feed_counts_unless_the_user_states_one(frozen, given, url):
    """An entry's own base is relative to that of the feed."""
    link = '<entry xml:base="e/"><link rel="enclosure" href="a.mp3"/></entry>'
    plan = frozen(f'<feed xml:base="{H}d/">{link}</feed>', "a.atom", base_url=given)
    assert entries_of(plan)[0][0] == url


@pytest.mark.parametrize(("given", "url"), [(None, f"{H}c/A/b.tif"), (BASE, f"{BASE}b.tif")])
def test_a_relative_asset_is_beside_its_item(frozen, given, url):
    """The item's link self says where the item is."""
    own = {"rel": "self", "href": f"{H}c/A/A.json"}
    item = {"type": "Feature", "id": "A", "assets": {"b": {"href": "./b.tif"}}, "links": [own]}
    text = json.dumps({"type": "FeatureCollection", "features": [item]})
    assert entries_of(frozen(text, base_url=given))[0][0] == url
    source = Source(io.BytesIO(text.encode()), own_url=f"{H}search")
    [entry] = Reading(source, given)
    assert entry.url.reveal() == url


def test_a_conda_channel_says_where_its_packages_are(frozen, error_of):
    """Its base comes before the packages, or all of them would be asked for elsewhere."""
    info, packages = {"base_url": f"{H}noarch"}, {"a-1.conda": {"sha256": SHA}}
    both = {"info": info, "packages": {}, "packages.conda": packages}
    assert entries_of(frozen(json.dumps(both), "repodata.json"))[0][0] == f"{H}noarch/a-1.conda"
    assert entries_of(frozen(json.dumps(both), "r.json", base_url=BASE))[0][0] == f"{BASE}a-1.conda"
    late = {"packages": {}, "packages.conda": packages, "info": info}
    assert "--base-url" in error_of(json.dumps(late), "repodata.json").problems[-1].message
