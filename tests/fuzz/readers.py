"""Each reader of bytes from elsewhere: samples that it takes, and a judge.

A judge reads damaged bytes. It is true where the reader gives a value, which has to survive being written and
read again, and false where it refuses by an error that its door names. Whatever else comes out of it is a
defect.
"""

import asyncio
import gzip
import io
import os
import re
import tempfile
import zlib
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple
from unittest.mock import Mock

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from multidict import CIMultiDict

from cfetch.base.config import document as yaml_document
from cfetch.base.config.reading import ReadingOptions
from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.errors import CfetchError, NewerRecord
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import SecretUrl, encode_json
from cfetch.manifest.decompression import import_zstd
from cfetch.manifest.entry import Entry, SafePath
from cfetch.manifest.faults import Faults
from cfetch.manifest.fields import FieldError
from cfetch.manifest.hashing import new_hash
from cfetch.manifest.object_urls import make_listing
from cfetch.manifest.plan import FILE_NAME, load_plan
from cfetch.manifest.reading import read_entries
from cfetch.manifest.repository_urls import split_repository_url
from cfetch.manifest.rows import Document, Row, check_row
from cfetch.manifest.writing import TARGETS, survey
from cfetch.plugins.follow.backends import http
from cfetch.plugins.follow.checkpoint import Checkpoint, encode_checkpoint, make_row, read_checkpoint
from cfetch.plugins.follow.journal import NEXT, STEP, Journal, _Next, _Round
from cfetch.plugins.follow.lineage import Closed, Lineage
from cfetch.plugins.follow.protocol import format_keys, parse_keys
from cfetch.plugins.follow.ranges import ALL_KEYS, KeyRange, Position, Range
from cfetch.plugins.follow.route import Token
from cfetch.plugins.follow.server.segments.index import INDEX_NAME, parse_index
from cfetch.plugins.follow.server.segments.source import SegmentSource
from cfetch.plugins.follow.source import Change, FeedId
from cfetch.plugins.spark.tables.writing import SourceWork, write_source
from cfetch.run.catalogue import Catalogue, Own
from cfetch.run.host_baseline import NAME as BASELINE
from cfetch.run.host_baseline import read_baseline
from cfetch.run.listings import _read_page, _select_files
from cfetch.show.analysis import analyse
from cfetch.show.digest import make_digest
from cfetch.show.metrics import RunHeader
from cfetch.show.metrics_reading import read_metrics
from cfetch.storage.directory import Identity
from cfetch.storage.resume import Note, encode_note, fits, note_for, read_note
from cfetch.straggler.knowledge import HostKnowledge, Knowledge
from cfetch.straggler.merged import SpeedSample
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.connection import HUB, HubConnection
from cfetch.tasks.hub.leases import Demand
from cfetch.tasks.hub.messages import MOST_BEAT_BYTES, Channel
from cfetch.tasks.hub.receipts import ReceiptReader, TaskReport, encode_report, read_result
from cfetch.tasks.hub.registry import TaskRegistry
from cfetch.tasks.hub.server import BAD_INPUT
from cfetch.timeline import archive, records
from cfetch.timeline.owner import this_owner
from cfetch.timeline.states import Action, Kind, State
from cfetch.timeline.states import InstantFile as TimelineEntry
from cfetch.timeline.store import InstantStore
from cfetch.wire.stated_hash import find_stated_hash
from tests.manifest.frozen import freeze
from tests.manifest.lists import find_samples
from tests.show.records import attempt, record
from tests.tasks.hub.beats import attempt as active_attempt
from tests.tasks.hub.beats import beat as hub_beat

BASE = "http://base.example/d/"
SHA = "ab" * 32
_NAMED = frozenset({"annex", "links"})  # formats that only the user can name


class Reader(NamedTuple):
    """``finish`` makes the outside of a damaged sample right again (a seal, a compression)."""

    name: str
    samples: list[bytes]
    judge: Callable[[bytes], bool]
    finish: Callable[[bytes], bytes] = bytes


