"""Listings and records of a bucket, which spare a run a request for each object."""

import asyncio
import hashlib
import sqlite3
from collections import Counter
from contextlib import asynccontextmanager, closing
from time import monotonic

import pytest

from cfetch.base.errors import VolumeFault
from cfetch.manifest.entry import Digest
from cfetch.storage.buckets import object_listing as module
from cfetch.storage.buckets import object_records
from cfetch.storage.buckets.object_listing import LOOKS_A_PAGE, ListedPages, judge_listed
from cfetch.storage.buckets.object_records import ObjectRecords, records_name
from cfetch.storage.buckets.object_store import About, FoundObject, Listed, ObjectStore
from cfetch.storage.buckets.object_volume import ObjectStoreVolume
from cfetch.storage.volume_values import Standing
from cfetch.testing.volume import inspect_batch
from tests.engine.drive import entry_of
from tests.storage.buckets.test_object_store import ODD
from tests.storage.buckets.test_object_volume import committed, record_of, staged, tidied

ABOUT = About("sha256:ab", None, "run-1")


def listed(key, size_bytes=1, etag='"e"'):
    return Listed(key, size_bytes, etag, 5.0)


class Store:
    """Gives pages, or raises them; ``reads`` counts."""

    def __init__(self, *pages):
        self.pages = list(pages)
        self.reads = 0

    async def next_page(self):
        self.reads += 1
        page = self.pages.pop(0) if self.pages else None
        if isinstance(page, Exception):
            raise page
        return page


async def begun(*pages):
    store = Store(*pages)
    made = ListedPages(store.next_page)
    assert await made.begin() is bool(pages)
    return made, store


@asynccontextmanager
async def opened(bucket, records, run_id="run-1"):
    store = ObjectStore(bucket.url, timeout_s=30)
    volume = ObjectStoreVolume(
        store, run_id=run_id, confirm=lambda: None, monotonic=monotonic, records=records
    )
    committing = asyncio.create_task(volume.run())
    try:
        await volume.open()
        bucket.server.take_asked()
        yield volume
        volume.drain()
        await committing
    finally:
        committing.cancel()
        await volume.close()


def heads(bucket):
    return bucket.server.take_asked()["HEAD"]


async def test_a_run_of_many_objects_reads_pages_and_asks_for_none_of_them(bucket, tmp_path):
    """A second run of 1,050 objects takes two pages; a HEAD is asked only before the second is worth it."""
    entries = [entry_of(n, f"d{n % 7}/{n}", b"%d" % n, digest=True) for n in range(1050)]
    async with opened(bucket, tmp_path) as volume:
        for n, entry in enumerate(entries):
            assert await committed(volume, [await staged(volume, entry.path, b"%d" % n, digest=True)]) is None
    async with opened(bucket, tmp_path, "run-2") as volume:
        for entry in entries:
            assert await volume.verify_existing(entry) == Standing("sha256")
        assert await volume.verify_existing(entry_of(0, "d3/missing", b"1", digest=True)) is None
        asked = bucket.server.take_asked()
        assert asked.pop("HEAD", 0) <= LOOKS_A_PAGE
        assert asked == {"GET list-type": 1}


@pytest.mark.parametrize("asked", [{"digest": True}, {}])
async def test_an_object_that_another_tool_has_replaced_is_looked_at(bucket, tmp_path, asked):
    """Its size fits, its bytes differ: its ETag is not the recorded one, and the stated hash refuses it."""
    async with opened(bucket, tmp_path) as volume:
        for path in ("a", "b"):
            assert await committed(volume, [await staged(volume, path, b"123", **asked)]) is None
    bucket.put("a", b"bad")
    async with opened(bucket, tmp_path) as volume:
        is_proved = bool(asked)
        expected = None if is_proved else Standing("size")
        assert await volume.verify_existing(entry_of(0, "a", b"123", **asked)) == expected
        assert heads(bucket) == 1
        assert await volume.verify_existing(entry_of(0, "b", b"123", **asked)) is not None
        assert heads(bucket) == 0


async def test_an_object_without_a_record_is_looked_at_once(bucket, tmp_path):
    """The answer is recorded; so is a large object, whose ETag no put states."""
    body = bytes(6 << 20)
    async with opened(bucket, None) as volume:
        for path, data in (("a", b"123"), ("b", body)):
            assert await committed(volume, [await staged(volume, path, data, digest=True)]) is None
    for looks in (2, 0):
        async with opened(bucket, tmp_path) as volume:
            for path, data in (("a", b"123"), ("b", body)):
                assert await volume.verify_existing(entry_of(0, path, data, digest=True)) == Standing(
                    "sha256"
                )
            assert heads(bucket) == looks


