"""``cfetch plan`` as real processes against a real origin: what each verb does, says and leaves."""

import errno
import json
import os
import signal
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.app.planned import pending
from cfetch.app.plans import clean_plans, list_plans, roll_back_plan
from cfetch.base.config.settings import Settings
from cfetch.base.errors import LocalFault, NewerRecord
from cfetch.cli.plan import _run_one
from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.storage.directory import Directory
from cfetch.storage.state_format import FORMAT_NAME, refuse_newer_state
from cfetch.timeline.files import LocalFiles
from tests.app.test_download import CANARY, FILES, left_over, manifest_of
from tests.cli.verbs import begun, cfetch, cfetch_plan, ended, plans_of, states, under_way, whole
from tests.engine.drive import tree

PLAN_KEYS = {
    "instant", "action", "kind", "state", "owner", "live", "released", "epoch", "heartbeat_age_s", "files",
    "bytes", "manifest", "destinations", "target",
}  # fmt: skip
SIGNED = "?sv=2024-11-04&sr=b&se=2027&sig="  # a complete signature: it makes no other object
SLOW = {f"{i}": Synthetic(f"{i}", 200_000) for i in range(4)}
GONE = Fault(kind="status", status=404, first=0)
CRAWL = {name: Fault(kind="slow", rate_bps=2000, first=0) for name in SLOW}


async def scheduled(origin, to, files=FILES, *words, **how):
    """The instant of a plan that was put on the timeline."""
    found = await cfetch_plan("schedule", "-", "--to", to, *words, stdin=manifest_of(origin, files, **how))
    assert (found.code, found.err) == (0, "")
    return found.out.strip()


async def test_schedule_list_show_run(tmp_path):
    """From the manifest to the tree, each verb's words and documents on the way."""
    async with Origin(FILES) as origin:
        first = await cfetch_plan("schedule", "-", "--to", tmp_path, "--json", stdin=manifest_of(origin))
        assert (first.code, first.err) == (0, "")
        instant = first.document["instant"]
        assert first.document == {
            "schema": "cfetch.scheduled/1", "instant": instant, "was_pending": False, "files": 6,
            "bytes_known": 15_000,
        }  # fmt: skip
        assert origin.requests == []
        (plan,) = await plans_of(tmp_path)
        assert plan == {
            "instant": instant, "action": "download", "kind": "immutable", "state": "requested",
            "owner": None, "live": False, "released": False, "epoch": 0, "heartbeat_age_s": None,
            "files": 6, "bytes": 15_000, "manifest": "stdin", "destinations": [str(tmp_path)], "target": None,
        }  # fmt: skip
        listed = await cfetch_plan("list", "--to", tmp_path)
        assert [line.split()[:6] for line in listed.out.splitlines()] == [
            ["instant", "what", "state", "files", "size"],
            [instant, "download", "requested", "6", "14.6", "KiB"],
            ["not", "begun", "yet"],
        ]
        shown = await cfetch_plan("show", instant, "--to", tmp_path)
        assert {line.split()[0] for line in shown.out.splitlines()} == {
            *("instant", "what", "kind", "state", "run", "owner", "manifest", "to", "files", "size")
        }
        ran = await cfetch_plan("run", instant, "--to", tmp_path, "--json")
        assert ran.code == 0
        assert set(ran.document) == {"schema", "summaries"}
        assert ran.document["schema"] == "cfetch.summaries/1"
        (summary,) = ran.document["summaries"]
        assert (summary["schema"], summary["instant"]) == ("cfetch.summary/1", instant)
        assert summary["files"] == {"total": 6, "done": 6, "skipped": 0, "failed": 0}
    (plan,) = await plans_of(tmp_path)
    assert set(plan) == PLAN_KEYS
    assert (plan["state"], plan["epoch"], plan["live"]) == ("completed", 1, False)
    assert plan["owner"].endswith(f" on {socket.gethostname()}")
    assert tree(tmp_path) == whole(FILES)
    assert left_over(tmp_path) == []
    again = await cfetch_plan("run", instant, "--to", tmp_path)
    assert (again.code, again.out) == (0, "")
    assert "completed already" in again.err