class Defect(AssertionError):
    """A reader has given a value that does not survive being written and read again."""


def _same(first: object, second: object) -> None:
    if first != second and repr(first) != repr(second):  # NaN is not itself
        raise Defect(f"{repr(first)[:300]} became {repr(second)[:300]}")


_directory = tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None)
ROOT = Path(_directory.name)


def _put(name: str, data: bytes) -> Path:
    path = ROOT / name
    path.parent.mkdir(exist_ok=True, mode=0o700)
    path.write_bytes(data)
    return path


# --- manifests

_ROWS = (
    b'{"url": "http://h.example/a/b?st=CA", "size": 7, "offset": 3, "path": "x/y", "sha256": "'
    + SHA.encode()
    + b'",'
    b' "expires_at": "2026-01-01T00:00:00Z", "batch": "s", "headers": {"X-A": "1"}, "mirrors": ["http://m.example/a"]}'
)
_JSON = (
    b'{"version": 1, "base_url": "http://h.example/", "headers": {"A": "b"}, "files": ['
    + _ROWS
    + b', {"url": "c/d"}]}'
)
_LINES = b'{"version": 1, "base_url": "http://h.example/"}\n' + _ROWS + b'\n\n{"url": "e", "size": null}\n'
_CSV = (
    b"url,size,offset,path,md5,expires_at,batch,headers,mirrors\n"
    b"http://h/a,5,0,p/q," + b"0" * 32 + b',1767225600,"b ""1""","{""X"": ""1""}","[""http://m/a""]"\n'
    b'http://h/c,,,"two, lines",,,,,\n'
)
_ARIA2 = (
    b"http://h/a\thttp://m/a\n  out=b\n  dir=c/d\n  checksum=sha-256=" + SHA.encode() + b"\n  header=X: 1\n"
    b"# no\nhttp://h/e\n"
)
_METALINK = (
    b'<?xml version="1.0" encoding="UTF-8"?>\n<metalink xmlns="urn:ietf:params:xml:ns:metalink">'
    b'<file name="a/b"><size>5</size><hash type="sha-256">' + SHA.encode() + b"</hash>"
    b'<url priority="2">http://h/a</url><url priority="1">http://m/a?b&amp;c</url></file>'
    b'<file name="c"><url>http://h/c</url></file></metalink>\n'
)
_BAGIT = b"http://h/a 5 data/a b\nhttp://h/c - data/%25c\n"
_TSV = b"TsvHttpData-1.0\nhttp://h/a\t5\tXrY7u+Ae7tCTyyK7j1rNww==\nhttp://h/b\n"
_SUMS = (
    SHA.encode()
    + b"  ./a b\n"
    + b"0" * 32
    + b" *c\n\\"
    + b"1" * 40
    + b"  d e\nSHA256 (f) = "
    + SHA.encode()
    + b"\n"
)
_SQL = (
    b'{"statement_id": "s-1", "status": {"state": "SUCCEEDED"}, "manifest": {"format": "ARROW_STREAM",'
    b' "result_compression": "LZ4_FRAME", "total_chunk_count": 2}, "result": {"external_links":'
    b' [{"chunk_index": 0, "row_count": 5, "row_offset": 0, "byte_count": 9, "external_link": "http://h/c0?X-Amz-Signature=1",'
    b' "expiration": "2026-01-01T00:00:00.000Z", "http_headers": {"A": "b"}, "next_chunk_index": 1}]}}'
)
_SQL_NEXT = b'{"external_links": [{"chunk_index": 1, "row_count": 1, "external_link": "http://h/c1"}]}'


def _parquet(columns: dict[str, Any], **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table(columns), file, **options)
    return file.getvalue()


