"""Several volumes with several nodes: who deals, whose word counts, and what a node sees."""

import errno
import json
import shutil
import sys
import time
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from cfetch.app.several_machines import run_together
from cfetch.base.clock import RunClock, SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, Held, LocalFault, VolumeFault
from cfetch.base.events import EntryFinished, RunNoted, tell_each
from cfetch.manifest.checked_entries import freeze_entries
from cfetch.run.frame import Run
from cfetch.run.volumes import Volumes
from cfetch.show.counts import LiveCounts
from cfetch.storage import hanging_calls
from cfetch.storage.directory import Directory
from cfetch.tasks.hub.account import Account
from cfetch.tasks.hub.messages import ShareEnded, TaskFault
from cfetch.tasks.nodes import engine, joining
from cfetch.tasks.nodes.asking import Ask, Mail, find_over
from cfetch.tasks.nodes.beats import Heard
from cfetch.tasks.nodes.board import SharedJob
from cfetch.tasks.nodes.desk import Desk
from cfetch.tasks.nodes.engine import JoinedGuard, NodesEngine
from cfetch.tasks.nodes.joining import wait_for_leader
from cfetch.tasks.nodes.placed_nodes import JoinedTasks, refuse_other_volumes
from cfetch.tasks.nodes.remote_shares import LeadersRun, RemoteShares
from cfetch.tasks.shares.driver import Driver, DriverSetup
from cfetch.tasks.shares.salvage import bury_dead_task
from cfetch.tasks.shares.task_destination import directory_destination, is_granted
from cfetch.tasks.shares.work import Share, Turn
from cfetch.timeline.course import Course
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.table import open_table
from tests.crash.process import started
from tests.crash.scene import TIMEOUT_S, Children, Job, Scene, serving
from tests.engine.drive import entry_of
from tests.run.engines import LateContent
from tests.tasks.nodes.soak import Place, schedule
from tests.tasks.nodes.test_named_batches import BATCHES, FILES
from tests.volumes.conftest import namespaces

__all__ = ["namespaces"]
KIB = 1 << 10
NO_TABLE: Any = None


def double(**facts) -> Any:
    """Something that has only these facts."""
    return SimpleNamespace(**facts)


def refusal(task, why, *, no_room=False):
    """The word that a volume has refused a share."""
    return ShareEnded(task=task, fault=TaskFault(why, is_volumes=True, no_room=no_room))


class Placed:
    """Deals one share after the other for volume 0, and writes down all that is said to it."""

    fault: VolumeFault | None = None

    def __init__(self, said):
        self.said = said
        self.dealt = 0
        self.is_whole = False

    def take(self, volumes):
        if 0 not in volumes:
            return None
        self.dealt += 1
        return Turn(self.dealt - 1, self.dealt)

    def fill(self, turn):
        return Share([], 1, (), 0)

    def is_mine(self, turn):
        return True

    def find_volume(self, task):
        return 0

    def is_over(self):
        return self.is_whole

    def __getattr__(self, verb):
        return lambda turn, *more: self.said.append((verb, turn.task, *map(str, more)))


class Beats:
    """Node "b" is dead if the test says so; the leader is "a"."""

    name = "b"
    is_dead = False

    def begin(self):
        pass

    def close(self):
        pass

    def hear(self, name):
        return Heard(is_new=True, is_dead=self.is_dead, is_gone=False)


@pytest.fixture
def table(tmp_path):
    """A desk with a leader's shares, and a node that asks there."""

    class Table:
        """All that sits there; the test lets the desk look."""

        def __init__(self):
            self.said: list[tuple[Any, ...]] = []
            beats: Any = Beats()
            self.beats = beats
            self.receipts = tmp_path / "receipts"
            self.receipts.mkdir()
            self.mail = Mail(tmp_path)
            self.mail.open()
            placed: Any = Placed(self.said)
            self.placed = placed
            self.desk = Desk(self.mail, placed, self.receipts, 1, beats, self.bury)
            crew: Any = self
            self.desk._crew = crew
            self.run = LeadersRun(self.receipts, 1, lambda: True)
            self.remote = RemoteShares(self.mail, beats, self.run, [0])

        def bury(self, task, *, moves=True):
            assert not self.has_grant(task)
            self.said.append(("fence", task))

        def wait_for_receipts(self):
            self.said.append(("read receipts",))

        def fail(self, error):
            raise error

        def has_grant(self, task):
            return is_granted(self.mail.grants, f"t{task}")

        def give(self, **words):
            """Let the node ask for a share, and the desk answer. Returns the task as which it has one."""
            ask = Ask(node="b", number=len(self.said) + 100, volumes=[0], **words)
            self.mail.ask(ask)
            self.hear()
            return self.mail.take_given(ask.name)

        def hear(self):
            self.desk._poll()
            self.desk._hear({"b"})

    return Table()