async def test_a_plan_is_scheduled_once_and_run_with_the_freshest_links(tmp_path):
    """However often a manifest is signed anew, and by whichever verb; no signature is shown by any."""
    async with Origin(FILES) as origin:
        first = await scheduled(origin, tmp_path, query=f"{SIGNED}{CANARY}1")
        second = await cfetch_plan(
            *("schedule", "-", "--to", tmp_path, "--json"),
            stdin=manifest_of(origin, query=f"{SIGNED}{CANARY}2"),
        )
        assert (second.document["instant"], second.document["was_pending"]) == (first, True)
        assert len(list((tmp_path / ".cfetch/plans").iterdir())) == 1
        said = [await cfetch_plan(*verb, "--to", tmp_path) for verb in (["list"], ["show", first])]
        said += [await cfetch_plan("run", "--to", tmp_path)]
        assert {request.query for request in origin.requests} == {f"{SIGNED[1:]}{CANARY}2"}
        assert (await cfetch_plan("schedule", "-", "--to", tmp_path, stdin=manifest_of(origin))).code == 0
        found = await cfetch("download", "-", "--to", tmp_path, stdin=manifest_of(origin))
        assert found.code == 0
    assert CANARY not in "".join(one.out + one.err for one in said)
    assert await states(tmp_path) == [("download", "completed")] * 2
    assert left_over(tmp_path) == []


async def test_run_needs_a_name_only_where_several_are_pending(tmp_path):
    """None: said, exit 0. One: run. Several: refused, nothing is fetched; --all takes the oldest first."""
    parts = [{name: FILES[name]} for name in list(FILES)[1:4]]
    async with Origin(FILES) as origin:
        await scheduled(origin, tmp_path, parts[0])
        assert (await cfetch_plan("run", "--to", tmp_path)).code == 0
        none = await cfetch_plan("run", "--to", tmp_path)
        assert (none.code, none.out) == (0, "there is no pending plan on this timeline\n")
        none = await cfetch_plan("run", "--all", "--to", tmp_path, "--json")
        assert (none.code, none.document["summaries"]) == (0, [])
        instants = [await scheduled(origin, tmp_path, part) for part in parts[1:]]
        asked = len(origin.requests)
        several = await cfetch_plan("run", "--to", tmp_path)
        assert (several.code, several.out, len(origin.requests)) == (2, "", asked)
        assert "2 plans are pending" in several.err
        both = await cfetch_plan("run", instants[0], "--all", "--to", tmp_path)
        assert (both.code, len(origin.requests)) == (2, asked)
        dry = await cfetch_plan("run", "--all", "--dry-run", "--json", "--to", tmp_path)
        assert (dry.code, len(origin.requests)) == (0, asked)
        assert [one["files"] for one in dry.document["previews"]] == [1, 1]
        assert (await cfetch_plan("run", "--all", "--dry-run", "--to", tmp_path)).out.count("files") == 2
        every = await cfetch_plan("run", "--all", "--to", tmp_path, "--json")
        assert [one["instant"] for one in every.document["summaries"]] == instants
    assert tree(tmp_path) == whole({name: FILES[name] for name in list(FILES)[1:4]})


@pytest.mark.parametrize("verb", [
    ["list"], ["show", "x"], ["run"], ["run", "x"], ["run", "--all"], ["rollback", "x"], ["clean"]
])  # fmt: skip
async def test_where_there_is_no_timeline_none_is_made(tmp_path, verb):
    """A misspelt directory is an error, for a cron job too, and does not come to be."""
    found = await cfetch_plan(*verb, "--to", tmp_path / "typo", "--json")
    assert (found.code, found.out) == (2, "")
    assert "there is no timeline in" in found.err
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["base_url", "failed_from"])
async def test_what_only_a_manifest_reads_is_refused_by_run(tmp_path, option):
    """A plan is run as it was scheduled, whatever the command says; a file may say it."""
    word = f"--{option.replace('_', '-')}"
    found = await cfetch_plan("run", "--all", "--to", tmp_path, word, "http://h.test/")
    assert found.code == 2
    assert f"{option} is for reading a manifest" in found.err
    (tmp_path / "c.yaml").write_text(f"{option}: http://h.test/\n")
    found = await cfetch_plan("run", "--all", "--to", tmp_path, "--config", tmp_path / "c.yaml")
    assert "there is no timeline" in found.err


@pytest.mark.parametrize("verb", ["run", "show", "rollback"])
async def test_an_instant_that_is_not_there_is_an_error(tmp_path, verb):
    """It names the way to those that are."""
    async with Origin(FILES) as origin:
        await scheduled(origin, tmp_path)
        found = await cfetch_plan(verb, "20261121T160430123Z-1a2b", "--to", tmp_path, "--json")
    assert (found.code, found.out) == (2, "")
    assert "`cfetch plan list` shows what there is" in found.err


