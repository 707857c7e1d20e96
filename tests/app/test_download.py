"""``cfetch download`` as a real process against a real origin: exit codes, signals, re-runs, secrets."""

import asyncio
import json
import os
import signal
import sys
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer import Exit

from cfetch.app.download import prepare
from cfetch.app.plans import clean_plans, roll_back_plan
from cfetch.base.errors import LocalFault
from cfetch.base.events import Event, RunNoted
from cfetch.cli.download import bring
from cfetch.engine.monitor import Monitor
from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.show.metrics import MetricsFile
from cfetch.storage.directory import Directory
from cfetch.storage.publisher import Publisher
from cfetch.timeline import lock
from cfetch.timeline.execution import schedule
from tests.engine.drive import tree

CANARY = "CANARY0123456789"
FILES = {f"d/{i}.bin": Synthetic(f"d/{i}.bin", 1000 * i) for i in range(6)}


@dataclass
class Ended:
    """How the process ended, and what it said."""

    code: int
    out: str
    err: str

    @property
    def summary(self):
        """Standard output, which is exactly one JSON document."""
        return json.loads(self.out)


async def started(*words, env=None, stdin=None):
    clean = {k: v for k, v in os.environ.items() if not k.upper().startswith(("CFETCH_", "DATABRICKS_"))}
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cfetch", "download", *map(str, words)),
        stdin=asyncio.subprocess.DEVNULL if stdin is None else asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=clean | (env or {}),
        cwd=Path(__file__).parents[2],
    )


async def ended(child, stdin=None):
    out, err = await asyncio.wait_for(child.communicate(stdin), 300)
    found = Ended(child.returncode, out.decode(), err.decode())
    assert "Traceback" not in found.err
    return found


async def run(*words, stdin=None, **how):
    return await ended(await started(*words, stdin=stdin, **how), stdin)


def manifest_of(origin, files=FILES, *, digest=True, query="", **more):
    rows = [
        {"url": name + query, "path": name, "size": content.size_bytes}
        | ({"sha256": content.sha256()} if digest else {})
        for name, content in files.items()
    ]
    return json.dumps({"version": 1, "base_url": origin.url, "files": rows, **more}).encode()


def whole(files=FILES):
    return {name: bytes(content.read(0, content.size_bytes)) for name, content in files.items()}


def left_over(root, *, pending=False):
    """Our own files that are neither metrics nor on the timeline; a ``pending`` plan stays, for us alone."""
    stays = {"metrics", "timeline", "ballast", "format", "baseline.json"}
    stays |= {"plans", "heartbeats"} if pending else set()
    found = [p for p in (root / ".cfetch").rglob("*") if p.is_file()]
    assert [p for p in found if p.stat().st_mode & 0o077 and "plans" in p.parts] == []
    return [str(p) for p in found if p.relative_to(root / ".cfetch").parts[0] not in stays]


async def test_a_job_and_its_repetition(tmp_path):
    """All files, exit 0, one JSON document; run again nothing is fetched; a file gone bad is replaced."""
    to = tmp_path / "to"
    async with Origin(FILES) as origin:
        path = tmp_path / "m.json"
        path.write_bytes(manifest_of(origin))
        first = await run(path, "--to", to, "--json")
        assert first.code == 0
        assert tree(to) == whole()
        assert first.summary["schema"] == "cfetch.summary/1"
        assert first.summary["files"] == {"total": 6, "done": 6, "skipped": 0, "failed": 0}
        assert first.summary["bytes"] == {"total": 15_000, "fetched": 15_000, "wasted": 0}
        lines = [json.loads(line) for line in Path(first.summary["metrics"]).read_text().splitlines()]
        assert [line["schema"] for line in lines] == [
            "cfetch.run/1",
            *["cfetch.file/1"] * 6,
            "cfetch.end/1",
        ]

        asked = len(origin.requests)
        (to / "d/3.bin").write_bytes(b"x" * 3000)
        second = await run(path, "--to", to, "--json", "--quiet", "--metrics", tmp_path / "x.json")
        assert [r.path for r in origin.requests[asked:]] == ["d/3.bin"]
    assert second.summary["files"] == {"total": 6, "done": 1, "skipped": 5, "failed": 0}
    assert second.err == ""
    assert [line["schema"] for line in json.loads((tmp_path / "x.json").read_text())][:2] == [
        "cfetch.run/1",
        "cfetch.file/1",
    ]
    assert tree(to) == whole()
    assert left_over(to) == []