def test_a_dead_node_is_fenced_before_others_get_its_share(table):
    """It may only stand still; its task loses the grant first, then its directory, and then its share."""
    assert table.give() == 1
    assert table.has_grant(1)
    table.beats.is_dead = True
    table.said.clear()
    table.hear()
    assert table.said == [("fence", 1), ("read receipts",), ("bury", 1)]
    assert table.give() is None  # it has to come back under another name


def test_a_volume_that_cannot_be_fenced_keeps_no_share(table):
    """It fails: whoever gets the share next will say so."""

    def fail(task, *, moves):
        raise VolumeFault("Input/output error")

    table.desk._bury_task = fail
    assert table.give() == 1
    table.beats.is_dead = True
    table.said.clear()
    table.hear()
    assert table.said == [("read receipts",), ("bury", 1)]


def test_what_a_volume_refuses_to_a_node_is_dealt_anew_and_the_node_spared(table):
    """Its receipts are read first, as files in them stand; a volume that is full may have room for others."""
    assert table.give() == 1
    table.said.clear()
    table.mail.ask(Ask(node="b", number=2, refused=refusal(1, "is full", no_room=True)))
    table.hear()
    assert table.said[:2] == [("read receipts",), ("move", 1, "is full")]
    assert table.give() == 2
    table.mail.ask(Ask(node="b", number=3, refused=refusal(2, "does not answer")))
    table.hear()
    assert table.give() is None


def test_a_node_whose_process_has_died_gets_the_share_again(table):
    """Only what the desk has given it, and once; what has its receipt is brought."""
    assert table.give() == 1
    assert table.give(dead=1) == 2
    assert ("bury", 1) in table.said
    (table.receipts / "share-1-000001").touch()
    table.said.clear()
    assert table.give(dead=2) == 3
    assert [said for said in table.said if said[0] != "renew"] == [("end", 2)]


def test_a_share_that_is_taken_back_before_the_node_has_read_it_is_asked_for_anew(table):
    """The leader had taken the node for dead. What it has read it keeps only until a process has it."""
    table.mail.ask(Ask(node="b", number=1, volumes=[0]))
    table.mail.ask(Ask(node="b", number=2, volumes=[0]))
    table.hear()
    table.desk._lent.take_back(1)
    assert table.remote.take() is None
    turn = table.remote.take()
    assert (turn.task, table.remote.find_volume(2)) == (2, 0)
    assert table.remote.fill(turn) == Share([], 1, (), 0)
    assert table.remote._given == {}


def test_a_board_that_has_gone_takes_no_order(table):
    """The run is over; the desk may still be at work."""
    shutil.rmtree(table.mail.grants)
    assert table.give() == 1


def test_a_board_that_cannot_be_used_is_a_fault_of_the_machine(table, monkeypatch):
    """In the leader's desk and in another node; any other error than a LocalFault would be called a bug."""

    def fail():
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(table.beats, "begin", fail)
    with pytest.raises(LocalFault, match="Input/output error"):
        table.desk._serve()
    with pytest.raises(LocalFault, match="Input/output error"):
        table.remote.take()


def test_a_node_ends_as_the_leader_does(table):
    """With the same fault; without a word of the leader it looks at the plan again, when its run is over."""
    table.placed.is_whole, table.placed.fault = True, VolumeFault("no volume has room")
    assert not table.remote.is_over()
    table.hear()
    table.run._asked_s = -1e9
    assert table.remote.is_over()
    assert (table.remote.is_whole, str(table.remote.fault)) == (True, "no volume has room")
    find_over(table.receipts, 1).unlink()
    other = RemoteShares(table.mail, table.beats, LeadersRun(table.receipts, 1, lambda: False), [0])
    assert other.is_over()
    assert not other.is_whole


def test_a_node_sees_a_volume_only_if_it_has_the_leaders_label(tmp_path):
    """It may have opened its volumes before the leader has put labels there; without one, all are right."""
    roots = [tmp_path / name for name in "abc"]
    for root, label in zip(roots, ("1", "2", "3"), strict=True):
        (root / ".cfetch").mkdir(parents=True)
        (root / ".cfetch/volume").write_text(label)
    plan: Any = range(3)
    job = SharedJob(roots=list(map(str, roots)), labels=["1", "other", None], wall_start_s=0.0)
    here = double(table=double(node=double(owner=double(host="h"))), processes=1, clock=None)
    with closing(Volumes(roots, state=tmp_path / "state", write_timeout_s=9.0)) as volumes:
        tasks = JoinedTasks(plan, volumes, Settings(), here, job)
    assert tasks.blind == roots[1:2]
    (note,) = tasks.prepare(Account(), tmp_path)
    assert f"does not see {roots[1]}" in note


