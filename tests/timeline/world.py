"""Nodes that run the real timeline on a fake disk, one operation at a time, and an oracle that watches them.

A node is a greenlet, so only one runs at any moment: ``World.run`` lets a node do so many operations and then
stops it wherever it is, also inside a transaction or a heartbeat. A stopped node may be killed, or left while
time passes; with ``frozen`` its own clocks do not even see that it does, as on a suspended machine.
"""

import re
from contextlib import contextmanager
from typing import Any

from greenlet import getcurrent, greenlet

from cfetch.base.errors import CfetchError, Held
from cfetch.timeline.clean import clean
from cfetch.timeline.execution import Completed, Execution, schedule, start
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.owner import Owner
from cfetch.timeline.records import PlanRecord
from cfetch.timeline.states import Action, Kind, State, Transition, after, parse
from cfetch.timeline.table import Node, Table
from tests.timeline.disk import Disk, DiskFiles, Inode

__all__ = [
    "BEATS",
    "DELAY_S",
    "FILES",
    "Killed",
    "Machine",
    "Violation",
    "World",
    "clean_up",
    "execute",
    "whole",
]

FILES = ("a", "b")
CHUNKS = 2
DELAY_S = 3600.0
START_S = 1_800_000_000.0
MAX_OPERATIONS = 20_000  # of one program; more is a loop without an end
BEATS = Heartbeats(interval_s=10.0, misses=2)


class Killed(BaseException):
    """The node's process is gone; whatever it still tries has no effect."""


class Violation(AssertionError):
    """An invariant, K1 to K9, does not hold."""


def chunk(name, version, number):
    return f"{name}{number} of {version};".encode()


def whole(name, version):
    return b"".join(chunk(name, version, number) for number in range(CHUNKS))


def version_of(data):
    """Whose bytes a part begins with."""
    return re.match(rb"\w+ of (\w+);", data)


def is_right(name, data):
    """Whole, and of one version."""
    found = version_of(data)
    return found is not None and data == whole(name, found[1].decode())


class Machine:
    """A node: a process, its clocks, its way to the disk, and the program it runs."""

    def __init__(self, world, name, *, host="one", offset_s=0.0, rate=1.0, table=Table, careless=True):
        """``offset_s`` is the wall clock's error, ``rate`` the monotonic clock's."""
        self.world = world
        self.name = name
        self.host = host
        self.careless = careless
        self.offset_s = offset_s
        self.rate = rate
        self.frozen_s = 0.0
        self.frozen = False
        self.killed = False
        self.budget = 0
        self.operations = 0
        self.pulses = []
        self.beating = False
        self.lost = None
        self.outcome = None
        self.program: Any = None
        self.caller: Any = None
        self.files = DiskFiles(world.disk, self.step)
        self.owner = Owner(
            host=host, machine=host, boot_id=world.boot, pid_space=1, pid=len(world.nodes) + 1, started=1,
            token=f"{name}{len(world.nodes)}",
        )  # fmt: skip
        self._tails = 0
        node = Node(
            owner=self.owner,
            monotonic=self.monotonic,
            wall=lambda: START_S + world.time_s + self.offset_s,
            sleep=self.sleep,
            tail=self.tail,
            is_gone=self.is_gone,
            has_restarted=lambda owner: owner.host == host and owner.boot_id != world.boot,
        )
        self._new_table = lambda: table(self.files, [self.files], node, BEATS, keep_beating=self.keep_beating)

    def make_table(self):
        """What the program works with; the time under the lock is measured."""
        table = self._new_table()
        held = table.lock.hold

        @contextmanager
        def measured():
            with held() as now_s:
                before = self.operations
                yield now_s
                self.world.longest_lock = max(self.world.longest_lock, self.operations - before)

        table.lock.hold = measured
        return table

    def monotonic(self):
        return (self.world.time_s - self.frozen_s) * self.rate + 7 * self.owner.pid

    def tail(self):
        self._tails += 1
        return f"{self.owner.pid % 256:02x}{self._tails % 256:02x}"

    def is_gone(self, owner):
        return any(one.owner == owner and one.killed and one.host == self.host for one in self.world.nodes)

    def sleep(self, seconds):
        """Longer than was asked for: a wait for a stopped node must not fill the schedule with polling."""
        self.world.advance(40 * seconds)

    def keep_beating(self, pulse, interval_s, on_lost):
        held = [pulse, self.monotonic() + interval_s, interval_s, on_lost]
        self.pulses.append(held)
        return _Beating(self, held)

    def step(self, what):
        """An operation is about to happen."""
        self._beat()
        if self.killed:
            raise Killed
        self.operations += 1
        if self.operations > MAX_OPERATIONS:
            raise Violation(f"K9: {self.name} never ends ({what})")
        if self.budget == 0:
            self.caller.switch()
            if self.killed:
                raise Killed
        self.budget -= 1
        self.world.acting = self

    def _beat(self):
        if self.beating or self.killed:
            return
        self.beating = True
        try:
            for held in list(self.pulses):
                pulse, due_s, interval_s, on_lost = held
                if self.monotonic() >= due_s:
                    held[1] = self.monotonic() + interval_s
                    pulse.beat()
                    if pulse.lost:
                        self.pulses = [one for one in self.pulses if one is not held]
                        on_lost(pulse.lost)
        finally:
            self.beating = False

    def begin(self, program, *arguments):
        """Start a program; it does nothing before its first budget."""
        self.outcome, self.operations, self.lost = None, 0, None

        def run():
            try:
                if not self.killed:
                    self.outcome = program(self, *arguments) or "done"
            except Killed:
                self.outcome = "killed"
            except CfetchError as error:
                self.outcome = error
            except BaseException as error:
                self.outcome = self.world.broken = error
            finally:
                self.program = None

        self.program = greenlet(run)  # threads, which hand each operation over, take twice the time
        return self

    def go_on(self):
        """Let the program run until its budget is used, or it has ended."""
        self.caller = self.program.parent = getcurrent()
        self.program.switch()


