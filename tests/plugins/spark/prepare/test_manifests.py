"""Manifests prepared by Spark: the same entries and the same faults as on one machine, each in one share."""

import csv
import gzip
import io
import json
import random
import stat
from collections import Counter
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cfetch.base.errors import ManifestError, UsageError
from cfetch.manifest.folding import KEEPS_NAMES, Folding
from cfetch.plugins.spark.prepare.cut import GIANT, QUEUE, SMALL, SharePiece, deal_pieces
from cfetch.plugins.spark.prepare.manifests import find_manifests, prepare
from cfetch.plugins.spark.prepare.prepared import load_prepared
from cfetch.plugins.spark.prepare.rows import cut_units, read_unit
from cfetch.tasks.shares.cut import MICRO, count_shares
from tests.manifest.frozen import freeze

SMALL_UNIT = 4_000  # bytes: each manifest here is cut


def entries_of(plan):
    """All entries in the order of their ids."""
    shares = [plan.share_files.read_share(number).entries for number in range(len(plan.cost_s))]
    return sorted((one for share in shares for one in share), key=lambda one: one.id)


def frozen(path, folder, **options):
    """The same on one machine."""
    folder.mkdir()
    with path.open("rb") as file:
        return freeze(file, name=str(path), directory=folder, **options)


def rejected_of(plan):
    """The whole table."""
    paths = sorted(Path(plan.directory, "rejected").iterdir())
    rows = [row for path in paths for row in pq.read_table(path).to_pylist()]
    return sorted((row["source"], row["line"], row["reason"]) for row in rows)


def good_rows(dice, name, count):
    """Entries of one manifest; paths of two manifests never meet."""
    return [
        {
            "url": f"https://h{dice.randrange(9)}.example/{name}/{index}?sig={dice.random()}",
            "size": dice.choice([None, dice.randrange(1 << 40)]),
            "path": f"{name}/{dice.choice('abc')}/Käse {index}",
            "offset": dice.randrange(99),
            "expires_at": dice.choice([None, 1_800_000_000 + dice.randrange(99)]),
            "headers": dice.choice([None, {"X-A": f"{index}"}]),
            "mirrors": dice.choice([None, ["http://m.example/f"]]),
            "sha256": dice.choice([None, "0" * 64]),
        }
        for index in range(count)
    ]


def spoilt(dice, rows):
    """The same rows with slips planted."""
    rows = [dict(row) for row in rows]
    slips = [
        lambda row: row | {"url": "sftp://h/x"},
        lambda row: row | {"path": "../up"},
        lambda row: row | {"sha256": "abc"},
        lambda row: row | {"size": -2},
        lambda row: row | {"path": rows[0]["path"], "url": "https://other.example/x"},
        lambda row: row | {"path": rows[1]["path"].swapcase()},
        lambda row: row | {"path": rows[2]["path"] + "/beneath"},
        lambda row: row | {"path": rows[2]["path"].rpartition("/")[0]},
    ]
    for slip in slips:
        at = dice.randrange(3, len(rows))
        rows[at] = slip(rows[at])
    return rows


def write(path, rows):
    """In the format that the ending names."""
    rows = [{key: value for key, value in row.items() if value is not None} for row in rows]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode()))
    elif path.suffix == ".jsonl":
        path.write_text(lines)
    elif path.suffix == ".csv":
        names = sorted({name for row in rows for name in row})
        file = io.StringIO()
        table = csv.DictWriter(file, names)
        table.writeheader()
        cells = {"headers": json.dumps, "mirrors": json.dumps}
        table.writerows({key: cells.get(key, str)(value) for key, value in row.items()} for row in rows)
        path.write_text(file.getvalue())
    else:
        table_rows = [
            {key: json.dumps(value) if key in ("headers", "mirrors") else value for key, value in row.items()}
            for row in rows
        ]
        columns = {key: [row.get(key) for row in table_rows] for row in table_rows for key in row}
        pq.write_table(pa.table(columns), path, row_group_size=7)
    return path


@pytest.fixture(scope="module")
def mixed(spark, tmp_path_factory):
    """A directory of manifests of all formats, prepared; the manifests."""
    dice, folder = random.Random(1), tmp_path_factory.mktemp("mixed")
    names = ["a.jsonl", "b[1]*.parquet", "c.csv", "ü {x}.jsonl.gz", "e.parquet"]
    all_rows = [good_rows(dice, f"n{at}", 60) for at in range(len(names))]
    all_rows[0] += all_rows[0][3:6]  # equal repeats, in one manifest and across manifests
    all_rows[1] += [all_rows[0][7], all_rows[1][8]]
    for name, rows in zip(names, all_rows, strict=True):
        write(folder / name, rows)
    (folder / "_SUCCESS").touch()
    sources = find_manifests([folder])
    assert [one.name for one in sources] == sorted(names)
    target_folder = tmp_path_factory.mktemp("prepared") / "odd {name} [*]"
    return prepare(spark, sources, target_folder, slots=3, unit_bytes=SMALL_UNIT), sources