def _tables() -> list[bytes]:
    urls = [f"http://h/{n % 7}" for n in range(40)]
    full = {
        "url": urls,
        "size": pa.array([1, None] * 20, pa.int32()),
        "path": [None, *(f"p/{n}" for n in range(39))],
        "expires_at": pa.array([10**9] * 40, pa.timestamp("ms", "UTC")),
        "headers": pa.array([{"X": "1"}, None] * 20, pa.map_("string", "string")),
        "mirrors": [["http://m/a"], [], None, ["http://m/b", "http://m/c"]] * 10,
    }
    plain: dict[str, Any] = {"use_dictionary": False, "compression": "NONE", "store_schema": False}
    return [
        _parquet(full, row_group_size=16),
        _parquet(
            {**full, "headers": [{"X": "1", "Y": None}] * 40}, compression="zstd", data_page_version="2.0"
        ),
        _parquet({"url": pa.array(urls).dictionary_encode(), "offset": pa.array(range(40), pa.uint64())}),
        _parquet({"url": urls, "mirrors": full["mirrors"]}, **plain),
        _parquet({"url": urls}, column_encoding="DELTA_BYTE_ARRAY", **plain),
    ]


def _read(data: bytes, format: str | None, name: str = "m") -> list[Entry]:  # noqa: A002
    def fetch_chunk(index: int) -> bytes:
        return _SQL_NEXT

    source, options = io.BytesIO(data), ReadingOptions(from_format=format)
    return list(read_entries(source, name=name, options=options, base_url=BASE, fetch_chunk=fetch_chunk))


def _manifest_judge(format: str | None, name: str = "m") -> Callable[[bytes], bool]:  # noqa: A002
    def judge(data: bytes) -> bool:
        try:
            entries = _read(data, format, name)
        except CfetchError as error:
            str(error).encode()
            return False
        out = io.StringIO()
        TARGETS["jsonl"].write(entries, survey(entries, ()), out)
        again = _read(out.getvalue().encode(), "jsonl")
        _same([_stated(entry) for entry in entries], [_stated(entry) for entry in again])
        return True

    return judge


def _stated(entry: Entry) -> tuple[object, ...]:
    fields = msgspec.structs.replace(entry, id=0, line=0, chunk=None)
    return tuple(
        sorted(value) if name == "headers" else value
        for name, value in msgspec.structs.asdict(fields).items()
    )


def _judge_frozen(data: bytes) -> bool:
    directory = ROOT / "plan"
    directory.mkdir(exist_ok=True)
    try:
        plan = freeze(io.BytesIO(data), name="m", directory=directory, base_url=BASE)
    except CfetchError:
        if list(directory.iterdir()):
            raise Defect("a refused manifest has left something") from None
        return False
    with plan:
        entries = list(plan.entries())
        with load_plan(directory) as again:
            _same(entries, list(again.entries()))
            _same((plan.digest, plan.hosts, plan.total_bytes), (again.digest, again.hosts, again.total_bytes))
    (directory / FILE_NAME).unlink()
    return True


def _plan_file() -> bytes:
    directory = ROOT / "sealed"
    directory.mkdir(exist_ok=True)
    freeze(io.BytesIO(_JSON), name="m", directory=directory).close()
    return (directory / FILE_NAME).read_bytes()


def _judge_plan_file(data: bytes) -> bool:
    directory = _put(f"loaded/{FILE_NAME}", data).parent
    try:
        plan = load_plan(directory)
    except CfetchError:
        return False
    with plan:
        for entry in plan.entries():
            plan.find(entry.path)
    return True


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, 1, mtime=0)


def _zstd(data: bytes) -> bytes:
    compressed: bytes = import_zstd().compress(data)
    return compressed


_TREE = (
    b'[{"type":"directory","oid":"0","size":0,"path":"d"},{"type":"file","oid":"1","size":3,"path":"d/a b"},'
    b'{"type":"file","oid":"2","size":9,"lfs":{"oid":"' + SHA.encode() + b'","size":9},"path":"d/c"}]'
)


def _judge_repository_page(data: bytes) -> bool:
    listing = make_listing(split_repository_url("hf://datasets/o/n/d/"))
    assert listing is not None
    faults = Faults()
    try:
        files = list(_select_files(listing, _read_page(listing, data), "http://h"))
    except CfetchError:
        return False
    entries = [check_row(Row(0, file.row), index, Document(), faults) for index, file in enumerate(files)]
    return bool(entries) and not faults.total