class _Beating:
    def __init__(self, machine, held):
        self.machine, self.held = machine, held

    def stop(self):
        self.machine.pulses = [one for one in self.machine.pulses if one is not self.held]


class World:
    """The disk, the time, the nodes, and what the oracle knows."""

    def __init__(self):
        self.time_s = 0.0
        self.boot = "boot 1"
        self.acting = None
        self.broken = None
        self.nodes = []
        self.disk = Disk(lambda: START_S + self.time_s)
        self.kinds = {}
        self.committed = {}
        self.claimer = {}
        self.told = set()  # what a caller was told, a power cut may not take back
        self.told_committed = set()
        self.removed = set()
        self.longest_lock = 0
        self.skips = True  # files in place are not fetched again
        self.starts_over = lambda: False  # the server has another version of a file that a part was kept of
        watched = self.disk.change
        self.disk.change = lambda *bindings: self._watch(watched, bindings)  # type: ignore[method-assign]
        setup = self.node("setup")
        self.finish(setup.begin(lambda node: [node.files.make_directory(one) for one in ("out", "attempts")]))
        self.disk.flush("")

    def node(self, name, **how):
        self.nodes.append(Machine(self, name, **how))
        return self.nodes[-1]

    def advance(self, seconds):
        self.time_s += seconds
        for node in self.nodes:
            if node.frozen:
                node.frozen_s += seconds

    def run(self, node, operations=None):
        """Let ``node`` do so many operations, or all it has; whether its program has ended."""
        if node.program is None:
            return True
        node.frozen = False
        node.budget = -1 if operations is None else operations
        if operations == 0:
            return False
        node.go_on()
        if self.broken is not None:
            raise self.broken
        return node.program is None

    def finish(self, *nodes):
        for node in nodes:
            while not self.run(node):
                pass
        return nodes[-1].outcome

    def kill(self, node):
        node.killed = True
        node.pulses = []
        if node.program is not None:
            node.go_on()

    def power_cut(self, chance):
        """All machines go down, and come up as others, with what the disk has kept."""
        for node in self.nodes:
            self.kill(node)
        self.disk.power_cut(chance)
        there = {entry.instant for entry in map(parse, self._names()) if entry is not None}
        for instant in self.told:
            if instant not in there | self.removed:
                raise Violation(f"K3: {instant} is lost")
        done = {
            entry.instant for entry in map(parse, self._names()) if entry and entry.state is State.COMPLETED
        }
        if self.told_committed - done:
            raise Violation(f"K3: {self.told_committed - done} was committed, and is not any more")
        self.committed = {one: epoch for one, epoch in self.committed.items() if one in done}
        self.removed -= there
        self.boot = f"boot {self.time_s}"

    def _names(self):
        return [path.rpartition("/")[2] for path in self.disk.below("timeline")]

    def close(self):
        for node in self.nodes:
            self.kill(node)

    def _watch(self, change, bindings):
        """K1, K2, K3, K4, K5 and K8 at every single change of a name."""
        by = self.acting
        entries = [
            (entry, target)
            for path, target in bindings
            if path.startswith("timeline/") and (entry := parse(path.rpartition("/")[2])) is not None
        ]
        old = [entry for entry, target in entries if target is None]
        new = [entry for entry, target in entries if target is not None]
        self._check_step(old, new)
        for path, target in bindings:
            if path.startswith("out/"):
                self._check_publish(path.removeprefix("out/"), target, bindings)
        change(*bindings)
        for entry in new:
            if entry.action is Action.DOWNLOAD and entry.state is State.COMPLETED and old:
                self._check_commit(old[0], by)
            elif entry.action is Action.DOWNLOAD and old and entry.epoch > old[0].epoch:
                self.claimer[entry.instant] = by

    def _check_step(self, old, new):
        if old and new:
            kind = self.kinds.get(old[0].instant, Kind.IMMUTABLE)
            nexts = set()
            for event in Transition:
                try:
                    nexts.add(after(old[0], event, kind))
                except ValueError:
                    continue
            if new[0] not in nexts:
                raise Violation(f"K3: {old[0].name} became {new[0].name}")
        for entry in new:
            if entry.instant in self.removed:
                raise Violation(f"K4: {entry.name} is back")
        if old and not new and old[0].action is Action.DOWNLOAD and old[0].state is not State.COMPLETED:
            if self.kinds[old[0].instant] is Kind.IMMUTABLE:
                raise Violation(f"K5: {old[0].name} was removed")
            if old[0].instant in self.committed:
                raise Violation(f"K4: {old[0].name} was committed and removed")
            self.removed.add(old[0].instant)

    def _check_commit(self, entry, by):
        if entry.instant in self.committed:
            raise Violation(f"K1: {entry.instant} was committed twice")
        if by is not self.claimer[entry.instant]:
            raise Violation(f"K1: {by.name} committed what {self.claimer[entry.instant].name} had claimed")
        self.committed[entry.instant] = entry.epoch
        self.check_files()

    def _check_publish(self, name, target, bindings):
        """Only whole files get a final name, and none once another epoch has committed the plan."""
        if target is None or not is_right(name, target.data):
            raise Violation(f"K2: {name} is {target and target.data!r}")
        source = next((path for path, gone in bindings if gone is None), "")
        found = re.match(r"attempts/([^/]+)/(\d+)", source)
        if found and found[1] in self.removed:
            raise Violation(f"K4: epoch {found[2]} published {name} of a plan that was rolled back")
        if found and self.committed.get(found[1], int(found[2])) != int(found[2]):
            raise Violation(f"K2: epoch {found[2]} published {name} after epoch {self.committed[found[1]]}")

    def check_files(self):
        """K2: what a completed plan names is there, whole; zombies may write into open files at any time."""
        if not self.committed:
            return
        for name in FILES:
            found = self.disk.bound.get(f"out/{name}")
            if not isinstance(found, Inode) or not is_right(name, found.data):
                raise Violation(f"K2: {name} of a completed plan is {found and found.data!r}")

    def schedule(self, kind=Kind.IMMUTABLE, *, by=None):
        """A plan on the timeline."""
        node = by or self.node("scheduler")
        instants = []

        def program(node):
            table = node.make_table()
            instant = table.new_instant()
            self.kinds[instant] = kind
            record = PlanRecord(
                kind=kind, fingerprint="f", manifest="m", destinations=("out",), files=len(FILES), bytes=0
            )
            instants.append(schedule(table, instant, record))

        self.finish(node.begin(program))
        self.told.update(instants)
        return instants[0]


