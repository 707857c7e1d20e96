"""The form in which a record keeps the strong ETag of a file: itself, or its hash where it is long.

Under the ETag itself a server can be asked whether it still has that version (RFC 9110, 13.1.2). A hash tells
the server nothing; but an answer that names an ETag can be compared with it. A form with quotes is the ETag,
one without is the hash: an ETag always has quotes.
"""

import hashlib

MAX_ETAG_BYTES = 64  # within the quotes; of a longer one a record keeps the hash, for the room that it takes
HASH_BYTES = 16  # enough to tell versions of one file apart


def keep_etag(etag: str | None) -> str | None:
    """Make the form that a record keeps; what is such a form already stays."""
    if etag is None or is_hash(etag) or (etag.isascii() and len(etag) <= MAX_ETAG_BYTES + 2):
        return etag
    return hashlib.blake2b(etag.encode(errors="surrogateescape"), digest_size=HASH_BYTES).hexdigest()


def is_hash(kept: str) -> bool:
    """Whether the form is a hash."""
    return not kept.startswith('"')


def is_same(kept: str, stated: str) -> bool:
    """Whether a reply's ETag is the kept one's; one that calls itself weak is of the same version."""
    return keep_etag(stated.removeprefix("W/")) == kept
