"""Entries sealed in a file; memory has only the values of all entries that scheduling needs.

Only the owner can read the file, as it holds signed URLs. It has the msgpack records, then the position of
each (n + 1 times 8 bytes), then the data about all entries (msgpack), then the counts and the mark that end
it. A file without that end was left by a crash and is not valid. In memory an entry takes 7 bytes, or a few
more if sizes and hosts need them: the length of its record, its size and its host.
"""

import hashlib
import os
import secrets
import shutil
import struct
import sys
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import accumulate, islice, pairwise, repeat
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.manifest.collisions import PathIndex
from cfetch.manifest.entry import Digest, Entry, PlainEntries
from cfetch.manifest.folding import KEEPS_NAMES, Folding
from cfetch.manifest.urls import host_of, strip_signature

_END = struct.Struct("<QQ8s")  # entries, bytes of the data about all, the mark
_MARK = b"cfetch-1"

UNKNOWN_SIZE = -1
NO_BATCH = -1
BUFFER_BYTES = 1 << 20  # a thousand records a write
BLOCK = 500  # entries that are written or read at once

STRIDE = 64  # the position of every 64th record is kept; the others follow from the lengths
POSITIONS_AT_ONCE = 1 << 13  # written or read: 64 KiB
NARROWEST = {"lengths": "H", "sizes": "i", "host_of": "B"}
WIDER = {"B": "H", "H": "I", "i": "q", "I": "Q"}

AHEAD_BYTES = 64 << 10  # some 500 records, read at once while entries are read in order

_find_mirrors = attrgetter("mirrors")
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Entry)
_list_decoder = msgspec.msgpack.Decoder(list[Entry])
_ARRAY, _ARRAY_32 = struct.Struct(">BI"), 0xDD  # how msgpack begins an array: its elements follow


class _Places:
    """The positions of consecutive records: two bytes a record, if records have less than 64 KiB."""

    __slots__ = ("_positions", "end", "lengths")

    def __init__(self) -> None:
        self._positions = array("q")  # of every ``STRIDE``-th record
        self.lengths = array(NARROWEST["lengths"])
        self.end = 0

    def extend(self, lengths: Sequence[int]) -> None:
        """Note the next records."""
        before = 0
        for place in range(-len(self.lengths) % STRIDE, len(lengths), STRIDE):
            self.end += sum(lengths[before:place])
            self._positions.append(self.end)
            before = place
        self.end += sum(lengths[before:])
        self.lengths = extend(self.lengths, lengths)

    def find_start(self, index: int) -> int:
        """The position at which a record begins."""
        known = index // STRIDE
        return self._positions[known] + sum(self.lengths[known * STRIDE : index])


class PlanTotals(msgspec.Struct, frozen=True):
    """Sums over the entries of a plan: known sizes, entries without a hash, entries whose name is another's.

    ``expires_at``: when the first link expires; None if none states it.
    """

    size_bytes: int = 0
    without_hash: int = 0
    clashing: int = 0
    expires_at: float | None = None