def _judge_hash(data: bytes) -> bool:
    name, _, value = data.decode("utf-8", "surrogateescape").partition("\n")
    digest = find_stated_hash(200, CIMultiDict({name: value}))
    if digest is not None:
        assert len(new_hash(digest.algorithm).hexdigest()) == len(digest.hex)
    return digest is not None


def _manifests() -> Iterator[Reader]:
    samples = {
        "json": [_JSON],
        "jsonl": [_LINES],
        "csv": [_CSV],
        "aria2": [_ARIA2],
        "metalink": [_METALINK],
        "bagit": [_BAGIT],
        "tsv-http-data": [_TSV],
        "sha256sum": [_SUMS],
        "databricks-sql": [_SQL],
        "urls": [b"http://h/a?b=c\n# no\n\nhttps://h.example:8443/d%20e\n"],
        "parquet": _tables(),
    }
    samples |= {name: some for name, some in find_samples().items() if name not in samples}
    for name, some in samples.items():
        yield Reader(f"manifest-{name}", some, _manifest_judge(name))
    every = [sample for name, some in samples.items() if name not in _NAMED for sample in some]
    yield Reader("manifest-detected", every, _manifest_judge(None))
    yield Reader("manifest-gzip", [gzip.compress(some, mtime=0) for some in every], _manifest_judge(None))
    yield Reader("manifest-zstd", [_zstd(some) for some in every], _manifest_judge(None))
    inside = [_JSON, _LINES, _CSV]
    yield Reader("manifest-in-gzip", inside, _manifest_judge(None, "m.gz"), _gzip)
    yield Reader("manifest-in-zstd", inside, _manifest_judge(None, "m.zst"), _zstd)
    yield Reader("manifest-frozen", [_JSON, _LINES, _SUMS, _METALINK], _judge_frozen)
    yield Reader("plan-file", [_plan_file()], _judge_plan_file)
    yield Reader("repository-page", [_TREE], _judge_repository_page)
    yield Reader(
        "stated-hash", [b"x-goog-hash\ncrc32c=4waSgw==", b"x-amz-checksum-crc32\ny/Q5Jg=="], _judge_hash
    )


# --- the memory of a sync


def _catalogue() -> bytes:
    path = ROOT / "sound.sqlite"
    with Catalogue(path) as catalogue:
        for number, name in enumerate(("a", "d/b", "d/c")):
            own = Own(SafePath(name), "/volume", Identity(number, 7, 1_700_000_000_000_000_000, 5))
            catalogue.add_listed(name, f"etag {number}")
            catalogue.enter(SafePath(name), own if number else None)
    return path.read_bytes()


def _judge_catalogue(data: bytes) -> bool:
    """All that a sync asks of it. A damaged tree may hide a row, whose file then stays."""
    try:
        with Catalogue(_put("syncs/fuzzed.sqlite", data)) as catalogue:
            catalogue.add_listed("a", "another etag")
            list(catalogue.find_changed())
            list(catalogue.find_new())
            catalogue.is_empty()
            catalogue.count_own()
            for own in list(catalogue.find_gone()):
                _same(own, catalogue.find_own(own.path) or own)
                catalogue.enter(own.path, own)
                catalogue.forget(own.path)
    except CfetchError:
        return False
    return True


# --- parts, timeline, baseline

_ENTRY = Entry(id=0, url=SecretUrl("http://h/a"), path=SafePath("a"), size_bytes=100)
_NOTES = [
    note_for(_ENTRY, '"e"', "boot", held=((0, 10), (20, 30)), total_bytes=100),
    note_for(_ENTRY, None, "boot"),
]


def _judge_note(data: bytes) -> bool:
    note = read_note(data)
    if note is not None:
        _same(note, read_note(encode_note(note)))
        fits(note, _ENTRY, 100, "boot")
    return note is not None