@pytest.mark.parametrize(("option", "value"), [("--keep", "-1s"), ("--rollback-delay", "soon")])
async def test_durations_of_clean_are_checked(tmp_path, option, value):
    """The key and the value are named, and nothing is cleaned."""
    async with Origin(FILES) as origin:
        instant = await scheduled(origin, tmp_path, FILES, "--removable")
        found = await cfetch_plan("clean", option, value, "--to", tmp_path)
    assert found.code == 2
    assert option.removeprefix("--").replace("-", "_") in found.err
    assert value in found.err
    assert [plan["instant"] for plan in await plans_of(tmp_path)] == [instant]


async def test_a_failing_entry_leaves_the_plan_for_a_later_run(tmp_path):
    """Exit 1, pending, not held; the later run fetches that entry only, and completes it."""
    async with Origin(FILES, {"d/2.bin": GONE}) as origin:
        instant = await scheduled(origin, tmp_path)
        first = await cfetch_plan("run", "--to", tmp_path, "--json")
        assert (first.code, first.document["summaries"][0]["status"]) == (1, "partial")
        assert "d/2.bin" in first.err
        (plan,) = await plans_of(tmp_path)
        assert (plan["instant"], plan["state"], plan["epoch"]) == (instant, "inflight", 1)
        assert plan["live"] is False
        origin.script.faults = {}
        asked = len(origin.requests)
        second = await cfetch_plan("run", "--to", tmp_path, "--json")
        assert [request.path for request in origin.requests[asked:]] == ["d/2.bin"]
    assert (second.code, second.document["summaries"][0]["instant"]) == (0, instant)
    assert await states(tmp_path) == [("download", "completed"), ("rollback", "completed")]
    assert tree(tmp_path) == whole(FILES)
    assert left_over(tmp_path) == []


async def test_plans_that_several_machines_cannot_bring_are_no_success(tmp_path):
    """Those for an object store: --all ends with the code of a usage error."""
    rows = json.dumps([{"url": "http://127.0.0.1:1/a", "size": 1}]).encode()
    to = ["--to", tmp_path / "a", "--to", "s3://bucket/b"]
    assert (await cfetch_plan("schedule", "-", *to, stdin=rows)).code == 0
    found = await cfetch_plan("run", "--all", "--together", *to)
    assert (found.code, "--together" in found.err) == (2, True)


async def test_a_run_that_is_interrupted_gives_its_plan_back(tmp_path):
    """No waiting for a heartbeat to expire; --all begins no further plan after it."""
    async with Origin(SLOW, CRAWL) as origin:
        instants = [await scheduled(origin, tmp_path, {n: SLOW[n] for n in names}) for names in ("01", "23")]
        child = await begun("plan", "run", "--all", "--to", tmp_path, "--json")
        await under_way(child, tmp_path, 2)
        child.send_signal(signal.SIGINT)
        found = await ended(child)
        assert found.code == 130
        assert [one["instant"] for one in found.document["summaries"]] == instants[:1]
        first, second = await plans_of(tmp_path)
        assert (first["state"], first["epoch"], first["live"]) == ("inflight", 1, False)
        assert (second["state"], second["epoch"]) == ("requested", 0)
        origin.script.faults = {}
        again = await cfetch_plan("run", "--all", "--to", tmp_path, "--json")
        assert (again.code, [one["instant"] for one in again.document["summaries"]]) == (0, instants)
        assert "waiting" not in again.err
    assert tree(tmp_path) == whole(SLOW)