class PlanFile:
    """Write entries by ``extend``, ``seal``, then read any of them. Entry ``i`` is the ``i``-th.

    Raises:
        LocalFault: the file exists already or cannot be written.
    """

    def __init__(self, path: Path, folding: Folding = KEEPS_NAMES) -> None:
        """``folding``: which names are one file at the destination."""
        self.path = path
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with self._writing():
            self._file = os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=BUFFER_BYTES)
        self._begin(folding)

    def _begin(self, folding: Folding = KEEPS_NAMES) -> None:
        # the last read: the next index, the position of its record, the position of the first byte, the bytes
        self._ahead: tuple[int, int, int, bytes] = (0, 0, 0, b"")
        self._digest = hashlib.sha256()
        self._host_numbers: dict[str, int] = {}
        self._places = _Places()
        self.paths = PathIndex(self.path.parent, folding)
        self.sizes = array(NARROWEST["sizes"])
        self.host_of = array(NARROWEST["host_of"])
        self.batch_of: array[int] | None = None  # until an entry has a batch
        self._batch_numbers: dict[str, int] = {}
        self.names_mirrors = False
        self.totals = PlanTotals()

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def hosts(self) -> list[str]:
        """The hosts in the order of their first entries."""
        return list(self._host_numbers)

    @property
    def sizes_unknown(self) -> int:
        """The number of entries whose size is not stated."""
        return self.sizes.count(UNKNOWN_SIZE)

    @property
    def digest(self) -> str:
        """SHA-256 of the entries' contents, as hex."""
        return self._digest.hexdigest()

    def extend(self, entries: Sequence[Entry]) -> None:
        """Write some entries; the ``id`` of each is its index."""
        stated = entries.list_fields() if isinstance(entries, PlainEntries) else entries
        records = list(map(_encoder.encode, stated))
        with self._writing():
            self._file.write(b"".join(records))
        self._places.extend(list(map(len, records)))
        self._note(entries)

    def _note(self, entries: Sequence[Entry]) -> None:
        before, nothing = len(self.sizes), [None] * len(entries)
        batches: Sequence[str | None] = nothing
        expiries: Sequence[float | None] = nothing
        if isinstance(entries, PlainEntries):  # its columns are all that it states: half of the time
            urls, paths = entries.urls, entries.paths
            sizes, digests, clashing = entries.sizes or nothing, entries.digests or nothing, 0
            self._digest.update(_identities_of_plain(entries, sizes, digests))
        else:
            urls, paths = [entry.url.value for entry in entries], [entry.path for entry in entries]
            sizes, digests = [entry.size_bytes for entry in entries], [entry.digest for entry in entries]
            batches, expiries = [entry.batch for entry in entries], [entry.expires_at for entry in entries]
            clashing = len(entries) - [entry.clash for entry in entries].count(None)
            self.names_mirrors = self.names_mirrors or any(map(_find_mirrors, entries))
            self._digest.update(identities_of(entries))
        self.paths.add(paths, before)
        so_far = self.totals
        self.totals = PlanTotals(
            size_bytes=so_far.size_bytes + sum(filter(None, sizes)),
            without_hash=so_far.without_hash + digests.count(None),
            clashing=so_far.clashing + clashing,
            expires_at=min(
                (each for each in (so_far.expires_at, *expiries) if each is not None), default=None
            ),
        )
        self.sizes = extend(self.sizes, [UNKNOWN_SIZE if size is None else size for size in sizes])
        self.host_of = extend(self.host_of, self._number_hosts(urls))
        self._note_batches(batches, before)

    def _note_batches(self, batches: Sequence[str | None], before: int) -> None:
        numbers, some = self._batch_numbers, batches.count(None) < len(batches)
        if self.batch_of is None and some:
            self.batch_of = array("i", [NO_BATCH]) * before
        if self.batch_of is not None:
            self.batch_of.extend(
                NO_BATCH if name is None else numbers.setdefault(name, len(numbers)) for name in batches
            )

    def _number_hosts(self, urls: Sequence[str]) -> list[int]:
        numbers = self._host_numbers
        scheme, mark, rest = urls[0].partition("://") if urls else ("", "", "")
        first = rest.partition("/")[0]
        # no checked URL holds a line break
        if first in numbers and "\n".join(["", *urls]).count(f"\n{scheme}{mark}{first}/") == len(urls):
            return [numbers[first]] * len(urls)  # nearly always
        hosts = [url.partition("://")[2].partition("/")[0] for url in urls]
        return [
            numbers[host] if host in numbers else numbers.setdefault(host_of(url), len(numbers))
            for host, url in zip(hosts, urls, strict=True)
        ]

    def seal(self) -> None:
        """Flush the file, so that entries can be read; nothing may be appended after this."""
        with self._writing():
            self._file.flush()

    def end(self, about: bytes) -> None:
        """Write the positions of the entries, and ``about``: after this the file can be loaded."""
        with self._writing():
            self._file.seek(0, os.SEEK_END)
            every = accumulate(self._places.lengths, initial=0)
            while positions := array("q", list(islice(every, POSITIONS_AT_ONCE))):
                if sys.byteorder == "big":
                    positions.byteswap()
                self._file.write(positions.tobytes())
            self._file.write(about + _END.pack(len(self), len(about), _MARK))
            self._file.flush()

    @classmethod
    def load(cls, path: Path) -> "tuple[PlanFile, bytes]":
        """Load a file that was ended; return it with its data about all entries.

        Raises:
            LocalFault: the file cannot be read, or is not complete.
        """
        file = cls.__new__(cls)
        file.path = path
        try:
            file._file = os.fdopen(os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC), "r+b")
        except OSError as error:
            raise LocalFault(f"cannot read the plan in {path}: {error.strerror}") from None
        try:
            about = file._read_end()
            count = len(file._places.lengths)
            for first in range(0, count, BLOCK):
                file._note(file.block(first, min(first + BLOCK, count)))
        except (OSError, struct.error, *NOT_DECODED) as error:
            file.close()
            reason = error.strerror if isinstance(error, OSError) else "it is not whole"
            raise LocalFault(f"cannot read the plan in {path}: {reason}") from None
        return file, about

    def _read_end(self) -> bytes:
        self._begin()
        descriptor = self._file.fileno()
        end = os.fstat(descriptor).st_size - _END.size
        count, about_bytes, mark = _END.unpack(os.pread(descriptor, _END.size, max(end, 0)))
        start = end - about_bytes - 8 * (count + 1)
        if mark != _MARK or start < 0:
            raise struct.error
        last: tuple[int, ...] = ()
        for first in range(0, count + 1, POSITIONS_AT_ONCE):
            wanted = min(POSITIONS_AT_ONCE, count + 1 - first)
            positions = array("q", os.pread(descriptor, 8 * wanted, start + 8 * first))
            if sys.byteorder == "big":
                positions.byteswap()
            lengths = [next_begin - begin for begin, next_begin in pairwise((*last, *positions))]
            if min(lengths, default=0) < 0 or (not last and positions[0]):
                raise struct.error
            self._places.extend(lengths)
            last = (positions[-1],)
        if self._places.end > start:
            raise struct.error
        return os.pread(descriptor, about_bytes, end - about_bytes)

    def entry(self, index: int) -> Entry:
        """Read one entry.

        Raises:
            IndexError: there is no such entry.
        """
        lengths = self._places.lengths
        if not 0 <= index < len(lengths):
            raise IndexError(f"the plan has {len(lengths)} entries and none with index {index}")
        next_index, next_start, first, data = self._ahead
        start = next_start if index == next_index else self._places.find_start(index)
        end = start + lengths[index]
        if not first <= start <= end <= first + len(data):
            size_bytes = max(end - start, AHEAD_BYTES if index == next_index else 0)
            first, data = start, os.pread(self._file.fileno(), size_bytes, start)
        self._ahead = index + 1, end, first, data
        return _decoder.decode(data[start - first : end - first])

    def block(self, first: int, end: int) -> list[Entry]:
        """Read the entries from ``first`` to ``end`` at once; half a microsecond each."""
        start, size_bytes = self._places.find_start(first), sum(self._places.lengths[first:end])
        data = os.pread(self._file.fileno(), size_bytes, start)
        return _list_decoder.decode(_ARRAY.pack(_ARRAY_32, end - first) + data)

    def take_place_of(self, other: "PlanFile") -> None:
        """Move this file over the other one's, which is closed."""
        with self._writing():
            self.path = self.path.replace(other.path)
        other.close()

    def save(self, path: Path) -> None:
        """Give the ended file a second name, in one step; another file there is replaced."""
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
        with self._writing():
            try:
                temporary.hardlink_to(self.path)
            except OSError:  # a file system without hard links
                self._copy_to(temporary)
            temporary.replace(path)
            if temporary.exists():  # both were hard links of one file, and then rename does nothing
                temporary.unlink()

    def _copy_to(self, path: Path) -> None:
        """Copy the file without a change of modes, which a file system without links may refuse too."""
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as copy, self.path.open("rb") as own:
            shutil.copyfileobj(own, copy)

    def close(self) -> None:
        """Close the file; it stays on disk."""
        self.paths.close()
        with suppress(OSError):  # all of it was written when it was sealed
            self._file.close()

    def discard(self) -> None:
        """Close the file and remove it."""
        with suppress(OSError):  # a full disk refuses the last flush too
            self.close()
        self.path.unlink(missing_ok=True)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise self._fault(error) from error

    def _fault(self, error: OSError) -> LocalFault:
        return LocalFault(f"cannot write the plan to {self.path}: {error.strerror}")


