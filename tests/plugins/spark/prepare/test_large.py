"""Manifests that Spark prepares, through the use case: the same downloads, and the driver holds no entry."""

import csv
import json
import os
import pickle
import re
import signal
import threading
import time
from dataclasses import replace

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cfetch.app.download import prepare
from cfetch.app.planned import pending, prepare_planned
from cfetch.app.plans import roll_back_plan
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, Interrupted, ManifestError, UsageError
from cfetch.base.events import EntryFinished, Event, Progress, RunNoted
from cfetch.plugins.spark.open_shares import find_open_shares
from cfetch.plugins.spark.prepare import large
from cfetch.plugins.spark.prepare.cut import COARSEST, EVENEST, MOST_PIECES, count_pieces_per_share
from cfetch.plugins.spark.prepare.large import run_interruptibly
from cfetch.plugins.spark.prepare.prepared import PreparedPlan, load_prepared
from cfetch.show.live.preview import preview_lines
from cfetch.tasks.hub.account import Account
from cfetch.tasks.shares import cut
from cfetch.tasks.shares.cut import ExpectedPace
from tests.engine.drive import tree
from tests.tasks.scene import asked, download, files_of, served, whole, write_manifest

pytestmark = pytest.mark.usefixtures("spark")

FILES = files_of(24)
NAMES = list(FILES)


@pytest.fixture
def small_shares(monkeypatch):
    """Shares of a few files, one after another on a slot."""
    monkeypatch.setattr(cut, "SHORTEST_S", 0.05)


def rows_of(origin, names):
    """Entries of a manifest, with absolute links."""
    return [
        {
            "url": origin.url + name,
            "path": name,
            "size": FILES[name].size_bytes,
            "sha256": FILES[name].sha256(),
        }
        for name in names
    ]


