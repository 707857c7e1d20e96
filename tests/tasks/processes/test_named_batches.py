"""Named batches brought by several processes: whole or not at all, whoever brings them and whoever dies."""

import json
import os
import signal
import sys
import time
from collections import Counter
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from cfetch.base.events import BatchCommitted, EntryFinished, Event, Progress
from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from tests.crash.process import started
from tests.crash.scene import TIMEOUT_S, serving
from tests.engine.drive import tree
from tests.tasks.processes.soak import children_of, is_alive
from tests.tasks.processes.test_processes import HELD, TWO, records_of, workers
from tests.tasks.scene import asked, download, files_of, served, whole

__all__ = ["workers"]
FILES = files_of(60)
NAMES = list(FILES)
BATCHES = {name: f"batch {n // 5}" for n, name in enumerate(NAMES[:55])}  # five files are alone


def write_batches(path, origin_url, files=FILES, batches=BATCHES):
    """A manifest whose files have these batches; its path."""
    rows = [
        {"url": name, "path": name, "size": content.size_bytes, "sha256": content.sha256()}
        | ({"batch": batches[name]} if name in batches else {})
        for name, content in files.items()
    ]
    path.write_text(json.dumps({"version": 1, "base_url": origin_url, "files": rows}))
    return path


def find_wrong(volumes, batches):
    """What is wrong with the named batches: each is to be whole on one volume, or not there at all."""
    wrong: list[Any] = []
    members: dict[str, set[str]] = {}
    for name, batch in batches.items():
        members.setdefault(batch, set()).add(name)
    where = {
        batch: [volume for volume in volumes if any((volume / name).exists() for name in names)]
        for batch, names in members.items()
    }
    for batch, names in members.items():
        there = [name for volume in volumes for name in names if (volume / name).exists()]
        records = [
            record
            for volume in volumes
            for path in (volume / ".cfetch/batches").glob("*.json")
            if (record := msgspec.json.decode(path.read_bytes()))["name"] == batch
        ]
        if len(where[batch]) > 1 or sorted(there) not in ([], sorted(names)):
            wrong.append((batch, where[batch], sorted(there)))
        elif len(records) != bool(there) or (there and sorted(records[0]["paths"]) != sorted(names)):
            wrong.append((batch, "records", records))
    return wrong


def words_about_batches(told):
    """The names of the batches that were committed; those of lone files depend on the server's port."""
    batches = [event.batch for event in told if isinstance(event, BatchCommitted)]
    return sorted(batch if batch in BATCHES.values() else "alone" for batch in batches)


@pytest.mark.parametrize("failing", [False, True], ids=["all well", "one is missing"])
def test_named_batches_come_whole_or_not_at_all(tmp_path, workers, failing):
    """Tree, summary, lines of the metrics and the words about batches are those of one process."""
    faults = {NAMES[7]: Fault(kind="status", status=404, first=0)} if failing else {}
    summaries, committed = [], []
    for processes in (1, 2):
        told, to = list[Event](), tmp_path / str(processes)
        with served(FILES, faults) as origin:
            manifest = write_batches(tmp_path / "m.json", origin.url)
            summaries.append(download(manifest, to, told.append, processes=processes, **HELD))
            before = asked(origin)
            again = download(manifest, to, processes=processes, **HELD)
            assert asked(origin) - before == Counter({NAMES[7]: 1} if failing else {})
        assert (again.exit_code, again.files.skipped) == (failing, 60 - 5 * failing)
        assert find_wrong([to], BATCHES) == []
        committed.append(words_about_batches(told))
    assert len(workers) == 4
    assert summaries[1].files == summaries[0].files
    assert (summaries[1].exit_code, committed[1]) == (summaries[0].exit_code, committed[0])
    assert records_of(summaries[1]) == records_of(summaries[0])
    assert tree(tmp_path / "2") == tree(tmp_path / "1")
    assert len(tree(tmp_path / "2")) == 60 - 5 * failing


def test_a_batch_whose_process_dies_is_brought_whole_by_another(tmp_path, workers):
    """Also the files of it that the dead one could not have: their failure counted in its own batch only."""
    held, lost = NAMES[0], NAMES[1]
    faults = {
        held: Fault(kind="stall", after_bytes=500, first=1),
        lost: Fault(kind="status", status=404, first=1),
    }
    killed, ended = list[bool](), list[str]()

    def kill(event):
        ended.extend([event.record.path] if isinstance(event, EntryFinished) else [])
        is_due = isinstance(event, Progress) and event.active and len(workers) == 2 and not killed
        if is_due and all(attempt.bytes >= 500 and attempt.path == held for attempt in event.active):
            killed.append(True)
            for member in workers:
                member.kill()

    with served(FILES, faults) as origin:
        manifest = write_batches(tmp_path / "m.json", origin.url)
        summary = download(manifest, tmp_path / "to", kill, **TWO, **HELD, stall_timeout=600.0)
    assert killed
    assert (summary.exit_code, summary.files.done + summary.files.skipped) == (0, 60)
    assert tree(tmp_path / "to") == whole(FILES)
    assert find_wrong([tmp_path / "to"], BATCHES) == []


LARGE = {f"d/{i}": Synthetic(f"d/{i}", 256 << 10) for i in range(24)}


def kill_quietly(pid):
    """Kill a process, which may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def begin(manifest, volumes):
    """The command, over two processes."""
    to = [word for volume in volumes for word in ("--to", str(volume))]
    words = ["download", str(manifest), *to, "--processes", "2", "--quiet", "--segments", "1"]
    return started([sys.executable, "-m", "cfetch", *words])


def list_standing(volumes):
    """The files that stand, by volume."""
    return [path for volume in volumes for path in volume.glob("d/*")]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("victim", ["task", "driver"])
def test_kills_at_any_step_leave_no_torn_batch(tmp_path, victim, count):
    """Of a process or of the run, twice; the same command then goes on to the end."""
    volumes = [tmp_path / f"to{n}" for n in range(count)]
    batches = {name: str(n // 4) for n, name in enumerate(LARGE)}
    with serving(LARGE, pace_bps=1 << 20) as origin:
        manifest = write_batches(tmp_path / "m.json", origin.url, LARGE, batches)
        kills, code, process = 0, None, begin(manifest, volumes)
        while code != 0:
            stands = len(list_standing(volumes))
            while process.poll() is None and len(list_standing(volumes)) < stands + 5:
                time.sleep(0.02)
            if process.poll() is None and kills < 2:
                kills += 1
                children = children_of(process.pid)
                if victim == "task":
                    list(map(kill_quietly, children[:1]))
                    continue
                process.kill()
                while any(map(is_alive, children)):
                    time.sleep(0.01)
            _, said = process.communicate(timeout=TIMEOUT_S)
            code = process.returncode
            assert code in (0, -signal.SIGKILL), said
            if code:
                process = begin(manifest, volumes)
    assert kills
    assert sum(len(tree(volume)) for volume in volumes) == 24
    assert {name: data for volume in volumes for name, data in tree(volume).items()} == whole(LARGE)
    assert find_wrong(volumes, batches) == []