async def test_what_the_run_itself_changes_is_looked_at(bucket, tmp_path):
    """A page that was read before a put or a deletion, or in between, decides nothing about the object."""
    async with opened(bucket, tmp_path) as volume:
        part = await staged(volume, "a", b"123", digest=True)
        await part.complete()
        entry = entry_of(0, "a", b"123", digest=True)
        assert await volume.verify_existing(entry) == Standing("sha256")
        part.discard()
        await tidied(volume)
        assert await volume.verify_existing(entry) is None


async def test_names_in_a_listing_are_those_of_the_objects(bucket, tmp_path):
    """To the letter, and in the order in which they are compared here."""
    keys = [key for key in ODD if not key.startswith("~")]  # no entry can have that one
    async with opened(bucket, tmp_path) as volume:
        for key in keys:
            assert await committed(volume, [await staged(volume, key, b"1", digest=True)]) is None
    async with opened(bucket, tmp_path) as volume:
        for key in keys:
            assert await volume.verify_existing(entry_of(0, key, b"1", digest=True)) == Standing("sha256")
        assert heads(bucket) == 0


@pytest.mark.parametrize("odd", ["d/", "x//y", "./z", "/lead"])
async def test_an_object_that_no_entry_can_have_hinders_nothing(bucket, tmp_path, odd):
    """Marks of directories, and names with empty or relative components."""
    bucket.put("a", b"123")
    bucket.server.ask("PUT", f"/{bucket.name}/some/prefix/{odd}", b"")
    async with opened(bucket, tmp_path) as volume:
        assert await volume.verify_existing(entry_of(0, "a", b"123")) == Standing("size")
        assert await volume.verify_existing(entry_of(0, "z9", b"123")) is None


async def test_a_batch_is_inspected_by_the_listing(bucket, tmp_path):
    """Sizes are all that counts there."""
    for n in range(20):
        bucket.put(str(n), b"1")
    async with opened(bucket, tmp_path) as volume:
        entries = [entry_of(n, str(n), b"1" if n else b"12") for n in range(21)]
        assert (await inspect_batch(volume, "b", entries)).same_size == list(range(1, 20))
        assert heads(bucket) == 0


async def test_a_record_that_the_run_itself_puts_or_deletes_is_looked_at(bucket, tmp_path):
    """The listing was read before."""
    bucket.put("a", b"1")
    for was_there in (False, True):
        async with opened(bucket, tmp_path) as volume:
            assert (await inspect_batch(volume, "b1", [])).is_committed is was_there
            if was_there:
                volume.withdraw_batch("b1", [])
                await tidied(volume)
            else:
                assert await committed(volume, [], record_of()) is None
            assert (await inspect_batch(volume, "b1", [])).is_committed is not was_there


MD5 = hashlib.md5(b"123").hexdigest()


@pytest.mark.parametrize(("entry", "size", "etag", "about", "judged"), [
    (entry_of(0, "a", b"123", digest=True), 4, '"e"', ABOUT, FoundObject(4, None, 5.0)),
    (entry_of(0, "a", b"123", digest=True), 3, '"e"', ABOUT, FoundObject(3, ABOUT, 5.0)),
    (entry_of(0, "a", b"123", digest=True), 3, '"e"', None, None),
    (entry_of(0, "a", b"123"), 3, '"e"', None, None),
    (entry_of(0, "a", b"123", size=False), 3, '"e"', ABOUT, FoundObject(3, ABOUT, 5.0)),
    ("md5", 3, f'"{MD5}"', None, FoundObject(3, About(f"md5:{MD5}", None, ""), 5.0)),
    ("md5", 3, f'"{MD5}-1"', None, None),
    ("md5", 3, None, None, None),
])  # fmt: skip
def test_what_a_listing_proves(entry, size, etag, about, judged):
    """Another size, an ETag that is the stated MD5, and a recorded ETag; the store is asked for the rest."""
    if entry == "md5":
        import msgspec

        entry = msgspec.structs.replace(entry_of(0, "a", b"123"), digest=Digest("md5", MD5))
    assert judge_listed(entry, listed("a", size, etag), about) == judged


async def test_pages_are_read_when_they_are_worth_it():
    """A key far behind is looked up by itself until there were enough look-ups for another page."""
    pages, store = await begun(*([listed(str(n))] for n in range(5)))
    assert await pages.reaches("0")
    assert store.reads == 1
    while not await pages.reaches("2"):
        assert store.reads <= 2
    assert pages.find("2") == listed("2")
    assert pages.find("15") is None
    for _ in range(10 * LOOKS_A_PAGE):
        await pages.reaches("9")
    assert await pages.reaches("9")
    assert (pages.find("9"), store.reads) == (None, 6)