def test_entries_are_those_of_one_machine(mixed, tmp_path):
    plan, sources = mixed
    found, first = [], 0
    joined = tmp_path / "joined.jsonl"
    with joined.open("w") as file:
        for at, path in enumerate(sources):
            with frozen(path, tmp_path / str(at)) as one:
                found += [one.entry(index) for index in range(len(one))]
                first += len(one)
            if path.suffix == ".jsonl":
                file.write(path.read_text())
    entries = entries_of(plan)
    kept = [one for at, one in enumerate(found) if one.path not in {before.path for before in found[:at]}]
    stated = [(one.url, one.path, one.size_bytes, one.headers, one.digest, one.line) for one in entries]
    assert stated == [(one.url, one.path, one.size_bytes, one.headers, one.digest, one.line) for one in kept]
    assert [one.id for one in entries] == list(range(len(entries)))
    assert (plan.rejected, plan.merged) == (0, 5)
    assert plan.total_bytes == sum(one.size_bytes or 0 for one in entries)
    assert plan.sizes_unknown == sum(one.size_bytes is None for one in entries)
    assert load_prepared(Path(plan.directory)) == plan


def test_files_are_their_owners_alone_and_no_stage_stays(mixed):
    plan, _ = mixed
    below = [Path(plan.directory), *Path(plan.directory).rglob("*")]
    modes = {(one.is_dir(), stat.S_IMODE(one.stat().st_mode)) for one in below}
    assert modes == {(True, 0o700), (False, 0o600)}
    assert {one.name for one in Path(plan.directory).iterdir()} == {"about.json", "plan", "rejected"}


def test_a_plan_is_laid_down_beside_others_until_they_are_forgotten(mixed, tmp_path):
    """A run may be reading the one before; entries are found in it, share by share and by name."""
    plan, _ = mixed
    plan.save(tmp_path)
    before = load_prepared(tmp_path)
    plan.save(tmp_path)
    last = load_prepared(tmp_path)
    plan.save(tmp_path)
    (tmp_path / "about.json").write_bytes(msgspec.json.encode(last))  # the third has lost a race
    assert len(list(tmp_path.glob("plan-*"))) == 3
    before.forget_others(tmp_path)
    assert {one.name for one in tmp_path.glob("plan-*")} == {before.folder, last.folder}
    plan.forget_others(tmp_path)
    assert [one.name for one in tmp_path.glob("plan-*")] == [last.folder]
    modes = {(one.is_dir(), stat.S_IMODE(one.stat().st_mode)) for one in tmp_path.rglob("*")}
    assert {(True, 0o700), (False, 0o600)} >= modes - {(False, 0o644)}
    entries = list(last.entries())
    assert sorted(one.id for one in entries) == list(range(len(plan)))
    ids = [one.id for one in entries]
    assert [number for some in last.share_files.read_ids() for number in some] == ids
    assert [last.find(one.path) for one in entries[::40]] == ids[::40]
    assert last.find(entries[0].path[:-1]) is None


def test_a_second_plan_in_one_directory_is_refused(mixed, spark):
    plan, sources = mixed
    with pytest.raises(UsageError, match="has a prepared plan already"):
        prepare(spark, sources, Path(plan.directory), slots=3)


def test_one_manifest_has_the_digest_ids_and_shares_of_every_run(spark, tmp_path):
    dice = random.Random(2)
    header = {"version": 1, "base_url": "https://base.example/d/", "headers": {"X-B": "secret"}}
    rows = [header, *good_rows(dice, "n", 300)]
    rows[200] |= {"url": "relative?x=1"}
    for at in (100, 101, 102):  # their sum needs more than 64 bits
        rows[at] |= {"size": 2**63 - 1}
    path = write(tmp_path / "m.jsonl", rows)
    plans = [
        prepare(spark, [path], tmp_path / f"p{size}", slots=4, unit_bytes=size, per_host=4)
        for size in (SMALL_UNIT, 1 << 20)
    ]
    with frozen(path, tmp_path / "one") as one:
        for plan in plans:
            assert (plan.digest, plan.total_bytes) == (one.digest, one.total_bytes)
            assert entries_of(plan) == [one.entry(index) for index in range(len(one))]
            assert plan.headers == one.headers
    first, second = ([plan.share_files.read_share(at) for at in range(len(plan.cost_s))] for plan in plans)
    assert first == second
    assert plans[0].cost_s == plans[1].cost_s == sorted(plans[0].cost_s, reverse=True)
    assert plans[0].hosts == 10
    assert plans[0].floors_s == plans[1].floors_s
    assert len(plans[0].floors_s) == 10