def directory_of(folder, origin, names=NAMES):
    """The files' manifests in three formats; three of them are named twice."""
    folder.mkdir()
    third = len(names) // 3
    lines = rows_of(origin, [*names[:third], names[1]])
    (folder / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in lines))
    table = rows_of(origin, [*names[third : 2 * third], *names[:2]])
    with (folder / "b.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, list(table[0]))
        writer.writeheader()
        writer.writerows(table)
    pq.write_table(pa.Table.from_pylist(rows_of(origin, names[2 * third :])), folder / "c.parquet")
    return folder


def told_of(summary):
    """A summary without what differs between any two runs."""
    found = msgspec.structs.asdict(summary)
    return {key: found[key] for key in found if key not in ("instant", "elapsed_s", "rate_bps", "metrics")}


def below(state):
    """The names of cfetch's own files."""
    return {str(path.relative_to(state)) for path in state.rglob("*") if path.is_file()}


def test_a_directory_of_formats_is_downloaded_as_one_manifest_is(tmp_path):
    """Tree and summary; what is repeated is told; the plan goes when it is completed."""
    with served(FILES) as origin:
        local = download(write_manifest(tmp_path / "m.json", origin, FILES), tmp_path / "local")
    told: list[Event] = []
    with served(FILES) as origin:
        folder = directory_of(tmp_path / "manifests", origin)
        spark = download(folder, tmp_path / "spark", told.append, engine="spark")
        assert asked(origin) == dict.fromkeys(NAMES, 1)
    assert told_of(spark) == told_of(local)
    assert tree(tmp_path / "spark") == tree(tmp_path / "local") == whole(FILES)
    assert "3 repeated entries merged" in [event.note for event in told if isinstance(event, RunNoted)]
    ended = [event.record for event in told if isinstance(event, EntryFinished)]
    assert sorted(record.id for record in ended) == list(range(len(FILES)))
    left = {name.partition("/")[0] for name in below(tmp_path / "spark/.cfetch")}
    assert left == {"ballast", "format", "metrics", "timeline"}


def test_all_is_the_groups(tmp_path):
    """Also what tasks have made, and a plan that waits: another member may go on with it."""
    with served(FILES) as origin:
        folder = directory_of(tmp_path / "manifests", origin, [*NAMES])
        (folder / "d.jsonl").write_text(json.dumps({"url": f"{origin.url}nothing", "path": "x"}) + "\n")
        summary = download(folder, tmp_path / "to", engine="spark", group=True)
    assert (summary.files.done, summary.files.failed) == (len(FILES), 1)
    made = list((tmp_path / "to").rglob("*"))
    assert any(path.match("plans/*/plan-*/*") for path in made)
    modes = [path.stat().st_mode for path in made]
    closed = [path for path, mode in zip(made, modes, strict=True) if mode >> 3 & 0o7 != mode >> 6 & 0o7]
    assert closed == []


class Died(BaseException):
    """As if the driver were no more: nothing of ours catches it."""


def mode_of(path):
    """0 for a file that has just gone: a task that has outlived its driver may still be at work."""
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return 0


def test_a_driver_that_dies_is_followed_by_one_that_goes_on(tmp_path, small_shares):
    """Only what was not brought is asked for again; what was taken away since is."""
    done: list[str] = []

    def die(event):
        if isinstance(event, EntryFinished):
            done.append(event.record.path)
        if isinstance(event, Progress) and done:
            raise Died

    options = {"engine": "spark", "concurrency": 1}
    with served(FILES) as origin:
        folder = directory_of(tmp_path / "manifests", origin)
        with pytest.raises(Died):
            download(folder, tmp_path / "to", die, **options)
        plans = tmp_path / "to/.cfetch/plans"
        assert [path for path in (plans, *plans.rglob("*")) if mode_of(path) & 0o077] == []
        (laid_down,) = plans.iterdir()
        assert len(load_prepared(laid_down)) == len(FILES)
        (tmp_path / "to" / done[0]).unlink()
        before, standing = asked(origin), set(tree(tmp_path / "to"))
        told: list[Event] = []
        summary = download(folder, tmp_path / "to", told.append, **options)
        again = asked(origin) - before
    assert 0 < len(done) < len(FILES)
    assert summary.instant == laid_down.name
    assert (summary.exit_code, summary.files.done + summary.files.skipped) == (0, len(FILES))
    assert again[done[0]] == 1
    assert not set(again) & standing
    assert tree(tmp_path / "to") == whole(FILES)
    assert list(plans.parent.glob("plans/*")) == []


def test_faults_are_told_and_kept_in_a_table(tmp_path):
    """As on one machine, before anything is asked for; and where all of them are, which is the group's.

    Another member reads why there is no plan.
    """
    with served(FILES) as origin:
        folder = directory_of(tmp_path / "manifests", origin)
        bad = [{"url": "sftp://h/x"}, {"url": origin.url + "up", "path": "../up"}]
        (folder / "z.jsonl").write_text("".join(json.dumps(row) + "\n" for row in bad))
        with pytest.raises(ManifestError) as caught:
            download(folder, tmp_path / "to", engine="spark", group=True, state=str(tmp_path / "state"))
        assert asked(origin) == {}
    assert (caught.value.total, caught.value.exit_code) == (2, 2)
    assert f"{folder}/z.jsonl:1: url: its scheme is" in str(caught.value)
    assert "manifests: " not in str(caught.value)
    table = re.search(r"all of them, as Parquet: (.+)$", str(caught.value))
    assert table
    assert [row["line"] for row in pq.read_table(table[1]).sort_by("line").to_pylist()] == [1, 2]
    assert {name.partition("/")[0] for name in below(tmp_path / "state")} == {"rejected"}
    modes = [path.stat().st_mode for path in (tmp_path / "state").rglob("*") if "rejected" in path.parts]
    assert all(mode >> 3 & 0o7 == mode >> 6 & 0o7 for mode in modes)


def test_what_one_machine_reads_stays_with_it(tmp_path, monkeypatch):
    """Small files, formats that are no tables, and directories where Spark is not asked for."""
    path = tmp_path / "m.jsonl"
    path.write_text('{"url": "http://h/x", "size": 1}\n' * 9)
    assert not large.is_large(path, None)
    monkeypatch.setattr(large, "LARGE_BYTES", path.stat().st_size)
    assert large.is_large(path, None)
    assert [large.is_large(path, slots) for slots in (4, 5)] == [False, True]
    assert not large.is_large(
        write_manifest(tmp_path / "m.json", type("O", (), {"url": "http://h/"}), FILES), None
    )
    assert not large.is_large(tmp_path / "none.jsonl", None)
    settings = Settings(to=(str(tmp_path / "to"),))
    (tmp_path / "more").mkdir()
    for name in ("a.txt", "b.txt", "_c"):
        (tmp_path / "more" / name).write_text(f"http://h/{name}\n")
    with prepare(str(tmp_path / "more"), settings, env={}) as prepared:
        assert [entry.path for entry in prepared.plan.entries()] == ["a.txt", "b.txt"]
    spark = replace(settings, engine="spark")
    with (
        pytest.raises(ConfigError, match="failed_from is for one manifest"),
        prepare(str(tmp_path), replace(spark, failed_from="x.jsonl"), env={}),
    ):
        pass
    two = replace(spark, to=(str(tmp_path / "to"), str(tmp_path / "too")))
    with pytest.raises(UsageError, match="give one --to"), prepare(str(tmp_path), two, env={}):
        pass


def test_a_signal_ends_the_preparation(spark, tmp_path):
    """Its jobs are called off, and whoever listened before listens again; nothing is left."""
    handler = signal.getsignal(signal.SIGTERM)
    begun, over = tmp_path / "begun", threading.Event()

    def task(rows):
        begun.touch()
        time.sleep(600)
        yield from rows

    def work():
        try:
            return spark.range(0, 1, 1, 1).mapInArrow(task, "id long").collect()
        finally:
            over.set()

    def send():
        while not begun.exists():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=send).start()
    with pytest.raises(Interrupted) as caught:
        run_interruptibly(spark, work)
    assert caught.value.signal_number == signal.SIGTERM
    assert over.is_set()
    assert signal.getsignal(signal.SIGTERM) is handler
    with pytest.raises(UsageError, match="its own words"):
        run_interruptibly(spark, failing)