async def test_some_entries_fail(tmp_path):
    """Exit 1; the others are done; the failures are named on stderr, in the summary and without secrets."""
    to = tmp_path / "to"
    names = list(FILES)
    faults = {
        names[1]: Fault(kind="status", status=404, first=0),
        names[2]: Fault(kind="status", status=403, first=0),
        names[3]: Fault(kind="reset", after_bytes=10),
    }
    async with Origin(FILES, faults) as origin:
        data = manifest_of(origin, query=f"?sig={CANARY}", headers={"Authorization": CANARY})
        found = await run("-", "--to", to, "--json", stdin=data)
        assert {r.headers["authorization"] for r in origin.requests} == {CANARY}
        assert {r.query for r in origin.requests} == {f"sig={CANARY}"}
    assert found.code == found.summary["exit_code"] == 1
    assert found.summary["status"] == "partial"
    assert {f["path"]: f["kind"] for f in found.summary["failures"]} == {
        names[1]: "refused",
        names[2]: "expired",
    }
    assert names[1] in found.err
    assert names[2] in found.err
    assert tree(to) == {k: v for k, v in whole().items() if k not in names[1:3]}
    files = [p for p in (to / ".cfetch").rglob("*") if p.is_file() and "plans" not in p.parts]
    assert CANARY not in found.out + found.err + "".join(p.read_text(errors="replace") for p in files)
    assert left_over(to, pending=True) == []


async def test_a_manifest_over_http_that_signs_anew(tmp_path):
    """Its refused links are renewed by reading it again; its own URL stays secret."""
    to = tmp_path / "to"
    name = next(iter(FILES))
    async with Origin(FILES, {name: Fault(kind="status", status=403)}) as files:
        versions = iter([manifest_of(files, query="?n=1"), manifest_of(files, query="?n=2")])

        class Signing(dict[str, bytes]):
            """Other links at each reading."""

            def get(self, _key, _default=None):
                return next(versions)

        async with Origin(Signing()) as manifests:
            found = await run(f"{manifests.url}m.json?sig={CANARY}", "--to", to, "--json")
            assert len(manifests.requests) == 2
        assert [r.query for r in files.requests if r.path == name] == ["n=1", "n=2"]
    assert found.code == 0
    assert tree(to) == whole()
    assert CANARY not in found.out + found.err


@pytest.mark.parametrize(
    "manifest", ["HTTPS://127.0.0.1:1/m?sig={}", "s3://b/m?X-Amz-Signature={}", "http://[bad?s={}"]
)
async def test_a_manifest_name_that_cannot_be_used_is_not_echoed_whole(tmp_path, manifest):
    """However it is written, what looks like a link may hold a signature."""
    found = await run(manifest.format(CANARY), "--to", tmp_path / "to")
    assert found.code == 2
    assert CANARY not in found.out + found.err


async def test_nothing_on_standard_input_is_not_an_empty_manifest(tmp_path):
    """The command before it in the pipeline has failed; exit 0 would hide that."""
    found = await run("-", "--to", tmp_path / "to", stdin=b"")
    assert (found.code, found.out) == (2, "")
    assert "stdin has no entries; did the command that writes it fail?" in found.err
    assert not (tmp_path / "to").exists()


async def test_a_dry_run_asks_for_nothing(tmp_path):
    """It tells what would be done, in JSON too."""
    async with Origin(FILES) as origin:
        found = await run("-", "--to", tmp_path, "--dry-run", "--json", stdin=manifest_of(origin))
        assert origin.requests == []
    assert found.code == 0
    assert (found.summary["schema"], found.summary["files"]) == ("cfetch.preview/1", 6)
    assert tree(tmp_path) == {}
    assert left_over(tmp_path) == []


async def test_every_fault_of_a_manifest_is_named(tmp_path):
    """With its line; exit 2; nothing is downloaded, not even the good row; no secret is quoted."""
    async with Origin(FILES) as origin:
        rows = [
            {"url": f"{origin.url}d/1.bin?sig={CANARY}"},
            {"url": f"http://u:{CANARY}@/x"},
            {"url": f"{origin.url}y?sig={CANARY}", "path": "../y"},
            {"url": f"{origin.url}z?sig={CANARY}", "path": "z", "size": -2},
        ]
        path = tmp_path / "m.jsonl"
        path.write_text("\n".join(map(json.dumps, rows)))
        found = await run(path, "--to", tmp_path / "to", "--json")
        assert origin.requests == []
    assert (found.code, found.out) == (2, "")
    assert [f"{path}:{n}:" in found.err for n in (1, 2, 3, 4)] == [False, True, True, True]
    assert CANARY not in found.err
    assert not list((tmp_path / "to").rglob("*"))


