"""The hash that an object store states of its object in a reply. Pure.

It proves that the bytes are those that the store meant to send, no more: for entries without a hash of the
manifest. Only hashes of the object as a whole count:

* Amazon S3, ``x-amz-checksum-…``, where the request asks for it. A composite one ends in ``-N``: it is made
  of the hashes of N parts, whose limits are not known, and ``x-amz-checksum-type`` is ``COMPOSITE``. In the
  reply to a range it does not count: where the range is a part of the upload, it is that part's, and nothing
  in the reply tells which.
* Google Cloud Storage, ``x-goog-hash``; of what is stored, so not where the store unpacks it. In the reply to
  a range it is the whole object's too.
* Azure, ``Content-MD5`` of a whole reply, which in the reply to a range is that of the range;
  ``x-ms-blob-content-md5`` of a range, which is the whole object's.

Where a reply states two different values of one hash, nobody can know which is true, and neither counts.
"""

import binascii
from collections.abc import Iterable, Iterator

from multidict import istr

from cfetch.manifest.digests import needs_library
from cfetch.manifest.entry import Digest
from cfetch.wire.judge import Headers

_LENGTHS = {"crc64nvme": 8, "crc32c": 4, "crc32": 4, "sha256": 32, "md5": 16}  # bytes; the fastest first
_AMAZON = tuple(
    (f"x-amz-checksum-{algorithm}", algorithm) for algorithm in ("crc64nvme", "crc32c", "crc32", "sha256")
)
_SIGNS = tuple(map(istr, ("x-goog-hash", "x-ms-blob-type", *(name for name, _ in _AMAZON))))
_NOTHING: list[str] = []


def find_stated_hash(status: int, headers: Headers) -> Digest | None:
    """The hash of the whole object that is the cheapest to compute; None: there is none that can be."""
    for sign in _SIGNS:  # asked of each reply; nearly all have none
        if headers.getall(sign, _NOTHING):
            break
    else:
        return None
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
        for name, algorithm in _AMAZON:
            yield from ((algorithm, text) for text in headers.getall(name, _NOTHING))


def _is_as_stored(headers: Headers) -> bool:
    stored = headers.getall("x-goog-stored-content-encoding", _NOTHING)
    return all(encoding.lower() == "identity" for encoding in stored)


def _split(values: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Take ``crc32c=n03x6A==,md5=…`` apart."""
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