def failing():
    """What a preparation may do."""
    raise UsageError("its own words")


def test_batches_of_the_manifest_are_refused(tmp_path):
    """They would be published in part."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    (folder / "m.jsonl").write_text('{"url": "http://h.example/x", "batch": "b"}\n')
    settings = Settings(to=(str(tmp_path / "to"),), engine="spark")
    with pytest.raises(UsageError, match="use --engine local"), prepare(str(folder), settings, env={}):
        pass


def test_clashes_of_a_large_list_are_not_settled_by_spark(tmp_path, monkeypatch):
    """It lists them all in a table; a choice that it would not follow is refused."""
    monkeypatch.setattr(large, "LARGE_BYTES", 1)
    monkeypatch.setattr(large, "LARGEST_BYTES", 1)
    (tmp_path / "m.jsonl").write_text('{"url": "http://h.example/x"}\n')
    settings = Settings(to=(str(tmp_path / "to"),), engine="spark", clash="rename")
    path = str(tmp_path / "m.jsonl")
    with pytest.raises(UsageError, match="--clash rename is for"), prepare(path, settings, env={}):
        pass


def test_a_plan_is_previewed_scheduled_run_and_given_up(tmp_path, monkeypatch):
    """By any command, for as long as the engine is the one that it was cut for."""
    monkeypatch.setattr(large, "LARGE_BYTES", 1)
    monkeypatch.setattr(large, "LARGEST_BYTES", 1)
    to = tmp_path / "to"
    settings = Settings(to=(str(to),), engine="spark")
    with served(FILES) as origin:
        path = tmp_path / "m.jsonl"
        giant = {"url": origin.url + "big", "path": "big", "size": 9 << 30}
        path.write_text("".join(json.dumps(row) + "\n" for row in [*rows_of(origin, NAMES), giant]))
        with prepare(str(path), settings, env={}) as prepared:
            preview = prepared.preview()
            instant = prepared.schedule().instant
        assert pending(settings) == [instant]
        for refused, words in (
            (replace(settings, engine="local"), "engine is local"),
            (replace(settings, metrics=str(to / NAMES[-1])), "where the manifest wants a file"),
        ):
            with prepare_planned(instant, refused, env={}) as planned:
                assert planned is not None
                with pytest.raises(UsageError, match=words):
                    planned.run(lambda _: None)
        with prepare_planned(instant, settings, env={}) as planned:
            assert planned is not None
            summary = planned.run(lambda _: None)
        assert summary is not None
        assert [failure.path for failure in summary.failures] == ["big"]
    plan = to / ".cfetch/plans" / instant
    host = origin.url.partition("//")[2].partition("/")[0]
    assert (preview.files, preview.hosts, preview.more_hosts) == (25, {host: 25}, 0)
    assert preview.batches == len(load_prepared(plan).cost_s)
    lines = preview_lines(preview)
    assert f"   batches  {preview.batches}" in lines
    assert any(re.fullmatch(rf"  at least  {host} takes 5m.*", line) for line in lines), lines
    roll_back_plan(settings, instant, remove=True)
    assert not plan.exists()


def test_what_the_driver_holds_does_not_grow_with_the_entries(tmp_path):
    """Three thousand of them: what is kept of the plan is of shares and hosts; then one bit of an entry."""
    folder = tmp_path / "manifests"
    folder.mkdir()
    rows = [{"url": f"https://h{n % 3}.example/{n}", "path": f"d/{n}", "size": 9} for n in range(3000)]
    (folder / "m.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    settings = Settings(to=(str(tmp_path / "to"),), engine="spark")
    with prepare(str(folder), settings, env={}) as prepared:
        plan = prepared.plan
        assert isinstance(plan, PreparedPlan)
        assert (len(plan), len(plan.cost_s)) == (3000, 2)
        assert len(msgspec.json.encode(plan)) < 1000 + len(plan.directory)
        found = find_open_shares(plan, Account(), tmp_path, pace=ExpectedPace(), slots=2, per_host=None)
        assert len(pickle.dumps(found)) < 1000 + len(plan.directory)
    for count in (0, 1, 100, 10_000, 1_000_000):
        assert COARSEST <= count_pieces_per_share(count) <= EVENEST
        assert count_pieces_per_share(count) * count <= max(MOST_PIECES, COARSEST * count)