def test_the_leaders_word_that_all_is_over_counts_after_its_run(tmp_path):
    """A node that joined ends with the same result then; without that word it looks at the plan again."""
    with open_table(tmp_path, [tmp_path], Heartbeats()) as table:
        over = tmp_path / "over-1"
        guard = JoinedGuard(table, "20261129T000000000Z-aaaa", 1, over)
        with pytest.raises(Held):
            guard.confirm()
        over.touch()
        guard.confirm()


def test_a_node_that_lacks_a_volume_leads_no_run(monkeypatch):
    """It waits until another node leads, or the plan is completed: it would bring again what it lacks."""
    clock = iter(range(99))
    table: Any = double(node=double(monotonic=lambda: next(clock), sleep=lambda seconds: None))
    courses = iter([Course.ENDED, Course.RUNNING, Course.COMPLETED])
    monkeypatch.setattr(joining, "find_epoch", lambda table, instant: 1)
    monkeypatch.setattr(joining, "read_course", lambda *facts: next(courses, Course.ENDED))
    notes: list[Any] = []
    waits = [wait_for_leader(table, "i", [Path("/b")], 9.0, notes.append) for _ in range(2)]
    assert waits == [True, False]
    assert ["sees /b to lead" in event.note for event in notes] == [True]
    with pytest.raises(LocalFault, match="cannot lead, as it does not see /b"):
        wait_for_leader(table, "i", [Path("/b")], 9.0, notes.append)


def test_a_node_that_has_joined_without_a_volume_asks_before_it_leads():
    """It does not take the plan when the leader's run has ended; one that sees all volumes does."""
    calls: list[str] = []

    class Node(SimpleNamespace):
        """Joins a run whose leader dies; another run completes the plan then."""

        def may_take_part(self, listener):
            calls.append("may take part")
            return calls.count("join") == 0

        def run(self, listener, *, together):
            calls.append("run")
            raise Held("another run has the plan")

        def join(self, listener):
            calls.append("join")
            assert calls.count("join") == 1

    node: Any = Node()
    assert run_together(node, print) is None
    assert calls == ["may take part", "run", "join", "may take part"]


@pytest.mark.parametrize(("completed", "said"), [(3, ["a", "b, surely"]), (2, ["a"])])
def test_files_on_a_volume_that_a_node_lacks_are_in_place_if_the_leader_says_so(
    tmp_path, monkeypatch, completed, said
):
    """Receipts go with a completed plan, maybe before the node has read the last of them."""
    plan: Any = range(3)
    roots, emitted = (tmp_path / "a", tmp_path / "b"), []
    monkeypatch.setattr(engine, "count_completed", lambda table, instant: completed)
    tasks = double(roots=roots, blind=roots[1:], is_whole=True)
    nodes = NodesEngine(tasks, double(plan=plan, root=roots[0]), NO_TABLE)
    driver = double(
        emit_unreported=lambda root, looks=True: emitted.append(root.name + ("" if looks else ", surely"))
    )
    nodes._emit_rest(double(counts=LiveCounts(), guard=double(instant="i")), driver)
    assert emitted == said


def test_a_node_does_not_wait_for_a_volume_that_hangs_when_the_plan_is_completed(tmp_path, monkeypatch):
    """It takes the leader's word for the files there, and names the volume."""
    roots = (tmp_path / "a", tmp_path / "b")
    for root in roots:
        root.mkdir()
    (roots[0] / "one").write_bytes(b"1")
    entries = [entry_of(number, path, b"1") for number, path in enumerate(("one", "two"))]
    monkeypatch.setattr(engine, "count_completed", lambda table, instant: 2)
    monkeypatch.setitem(hanging_calls._hanging, str(roots[1]), 1)
    opened = []

    def open_directory(root):
        opened.append(root)
        return Directory(root)

    monkeypatch.setattr("cfetch.tasks.shares.driver.Directory", open_directory)
    plan = freeze_entries(entries, name="m.json", directory=tmp_path)
    setup = DriverSetup(plan, roots[0], tmp_path / "st", Settings(), double(), SystemClock())
    tasks = double(roots=roots, blind=(), is_whole=True)
    nodes = NodesEngine(tasks, setup, NO_TABLE)
    events: list[Any] = []
    guard: Any = double(instant="20261129T000000000Z-aaaa", epoch=1)
    run = Run(guard, tell_each(events.append), LiveCounts(), RunClock(SystemClock()))
    with closing(plan):
        nodes._emit_rest(run, nodes.drive(run))
    assert opened == [roots[0]]
    (note,) = [event.note for event in events if isinstance(event, RunNoted)]
    assert note.startswith(f"{roots[1]} does not answer; see whether it is still there; its files count")
    places = {each.record.path: each.record.volume for each in events if isinstance(each, EntryFinished)}
    assert places == {"one": str(roots[0]), "two": str(roots[1])}