@pytest.mark.parametrize(("words", "said"), [
    (["/no/such/file"], "cannot read the manifest /no/such/file"),
    (["-", "--concurrency", "0"], "concurrency"),
    (["-", "--no-such-option"], "no-such-option"),
])  # fmt: skip
async def test_exit_2_says_what_is_wrong(tmp_path, words, said):
    """One message on stderr, nothing on stdout, no secret."""
    found = await run(*words, "--to", tmp_path, "--json", stdin=b"")
    assert (found.code, found.out) == (2, "")
    assert said in found.err


async def test_a_manifest_that_cannot_be_had(tmp_path):
    """Exit 2 with the server's status and a redacted URL."""
    async with Origin({}) as origin:
        found = await run(f"{origin.url}m.json?sig={CANARY}", "--to", tmp_path)
    assert found.code == 2
    assert "m.json?<redacted 1 key>: HTTP 404" in found.err
    assert CANARY not in found.err


async def test_a_metrics_file_that_cannot_grow(tmp_path):
    """Exit 3 before the first request: a run that cannot be accounted for is not begun."""
    async with Origin(FILES) as origin:
        found = await run("-", "--to", tmp_path, "--metrics", "/dev/full", stdin=manifest_of(origin))
        assert origin.requests == []
    assert found.code == 3
    assert "No space left on device" in found.err


async def test_a_place_that_is_taken_fails_one_entry(tmp_path):
    """A directory where a file should be: named with a remedy; the others are fetched, nothing is left."""
    (tmp_path / "d/5.bin").mkdir(parents=True)
    async with Origin(FILES) as origin:
        found = await run("-", "--to", tmp_path, "--json", "--concurrency", "1", stdin=manifest_of(origin))
    assert found.code == found.summary["exit_code"] == 1
    assert found.summary["files"]["done"] == len(FILES) - 1
    assert "d/5.bin: a directory stands in its place; move it away" in found.err
    assert left_over(tmp_path, pending=True) == []


@pytest.mark.parametrize("name", ["manifest", "d/5.bin"])
async def test_metrics_never_replace_something_else(tmp_path, name):
    """Neither the manifest, nor a file that the manifest wants."""
    async with Origin(FILES) as origin:
        (tmp_path / "manifest").write_bytes(manifest_of(origin))
        where = {"--to": tmp_path, "--metrics": tmp_path / name}
        found = await run(tmp_path / "manifest", *(word for pair in where.items() for word in pair))
    assert (found.code, origin.requests) == (2, [])
    assert "name another file" in found.err
    assert (tmp_path / "manifest").read_bytes() == manifest_of(origin)


SLOW = {f"{i}": Synthetic(f"{i}", 200_000) for i in range(4)}


async def under_way(to, origin, *more):
    """A process whose downloads have all begun, and crawl."""
    child = await started("-", "--to", to, "--json", "--no-mitigation", *more, stdin=b"")
    child.stdin.write(manifest_of(origin, SLOW))
    child.stdin.close()
    while len(list((to / ".cfetch").glob("attempts/*/*/*"))) < len(SLOW):
        await asyncio.sleep(0.02)
        assert child.returncode is None
    return child


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
async def test_a_signal_ends_the_run_in_good_order(tmp_path, number, code):
    """The report is written, the parts stand for the next run, which goes on with them."""
    crawl = {name: Fault(kind="slow", rate_bps=1000, first=0) for name in SLOW}
    async with Origin(SLOW, crawl) as origin:
        child = await under_way(tmp_path, origin)
        child.send_signal(number)
        found = await ended(child)
        parts = [part.stat().st_size for part in tmp_path.glob(".cfetch/attempts/*/1/*")]
        files = tree(tmp_path)
        origin.script.faults = {}
        again = await run("-", "--to", tmp_path, "--json", stdin=manifest_of(origin, SLOW))
    assert found.code == found.summary["exit_code"] == code
    assert found.summary["status"] == "interrupted"
    metrics = [json.loads(line) for line in Path(found.summary["metrics"]).read_text().splitlines()]
    assert [line["status"] for line in metrics[1:]] == ["cancelled"] * 4 + ["interrupted"]
    assert (files, sum(parts)) == ({}, sum(line["bytes"] for line in metrics[1:5]))
    assert sum(parts) > 0
    assert (again.code, tree(tmp_path), left_over(tmp_path)) == (0, whole(SLOW), [])
    assert again.summary["bytes"]["fetched"] == 4 * 200_000 - sum(parts)


