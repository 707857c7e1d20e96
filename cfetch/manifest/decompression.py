"""Decompresses gzip and zstd.

A small file can expand to any number of bytes, so their number and their ratio to the bytes read are limited.
"""

import gzip
import zlib
from typing import Any, BinaryIO

from cfetch.base.errors import LocalFault, ManifestError, Problem, UsageError
from cfetch.manifest.digests import missing_library

MAX_BYTES = 16 << 30  # 30 million presigned links, and as long as a manifest over http may be
MAX_RATIO = 200  # lists of URLs that differ only in a number reach 50
FREE_BYTES = 64 << 20  # below this the ratio does not count: a short list may repeat one line
CHUNK_BYTES = 1 << 20


def decompress(source: BinaryIO, plain: BinaryIO, name: str, *, as_zstd: bool) -> None:
    """Decompress ``source`` into ``plain``. Raises as ``open_decompressed``."""
    opened, own_errors = open_decompressor(source, as_zstd=as_zstd)
    size = 0
    try:
        while chunk := opened.read(CHUNK_BYTES):
            size += len(chunk)
            if size > min(MAX_BYTES, max(FREE_BYTES, MAX_RATIO * source.tell())):
                raise _broken_error(
                    name,
                    f"it holds more than {MAX_BYTES} bytes or {MAX_RATIO} times its own size; "
                    "decompress it yourself if you trust it",
                )
            plain.write(chunk)
        plain.seek(0)
    except EOFError:
        raise _broken_error(name, "the compressed data ends too early") from None
    except own_errors as error:
        raise _broken_error(name, f"the compressed data is broken ({type(error).__name__})") from None
    except OSError as error:
        raise LocalFault(f"cannot decompress {name} into a temporary file: {error.strerror}") from error


def open_decompressor(source: BinaryIO, *, as_zstd: bool) -> tuple[Any, tuple[type[Exception], ...]]:
    """A file of the decompressed bytes, and the errors that mean broken data; EOFError means that it was cut.

    Raises:
        UsageError: the library for zstd is not installed.
    """
    if not as_zstd:
        return gzip.GzipFile(fileobj=source, mode="rb"), (gzip.BadGzipFile, zlib.error)
    zstd = import_zstd()
    return zstd.ZstdFile(source), (zstd.ZstdError,)


def import_zstd() -> Any:  # noqa: ANN401 - one of two modules with one interface (PEP 784)
    """The module for zstd. Raises UsageError: it is not installed."""
    try:
        from compression import zstd  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        try:
            from backports import zstd  # type: ignore[no-redef,unused-ignore]
        except ImportError:
            raise UsageError(missing_library("zstd", "backports.zstd", "zstd")) from None
    return zstd


def _broken_error(name: str, message: str) -> ManifestError:
    return ManifestError(name, (Problem(0, message),), 1)
