"""``Entry``: one file to download, as Python code states it."""

from collections.abc import Mapping
from datetime import UTC, datetime

import msgspec

from cfetch.base.secret import SecretUrl
from cfetch.manifest.digests import HEX_DIGITS
from cfetch.manifest.entry import Entry as ManifestEntry
from cfetch.manifest.fields import Headers


class Entry(msgspec.Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One file to download. The fields are the keys of a manifest's entry (docs/manifests.md).

    Only ``url`` is required. ``path`` is relative to the destination (default: the URL's last segment).
    ``size`` and ``length`` are bytes; ``offset`` is the file's position in a result, and together with
    ``length`` the first byte of a range of the URL. Hashes are hexadecimal. ``expires_at`` has a time zone.
    Entries of one ``batch`` are published together. ``mirrors`` are other URLs of the same file. With
    ``assemble``, entries of one path are pieces of one file.

    The values are checked when a download begins. ``repr`` shows no secret.
    """

    url: str
    path: str | None = None
    size: int | None = None
    offset: int | None = None
    length: int | None = None
    sha512: str | None = None
    sha3_512: str | None = None
    blake2b: str | None = None
    sha384: str | None = None
    sha3_384: str | None = None
    sha256: str | None = None
    sha3_256: str | None = None
    blake3: str | None = None
    sha224: str | None = None
    sha3_224: str | None = None
    sha1: str | None = None
    git_sha1: str | None = None
    md5: str | None = None
    crc32c: str | None = None
    crc32: str | None = None
    expires_at: datetime | None = None
    batch: str | None = None
    headers: Mapping[str, str] = {}
    mirrors: tuple[str, ...] = ()
    assemble: bool = False

    def __repr__(self) -> str:
        return f"Entry(url={str(SecretUrl(self.url))!r}, path={self.path!r}, size={self.size!r})"


def from_manifest(entry: ManifestEntry, more_headers: Headers = ()) -> Entry:
    """The public form of an entry that a manifest states; ``more_headers`` it states for all entries."""
    is_range, piece = entry.range_start is not None, entry.piece
    offset = entry.offset
    if is_range:
        offset = entry.range_start
    elif piece is not None and piece.start_byte >= 0:
        offset = piece.start_byte
    digest = {} if entry.digest is None else {entry.digest.algorithm: entry.digest.hex}
    return Entry(
        url=entry.url.reveal(),
        path=entry.path,
        size=None if is_range else entry.size_bytes,
        offset=offset,
        length=entry.size_bytes if is_range else None,
        expires_at=None if entry.expires_at is None else datetime.fromtimestamp(entry.expires_at, UTC),
        batch=entry.batch,
        headers={name: value.reveal() for name, value in (*more_headers, *entry.headers)},
        mirrors=tuple(mirror.reveal() for mirror in entry.mirrors),
        assemble=piece is not None,
        **{name: digest[name] for name in HEX_DIGITS if name in digest},
    )
