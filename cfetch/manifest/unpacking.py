"""Unpacks the bytes of one file, recognised by their first ones: LZ4 frames, zstd or gzip.

What they unpack to is bounded before it is held, as a small file can expand to any number of bytes.
"""

import zlib
from collections.abc import Callable
from typing import Any

from cfetch.base.config.units import size_text
from cfetch.base.errors import Corrupt, Refused, UsageError
from cfetch.manifest.decompression import import_zstd
from cfetch.manifest.digests import missing_library

_GZIP, _LZ4, _ZSTD = b"\x1f\x8b", b"\x04\x22\x4d\x18", b"\x28\xb5\x2f\xfd"


def _find_packing(data: bytes) -> str | None:
    """The name of the packing of bytes: lz4, zstd or gzip; None: they are not packed."""
    names = {_LZ4: "lz4", _ZSTD: "zstd", data[:2]: "gzip" if data.startswith(_GZIP) else None}
    return names.get(data[:4]) or names[data[:2]]


def check_libraries() -> None:
    """Raise UsageError if a library for unpacking is not installed, before anything is downloaded."""
    import_zstd()
    _import_lz4()


def unpack(data: bytes, most_bytes: int) -> bytes:
    """Unpack bytes; those that are not packed are returned as they are.

    Raises:
        Corrupt: they are damaged, or cut short.
        Refused: they unpack to more than ``most_bytes``.
        UsageError: the library is not installed.
    """
    packing = _find_packing(data)
    if packing is None:
        return data
    if packing == "lz4":
        frame = _import_lz4()
        return _unpack(data, most_bytes, frame.LZ4FrameDecompressor, RuntimeError)
    if packing == "zstd":
        zstd = import_zstd()
        return _unpack(data, most_bytes, zstd.ZstdDecompressor, zstd.ZstdError)
    return _unpack(data, most_bytes, lambda: zlib.decompressobj(31), zlib.error)


def _unpack(data: bytes, most_bytes: int, make: Callable[[], Any], error: type[Exception]) -> bytes:
    """Unpack one frame after the other; most files have one, which is then not copied."""
    frames: list[bytes] = []
    left_bytes = most_bytes
    try:
        while data:
            unpacker = make()
            frames.append(unpacker.decompress(data, max_length=left_bytes + 1))
            left_bytes -= len(frames[-1])
            if left_bytes < 0:
                raise Refused(
                    f"it unpacks to more than the {size_text(most_bytes)} that half of the memory is; "
                    "give more memory"
                )
            if not unpacker.eof:
                raise Corrupt("the packed bytes end too early")
            data = unpacker.unused_data
    except error as broken:
        raise Corrupt(f"the packed bytes are damaged ({type(broken).__name__})") from None
    return frames[0] if len(frames) == 1 else b"".join(frames)


def _import_lz4() -> Any:  # noqa: ANN401 - it has no types
    try:
        from lz4 import frame
    except ImportError:
        raise UsageError(missing_library("lz4", "lz4", "stream")) from None
    return frame