def test_faults_are_those_of_one_machine(spark, tmp_path):
    dice, folder = random.Random(3), tmp_path / "manifests"
    folder.mkdir()
    expected = []
    for at in range(9):
        name = f"m{at}.{('jsonl', 'csv', 'parquet')[at % 3]}"
        path = write(folder / name, spoilt(dice, good_rows(dice, f"n{at}", 60)))
        if at == 3:
            lines = path.read_bytes().split(b"\n")
            lines[20:20] = [
                b"{not json",
                b"",
                b'{"url": "http://h/a", "url": "b"}',
                b'["x"]',
                b'{"version": 1}',
            ]
            path.write_bytes(b"\n".join(lines))
            headers = [b'{"version": 1, "x": "' + b"-" * 600 + b'"}'] * 12  # one of them begins a unit
            path.write_bytes(path.read_bytes() + b"\n".join(headers))
        if at == 6:
            # What follows a broken byte is not judged, in whatever unit; the reader's window is 256 KiB.
            lines = path.read_bytes().splitlines()
            again = {"url": "http://h/z", "path": json.loads(lines[0])["path"]}
            pad = [{"url": "http://h/" + "-" * 8000, "path": f"n6/pad{index}"} for index in range(40)]
            lines += [json.dumps(row).encode() for row in pad]
            lines += [b"\xff" * 5000, json.dumps(again).encode(), b"{not json"]
            path.write_bytes(b"\n".join(lines))
        with pytest.raises(ManifestError) as caught:
            frozen(path, tmp_path / str(at))
        assert caught.value.total == len(caught.value.problems)
        expected += [(str(path), one.line, one.message) for one in caught.value.problems]
    sources = find_manifests([folder])
    plan = prepare(spark, sources, tmp_path / "plan", slots=2, unit_bytes=SMALL_UNIT)
    assert rejected_of(plan) == sorted(expected)
    assert plan.rejected == len(expected)
    firsts = [(one.source, one.line, one.reason) for one in plan.first_rejected]
    assert firsts == sorted(expected)[:100]
    with pytest.raises(ManifestError) as caught:
        plan.raise_if_rejected(sources)
    assert caught.value.total == len(expected)
    assert not (tmp_path / "plan" / "about.json").exists()


def test_entries_that_clash_are_marked_as_on_one_machine(spark, tmp_path):
    """With the same message, however many tasks have read the list; all others come."""
    dice = random.Random(5)
    rows = good_rows(dice, "n", 300)
    for at, path in {50: rows[7]["path"], 120: "D/x", 121: "d/y", 200: "d", 260: "D", 261: "e."}.items():
        rows[at] = {"url": f"http://h/{at}", "path": path, "size": at}
    rows[290] = dict(rows[50])  # another that repeats one which clashes
    rows[291] = {"url": "http://h/e", "path": "e"}
    path = write(tmp_path / "m.jsonl", rows)
    for number, folding in enumerate((KEEPS_NAMES, Folding(ends=".", case=True))):
        plan = prepare(
            spark, [path], tmp_path / f"p{number}", slots=4, unit_bytes=SMALL_UNIT, folding=folding
        )
        with frozen(path, tmp_path / f"one{number}", folding=folding) as one:
            assert entries_of(plan) == [one.entry(index) for index in range(len(one))]
            assert plan.digest == one.digest
        clashing = {entry.path for entry in entries_of(plan) if entry.clash is not None}
        assert {"d", "D", rows[7]["path"]} <= clashing
        assert ("e" in clashing) is bool(number)


def test_entries_of_several_lists_that_clash_name_both_lists(spark, tmp_path):
    """With the line of each, or its number where a list has no lines."""
    x = write(
        tmp_path / "x.jsonl", [{"url": "https://h/1", "path": "c"}, {"url": "https://h/2", "path": "d"}]
    )
    y = write(tmp_path / "y.jsonl", [{"url": "https://h/3", "path": "c"}])
    z = write(tmp_path / "z.parquet", [{"url": "https://h/4", "path": "d"}])
    plan = prepare(spark, [x, y, z], tmp_path / "plan", slots=2, unit_bytes=SMALL_UNIT)
    messages = [entry.clash.message for entry in entries_of(plan) if entry.clash is not None]
    assert plan.rejected == 0
    assert [message.partition("hash: ")[2].partition(";")[0] for message in messages] == [
        f"{x} line 1 and {y} line 1",
        f"{x} line 2 and {z} entry 0 (counted from 0)",
    ]