async def test_a_removable_plan_has_one_attempt(tmp_path):
    """Then it can only be rolled back, and clean does so once it is old enough; final files stay."""
    async with Origin(FILES, {"d/2.bin": GONE}) as origin:
        instant = await scheduled(origin, tmp_path, FILES, "--removable")
        other = await scheduled(origin, tmp_path, {"d/1.bin": FILES["d/1.bin"]})
        first = await cfetch_plan("run", instant, "--to", tmp_path)
        assert (first.code, first.err.splitlines()[-2].strip().split(":")[0]) == (
            1, "the plan keeps its list as it was scheduled"
        )  # fmt: skip
        asked, files = len(origin.requests), tree(tmp_path)
        again = await cfetch_plan("run", instant, "--to", tmp_path, "--json")
        assert (again.code, again.out, len(origin.requests)) == (2, "", asked)
        assert f"`cfetch plan rollback {instant}`" in again.err
        every = await cfetch_plan("run", "--all", "--to", tmp_path, "--json")
        assert (every.code, [s["instant"] for s in every.document["summaries"]]) == (1, [other])
        assert every.err.endswith(f"not run, as said above: 1 of 2 plans: {instant}\n")
    young = await cfetch_plan("clean", "--to", tmp_path)
    assert young.code == 0
    assert f"kept: {instant} (download, inflight): younger than the rollback delay" in young.out
    before = await states(tmp_path)
    dry = await cfetch_plan("clean", "--rollback-delay", "0s", "--dry-run", "--to", tmp_path, "--json")
    assert await states(tmp_path) == before == [("download", "inflight"), ("download", "completed")]
    wet = await cfetch_plan("clean", "--rollback-delay", "0s", "--to", tmp_path, "--json")
    for found, is_dry in ((dry, True), (wet, False)):
        assert (found.code, found.err) == (0, "")
        assert (found.document["schema"], found.document["dry_run"]) == ("cfetch.cleaned/1", is_dry)
        (one, kept) = found.document["instants"]
        assert set(one) == {"instant", "action", "state", "kept", "why"}
        assert (one["instant"], one["state"], one["kept"]) == (instant, "inflight", False)
        assert "its only attempt has died" in one["why"]
        assert (kept["instant"], kept["kept"], kept["why"]) == (
            other,
            True,
            "completed, and not old enough for the archive",
        )
    assert await states(tmp_path) == [("download", "completed"), ("rollback", "completed")]
    assert (tree(tmp_path), left_over(tmp_path)) == (files, [])


@pytest.mark.parametrize("removable", [True, False])
async def test_rolled_back_by_hand(tmp_path, removable):
    """A removable plan goes with its attempt; any other is requested again, and runs from the start."""
    async with Origin(SLOW, CRAWL) as origin:
        instant = await scheduled(origin, tmp_path, SLOW, *(["--removable"] if removable else []))
        child = await begun("plan", "run", "--to", tmp_path)
        await under_way(child, tmp_path, len(SLOW))
        held = await cfetch_plan("rollback", instant, "--to", tmp_path)
        assert (held.code, held.out) == (4, "")
        assert f"process {child.pid} on {socket.gethostname()}" in held.err
        child.kill()
        await child.communicate()
        done = await cfetch_plan("rollback", instant, "--to", tmp_path, "--json")
        assert (done.code, done.err) == (0, "")
        told = [(plan["action"], plan["state"], plan["target"]) for plan in done.document["plans"]]
        rollback = ("rollback", "completed", instant)
        assert told == ([rollback] if removable else [("download", "requested", None), rollback])
        assert list((tmp_path / ".cfetch").glob("attempts/*/*/*")) == []
        assert tree(tmp_path) == {}
        origin.script.faults = {}
        words = ("--to", tmp_path, "--json", "--segments", "1")  # helpers meet, a few bytes come twice
        found = await cfetch("download", "-", *words, stdin=manifest_of(origin, SLOW))
    assert (found.code, found.document["bytes"]["fetched"]) == (0, 800_000)
    assert (found.document["instant"] == instant) is not removable
    over = await cfetch_plan("rollback", found.document["instant"], "--to", tmp_path)
    assert over.code == 2
    assert "is completed; there is nothing to roll back" in over.err


async def test_a_timeline_elsewhere(tmp_path):
    """--state: plans lie there, parts with their destination; two destinations may share it."""
    state, to, other = tmp_path / "state", tmp_path / "to", tmp_path / "other"
    async with Origin(FILES, {"d/2.bin": GONE}) as origin:
        instant = await scheduled(origin, to, FILES, "--state", state)
        assert await scheduled(origin, other, FILES, "--state", state) != instant
        assert not (to / ".cfetch").exists()
        wrong = await cfetch_plan("run", instant, "--to", other, "--state", state)
        assert (wrong.code, origin.requests) == (2, [])
        assert f"is for {to}" in wrong.err
        every = await cfetch_plan("run", "--all", "--to", to, "--state", state)
        assert (every.code, f"is for {other}, so it is not run here" in every.err) == (1, True)
        listed = await cfetch_plan("list", "--to", to)
        assert (listed.code, "there is no timeline" in listed.err) == (2, True)
        origin.script.faults = {}
        data = manifest_of(origin)
        found = await cfetch("download", "-", "--to", to, "--state", state, "--json", stdin=data)
        assert (found.code, found.document["instant"]) == (0, instant)
    assert tree(to) == whole(FILES)
    assert not other.exists()
    assert list((to / ".cfetch").rglob("*")) == [to / ".cfetch/attempts"]
    listed = await cfetch_plan("list", "--state", state, "--json", cwd=tmp_path)
    assert [(plan["destinations"], plan["state"]) for plan in listed.document["plans"]] == [
        ([str(to)], "completed"), ([str(other)], "requested"), ([], "completed"),
    ]  # fmt: skip
    assert {path.name for path in tmp_path.iterdir()} == {"state", "to"}


