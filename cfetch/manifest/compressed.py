"""Recognises a manifest in gzip or zstd by its first bytes; ``decompression.py`` decompresses it."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from cfetch.base.errors import LocalFault

ENDINGS = (".gz", ".zst", ".zstd")

_GZIP = b"\x1f\x8b"
_ZSTD = b"\x28\xb5\x2f\xfd"


def is_compressed(start: bytes) -> bool:
    """Whether a file with these first bytes is compressed."""
    return start.startswith((_GZIP, _ZSTD))


def is_zstd(start: bytes) -> bool:
    """Whether a file with these first bytes is compressed by zstd."""
    return start.startswith(_ZSTD)


@contextmanager
def open_decompressed(source: BinaryIO, name: str) -> Iterator[BinaryIO]:
    """Yield ``source``, or a temporary file with the decompressed bytes; both are seekable binary files.

    Raises:
        ManifestError: the data is cut short, is broken or grows beyond the limits.
        UsageError: the library for zstd is not installed.
        LocalFault: ``source`` cannot be read or the temporary file cannot be written.
    """
    try:
        source.seek(0)
        start = source.read(4)
        source.seek(0)
    except OSError as error:
        raise LocalFault(f"cannot read {name}: {error.strerror}; is its disk still there?") from error
    if not is_compressed(start):
        yield source
        return
    from cfetch.manifest.decompression import decompress  # most lists are read where they are
    from cfetch.manifest.spool import open_spool

    with open_spool() as plain:
        decompress(source, plain, name, as_zstd=is_zstd(start))
        yield plain