def _seal_note(data: bytes) -> bytes:
    try:
        return encode_note(msgspec.json.decode(data, type=Note))
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return data


_OWNER = this_owner("t")
_COMPLETION = records.Completion(epoch=2, owner=_OWNER, wall_s=1.5, files=3, bytes=9)
_PLAN_RECORD = records.PlanRecord(
    kind=Kind.IMMUTABLE,
    fingerprint="f",
    manifest="m",
    destinations=("/d",),
    files=3,
    bytes=9,
    completion=_COMPLETION,
)
_ROLLBACK = records.RollbackRecord(target="20260101000000000", kind=Kind.REMOVABLE)


class _OneFile:
    """The timeline's files, of which each holds the same bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def make_directory(self, path: str) -> None:
        pass

    def read(self, path: str) -> bytes:
        return self._data

    def names(self, path: str) -> list[str]:
        return ["a.jsonl"]


def _judge_record(data: bytes) -> bool:
    store = InstantStore(_OneFile(data), "t")  # type: ignore[arg-type]
    values = []
    for action, read in ((Action.DOWNLOAD, store.read_plan), (Action.ROLLBACK, store.read_rollback)):
        try:
            value = read(TimelineEntry("20260101000000000", action, State.COMPLETED))
        except NewerRecord:
            continue
        values.append(value)
        if value is not None:
            again = InstantStore(_OneFile(msgspec.json.encode(value)), "t")  # type: ignore[arg-type]
            _same(value, again._read(TimelineEntry("20260101000000000", action, State.COMPLETED)))
    return any(values)


def _judge_archive(data: bytes) -> bool:
    table: Any = SimpleNamespace(files=_OneFile(data))
    try:
        return bool(list(archive.read_archive(table)))
    except CfetchError:
        return False


def _judge_beat(data: bytes) -> bool:
    beat = records.read_beat(data)
    if beat is not None and -(10**17) < beat.counter < 10**18:
        head = records.beat_head(
            beat.instant, beat.epoch, beat.owner, beat.expiry_s, lock_device=beat.lock_device
        )
        _same(beat, records.read_beat(records.encode_beat(head, beat.counter, is_released=beat.is_released)))
    return beat is not None


def _judge_baseline(data: bytes) -> bool:
    known, _ = read_baseline(_put(f"state/{BASELINE}", data).parent)
    again, why = read_baseline(_put(f"state/{BASELINE}", msgspec.json.encode(known)).parent)
    _same((known, None), (again, why))
    return bool(known.hosts)


def _timeline() -> Iterator[Reader]:
    notes = [encode_note(note) for note in _NOTES]
    yield Reader("sync-catalogue", [_catalogue()], _judge_catalogue)
    yield Reader("note", notes, _judge_note)
    yield Reader("note-resealed", notes, _judge_note, _seal_note)
    plan, rollback = msgspec.json.encode(_PLAN_RECORD), msgspec.json.encode(_ROLLBACK)
    yield Reader("timeline-record", [plan, rollback], _judge_record)
    line = b'{"instant":"20260101000000000","action":"%s","record":%s}\n'
    yield Reader("archive", [line % (b"download", plan) + line % (b"rollback", rollback)], _judge_archive)
    head = records.beat_head("20260101000000000", 3, _OWNER, 30.0)
    yield Reader(
        "heartbeat",
        [records.encode_beat(head, 5), records.encode_beat(head, 6, is_released=True)],
        _judge_beat,
    )
    host = HostKnowledge(0.1, 1e6, 0.5, 20.0, 1.7e9)
    yield Reader("baseline", [msgspec.json.encode(Knowledge(hosts={"h": host, "i": host}))], _judge_baseline)


# --- metrics, receipts, the hub

_HEADER = RunHeader(
    instant="i1", wall_start="2026-01-01T00:00:00Z", version="1", host="h", settings={"a": [1, None]}
)
_EVENT = b'{"schema":"cfetch.event/1","kind":"pause","t_s":1.0,"host":"h"}\n'


def _metrics_lines() -> bytes:
    one = record(0, 100, attempt(samples=[(0.1, 5), (0.2, 100)]))
    failed = record(1, 5, attempt(outcome="error", error="reset"), status="failed")
    return b"".join(msgspec.json.encode(part) + b"\n" for part in (_HEADER, one, failed)) + _EVENT


def _judge_metrics(data: bytes) -> bool:
    path = _put("metrics.jsonl", data)
    try:
        runs = [(run.header, list(run.records)) for run in read_metrics([path])]
    except CfetchError:
        return False
    encode_json(analyse(read_metrics([path])))
    lines = b"".join(msgspec.json.encode(part) + b"\n" for header, rest in runs for part in (header, *rest))
    _same(runs, [(run.header, list(run.records)) for run in read_metrics([_put("again.jsonl", lines)])])
    return bool(runs)


def _judge_loading(data: bytes) -> bool:
    path = _put("loaded.jsonl", data)
    report = write_source(SourceWork(str(path), "l", str(ROOT), datetime.now(UTC)))
    if report.fault is not None:
        raise Defect(report.fault)
    return bool(report.copies) and not report.rejected


def _judge_receipt(data: bytes) -> bool:
    path = _put("receipts/share-1-000002", data)
    try:
        result = read_result(path)
        for receipt in ReceiptReader(path.parent, "i").read_new(lambda name: True):
            list(Account().take_in(receipt))
    except (CfetchError, *NOT_DECODED):
        return False
    if result is not None:
        report = TaskReport(instant="i", epoch=1, share=2, task=3, executor=result.executor)
        again = read_result(_put("share-1-000003", encode_report(report, result.records)))
        assert again is not None
        _same(sorted(result.records, key=repr), sorted(again.records, key=repr))
    return result is not None


def _receipt() -> bytes:
    report = TaskReport(instant="i", epoch=1, share=2, task=3)
    done = [record(0, 100, attempt()), record(1, 100, attempt(outcome="error"), status="failed")]
    digest = make_digest(done[:1], slots=1)
    second = msgspec.structs.replace(report, number=1, digest=digest)
    return encode_report(report, done[:1]) + encode_report(second, done[1:])


def _sum_receipt(data: bytes) -> bytes:
    """Right check sums for the first report; the rest is its block."""
    head, _, block = data.partition(b" ")[2].partition(b"\n")
    stated = re.sub(rb'"block_sum":\d+', b'"block_sum":%d' % zlib.crc32(block), head)
    stated = re.sub(rb'"block_bytes":\d+', b'"block_bytes":%d' % len(block), stated)
    return b"%08x %b\n%b" % (zlib.crc32(stated), stated, block)


_NONCE = bytes(32)


def _judge_frames(data: bytes) -> bool:
    """The hub's side of a connection: what ends it, and nothing else, may come out of its bytes."""

    async def talk() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data(data)
        reader.feed_eof()
        registry = TaskRegistry(StragglerConfig(), 10)
        decoder = msgspec.msgpack.Decoder(type(hub_beat()))
        channel, now_s = Channel(_NONCE, HUB, _NONCE, _NONCE), 1.0
        task = HubConnection(reader, Mock(asyncio.StreamWriter), channel, channel)
        while True:
            beat = decoder.decode(await task.read(MOST_BEAT_BYTES))
            orders = registry.answer(beat, now_s)
            _same(orders, msgspec.msgpack.decode(msgspec.msgpack.encode(orders), type=type(orders)))
            registry.view(now_s)
            now_s += 3.0

    try:
        asyncio.run(talk())
    except EOFError:
        return True
    except BAD_INPUT:
        pass
    return False


