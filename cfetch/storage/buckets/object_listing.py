"""Keeps the pages of a store's listing, so that a run need not ask the store for each object.

A page names a thousand objects with their sizes and ETags, in one request. Pages are read in the order of
keys, when they are needed: at most one page for ``LOOKS_A_PAGE`` look-ups, so that a few files below a huge
prefix cost few pages. They are kept packed, some 40 bytes an object, up to ``MOST_PAGES``. For a key that no
page has reached, the store is asked.

A page tells which objects existed when it was read. If another program has deleted or replaced an object
since then, the run does not notice it. A run asks again for the objects that it has put or deleted itself.
"""

import asyncio
import zlib
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from cfetch.base.errors import VolumeFault
from cfetch.manifest.entry import Entry
from cfetch.storage.buckets.object_store import RUNS, About, FoundObject, Listed

LOOKS_A_PAGE = 8
MOST_PAGES = 1000  # a million objects in some 40 MB
MOST_UNPACKED = 4  # look-ups in the order of keys need one page after the other
TOUCHED_BITS = 1 << 23  # 1 MiB: a million changed keys, and then one look-up in eight asks in vain
_PAGE = msgspec.msgpack.Decoder(list[Listed])


class ListedPages:
    """The pages read so far; ``next_page`` reads another one, None: there is no more.

    ``reaches`` says whether the pages decide about a key, and ``find`` what they say.
    """

    def __init__(self, next_page: Callable[[], Awaitable[Sequence[Listed] | None]]) -> None:
        self._next_page = next_page
        self._starts: list[str] = []
        self._packed: list[bytes] = []
        self._unpacked: dict[int, dict[str, Listed]] = {}
        self._last = ""
        self._looks = 0
        self._has_more = False
        self._is_whole = False
        self._turn = asyncio.Lock()
        self._touched: bytearray | None = None

    async def begin(self) -> bool:
        """Read the first page; return whether the store may have anything. Raises VolumeFault."""
        self._has_more = True
        while self._has_more and not self._packed:
            await self._read_page()
        return bool(self._packed) or not self._is_whole

    def touch(self, key: str) -> None:
        """Note that this run changes the object, so that the store is asked for it."""
        if self._touched is None:
            self._touched = bytearray(TOUCHED_BITS // 8)
        place, bit = divmod(hash(key) % TOUCHED_BITS, 8)
        self._touched[place] |= 1 << bit

    def _is_touched(self, key: str) -> bool:
        place, bit = divmod(hash(key) % TOUCHED_BITS, 8)
        return self._touched is not None and bool(self._touched[place] >> bit & 1)

    async def reaches(self, key: str) -> bool:
        """Whether the pages decide about the key; reads further ones if that is worth it."""
        self._looks += 1
        if self._is_touched(key):
            return False
        while not self._covers(key):
            async with self._turn:
                if self._covers(key):
                    break
                is_worth_it = len(self._packed) * LOOKS_A_PAGE <= self._looks
                if not self._has_more or not is_worth_it or len(self._packed) >= MOST_PAGES:
                    return False
                try:
                    await self._read_page()
                except VolumeFault:  # the store may still answer for single objects
                    return False
        return not self._is_touched(key)

    def find(self, key: str) -> Listed | None:
        """The object of a key that the pages reach; None: there was none when its page was read."""
        page = bisect_right(self._starts, key) - 1
        return None if page < 0 else self._unpack(page).get(key)

    def _covers(self, key: str) -> bool:
        return self._is_whole or (bool(self._packed) and key <= self._last)

    async def _read_page(self) -> None:
        self._has_more = False  # also if this is cancelled: the page is lost then
        page = await self._next_page()
        if not page:
            self._is_whole = page is None
            return
        objects = []
        for listed in page:
            if listed.key.startswith(f"{RUNS}/"):
                continue  # the marks of runs, this one's own among them
            if listed.key > self._last:
                objects.append(listed)
                self._last = listed.key
            elif listed.size_bytes:
                return  # a store that lists in another order: nothing is known about later keys
        if objects:
            self._starts.append(objects[0].key)
            self._packed.append(zlib.compress(msgspec.msgpack.encode(objects), 1))
        self._has_more = True

    def _unpack(self, page: int) -> dict[str, Listed]:
        objects = self._unpacked.get(page)
        if objects is None:
            objects = {listed.key: listed for listed in _PAGE.decode(zlib.decompress(self._packed[page]))}
            while len(self._unpacked) >= MOST_UNPACKED:
                del self._unpacked[next(iter(self._unpacked))]
            self._unpacked[page] = objects
        return objects


def judge_listed(entry: Entry, listed: Listed, about: About | None) -> FoundObject | None:
    """What ``ObjectStore.find_object`` would tell of a listed object, if it matters; None: ask the store.

    ``about`` is this machine's record of the object that had the same size and ETag. Another size needs no
    record. The ETag of an object that was put in one request is its MD5.
    """
    size_bytes, digest = listed.size_bytes, entry.digest
    if entry.size_bytes not in (size_bytes, None):
        return FoundObject(size_bytes, None, listed.changed_s)
    is_md5 = digest is not None and digest.algorithm == "md5" and bool(size_bytes)
    if is_md5 and digest is not None and listed.etag == f'"{digest.hex}"':
        return FoundObject(size_bytes, About(f"md5:{digest.hex}", None, ""), listed.changed_s)
    return None if about is None else FoundObject(size_bytes, about, listed.changed_s)
