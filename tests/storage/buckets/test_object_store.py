"""obstore against a real store: names, sizes, uploads that end, and faults in our own words."""

import asyncio
from contextlib import nullcontext

import pytest

from cfetch.base.errors import UsageError, VolumeFault
from cfetch.storage.buckets import object_store as module
from cfetch.storage.buckets.object_store import PIECE_BYTES, About, ObjectStore, piece_bytes_for
from tests.storage.s3_server import point_at
from tests.wire.raw_server import RawServer, reply

ABOUT = About("sha256:ab", None, "run-1")
MIB = 1 << 20


@pytest.fixture
def store(bucket):
    return ObjectStore(bucket.url, timeout_s=30)


async def put(store, key, body, about=ABOUT):
    upload = store.upload(key, about, PIECE_BYTES)
    for start in range(0, len(body), PIECE_BYTES):
        await upload.write(body[start : start + PIECE_BYTES])
    await upload.complete()


@pytest.mark.parametrize("size", [0, 1, 100 << 10, PIECE_BYTES, 20 * MIB])
async def test_every_size_comes_out_as_it_went_in(store, bucket, size):
    """One request up to a piece, an upload in pieces beyond; what is told with it comes back."""
    body = bytes(range(256)) * (size // 256) + b"x" * (size % 256)
    await put(store, "a/b", body)
    assert bucket.get("a/b") == body
    assert (await store.find_object("a/b"))[:2] == (size, ABOUT)
    assert ("-" in bucket.head("a/b")["ETag"]) == (size >= PIECE_BYTES)
    assert bucket.uploads() == []


ODD = [
    "a b",
    "ü/ñ",
    "x#y",
    "x?y=1",
    "x%20y",
    "100%",
    "a+b&c=d",
    "e*[]{}|^`\"'<>",
    "a..b",
    "日本/😀",
    "...x",
    "~/x",
]


@pytest.mark.parametrize("key", ODD)
async def test_names_are_kept_to_the_letter(store, bucket, key):
    """What a URL would give a meaning has none in a name."""
    await put(store, key, b"1")
    assert bucket.keys() == [key]
    assert (await store.find_object(key)).size_bytes == 1
    await store.delete([key])
    assert bucket.keys() == []


async def test_nothing_is_visible_before_complete_nor_left_after_abort(store, bucket):
    """An upload of three pieces is seen by nobody, and goes without a trace."""
    upload = store.upload("a", ABOUT, PIECE_BYTES)
    for _ in range(3):
        await upload.write(bytes(PIECE_BYTES))
    assert (bucket.keys(), bucket.uploads()) == ([], ["a"])
    await upload.abort()
    await upload.abort()
    assert (bucket.keys(), bucket.uploads()) == ([], [])


async def test_an_upload_that_has_failed_cannot_be_completed(bucket):
    """Closed, obstore would put an empty object under the prefix's own name."""
    nowhere = ObjectStore(bucket.url.replace(bucket.name, "no-such-bucket"), timeout_s=30)
    upload = nowhere.upload("a", ABOUT, PIECE_BYTES)
    with pytest.raises(VolumeFault, match="no such bucket"):
        await upload.write(bytes(PIECE_BYTES))
    with pytest.raises(AssertionError):
        await upload.complete()
    await upload.abort()


async def test_what_does_not_stand_is_none_and_its_removal_no_fault(store, bucket):
    """As with files. An object of another tool has no word of ours."""
    assert await store.find_object("a") is None
    await store.delete(["a"])
    bucket.put("b", b"123")
    assert (await store.find_object("b"))[:2] == (3, None)
    assert (await store.names("x"), await store.names("")) == ([], ["b"])


async def test_names_are_those_directly_below(store, bucket):
    """Neither deeper ones nor neighbours."""
    for key in ("x/a", "x/b", "x/c/d", "xa", "y/a"):
        await store.put(key, b"")
    assert sorted(await store.names("x")) == ["a", "b"]


async def test_what_cannot_be_told_with_an_object_is_left_out(store, bucket):
    """An attribute is ASCII and short; the object matters more."""
    for n, odd in enumerate(("ü", "x" * 2000)):
        await put(store, str(n), b"1", About(odd, None, "r"))
        assert (await store.find_object(str(n)))[:2] == (1, None)


@pytest.mark.parametrize(("size", "piece"), [
    (None, PIECE_BYTES), (0, PIECE_BYTES), (10_000 * PIECE_BYTES, PIECE_BYTES),
    (10_000 * PIECE_BYTES + 1, 6 * MIB), (5 << 40, 525 * MIB),
])  # fmt: skip
def test_ten_thousand_pieces_are_enough(size, piece):
    """S3 takes no more, and up to 5 TiB."""
    assert piece_bytes_for(size) == piece
    assert (size or 0) <= 10_000 * piece


def said(status, code=""):
    return reply(f"<Error><Code>{code}</Code><Message>CANARY</Message></Error>".encode(), status=status)


@pytest.mark.parametrize(("answer", "words", "no_room"), [
    (said("403 Forbidden", "AccessDenied"), "denies access", False),
    (said("401 Unauthorized", "x"), "denies access", False),
    (said("404 Not Found", "NoSuchBucket"), "no such bucket", False),
    (said("503 Slow Down", "SlowDown"), "slow down", False),
    (said("507 Insufficient Storage", "XMinioStorageFull"), "no room left", True),
    (said("400 Bad Request", "Weird"), "reports an error", False),
    (b"nonsense", "cannot be reached", False),
])  # fmt: skip
async def test_faults_are_told_in_our_own_words(monkeypatch, answer, words, no_room):
    """Each says what to do; what the store or obstore wrote, with keys and URLs, is not repeated."""
    monkeypatch.setattr(module, "MAX_RETRIES", 0)
    async with RawServer(answer) as server:
        point_at(monkeypatch, server.url)
        store = ObjectStore("s3://bucket/p", timeout_s=30)
        for call in (store.put("k", b""), store.names("x")):
            with pytest.raises(VolumeFault, match=words) as caught:
                await call
            assert "s3://bucket/p" in str(caught.value)
            assert "CANARY" not in str(caught.value)
            assert server.url not in str(caught.value)
            assert caught.value.no_room is no_room


async def test_a_writer_tells_of_denied_access_too(monkeypatch):
    """Its errors have lost their type on the way."""
    async with RawServer(said("403 Forbidden", "AccessDenied")) as server:
        point_at(monkeypatch, server.url)
        with pytest.raises(VolumeFault, match="denies access"):
            await ObjectStore("s3://bucket/p", timeout_s=30).upload("k", ABOUT, PIECE_BYTES).complete()


@pytest.mark.parametrize("is_only", [True, False])
async def test_a_store_that_asks_to_slow_down_for_long(monkeypatch, is_only):
    """It is asked again until it answers if there is no other volume; else another one takes the batch."""
    monkeypatch.setattr(module, "BACKOFF_S", (0.001, 0.002))
    slow_down = [said("503 Slow Down", "SlowDown")] * (2 * module.MAX_RETRIES)
    async with RawServer(*slow_down, reply(b"", 'ETag: "e"')) as server:
        point_at(monkeypatch, server.url)
        store = ObjectStore("s3://bucket/p", timeout_s=30, is_only=is_only)
        with nullcontext() if is_only else pytest.raises(VolumeFault, match="slow down"):
            await store.put("k", b"")
    assert len(server.heads) == (2 * module.MAX_RETRIES if is_only else module.MAX_RETRIES) + 1


async def test_a_store_that_does_not_answer_is_told_in_time(monkeypatch):
    """Every call is bounded by itself, whatever obstore would do."""
    async with RawServer(b"") as server, asyncio.timeout(60):
        point_at(monkeypatch, server.url)
        store = ObjectStore("s3://bucket/p", timeout_s=0.2)
        for call in (
            store.find_object,
            store.names,
            lambda key: store.put(key, b""),
            lambda key: store.delete([key]),
        ):
            with pytest.raises(VolumeFault, match=r"within 0\.2 s"):
                await call("a")
        upload = store.upload("a", ABOUT, PIECE_BYTES)
        with pytest.raises(VolumeFault, match=r"within 0\.2 s"):
            await upload.write(bytes(PIECE_BYTES))


@pytest.mark.parametrize("url", ["s3://bucket/a//b", "az://container"])
def test_a_destination_that_cannot_be_used_is_told_at_once(monkeypatch, url):
    """Before anything is downloaded."""
    for name in ("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT", "AZURE_ACCOUNT_NAME"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(VolumeFault, match="cannot use"):
        ObjectStore(url, timeout_s=1)


def test_without_the_library_the_remedy_is_named(monkeypatch):
    """Only those who write to a store need it."""
    monkeypatch.setattr(module, "find_spec", lambda _: None)
    with pytest.raises(UsageError, match=r"pip install 'cfetch\[cloud\]'"):
        ObjectStore("s3://bucket/p", timeout_s=1)