def _seal_frames(data: bytes) -> bytes:
    channel = Channel(_NONCE, HUB, _NONCE, _NONCE)
    return channel.seal(data[:MOST_BEAT_BYTES]) + channel.seal(_beat_bytes())


def _beat_bytes() -> bytes:
    return msgspec.msgpack.encode(
        hub_beat(
            active=[active_attempt()],
            under_way=2,
            demands={"h": Demand(1, 2, 3)},
            samples=[SpeedSample("h", 5, 6.0)] * 8,
            finished=8,
        )
    )


def _reports() -> Iterator[Reader]:
    lines = _metrics_lines()
    array = b"[" + b",".join(lines.splitlines()) + b"]"
    yield Reader(
        "metrics", [lines, b"[\n" + b",\n".join(lines.splitlines()) + b"\n]\n", array], _judge_metrics
    )
    yield Reader("metrics-loading", [lines, array, gzip.compress(lines, mtime=0)], _judge_loading)
    yield Reader("metrics-loading-in-gzip", [lines, array], _judge_loading, _gzip)
    yield Reader("receipt", [_receipt()], _judge_receipt)
    yield Reader(
        "receipt with sums",
        [_sum_receipt(_receipt().splitlines(keepends=True)[0])],
        _judge_receipt,
        _sum_receipt,
    )
    yield Reader("hub-frames", [_seal_frames(_beat_bytes())], _judge_frames)
    yield Reader("hub-beat", [_beat_bytes()], _judge_frames, _seal_frames)