async def test_an_empty_store_has_nothing():
    """Its only page decides about all keys."""
    pages, _ = await begun()
    assert await pages.reaches("a")
    assert pages.find("a") is None


@pytest.mark.parametrize("page", [VolumeFault("denied"), [listed("b"), listed("a")]])
async def test_a_store_that_gives_no_further_page_is_asked_for_each_key(page):
    """Also one that lists in another order than that of keys; the pages before still count."""
    pages, store = await begun([listed("a")], page, [listed("c")])
    for _ in range(3 * LOOKS_A_PAGE):
        await pages.reaches("z")
    assert await pages.reaches("a")
    assert not await pages.reaches("z")
    assert store.reads == 2


async def test_a_mark_of_a_directory_is_left_out():
    """A store lists it by its name with a slash, so it seems to be out of order."""
    pages, _ = await begun([listed("d-x"), listed("d", 0), listed("e")])
    assert await pages.reaches("e")
    assert (pages.find("d"), pages.find("e")) == (None, listed("e"))


async def test_a_page_that_was_lost_in_mid_read_hides_nothing():
    """Whoever waited for it was cancelled; its keys are looked up by themselves."""
    never = asyncio.Event()
    pages = [[listed("a")]]

    async def next_page():
        if pages:
            return pages.pop()
        await never.wait()
        return None

    made = ListedPages(next_page)
    await made.begin()
    for _ in range(LOOKS_A_PAGE):
        waiting = asyncio.ensure_future(made.reaches("b"))
        await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert not await made.reaches("b")


async def test_the_number_of_pages_is_bounded(monkeypatch):
    """Whatever is below the prefix."""
    monkeypatch.setattr(module, "MOST_PAGES", 3)
    pages, store = await begun(*([listed(str(n))] for n in range(9)))
    for _ in range(100):
        await pages.reaches("8")
    assert store.reads == 3
    assert not await pages.reaches("8")
    assert [pages.find(str(n)) for n in range(3)] == [listed(str(n)) for n in range(3)]


def test_records_are_of_one_size_and_one_strong_etag(tmp_path):
    """Anything else is another object; an empty one, whose ETag may be a directory's mark, has no record."""
    path = tmp_path / "objects" / records_name("s3://b/p")
    noted = {"a": (3, '"e"'), "none": (3, None), "weak": (3, 'W/"e"'), "empty": (0, '"e"')}
    for key, (size_bytes, etag) in noted.items():
        records = ObjectRecords(path)
        records.note(key, size_bytes, etag, ABOUT)
        records.close()
    records = ObjectRecords(path)
    assert records.find("a", 3, '"e"') == ABOUT
    others = [("a", 3, '"f"'), ("a", 4, '"e"'), ("b", 3, '"e"'), ("a", 3, 'W/"e"'), ("a", 0, '"e"')]
    for key, size_bytes, etag in [*others, *((key, *noted[key]) for key in ("none", "weak", "empty"))]:
        assert records.find(key, size_bytes, etag) is None
    records.close()


@pytest.mark.parametrize("about", [None, 7, "text", b"no JSON"])
def test_a_record_of_another_type_is_none(tmp_path, about):
    """SQLite keeps any type in any column, and somebody else may have written the file."""
    path = tmp_path / "objects" / records_name("s3://b/p")
    ObjectRecords(path).close()
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute("INSERT INTO objects VALUES ('a', 3, ?, ?)", ('"e"', about))
    records = ObjectRecords(path)
    assert records.find("a", 3, '"e"') is None
    records.close()


def test_records_that_cannot_be_kept_are_no_fault(tmp_path, monkeypatch):
    """A damaged file, one that another process writes, or none at all costs a request an object."""
    monkeypatch.setattr(object_records, "BUSY_S", 0.0)
    damaged, busy = tmp_path / "damaged", tmp_path / "busy"
    damaged.write_bytes(b"no database" * 1000)
    other = sqlite3.connect(busy, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    for path in (None, damaged, busy, tmp_path / "damaged" / "below"):
        records = ObjectRecords(path)
        records.note("a", 3, '"e"', ABOUT)
        assert records.find("a", 3, '"e"') is None
        records.close()
    other.close()
    assert Counter(path.name for path in tmp_path.iterdir())["damaged"] == 1