async def test_a_second_signal_ends_it_at_once(tmp_path):
    """Both sent together: no report, no final file, and no traceback."""
    async with Origin(SLOW, pace_bps=1000) as origin:
        child = await under_way(tmp_path, origin)
        os.kill(child.pid, signal.SIGSTOP)  # so that both wait for it together
        child.send_signal(signal.SIGINT)
        child.send_signal(signal.SIGTERM)
        os.kill(child.pid, signal.SIGCONT)
        found = await ended(child)
    assert found.code in (130, 143)
    assert found.out == ""
    assert tree(tmp_path) == {}


@pytest.mark.parametrize(("free", "size", "fits"), [(0, 10, True), (0, 11, False), (1 << 40, 11, True)])
def test_only_what_is_missing_needs_room(in_place, monkeypatch, free, size, fits):
    """A full disk does not stop a run over a tree that is whole."""
    path, settings = in_place
    Path(path).write_text(Path(path).read_text().replace("10", str(size)))
    monkeypatch.setattr(Directory, "free_bytes", lambda _: free)
    refused = nullcontext() if fits else pytest.raises(LocalFault, match="11 more bytes")
    with refused, prepare(path, settings, env={}) as prepared:
        assert prepared.preview().files == 1


@pytest.mark.parametrize(("free", "fits"), [(0, False), (1 << 40, True)])
def test_what_something_blocks_needs_room_too(in_place, monkeypatch, tmp_path, free, fits):
    """On a disk that is nearly full a directory in a file's place is no error of its own yet."""
    path, settings = in_place
    file = next(each for each in (tmp_path / "to").rglob("*") if each.is_file())
    file.unlink()
    file.mkdir()
    monkeypatch.setattr(Directory, "free_bytes", lambda _: free)
    refused = nullcontext() if fits else pytest.raises(LocalFault, match="10 more bytes")
    with refused, prepare(path, settings, env={}) as prepared:
        assert prepared.preview().files == 1


def test_69_a_symlink_as_state_directory_is_refused_before_anything_is_written(in_place, tmp_path):
    """Not even the plan is written behind it."""
    path, settings = in_place
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "to/.cfetch").symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").stat().st_mtime_ns
    with pytest.raises(LocalFault, match="cannot write to"), prepare(path, settings, env={}):
        pass
    assert (tmp_path / "elsewhere").stat().st_mtime_ns == before


async def test_an_empty_file_is_no_manifest(tmp_path):
    """The command that should have written it has failed; a run of no files would look like success."""
    (tmp_path / "m.txt").touch()
    found = await run(tmp_path / "m.txt", "--to", tmp_path / "to")
    assert found.code == 2
    assert "m.txt has no entries" in found.err
    assert not (tmp_path / "to").exists()
    again = await run(tmp_path / "m.txt", "--to", tmp_path / "to", "--allow-empty")
    assert again.code == 0


async def test_metrics_into_a_named_pipe_are_refused(tmp_path):
    """Opening it would wait for a reader for ever."""
    os.mkfifo(tmp_path / "pipe")
    async with Origin(FILES) as origin:
        found = await run(
            *("-", "--to", tmp_path / "to", "--metrics", tmp_path / "pipe"), stdin=manifest_of(origin)
        )
    assert found.code == 2
    assert "named pipe" in found.err


async def test_json_holds_nothing_that_a_terminal_obeys(tmp_path):
    """C1 controls and overrides of the writing direction come as escapes; here in the destination's name."""
    evil = "a\x9b31mb\u202ec\U000e0041d"
    async with Origin(FILES) as origin:
        found = await run(
            *("-", "--to", tmp_path / evil, "--json", "--log-format", "json"), stdin=manifest_of(origin)
        )
    assert evil in found.summary["metrics"]
    assert not {"\x9b", "\u202e", "\U000e0041"} & set(found.out + found.err)