# --- feeds

_LINEAGE = Lineage(
    FeedId("http://h", "f"),
    "g",
    (
        Range("2", KeyRange(0, 1 << 127), frozenset({"1"})),
        Range("3", KeyRange(1 << 127, 1 << 128), frozenset({"1"})),
    ),
    {"1": Closed(ALL_KEYS, 0, 9)},
)
_CHANGES = (Change(5, 7, SafePath("a"), _ENTRY), Change(6, 8, SafePath("b"), None))
_CHECKPOINT = Checkpoint(
    _LINEAGE,
    ALL_KEYS,
    (
        Token(KeyRange(0, 1 << 127), Position("1", 5)),
        Token(KeyRange(1 << 127, 1 << 128), Position("3", 10), is_new=True),
    ),
    _CHANGES,
)


def _judge_checkpoint(data: bytes) -> bool:
    try:
        checkpoint = read_checkpoint(_put("checkpoint", data))
    except CfetchError:
        return False
    assert checkpoint is not None
    _same(checkpoint, read_checkpoint(_put("checkpoint", encode_checkpoint(checkpoint))))
    return True


_STEP = msgspec.msgpack.encode([_Round([make_row(_CHANGES[1])], [make_row(_CHANGES[0])])])
_NEXT = msgspec.json.encode(_Next(0, msgspec.Raw(encode_checkpoint(_CHECKPOINT))))


def _judge_journal(step: bytes, following: bytes) -> bool:
    _put(f"journal/{NEXT}", following)
    try:
        return Journal(_put(f"journal/{STEP}", step).parent).read_unfinished() is not None
    except CfetchError:
        return False


def _drive(coroutine: Any) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise Defect("it waits")


def _http_judge(status: int) -> Callable[[bytes], bool]:
    def judge(data: bytes) -> bool:
        async def ask(*_: object, **__: object) -> SimpleNamespace:
            return SimpleNamespace(status=status, headers=CIMultiDict({"ETag": '"f-1"'}), body=data)

        web: Any = SimpleNamespace(ask=ask)
        was_read = False
        for ask_it in (
            lambda feed: feed.ranges(None),
            lambda feed: feed.info("1", "2"),
            lambda feed: feed.read("2", Position("1", 5), ALL_KEYS, 10),
            lambda feed: feed.split("1"),
        ):
            feed: Any = http.HttpSource(SecretUrl("http://h/"), web)
            feed._feed = "f"
            was_read |= _is_read(lambda: _drive(ask_it(feed)))  # noqa: B023
        return was_read

    return judge


def _is_read(call: Callable[[], object]) -> bool:
    try:
        call()
    except CfetchError as error:
        str(error).encode()
        return False
    return True


