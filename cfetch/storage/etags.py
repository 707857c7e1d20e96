"""The form in which a record keeps the strong ETag of a file: the ETag itself, or its hash if it is long.

With the ETag, a request can ask the server whether it still has that version (RFC 9110, 13.1.2). A hash is of
no use in a request, but it can be compared with the ETag in a reply. A form with quotes is the ETag, and a
form without quotes is the hash, as an ETag always has quotes.
"""

import hashlib

MAX_ETAG_BYTES = 64  # within the quotes; a record keeps only the hash of a longer ETag, to save room
HASH_BYTES = 16  # enough to tell versions of one file apart


def keep_etag(etag: str | None) -> str | None:
    """Convert an ETag to the form that a record keeps; such a form itself is returned unchanged."""
    if etag is None or is_hash(etag) or (etag.isascii() and len(etag) <= MAX_ETAG_BYTES + 2):
        return etag
    return hashlib.blake2b(etag.encode(errors="surrogateescape"), digest_size=HASH_BYTES).hexdigest()


def is_hash(kept: str) -> bool:
    """Whether the form is a hash."""
    return not kept.startswith('"')


def is_same(kept: str, stated: str) -> bool:
    """Whether a reply's ETag is the kept one; a weak ETag counts if its text is the same."""
    return keep_etag(stated.removeprefix("W/")) == kept