@pytest.mark.parametrize("name", ["plans", "metrics", "timeline"])
async def test_69_a_symlink_within_the_state_is_refused(tmp_path, name):
    """Links, metrics and the timeline are not written behind it."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "to/.cfetch").mkdir(mode=0o700, parents=True)
    (tmp_path / "to/.cfetch" / name).symlink_to(tmp_path / "elsewhere")
    async with Origin(FILES) as origin:
        found = await run("-", "--to", tmp_path / "to", stdin=manifest_of(origin))
    assert found.code == 3, found.err
    assert "symlink" in found.err
    assert list((tmp_path / "elsewhere").iterdir()) == []


@pytest.mark.parametrize("state", [None, "state"])
def test_nothing_is_left_of_a_plan_that_was_only_prepared(in_place, tmp_path, state):
    """Neither below the destination nor in a state directory of its own."""
    path, settings = in_place
    settings = replace(settings, state=state and str(tmp_path / state))
    with prepare(path, settings, env={}):
        assert (tmp_path / "to/.cfetch").exists()
    assert {p.name for p in tmp_path.rglob("*")} == {"to", "a", "m.json"}


def test_a_plan_that_cannot_be_scheduled_leaves_no_links_behind(in_place, tmp_path, monkeypatch):
    """Nobody would find them on the timeline, and they are secrets."""

    def fail(*_):
        raise LocalFault("cannot schedule the plan: No space left on device")

    path, settings = in_place
    monkeypatch.setattr("cfetch.app.plan_on_timeline.schedule", fail)
    with prepare(path, settings, env={}) as prepared, pytest.raises(LocalFault, match="No space"):
        prepared.schedule()
    assert not [path for path in (tmp_path / "to").rglob("*") if "plans" in path.parts and path.is_file()]


def test_a_plan_that_stands_on_the_timeline_keeps_its_manifest(in_place, tmp_path, monkeypatch):
    """Whoever finds it needs that, also where the disk fails right after it was put there."""

    def fail(table, *plan):
        schedule(table, *plan)
        raise LocalFault("cannot schedule the plan: Input/output error")

    path, settings = in_place
    monkeypatch.setattr("cfetch.app.plan_on_timeline.schedule", fail)
    with prepare(path, settings, env={}) as prepared, pytest.raises(LocalFault, match="Input"):
        prepared.schedule()
    assert len(list((tmp_path / "to/.cfetch/plans").iterdir())) == 1


def test_a_damaged_lock_is_said_by_each_verb_that_waits_for_it(in_place, tmp_path, monkeypatch):
    """A run and the verbs of `cfetch plan` name the state whose lock they wait for, then do their work."""
    monkeypatch.setattr(lock, "UNREADABLE_S", 0.0)
    monkeypatch.setattr(lock, "EXPIRY_S", 0.0)
    path, settings = in_place
    damaged = tmp_path / "to/.cfetch/lock"
    events: list[Event] = []
    notes: list[str] = []
    with prepare(path, settings, env={}) as prepared:
        damaged.write_bytes(b"{torn")
        instant = prepared.schedule(note=notes.append).instant
    damaged.write_bytes(b"{torn")
    roll_back_plan(settings, instant, remove=True, note=notes.append)
    damaged.write_bytes(b"{torn")
    clean_plans(settings, rollback_delay_s=0.0, keep_s=1e9, dry_run=False, note=notes.append)
    with prepare(path, settings, env={}) as prepared:
        damaged.write_bytes(b"{torn")
        assert prepared.run(events.append) is not None
    notes += [event.note for event in events if isinstance(event, RunNoted)]
    assert [note.startswith(f"{damaged.parent}: the file 'lock'") for note in notes] == [True] * 4


def test_an_error_of_the_run_is_not_taken_for_the_manifests(in_place):
    """What is raised while the manifest is open comes out as it is."""
    path, settings = in_place
    with pytest.raises(BrokenPipeError), prepare(path, settings, env={}):
        raise BrokenPipeError


def test_metrics_whose_last_lines_do_not_fit_are_a_local_fault(in_place, monkeypatch):
    """The files are in place, yet the run's account is not: exit 3, in the summary too."""

    class Full(MetricsFile):
        def close(self):
            if self._fd >= 0:
                super().close()
                raise LocalFault("cannot write the metrics file")

    monkeypatch.setattr("cfetch.app.prepared.MetricsFile", Full)
    path, settings = in_place
    with prepare(path, settings, env={}) as prepared:
        summary = prepared.run(lambda _: None)
    assert summary is not None
    assert (summary.exit_code, summary.files.skipped) == (3, 1)