_CHANGE_ROWS = (
    b'[{"lsn": 6, "op": "upsert", "path": "a", "key": "' + b"0" * 32 + b'", "url": "files/a", "size": 3,'
    b' "sha256": "' + SHA.encode() + b'"}, {"lsn": 7, "op": "delete", "path": "b"}]'
)  # fmt: skip
_PAGES = [
    b'{"schema": "cfetch.feed/1", "feed": "f", "ranges": [{"id": "2", "keys": "'
    + b"0" * 32
    + b'-", "ancestors": ["1"]}]}',
    b'{"schema": "cfetch.feed/1", "feed": "f", "range": "1", "first": 0, "last": 9}',
    b'{"schema": "cfetch.feed/1", "feed": "f", "range": "1", "next_lsn": 8, "changes": '
    + _CHANGE_ROWS
    + b"}",
    b'{"schema": "cfetch.feed/1", "feed": "f", "range": "1", "children": ["2", "3"]}',
]
_GONE = [b'{"schema": "cfetch.feed/1", "error": "gone", "code": 1002}']
_LOG = (
    b'{"lsn":5,"op":"upsert","path":"a","key":"' + b"0" * 32 + b'","url":"files/a","size":3}\n'
    b'{"lsn":7,"op":"delete","path":"b","key":"' + b"1" * 32 + b'"}\n'
)
_SEGMENT_INDEX = (
    b'{"format": "cfetch.segments/1", "feed": "f", "base_url": "http://h/d/", "ranges": [{"id": "1",'
    b' "keys": "' + b"0" * 32 + b'-", "ancestors": [], "first": 0, "kept_from": 0,'
    b' "segments": [{"path": "segments/1-0", "first": 5}]}]}'
)


def _judge_index(data: bytes) -> bool:
    try:
        index = parse_index(data)
    except CfetchError as error:
        str(error).encode()
        return False
    _same(index, parse_index(index.encode()))
    return True


def _judge_segment(data: bytes) -> bool:
    class Files:
        account = "http://h"
        base_url = "http://h/"

        async def fresh(self, name: str, most: int) -> bytes | None:
            return _SEGMENT_INDEX if name == INDEX_NAME else None

        async def tail(self, path: str, begin: int, most: int) -> bytes | None:
            return data[begin : begin + most]

    async def read() -> None:
        files: Any = Files()
        await SegmentSource(files).read("1", Position("1", 5), ALL_KEYS, 10)

    return _is_read(lambda: _drive(read()))


def _judge_keys(data: bytes) -> bool:
    text = data.decode("utf-8", "replace")
    try:
        keys = parse_keys(text)
    except FieldError:
        return False
    _same(text, format_keys(keys) if text.endswith("-") or keys.high < 1 << 128 else text)
    return True


def _feeds() -> Iterator[Reader]:
    yield Reader("checkpoint", [encode_checkpoint(_CHECKPOINT)], _judge_checkpoint)
    yield Reader("journal-step", [_STEP], lambda data: _judge_journal(data, _NEXT))
    yield Reader("journal-next", [_NEXT], lambda data: _judge_journal(_STEP, data))
    yield Reader("feed-page", _PAGES, _http_judge(200))
    yield Reader("feed-gone", _GONE, _http_judge(410))
    yield Reader("feed-index", [_SEGMENT_INDEX], _judge_index)
    yield Reader("feed-segment", [_LOG], _judge_segment)
    yield Reader("feed-keys", [b"0" * 32 + b"-", b"0" * 32 + b"-" + b"8" + b"0" * 31], _judge_keys)


# --- configuration


def _judge_yaml(data: bytes) -> bool:
    try:
        yaml_document.load(_put("config.yaml", data))
    except CfetchError as error:
        str(error).encode()
        return False
    return True


def _config() -> Iterator[Reader]:
    sample = b"concurrency: 8\nto: [a, 'b']\nlist:\n  - x: 1\n    y: |\n      text\n# end\n"
    yield Reader("yaml", [sample], _judge_yaml)


READERS = {
    reader.name: reader for part in (_manifests, _timeline, _reports, _feeds, _config) for reader in part()
}