async def test_completed_plans_go_to_the_archive(tmp_path):
    """Out of the listing, but not lost."""
    async with Origin(FILES) as origin:
        instant = await scheduled(origin, tmp_path)
        waits = await scheduled(origin, tmp_path, {"d/1.bin": FILES["d/1.bin"]})
        assert (await cfetch_plan("run", instant, "--to", tmp_path)).code == 0
    dry = await cfetch_plan("clean", "--keep", "0s", "--dry-run", "--to", tmp_path)
    assert f"would go: {instant} (download, completed): completed, to the archive" in dry.out
    wet = await cfetch_plan("clean", "--keep", "0s", "--to", tmp_path)
    assert f"gone: {instant} (download, completed): completed, to the archive" in wet.out
    assert f"kept: {waits} (download, requested): immutable" in wet.out
    assert [plan["instant"] for plan in await plans_of(tmp_path)] == [waits]
    assert [plan["instant"] for plan in await plans_of(tmp_path, "--archived")] == [instant, waits]
    shown = await cfetch_plan("show", instant, "--to", tmp_path, "--json")
    (plan,) = shown.document["plans"]
    assert (plan["state"], plan["files"], plan["epoch"]) == ("completed", 6, 1)


async def test_plans_are_for_their_owner_only_whatever_the_umask(tmp_path):
    """They hold signed links; final files follow the umask, as any program's do."""
    async with Origin(SLOW, pace_bps=50_000) as origin:
        child = await begun(
            *("download", "-", "--to", tmp_path, "--heartbeat-interval", "1s"),
            stdin=manifest_of(origin, SLOW, query=f"?sig={CANARY}"),
            umask=0,
        )
        await under_way(child, tmp_path, len(SLOW))
        modes = {
            str(path.relative_to(tmp_path)): path.stat().st_mode & 0o777
            for folder in ("plans", "heartbeats", "timeline")
            for path in (tmp_path / ".cfetch" / folder).rglob("*")
        }
        rooms = [tmp_path / ".cfetch" / name for name in ("plans", "heartbeats", "timeline", "attempts")]
        assert [oct(room.stat().st_mode & 0o777) for room in rooms] == ["0o700"] * 4
        assert (await ended(child)).code == 0
    assert {folder.split("/")[1] for folder in modes} == {"plans", "heartbeats", "timeline"}
    assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}
    assert {os.stat(tmp_path / name).st_mode & 0o777 for name in SLOW} == {0o666}


async def test_a_plan_whose_manifest_is_gone_is_passed_over_by_all(tmp_path):
    """The others are run; exit 3, with the remedy."""
    async with Origin(FILES) as origin:
        broken = await scheduled(origin, tmp_path)
        good = await scheduled(origin, tmp_path, {"d/1.bin": FILES["d/1.bin"]})
        for path in (tmp_path / ".cfetch/plans" / broken).iterdir():
            path.unlink()
        found = await cfetch_plan("run", "--all", "--to", tmp_path, "--json")
    assert found.code == 3
    assert [summary["instant"] for summary in found.document["summaries"]] == [good]
    assert json.dumps(found.document).count(broken) == 0


async def test_what_a_planned_run_has_left_is_named_by_its_metrics(tmp_path):
    """``download --failed-from`` takes the metrics of ``plan run``, and asks for what failed alone."""
    manifest, metrics, faults = tmp_path / "m.json", tmp_path / "m.jsonl", {"d/2.bin": GONE}
    async with Origin(FILES, faults) as origin:
        manifest.write_bytes(manifest_of(origin))
        assert (await cfetch_plan("schedule", manifest, "--to", tmp_path / "to")).code == 0
        ran = await cfetch_plan("run", "--to", tmp_path / "to", "--metrics", metrics)
        assert ran.code == 1
        faults.clear()
        origin.requests.clear()
        again = await cfetch("download", manifest, "--to", tmp_path / "to", "--failed-from", metrics)
        assert (again.code, {request.path for request in origin.requests}) == (0, {"d/2.bin"})
    assert tree(tmp_path / "to") == whole(FILES)


