"""Which part of an earlier run an entry may go on with."""

from unittest.mock import ANY

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Digest, Entry, safe_path
from cfetch.storage.resume import encode_note, fits, identity, note_for, part_name, read_note

URL = "https://bucket.example.org/a/part-0?v=1&X-Amz-Algorithm=A&X-Amz-Credential=k&X-Amz-Date=1&X-Amz-Signature=abc"
HEX = "0" * 64


def entry(url=URL, *, path="a", size=100, digest=None):
    return Entry(id=0, url=SecretUrl(url), path=safe_path(path), size_bytes=size, digest=digest)


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (URL.replace("abc", "other"), True),
        (URL.replace("X-Amz-Date=1", "X-Amz-Date=2&X-Amz-Expires=900"), True),
        (URL.replace("https://bucket.example.org", "HTTPS://BUCKET.example.org:443"), True),
        (URL.replace("v=1", "v=2"), False),
        (URL.replace("part-0", "part-1"), False),
        (URL.replace("https", "http"), False),
        (URL.replace("bucket.example.org", "bucket.example.org:8443"), False),
        ("https://bucket.example.org/a/part-0?v=1&sv=2024-11-04&sr=b&se=2026&sp=r&sig=%2Fx", True),
    ],
)
def test_identity_is_the_object_not_the_signature(other, same):
    """A link signed anew is the same object; another version, path or origin is not."""
    assert (identity(SecretUrl(other)) == identity(SecretUrl(URL))) is same


SIGNATURES = [
    "X-Amz-Algorithm=A&X-Amz-Credential={0}&X-Amz-Date={0}&X-Amz-Expires=9&X-Amz-SignedHeaders=host&X-Amz-Signature={0}",
    "X-Goog-Algorithm=A&X-Goog-Credential={0}&X-Goog-Date={0}&X-Goog-Expires=9&X-Goog-Signature={0}",
    "sv=1&sr=b&sp=r&st={0}&se={0}&sig={0}",
    "sv=1&ss=b&srt=o&sp=r&se={0}&sig={0}",
    "sv=1&sr=c&si=policy&sig={0}",
    "Expires={0}&Signature={0}&Key-Pair-Id=k",
    "Policy={0}&Signature={0}&Key-Pair-Id=k",
    "AWSAccessKeyId=k&Signature={0}&Expires={0}",
    "GoogleAccessId=k&Signature={0}&Expires={0}",
]
KEYS = sorted({pair.partition("=")[0] for text in SIGNATURES for pair in text.split("&")} | {"token"})


@pytest.mark.parametrize("signature", SIGNATURES)
def test_a_complete_signature_is_no_part_of_the_identity(signature):
    """Two links that are signed one after the other, with another parameter between."""
    first, second = (f"https://h/a?v=1&{signature.format(n)}" for n in (1, 2))
    assert identity(SecretUrl(first)) == identity(SecretUrl(second)) == identity(SecretUrl("https://h/a?v=1"))
    assert identity(SecretUrl(first)) != identity(SecretUrl(first.replace("v=1", "v=2")))


@pytest.mark.parametrize("key", KEYS)
def test_a_key_alone_is_no_signature(key):
    """Such a key may say which object is meant: ``?st=CA`` and ``?st=NY`` are two states."""
    first, second = (identity(SecretUrl(f"https://h/a?{key}={value}")) for value in ("CA", "NY"))
    assert first != second


def test_a_note_tells_nothing_about_the_link():
    """Neither host nor query stands in it."""
    note = note_for(entry("https://CANARY-host/CANARY?sig=CANARY"), '"v"', "boot")
    assert "canary" not in repr(note).lower()


SHA = Digest("sha256", HEX)


@pytest.mark.parametrize(
    ("noted", "now", "change", "good"),
    [
        ({}, {}, {}, True),
        ({}, {"url": URL.replace("abc", "new")}, {}, True),
        ({}, {"url": URL.replace("v=1", "v=2")}, {}, False),
        ({}, {"path": "b"}, {}, False),
        ({}, {"size": 101}, {}, False),
        ({}, {"size": None}, {}, False),
        ({}, {"digest": SHA}, {}, False),
        ({}, {}, {"validator": None}, False),
        ({}, {}, {"boot_id": "before"}, False),
        ({}, {}, {"part_bytes": 101}, False),
        ({}, {}, {"part_bytes": 100}, True),
        ({"digest": SHA}, {"digest": SHA}, {"validator": None, "boot_id": "before"}, True),
        ({"digest": SHA}, {"digest": SHA, "url": URL.replace("v=1", "v=2")}, {}, True),
        ({"digest": SHA}, {"digest": Digest("sha256", "1" * 64)}, {}, False),
        ({"digest": SHA}, {"digest": SHA}, {"part_bytes": 101}, False),
        ({"size": None}, {"size": None}, {"part_bytes": 10**9}, True),
    ],
)
def test_what_fits(noted, now, change, good):
    """A hash proves the whole in the end; without one, a strong ETag of the same object on the same boot."""
    how = {"validator": '"v"', "boot_id": "now", "part_bytes": 50} | change
    note = note_for(entry(**noted), how["validator"], how["boot_id"])
    assert fits(note, entry(**now), how["part_bytes"], "now") is good