def test_the_last_steps_do_not_wait_again_for_a_volume_that_hangs(tmp_path, monkeypatch):
    """A call on it is known to hang: no other is made, whatever directory of it that would be in."""
    roots = (tmp_path / "a", tmp_path / "b")
    parts = [root / ".cfetch/attempts/i/1/t7" for root in roots]
    for directory in parts:
        directory.mkdir(parents=True)
    monkeypatch.setitem(hanging_calls._hanging, str(roots[1]), 1)
    nothing: Any = ()
    setup = DriverSetup(nothing, roots[0], tmp_path / "st", Settings(), double(), SystemClock())
    run = Run(double(instant="i", epoch=1), print, LiveCounts(), RunClock(SystemClock()))
    ending = Driver(setup, double(roots=roots, leads=True, trusts_receipts=True), run, double(reason=None))
    monkeypatch.setattr(ending, "_run_tasks", lambda: None)
    assert ending.bring() is None
    assert [directory.exists() for directory in parts] == [False, True]
    volumes = [directory_destination(root, "i", 1) for root in roots]
    spec: Any = double(volumes=volumes, settings=Settings(), instant="i", epoch=1)
    bury_dead_task(double(find_volume=lambda task: 1), spec, None, 7, moves=True)
    assert parts[1].exists()


@pytest.mark.parametrize(
    ("roots", "given"), [(["a", "b"], ["b"]), ([], ["a", "b"]), (["a", "b"], ["a", "c"])]
)
def test_other_volumes_than_the_leaders_are_refused(roots, given):
    """The sentence names those of the leader."""
    job = SharedJob(roots=roots, labels=[None] * len(roots), wall_start_s=0.0)
    with pytest.raises(ConfigError, match=", ".join(roots) or "one directory"):
        refuse_other_volumes(given, job)


@pytest.mark.parametrize(
    ("mount", "meanwhile", "note"),
    [
        ("mount --bind v1 v1", "until mount -o remount,ro,bind v1; do sleep 0.01; done", ""),
        ("mount -t tmpfs tmpfs v1", "true", "does not see"),
    ],
    ids=["refuses", "another volume"],
)
def test_what_one_node_cannot_write_is_brought_by_others(tmp_path, namespaces, mount, meanwhile, note):
    """A volume that refuses the node in the middle, and one with another label, which is another volume.

    The last file comes when the node has joined: on a busy machine the leader would be done before.
    """
    last = list(FILES)[-1]
    late = LateContent(FILES[last])
    with serving({**FILES, last: late}, pace_bps=128 * KIB) as origin:
        scene = Scene(tmp_path, origin.url, Children(), job=Job(FILES, hashed=tuple(FILES), batches=BATCHES))
        place = Place(scene, 2)
        instant = schedule(scene, place)
        words = [sys.executable, "-m", "cfetch", "plan", "run", instant, "--together", "--json", *place.words]
        words += ["--processes", "1", "-j", "2", "--segments", "1"]
        leader = started(words)
        while not list(place.state.glob("plans/*/shares-*/job")):
            assert leader.poll() is None
            time.sleep(0.01)
        joined = "while ! ls st/plans/*/shares-*/grants/t* >/dev/null 2>&1; do sleep 0.01; done"
        script = f'cd {tmp_path}; {mount}; ({joined}; {meanwhile}) 2>/dev/null & cd "$OLDPWD"; exec "$@"'
        node = started(["unshare", "-Urm", "sh", "-ec", script, "sh", *words])
        while len(list(place.state.glob("plans/*/shares-*/heartbeats/*.json"))) < 2:
            assert (leader.poll(), node.poll()) == (None, None)
            time.sleep(0.01)
        late.may_come.set()
        (out, _), (_, said) = leader.communicate(timeout=TIMEOUT_S), node.communicate(timeout=TIMEOUT_S)
    assert [leader.returncode, node.returncode] == [0, 0], said
    assert note in said
    assert place.look() == []
    (summary,) = json.loads(out)["summaries"]
    assert summary["files"]["done"] == len(FILES)
