"""Processes on the real file system, with clocks that a test sets; they beat when the test says so."""

from contextlib import ExitStack

from cfetch.timeline import execution, heartbeat
from cfetch.timeline.execution import schedule
from cfetch.timeline.files import LocalFiles
from cfetch.timeline.heartbeat import Heartbeats
from cfetch.timeline.lock import LOCK
from cfetch.timeline.owner import Owner
from cfetch.timeline.records import PlanRecord
from cfetch.timeline.states import Kind, instant_wall_s, parse
from cfetch.timeline.store import TIMELINE
from cfetch.timeline.table import Node, Table

__all__ = ["MINUTE_S", "Processes", "look", "nobody", "start"]

MINUTE_S = 60.0
START_S = 1_800_000_000.0


def nobody(why):
    """For executions that are never lost."""
    raise AssertionError(why)


def start(table, instant, **how):
    """``execution.start``, for tests that know what comes out."""
    return execution.start(table, instant, **how)


def look(files, instant, now_s):
    """``heartbeat.find_beat``, in the same way."""
    return heartbeat.find_beat(files, instant, now_s)


class Still:
    """Beats only when the test does it."""

    def __init__(self, pulse):
        self.pulse = pulse

    def stop(self):
        """Nothing to stop."""


class Aging(LocalFiles):
    """Instants age by the test's clock; the file system's own clock is asked by the table lock."""

    def __init__(self, root, now_s):
        super().__init__(root)
        self._now_s = now_s
        self._locked_s = 0.0

    def modified_s(self, path):
        modified_s = super().modified_s(path)
        if path == LOCK:
            self._locked_s = modified_s
        folder, _, name = path.rpartition("/")
        instant = parse(name) if folder == TIMELINE else None
        if instant is None:
            return modified_s
        return self._locked_s - (self._now_s() - instant_wall_s(instant.instant))


class Processes:
    """A directory that several processes share. ``time_s`` is the true time; their clocks differ from it."""

    def __init__(self, root):
        self.root = root
        self.state = root / ".cfetch"
        self.time_s = 0.0
        self.slept_s = 0.0
        self.dead = set()
        self.pulses = {}
        self._made = 0
        self._stack = ExitStack()

    def table(self, name, *, host="here", wall_error_s=0.0, heartbeats=None, sleep=None):
        """A process that has the timeline open. ``sleep``: else it moves the test's clock."""
        self._made += 1
        number = self._made
        owner = Owner(
            host=host, machine=host, boot_id="b", pid_space=1, pid=number, started=1, token=f"{name}-{number}"
        )
        tails = iter(range(10_000))
        node = Node(
            owner=owner,
            monotonic=lambda: 1000.0 * number + self.time_s,
            wall=lambda: START_S + self.time_s + wall_error_s,
            sleep=sleep or self.sleep,
            tail=lambda: f"{number:02x}{next(tails):04x}",
            is_gone=lambda other: other.token in self.dead,
            has_restarted=lambda other: False,
        )
        files = Aging(self.state, lambda: START_S + self.time_s)
        self._stack.callback(files.close)

        def keep(pulse, interval_s, on_lost):
            self.pulses[name] = pulse
            return Still(pulse)

        return Table(files, [files], node, heartbeats or Heartbeats(), keep_beating=keep)

    def sleep(self, seconds):
        self.time_s += seconds
        self.slept_s += seconds

    def kill(self, table):
        """Its death can be proved from now on."""
        self.dead.add(table.node.owner.token)

    def schedule(self, table, kind=Kind.IMMUTABLE, fingerprint="f"):
        """A plan on the timeline."""
        record = PlanRecord(
            kind=kind, fingerprint=fingerprint, manifest="m.json", destinations=("d",), files=2, bytes=20
        )
        return schedule(table, table.new_instant(), record)

    def names(self):
        """The timeline's files, without the instants' own times."""
        return sorted(path.name.partition(".")[2] for path in (self.state / "timeline").iterdir())

    def part(self, execution, name, data=b"part"):
        """A part of an execution."""
        path = self.state / execution.staging / name
        path.write_bytes(data)
        return path

    def close(self):
        self._stack.close()