def extend(column: "array[int]", numbers: Sequence[int]) -> "array[int]":
    """Append numbers; return the column, in a wider type if a number does not fit."""
    while True:
        try:
            column.extend(array(column.typecode, numbers))
        except OverflowError:
            column = array(WIDER[column.typecode], column)
        else:
            return column


def identities_of(entries: Sequence[Entry]) -> bytes:
    """What ``identity_of`` gives for each entry, in a third of the time if all are ordinary."""
    if any([e.range_start is not None or e.mirrors or e.clash is not None for e in entries]):  # noqa: C419 - quicker so
        return b"".join(map(identity_of, entries))
    stated = [
        (strip_signature(url) if "?" in (url := entry.url.value) or "#" in url else url, entry.path,
         entry.size_bytes, entry.offset, entry.digest, entry.batch, (), entry.chunk)
        for entry in entries
    ]  # fmt: skip
    return _encode_all(stated)


def _identities_of_plain(
    entries: PlainEntries, sizes: Sequence[int | None], digests: Sequence[Digest | None]
) -> bytes:
    """The same for entries that state nothing else."""
    urls, joined, none = entries.urls, "\n".join(entries.urls), repeat(None)
    if "?" in joined or "#" in joined:
        urls = list(map(strip_signature, urls))
    stated = zip(urls, entries.paths, sizes, none, digests, none, repeat(()), none, strict=False)
    return _encode_all(list(stated))


def _encode_all(values: list[Any]) -> bytes:
    """What the encoder gives for each, joined."""
    encoded = _encoder.encode(values)  # an array: its length, and then its elements
    return encoded[1 if len(values) < 1 << 4 else 3 if len(values) < 1 << 16 else 5 :]


def identity_of(entry: Entry) -> bytes:
    """The contents by which manifests are equal: no line numbers, credentials, signatures or expiry times."""
    stated = (
        strip_signature(entry.url.value),
        entry.path,
        entry.size_bytes,
        entry.offset,
        entry.digest,
        entry.batch,
        [strip_signature(mirror.value) for mirror in entry.mirrors],
        entry.chunk,
    )
    if entry.clash is not None:
        return _encoder.encode((*stated, entry.range_start, "clash"))  # another list has no such clash
    return _encoder.encode(stated if entry.range_start is None else (*stated, entry.range_start))