def execute(node, instant, download=None, commit=Execution.commit):
    """What a download does between start and commit; a careless one never asks if it is still its turn."""
    download = download or fenced_download

    def lost(why):
        node.lost = why

    execution = start(node.make_table(), instant, on_lost=lost, salvage=lambda dead: dead.names)
    if isinstance(execution, Completed):
        return "completed before"
    for name in FILES:
        if not node.careless:
            execution.check()
        try:
            data = node.files.read(f"out/{name}")
            if is_right(name, data) and node.world.skips:
                continue
        except FileNotFoundError:
            pass
        try:
            download(node, execution, name)
        except FileNotFoundError:  # fenced: the directory has gone
            execution.fail()
            raise Held("fenced") from None
    node.step("flush out")
    node.world.disk.flush("out")
    commit(execution, files=len(FILES), size_bytes=1)
    node.world.told_committed.add(instant)
    return f"committed {execution.epoch}"


def fenced_download(node, execution, name):
    """One file: a kept part is gone on with, or begun anew in the same file; then bytes, flush, rename."""
    part = f"{execution.staging}/{name}"
    version = f"{node.name}{execution.epoch}"
    position = 0
    for kept in node.files.names(f"attempts/{execution.instant}"):
        if kept.startswith(f"{execution.epoch}-"):
            try:
                node.files.rename(f"attempts/{execution.instant}/{kept}/{name}", part)
            except FileNotFoundError:
                continue
            data = node.files.read(part)
            found = version_of(data)
            inode = node.world.disk.file(part)
            position = min(data.count(b";"), CHUNKS)
            if found is None or position == 0 or node.world.starts_over():
                position = 0
                inode.data = b""
            else:
                version = found[1].decode()
                inode.data = b"".join(chunk(name, version, number) for number in range(position))
            break
    else:
        node.files.create(part, b"")
        inode = node.world.disk.file(part)
    for number in range(position, CHUNKS):
        node.step(f"write {part} {number}")  # through the open file, wherever it is by now
        before = len(b"".join(chunk(name, version, one) for one in range(number)))
        text = chunk(name, version, number)
        inode.data = inode.data[:before] + text + inode.data[before + len(text) :]
        node.world.check_files()
    node.step(f"flush {part}")
    inode.durable = inode.data
    node.files.rename(part, f"out/{name}")


def clean_up(node, keep_s=10 * 365 * 86400.0):
    """What ``cfetch plan clean`` does."""
    clean(node.make_table(), delay_s=DELAY_S, keep_s=keep_s)