async def test_only_what_failed_is_run_again(tmp_path):
    """``--failed-from``: by the metrics of the run before; ids stay, and nobody else is asked for."""
    to, path, metrics = tmp_path / "to", tmp_path / "m.json", tmp_path / "first.jsonl"
    gone = Fault(kind="status", status=404, first=0)
    async with Origin(FILES, {"d/2.bin": gone, "d/4.bin": gone}) as origin:
        path.write_bytes(manifest_of(origin))
        assert (await run(path, "--to", to, "--metrics", metrics)).code == 1
    for name in ("d/1.bin", "d/2.bin"):
        (to / name).unlink(missing_ok=True)
    async with Origin(FILES) as origin:
        path.write_bytes(manifest_of(origin))
        again = await run(path, "--to", to, "--failed-from", metrics, "--json")
        assert (again.code, again.summary["files"]) == (0, {"total": 2, "done": 2, "skipped": 0, "failed": 0})
        records = [json.loads(line) for line in Path(again.summary["metrics"]).read_text().splitlines()[1:-1]]
        assert sorted(record["id"] for record in records) == [2, 4]
        nothing = await run(path, "--to", to, "--failed-from", again.summary["metrics"], "--json")
        assert (nothing.code, nothing.summary["files"]["total"]) == (0, 0)
    assert set(tree(to)) == set(FILES) - {"d/1.bin"}


async def test_metrics_of_another_manifest_are_an_error(tmp_path):
    """Nothing to do would look like success; so would metrics that are none."""
    path, metrics = tmp_path / "m.json", tmp_path / "first.jsonl"
    async with Origin(FILES, {"d/2.bin": Fault(kind="status", status=404, first=0)}) as origin:
        path.write_bytes(manifest_of(origin))
        assert (await run(path, "--to", tmp_path / "to", "--metrics", metrics)).code == 1
        path.write_text(f'{{"url": "{origin.url}d/1.bin", "path": "other"}}\n')
        found = await run(path, "--to", tmp_path / "to", "--failed-from", metrics)
    assert (found.code, "the manifest has none of them" in found.err) == (2, True)
    found = await run(path, "--to", tmp_path / "to", "--failed-from", path)
    assert (found.code, "schema" in found.err) == (2, True)


async def test_of_a_run_that_did_not_come_to_its_end_all_is_left_but_what_is_in_place(tmp_path):
    """What was never begun has no record, and is as missing as what failed."""
    path, metrics = tmp_path / "m.json", tmp_path / "first.jsonl"
    async with Origin(FILES, {"d/2.bin": Fault(kind="status", status=404, first=0)}) as origin:
        path.write_bytes(manifest_of(origin))
        assert (await run(path, "--to", tmp_path / "to", "--metrics", metrics)).code == 1
        lines = metrics.read_text().splitlines()
        metrics.write_text("\n".join(lines[:-3]))
        named = [json.loads(line) for line in lines[1:-3]]
    async with Origin(FILES) as origin:
        path.write_bytes(manifest_of(origin))
        found = await run(path, "--to", tmp_path / "to", "--failed-from", metrics, "--json")
    assert found.code == 0
    assert found.summary["files"]["total"] == 6 - sum(line["status"] == "done" for line in named)
    assert tree(tmp_path / "to") == whole()


TASKS = {
    "monitor": (Monitor, "check"),
    "ticker": (Monitor, "report"),
    "volume": (Publisher, "_publish_group"),
    "metrics": (MetricsFile, "__call__"),
    "end of the metrics": (MetricsFile, "close"),
}


@pytest.mark.parametrize("task", TASKS)
def test_the_document_of_json_is_printed_after_an_unforeseen_error(in_place, monkeypatch, capfd, task):
    """One document with exit code 70 and the reason on stdout; the places of the error on stderr."""

    def fail(*_):
        raise IndexError("a secret")

    path, settings = in_place
    resolved: Any = SimpleNamespace(settings=replace(settings, json=True, existing="refetch"), notes=())
    monkeypatch.setattr(*TASKS[task], fail)
    with prepare(path, resolved.settings, env={}) as prepared, pytest.raises(Exit) as left:
        bring(prepared, resolved)
    out, err = capfd.readouterr()
    document = json.loads(out)
    assert (left.value.exit_code, document["schema"]) == (70, "cfetch.summary/1")
    assert (document["exit_code"], document["reason"]) == (
        70,
        "a bug in cfetch, or in a listener, ended the run: IndexError",
    )
    assert "a bug in cfetch, IndexError, at:" in err
    assert "a secret" not in out + err
