"""Unpacks an encoded body as it comes (``--encoded decode``), within bounds.

Each step gives at most ``STEP_BYTES``, so memory is bounded whatever the body expands to. The bytes of a
whole body are bounded too, by the ratio to the bytes that came.
"""

import zlib
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from cfetch.base.errors import Refused, Transient, UsageError
from cfetch.manifest.decompression import FREE_BYTES, MAX_RATIO, import_zstd
from cfetch.manifest.digests import Bytes

STEP_BYTES = 1 << 20
MAX_MEMBERS = 64  # so many may be nearly empty; a body made of them would only cost time


class _Inflater(Protocol):
    """What zlib's decompressors and those of zstd have in common."""

    @property
    def eof(self) -> bool:
        """Whether its member is over."""

    @property
    def unused_data(self) -> bytes:
        """What came behind its end."""

    def decompress(self, data: Bytes, /, max_length: int) -> bytes:
        """Unpack, and keep what does not fit for later."""


class _Zlib:
    """zlib's decompressor, which hands back input that did not fit, with the interface of the others."""

    def __init__(self, bits: int) -> None:
        self._inner = zlib.decompressobj(bits)
        self._kept = b""

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: Bytes, /, max_length: int) -> bytes:
        plain = self._inner.decompress(self._kept + data if self._kept else data, max_length)
        self._kept = self._inner.unconsumed_tail
        return plain


class _Deflate(_Zlib):
    """Deflate with zlib's header, which many servers leave out; the first two bytes tell which it is."""

    def __init__(self) -> None:
        super().__init__(zlib.MAX_WBITS)
        self._start: bytes | None = b""

    def decompress(self, data: Bytes, /, max_length: int) -> bytes:
        if self._start is not None:
            self._start = data = self._start + bytes(data)
            if len(data) < 2:
                return b""
            self._start = None
            if data[0] & 15 != 8 or int.from_bytes(data[:2]) % 31:
                self._inner = zlib.decompressobj(-zlib.MAX_WBITS)
        return super().decompress(data, max_length=max_length)


class _Brotli:
    """Brotli's decompressor; what comes behind the end is an error there."""

    unused_data = b""

    def __init__(self) -> None:
        import brotli  # type: ignore[import-not-found]  # optional

        self._inner: Any = brotli.Decompressor()

    @property
    def eof(self) -> bool:
        return bool(self._inner.is_finished())

    def decompress(self, data: Bytes, /, max_length: int) -> bytes:
        return bytes(self._inner.process(bytes(data), output_buffer_limit=max_length))


def _make_inflater(coding: str) -> _Inflater:
    """Make a decompressor. Raises Refused: cfetch, or this Python, cannot unpack the coding."""
    try:
        if coding == "gzip":
            return _Zlib(zlib.MAX_WBITS | 16)
        if coding == "deflate":
            return _Deflate()
        if coding == "zstd":
            made: _Inflater = import_zstd().ZstdDecompressor()
            return made
        if coding == "br":
            return _Brotli()
    except (ImportError, UsageError):
        library = "backports.zstd" if coding == "zstd" else "brotli"
        raise Refused(
            f"the reply is encoded ({coding}), and the package {library} is not installed, which unpacks it; "
            "install it, or keep the bytes as they are with --encoded keep"
        ) from None
    raise Refused(f"the reply is encoded ({coding}), which cfetch does not unpack; --encoded keep takes it")


class Decoder:
    """The unpacked bytes of a body, by the same call as those of a reply."""

    def __init__(self, coding: str, read: Callable[[], Awaitable[Bytes]]) -> None:
        self._coding = coding
        self._read = read
        self._inflater = _make_inflater(coding)
        self._came_bytes = self._gave_bytes = 0
        self._members = 0
        self._has_more = False

    async def read(self) -> bytes:
        """The next unpacked bytes, or ``b""`` at the end. Raises SourceError."""
        while True:
            data: Bytes = b""
            if not self._has_more:
                data = await self._read()
                if not data:
                    return self._check_end()
                self._came_bytes += len(data)
            plain = self._unpack(data)
            self._has_more = len(plain) >= STEP_BYTES or self._has_next()
            if plain:
                self._gave_bytes += len(plain)
                if self._gave_bytes > max(FREE_BYTES, MAX_RATIO * self._came_bytes):
                    raise Refused(
                        f"the encoded reply unpacks to more than {MAX_RATIO} times its bytes; take it as it "
                        "is with --encoded keep, and unpack it yourself if you trust it"
                    )
                return plain

    def _unpack(self, data: Bytes) -> bytes:
        if self._inflater.eof:  # gzip and zstd allow several members one after the other
            data = self._inflater.unused_data + bytes(data)
            if not data.strip(b"\0"):
                return b""  # padding behind the last member
            self._members += 1
            if self._members > MAX_MEMBERS and self._members * STEP_BYTES > self._gave_bytes * MAX_RATIO:
                raise Refused("the encoded reply is made of many empty members; --encoded keep takes it")
            self._inflater = _make_inflater(self._coding)
        try:
            return self._inflater.decompress(data, max_length=STEP_BYTES)
        except Exception as error:  # noqa: BLE001 - each library has errors of its own
            raise Refused(
                f"the reply says that it is encoded ({self._coding}), and is not ({type(error).__name__}); "
                "--encoded keep takes it"
            ) from None

    def _has_next(self) -> bool:
        return self._inflater.eof and bool(self._inflater.unused_data.strip(b"\0"))

    def _check_end(self) -> bytes:
        if self._came_bytes and not self._inflater.eof:
            raise Transient("the encoded body ends too early")
        return b""