def test_each_entry_has_the_headers_of_its_own_manifest(spark, tmp_path):
    """Where manifests differ; its own outweigh them."""
    headers = [{"X-A": "of a", "X-B": "of a"}, {"X-A": "of b"}]
    for name, some in zip("ab", headers, strict=True):
        own = {"url": f"http://h/{name}2", "headers": {"X-A": "mine"}}
        rows = [{"version": 1, "headers": some}, {"url": f"http://h/{name}1"}, own]
        write(tmp_path / f"{name}.jsonl", rows)
    write(tmp_path / "c.jsonl", [{"url": "http://h/c1"}])
    sources = find_manifests([tmp_path])
    plan = prepare(spark, sources, tmp_path / "plan", slots=1)
    found = {one.path: {name: text.reveal() for name, text in one.headers} for one in entries_of(plan)}
    assert found == {
        "a1": {"X-A": "of a", "X-B": "of a"},
        "a2": {"X-A": "mine", "X-B": "of a"},
        "b1": {"X-A": "of b"},
        "b2": {"X-A": "mine"},
        "c1": {},
    }
    assert plan.headers == ()


@pytest.mark.parametrize(("stated", "size"), [(-1, None), ("-1", None), ("7", 7), (7, 7), (None, None)])
def test_a_size_that_is_not_known_or_a_text_is_read_as_on_one_machine(tmp_path, stated, size):
    """In each form that Spark cuts into units."""
    row = {"url": "http://h.test/a", "size": stated}
    (tmp_path / "m.jsonl").write_text(json.dumps(row) + "\n")
    (tmp_path / "m.csv").write_text(f"url,size\n{row['url']},{'' if stated is None else stated}\n")
    pq.write_table(pa.Table.from_pylist([row]), tmp_path / "m.parquet")
    for name in ("m.jsonl", "m.csv", "m.parquet"):
        (unit,) = cut_units(0, tmp_path / name, None, 1 << 20)
        staged = pa.Table.from_batches(read_unit(unit, None)).to_pylist()
        assert [row["size"] for row in staged if row["host"]] == [size]


@pytest.mark.parametrize("unit_bytes", [1, 7, 50, 10_000])
def test_units_are_whole_lines_and_leave_none_out(tmp_path, unit_bytes):
    path = tmp_path / "m.jsonl"
    path.write_bytes(b"".join(b'{"url": "http://h/%d"}\r\n' % index for index in range(40)) + b'{"url": ')
    units = cut_units(0, path, None, unit_bytes)
    data = path.read_bytes()
    parts = [data[one.begin : one.end] for one in units]
    assert b"".join(parts) == data
    assert all(one.endswith(b"\n") for one in parts[:-1])


def test_lanes_are_even_and_giants_alone():
    aim = 60 * MICRO
    queues = 64 * count_shares(10 * aim, 1000, aim)
    pieces = [SharePiece(QUEUE, "big", at, 10 * aim // queues, 1, 1) for at in range(queues)]
    pieces += [SharePiece(SMALL, "", at, aim // 3, 5, 1 + (at == 0)) for at in range(9)]
    pieces += [SharePiece(GIANT, "big", 5, 5 * aim, 1, 1)]
    found = deal_pieces(pieces, aim)
    assert found.cost_s[0] == 300
    assert sorted(found.cost_s[1:]) == pytest.approx([60] * 13)
    files = Counter[int]()
    for piece, share in zip(pieces, found.share_of, strict=True):
        files[share] += piece.files
    assert Counter(files.values()) == {1: 1, queues // 10: 10, 15: 3}
    assert sorted(found.sharers) == [1, 1, 2, *[11] * 11]
    assert found.share_of == deal_pieces(pieces, aim).share_of
    assert set(found.host) == {"big", ""}


def test_large_hosts_take_turns():
    """As in the cut of files: a host that throttles holds its part of the slots at any time."""
    aim = 60 * MICRO
    pieces = [SharePiece(QUEUE, host, bucket, aim // 4, 9, 0) for host in "abcd" for bucket in range(40)]
    hosts = deal_pieces(pieces, aim).host
    assert len(hosts) == 40
    assert all(set(hosts[first : first + 4]) == set("abcd") for first in range(0, 40, 4))
