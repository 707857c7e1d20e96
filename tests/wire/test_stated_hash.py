"""Hashes in the replies of object stores: which of them are of the file as a whole."""

import pytest
from multidict import CIMultiDict

from cfetch.manifest import digests
from cfetch.manifest.digests import needs_library
from cfetch.wire.stated_hash import find_stated_hash

SHA256 = "FeKw08M4keuw8e9gnsQZQgwg4yDOlMZfvIwzEkSyQiU="
MD5 = "JfnnlDI7RTiF9RgfG2JNCw=="
OF_GOOGLE = ("x-goog-hash", "crc32c=4waSgw==")


def found(*fields, status=200):
    digest = find_stated_hash(status, CIMultiDict(fields))
    return digest and f"{digest.algorithm}:{digest.hex}"


@pytest.fixture
def no_libraries(monkeypatch):
    """As if no extra were installed."""
    monkeypatch.setattr(digests, "find_spec", lambda _: None)
    needs_library.cache_clear()
    yield
    needs_library.cache_clear()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("x-amz-checksum-crc32", "y/Q5Jg==")], "crc32:cbf43926"),
        ([("X-Amz-Checksum-Sha256", SHA256), ("x-amz-checksum-type", "FULL_OBJECT")], "sha256:15e2b0d3"),
        ([("x-amz-checksum-crc32", "y/Q5Jg==-3"), ("x-amz-checksum-type", "COMPOSITE")], None),
        ([("x-amz-checksum-crc32", "y/Q5Jg=="), ("x-amz-checksum-type", "COMPOSITE")], None),
        ([("x-amz-checksum-crc32", "y/Q5Jg=="), ("x-amz-checksum-crc32", "4waSgw==")], None),
        ([OF_GOOGLE, ("x-goog-hash", f"crc32c=y/Q5Jg==,md5={MD5}")], "md5:25f9e794"),
        ([("x-amz-checksum-crc32", "y/Q5")], None),
        ([("x-amz-checksum-crc32", "\u20ac")], None),
        ([OF_GOOGLE, ("x-goog-hash", f"md5={MD5}")], "crc32c:e3069283"),
        ([("x-goog-hash", f"crc32c=4waSgw==,md5={MD5}")], "crc32c:e3069283"),
        ([OF_GOOGLE, ("x-goog-stored-content-encoding", "identity")], "crc32c:e3069283"),
        ([OF_GOOGLE, ("x-goog-stored-content-encoding", "gzip")], None),
        ([("x-goog-hash", "sha1=4waSgw==")], None),
        ([("x-ms-blob-type", "BlockBlob"), ("Content-MD5", MD5)], "md5:25f9e794"),
        ([("Content-MD5", MD5)], None),
        ([("ETag", f'"{MD5}"')], None),
    ],
)
def test_what_a_whole_reply_states(fields, expected):
    """The cheapest that is of all bytes, in the form of a manifest's."""
    digest = found(*fields)
    assert (digest and digest[: len(expected or "")]) == expected


def test_what_the_reply_to_a_range_states():
    """Amazon's may be of a part, and Azure has another name for the whole's."""
    assert found(("x-amz-checksum-crc32", "y/Q5Jg=="), status=206) is None
    assert found(OF_GOOGLE, status=206) == "crc32c:e3069283"
    blob = ("x-ms-blob-type", "BlockBlob")
    assert found(blob, ("Content-MD5", MD5), status=206) is None
    assert (found(blob, ("x-ms-blob-content-md5", MD5), status=206) or "")[:7] == "md5:25f"


def test_without_a_library_another_hash_is_taken_or_none(no_libraries):
    """It is an offer, and no demand of the manifest's."""
    assert found(OF_GOOGLE) is None
    assert (found(OF_GOOGLE, ("x-goog-hash", f"md5={MD5}")) or "")[:7] == "md5:25f"
    assert found(("x-amz-checksum-crc64nvme", "rosUhgp5mIg=")) is None


def test_the_checksum_that_amazon_makes_by_itself():
    """Of all newer objects."""
    pytest.importorskip("awscrt")
    assert found(("x-amz-checksum-crc64nvme", "rosUhgp5mIg=")) == "crc64nvme:ae8b14860a799888"
