"""``cfetch plan run --together``: nodes that bring one plan, as processes of their own."""

import json
import sys

import pytest

from cfetch.app.download import prepare
from cfetch.app.planned import prepare_planned
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, Held, UsageError
from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.tasks.nodes import engine, joining
from cfetch.tasks.nodes.board import Board
from cfetch.tasks.shares.protocol import Renewed
from cfetch.tasks.shares.work import Turn
from cfetch.timeline.execution import Execution, start
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.table import open_table, this_node
from tests.app.command import cfetch
from tests.crash.process import started
from tests.crash.scene import KIB, TIMEOUT_S, Children, Job, Scene, serving
from tests.needs import case
from tests.tasks.nodes.soak import soak
from tests.tasks.processes.soak import Counted

FILES = {f"d/{n}": Synthetic(f"d/{n}", 16 * KIB) for n in range(120)}


def scheduled(scene):
    done = cfetch("plan", "schedule", str(scene.manifest), "--to", str(scene.to), "--json")
    return json.loads(done.stdout)["instant"]


def test_nodes_bring_one_plan_and_each_shows_all_of_it(tmp_path):
    """Whoever leads: each file is requested once and has one record, and all exit codes are 0."""
    files = {name: Counted(content) for name, content in FILES.items()}
    with serving(files, pace_bps=512.0 * KIB) as origin:
        scene = Scene(tmp_path, origin.url, Children(), job=Job(FILES, hashed=tuple(FILES)))
        instant = scheduled(scene)
        words = [sys.executable, "-m", "cfetch", "plan", "run", instant, "--together", "--json", "-j", "4"]
        words += [
            "--no-mitigation",
            "--to",
            str(scene.to),
        ]  # a file that is slow on a busy machine is no straggler
        nodes = [started(words) for _ in range(3)]
        results = [node.communicate(timeout=TIMEOUT_S) for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0, 0], results
    summaries = [json.loads(out)["summaries"] for out, _ in results]
    counts = [summary["files"] for (summary,) in filter(None, summaries)]
    assert all(each["done"] + each["skipped"] == len(FILES) == each["total"] for each in counts)
    assert any(each["done"] == len(FILES) for each in counts)
    assert scene.wrong() + scene.missing() + scene.debris() == []
    assert sum(content.sent_bytes for content in files.values()) == scene.job.total_bytes
    assert len(list((scene.to / ".cfetch/metrics").iterdir())) == 1


def test_a_failed_file_fails_all_nodes_and_is_tried_by_one(tmp_path):
    """No node begins the plan again after the leader has ended it."""
    with serving(FILES) as origin:
        scene = Scene(tmp_path, origin.url, Children(), job=Job({**FILES, "no": Synthetic("no", 5)}))
        instant = scheduled(scene)
        words = [sys.executable, "-m", "cfetch", "plan", "run", instant, "--together", "--quiet"]
        nodes = [started([*words, "--to", str(scene.to)]) for _ in range(2)]
        for node in nodes:
            node.communicate(timeout=TIMEOUT_S)
    assert {node.returncode for node in nodes} == {1}


def test_files_that_change_between_two_runs_of_a_plan_are_checked(tmp_path):
    """Of the same size but with other bytes they are fetched again; receipts answer for the others."""
    files = {name: Counted(content) for name, content in list(FILES.items())[:20]}
    job = Job({name: FILES[name] for name in files} | {"no": Synthetic("no", 5)}, hashed=tuple(files))
    with serving(files) as origin:
        scene = Scene(tmp_path, origin.url, Children(), job=job)
        words = ("plan", "run", scheduled(scene), "--together", "--quiet", "--to", str(scene.to))
        assert cfetch(*words).returncode == 1
        damaged = list(files)[3:6]
        for name in damaged:
            (scene.to / name).write_bytes(bytes(files[name].size_bytes))
        for content in files.values():
            content.sent_bytes = 0
        assert cfetch(*words).returncode == 1
    assert [name for name, content in files.items() if content.sent_bytes] == damaged
    assert scene.wrong() == []


def test_some_nodes_die_and_the_plan_is_whole(tmp_path):
    """A short round of ``benchmarks/nodes_soak.py``."""
    report = soak(tmp_path, seconds=0.1, nodes=3, seed=3, large=4, small=60, hurting_s=2.0)
    assert report.wrong == []
    assert report.plans
    assert report.hurt


def test_the_share_of_a_node_that_stands_still_is_brought_all_the_same(tmp_path, monkeypatch):
    """Long before it counts as dead: its lease ends, and an idle node brings a copy."""
    turns = list[Turn]()

    class Watched(Board):
        """The leader's board, on which another node claims the first share, and then stands still."""

        def __init__(self, *facts, **more):
            super().__init__(*facts, **more)
            self.other = Board(*facts, **more | {"node": this_node()})
            lost, beating = self.other.take(), self.other._beats._beating
            assert lost is not None
            assert beating is not None
            beating.stop()
            self.lost = lost

        def take(self):
            with self._lock:
                self._units.step(self.lost.share, Renewed(self.lost.task, 0.0))
            if (turn := super().take()) is not None:
                turns.append(turn)
            return turn

        def close(self):
            self.other.close()
            super().close()

    monkeypatch.setattr(engine, "Board", Watched)
    with serving(FILES) as origin:
        scene = Scene(tmp_path, origin.url, Children(), job=Job(FILES))
        settings = Settings(to=(str(scene.to),), processes=1)
        with prepare(str(scene.manifest), settings, env={}) as prepared:
            summary = prepared.run(lambda _: None, together=True)
    assert summary is not None
    assert (summary.exit_code, summary.files.done) == (0, len(FILES))
    assert [turn.share for turn in turns if turn.attempt] == [0]
    assert scene.wrong() + scene.missing() + scene.debris() == []


def test_a_run_that_shares_nothing_is_not_joined(tmp_path, monkeypatch):
    """The message says what to do."""
    monkeypatch.setattr(joining, "SIGN_S", 0.2)
    scene = Scene(tmp_path, "http://127.0.0.1:9", Children(), job=Job(FILES))
    instant = scheduled(scene)
    settings = Settings(to=(str(scene.to),), quiet=True)
    state = scene.to / ".cfetch"
    with open_table(state, [state], Heartbeats()) as table:
        execution = start(table, instant, on_lost=lambda _: None)
        assert isinstance(execution, Execution)
        with prepare_planned(instant, settings, env={}) as prepared:
            assert prepared is not None
            with pytest.raises(Held, match="does not share it"):
                prepared.join(lambda _: None)
        execution.release()
        with prepare_planned(instant, settings, env={}) as prepared:
            assert prepared is not None
            assert prepared.join(lambda _: None) is None


@pytest.mark.parametrize(("settings", "entry", "kind", "words"), [
    ({"to": ("a", "s3://bucket/b")}, {}, UsageError, "directories that all machines see"),
    case({"to": ("a",), "engine": "spark"}, {}, ConfigError, "for the engine local"),
])  # fmt: skip
def test_what_nodes_cannot_share_is_refused(tmp_path, monkeypatch, settings, entry, kind, words):
    """Before anything is requested."""
    monkeypatch.chdir(tmp_path)
    manifest = tmp_path / "m.json"
    rows = [{"url": "http://127.0.0.1:9/x", "path": "x", "size": 1, **entry}]
    manifest.write_text(json.dumps({"version": 1, "files": rows}))
    with (
        prepare(str(manifest), Settings(quiet=True, **settings), env={}) as prepared,
        pytest.raises(kind, match=words),
    ):
        prepared.run(lambda _: None, together=True)
