"""The hash that an object store states of its object in a reply. Pure.

It is used for entries without a hash in the manifest, and proves only that the bytes are those that the store
meant to send. Only hashes of the whole object count:

* Amazon S3, ``x-amz-checksum-…``, if the request asks for it. A composite hash ends in ``-N``: it is made of
  the hashes of N parts, whose limits are not known, and ``x-amz-checksum-type`` is ``COMPOSITE``. In the
  reply to a range the hash does not count: if the range is a part of the upload, it is the hash of that part,
  and the reply does not tell this.
* Google Cloud Storage, ``x-goog-hash``; it is of the stored bytes, so it does not count if the store unpacks
  them. In the reply to a range it is the hash of the whole object too.
* Azure, ``Content-MD5`` in a whole reply (in the reply to a range it is of the range), and
  ``x-ms-blob-content-md5`` in the reply to a range, which is of the whole object.

If a reply states two different values of one hash, it is unknown which is true, and neither counts.
"""

import binascii
from collections.abc import Iterable, Iterator

from cfetch.manifest.digests import needs_library
from cfetch.manifest.entry import Digest
from cfetch.wire.headers import AMAZON_HASHES, Headers

_LENGTHS = {"crc64nvme": 8, "crc32c": 4, "crc32": 4, "sha256": 32, "md5": 16}  # bytes; the fastest first
_NOTHING: list[str] = []


def find_stated_hash(status: int, headers: Headers) -> Digest | None:
    """The stated hash of the whole object that is the cheapest to compute; None: none can be computed."""
    stated: dict[str, set[str | None]] = {}
    for algorithm, text in _list_stated(status, headers):
        stated.setdefault(algorithm, set()).add(_decode(text, _LENGTHS.get(algorithm, 0)))
    for algorithm in _LENGTHS:
        values = stated.get(algorithm, set())
        digits = next(iter(values)) if len(values) == 1 else None
        if digits is not None and needs_library(algorithm) is None:
            return Digest(algorithm, digits)
    return None


def _list_stated(status: int, headers: Headers) -> Iterator[tuple[str, str]]:
    if (google := headers.getall("x-goog-hash", _NOTHING)) and _is_as_stored(headers):
        yield from _split(google)
    if headers.getall("x-ms-blob-type", _NOTHING):
        name = "Content-MD5" if status == 200 else "x-ms-blob-content-md5"
        yield from (("md5", text) for text in headers.getall(name, _NOTHING))
    types = headers.getall("x-amz-checksum-type", _NOTHING)
    if status == 200 and all(kind.upper() == "FULL_OBJECT" for kind in types):
        for name, algorithm in AMAZON_HASHES:
            yield from ((algorithm, text) for text in headers.getall(name, _NOTHING))


def _is_as_stored(headers: Headers) -> bool:
    stored = headers.getall("x-goog-stored-content-encoding", _NOTHING)
    stated = [value.lower() for value in headers.getall("Content-Encoding", _NOTHING)]
    return all(encoding.lower() in ("identity", *stated) for encoding in stored)


def _split(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Split ``crc32c=n03x6A==,md5=…`` into algorithms and values."""
    for value in values:
        for pair in value.split(","):
            algorithm, _, text = pair.strip().partition("=")
            yield algorithm.lower(), text


def _decode(text: str, length: int) -> str | None:
    """Base64 as hexadecimal digits; None: it is no hash of ``length`` bytes."""
    try:
        raw = binascii.a2b_base64(text, strict_mode=True)
    except (binascii.Error, ValueError):
        return None
    return raw.hex() if length and len(raw) == length else None