@pytest.mark.parametrize("fault", [errno.EROFS, errno.EPERM, errno.EACCES])
async def test_a_timeline_that_cannot_be_written_is_listed_all_the_same(tmp_path, monkeypatch, fault):
    """On a read-only mount, or in an append-only directory; what must write says where it could not."""
    async with Origin(FILES) as origin:
        instant = await scheduled(origin, tmp_path)

    def refuse(self, path, *_, **__):
        raise OSError(fault, os.strerror(fault), f"{self.root}/{path}")

    for name in ("create", "rename", "unlink", "link", "replace"):
        if hasattr(LocalFiles, name):
            monkeypatch.setattr(LocalFiles, name, refuse)
    settings = Settings(to=(str(tmp_path),))
    assert [plan.instant for plan in list_plans(settings).plans] == [instant]
    assert pending(settings) == [instant]
    with pytest.raises(LocalFault, match=r"\.cfetch/lock"):
        clean_plans(settings, rollback_delay_s=0.0, keep_s=0.0, dry_run=False)


def marker_of(to):
    marker = to / ".cfetch" / FORMAT_NAME
    return marker.read_bytes() if marker.exists() else None


def changes_below(folder):
    """When each file and directory was changed last; a look, which sets only the time of access, is none."""
    return {path: path.stat().st_ctime_ns for path in folder.rglob("*")}


async def test_a_record_that_cannot_be_read_is_a_fault_of_this_machine(tmp_path):
    """As one on a damaged disk, for which a directory stands here; it is no bug in cfetch."""
    async with Origin(FILES) as origin:
        instant = await scheduled(origin, tmp_path)
    path = tmp_path / f".cfetch/timeline/{instant}.download.requested"
    path.unlink()
    path.mkdir()
    with pytest.raises(LocalFault, match="cannot read the timeline: Is a directory"):
        list_plans(Settings(to=(str(tmp_path),)))


async def test_a_state_says_its_format_and_one_of_a_later_version_is_left_alone(tmp_path):
    """Who writes leaves the marker, who looks does not; a higher number is refused by its path, unchanged."""
    async with Origin(FILES) as origin:
        await scheduled(origin, tmp_path)
    settings = Settings(to=(str(tmp_path),))
    marker = tmp_path / ".cfetch" / FORMAT_NAME
    assert marker_of(tmp_path) == b"1\n"
    marker.unlink()
    assert len(list_plans(settings).plans) == 1
    clean_plans(settings, rollback_delay_s=0.0, keep_s=0.0, dry_run=True)
    assert marker_of(tmp_path) is None
    clean_plans(settings, rollback_delay_s=0.0, keep_s=1e9, dry_run=False)
    assert marker_of(tmp_path) == b"1\n"
    marker.write_bytes(b"2\n")
    before = changes_below(tmp_path)
    acts = [
        lambda: list_plans(settings),
        lambda: clean_plans(settings, rollback_delay_s=0.0, keep_s=0.0, dry_run=False),
        lambda: pending(settings),
        lambda: Directory(tmp_path),
        lambda: LocalFiles(tmp_path / ".cfetch"),
    ]
    for act in acts:
        with pytest.raises(NewerRecord, match=rf"{marker} says format '2'.*newer version"):
            act()
    assert changes_below(tmp_path) == before


@pytest.mark.parametrize("content", [b"", b"\0\0", b"1", b"1\n"])
def test_a_marker_that_a_power_cut_has_emptied_is_of_the_first_format(tmp_path, content):
    """Its name may survive without its bytes."""
    (tmp_path / FORMAT_NAME).write_bytes(content)
    refuse_newer_state(tmp_path)


@pytest.mark.parametrize(("is_removed", "code"), [(True, 0), (False, 3)])
async def test_a_plan_that_is_cleaned_while_all_are_run_is_no_fault(tmp_path, monkeypatch, is_removed, code):
    """Its manifest goes before the timeline says so; a plan that stays and cannot be read is a fault."""
    async with Origin(FILES) as origin:
        instant = await scheduled(origin, tmp_path)
    settings = Settings(to=(str(tmp_path),))

    def fail(*_, **__):
        if is_removed:
            roll_back_plan(settings, instant, remove=True)
        raise LocalFault("the manifest cannot be read")

    monkeypatch.setattr("cfetch.app.planned.prepare_planned", fail)
    resolved: Any = SimpleNamespace(settings=settings)
    assert _run_one(instant, resolved, alone=False, together=False) == (None, code)