@pytest.mark.parametrize(
    ("held", "total", "part_bytes", "good"),
    [
        (((0, 40), (60, 100)), 100, 100, True),
        (((60, 80),), 100, 80, True),
        (((60, 80),), 100, 79, False),
        (((60, 80),), 99, 80, False),
        (((60, 101),), 100, 101, False),
        (((60, 80), (0, 40)), 100, 80, False),
        (((0, 40), (30, 80)), 100, 80, False),
        (((-1, 40),), 100, 80, False),
        (((40, 40),), 100, 80, False),
        ((), 100, 80, False),
    ],
)
@pytest.mark.parametrize("digest", [None, SHA])
def test_what_fits_of_a_part_in_ranges(held, total, part_bytes, good, digest):
    """The note must be one that such a file can have; a hash does not make up for that."""
    note = note_for(entry(digest=digest), '"v"', "now", held=held, total_bytes=total)
    assert fits(note, entry(digest=digest), part_bytes, "now") is good
    assert read_note(encode_note(note)) == msgspec.structs.replace(note, check=ANY)


def test_a_damaged_note_is_no_note():
    """Each byte of it counts: one digit more would publish zeros where bytes are missing."""
    data = encode_note(note_for(entry(), '"v"', "now", held=((0, 40), (60, 80)), total_bytes=100))
    assert read_note(data) is not None
    for place, byte in enumerate(data):
        for other in (byte ^ 1, byte ^ 64):
            assert read_note(data[:place] + bytes([other]) + data[place + 1 :]) is None


def test_a_note_of_bytes_in_order_tells_of_no_ranges():
    """It is written for most parts, and stays short."""
    note = note_for(entry(), '"v"', "now")
    assert b"held" not in msgspec.json.encode(note)
    assert msgspec.UNSET in (note.held, note.total_bytes)


@given(st.binary(max_size=300))
def test_garbage_is_no_note(data):
    """A torn or foreign file beside a part never raises."""
    assert read_note(data) is None


@pytest.mark.parametrize("schema", ["cfetch.part/2", ""])
def test_a_later_format_is_no_note(schema):
    """What this version does not know it does not use."""
    note = msgspec.structs.replace(note_for(entry(), '"v"', "boot"), schema=schema)
    assert read_note(encode_note(note)) is None


@pytest.mark.parametrize(
    ("change", "boot", "same"),
    [
        ({}, "now", True),
        ({"url": URL.replace("abc", "new")}, "now", True),
        ({"url": URL.replace("v=1", "v=2")}, "now", False),
        ({"path": "b"}, "now", False),
        ({"size": 101}, "now", False),
        ({"size": None}, "now", False),
        ({"digest": SHA}, "now", False),
        ({}, "another", False),
    ],
)
def test_c92_the_name_of_a_part_is_what_its_entry_is(change, boot, same):
    """A later run looks for its entry's part under this name, and finds no other's."""
    assert (part_name(entry(**change), boot) == part_name(entry(), "now")) is same


def test_c92_a_hash_makes_link_and_boot_indifferent():
    """The bytes prove themselves, wherever they came from and whenever."""
    names = {part_name(entry(url, digest=SHA), boot) for url in (URL, URL + "2") for boot in "ab"}
    assert len(names) == 1
    assert part_name(entry(digest=Digest("sha256", "1" * 64)), "a") not in names


@pytest.mark.parametrize(
    ("now", "part_bytes", "good"),
    [
        ({}, 100, True),
        ({}, 99, False),
        ({}, 101, False),
        ({"size": None}, 100, False),
        ({"digest": SHA}, 99, True),
        ({"digest": SHA}, 100, True),
        ({"digest": SHA}, 101, False),
        ({"digest": SHA, "size": None}, 10**9, True),
    ],
)
def test_c92_what_fits_without_a_note(now, part_bytes, good):
    """Any beginning that a hash will prove; else only a whole part, as there is nothing to join it under."""
    assert fits(None, entry(**now), part_bytes, "now") is good
