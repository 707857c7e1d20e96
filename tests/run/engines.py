"""The contract of ``Engine``: what holds of a run, whichever engine brings the entries."""

import threading
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import msgspec
import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.config.settings import Settings
from cfetch.base.errors import Held
from cfetch.base.events import (
    EntryFinished,
    Event,
    Progress,
    RetryScheduled,
    RunFinished,
    RunStarted,
    RunStopping,
    tell_each,
)
from cfetch.manifest.checked_entries import freeze_entries
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.run.frame import Engine, RunFrame
from cfetch.show.metrics import MetricsFile
from tests.engine.drive import entry_of, tree
from tests.tasks.scene import asked, files_of, served, whole

__all__ = ["EngineContract", "FakeGuard", "LateContent", "Scene"]

FILES = files_of(6)
NAMES = list(FILES)
TOTAL_BYTES = 6000
STALLED = {NAMES[-1]: Fault(kind="stall", after_bytes=10, first=0)}
LOST = "plan was taken over"


class FakeGuard:
    """Guards nothing; ``lost`` is what it raises when it is asked."""

    instant = "20260101T000000000Z-0000"
    epoch = 1
    run_id = f"{instant}.1"

    def __init__(self):
        self.lost = None
        self.asked = 0
        self.committed = []

    def confirm(self):
        self.asked += 1
        if self.lost is not None:
            raise self.lost

    def commit(self, *, files, size_bytes):
        self.committed.append((files, size_bytes))


class LateContent:
    """A file that comes when it may; until then its server says nothing more to anybody."""

    def __init__(self, inner):
        self.inner = inner
        self.size_bytes, self.etag = inner.size_bytes, inner.etag
        self.may_come = threading.Event()

    def read(self, offset, length):
        """Read its bytes."""
        self.may_come.wait(60)
        return self.inner.read(offset, length)

    def sha256(self):
        """Its hash, at once."""
        return self.inner.sha256()


class Scene:
    """One run: ``engine`` is made for it, ``guard`` keeps it, ``events`` are what it emits."""

    def __init__(self, folder, plan, settings):
        self.plan = plan
        self.settings = settings
        self.to = folder / "to"
        self.staging = f"attempts/{FakeGuard.instant}/1"
        (self.to / ".cfetch" / self.staging).mkdir(parents=True)
        self.metrics = folder / "m.jsonl"
        self.guard = FakeGuard()
        self.events: list[Event] = []
        self.engine: Any = None

    def of(self, kind):
        """The events of one kind."""
        return [event for event in self.events if isinstance(event, kind)]

    def go(self, on_event=lambda _: None):
        """Run to the end; the summary."""

        def listener(event):
            self.events.append(event)
            on_event(event)

        frame = RunFrame(self.engine, self.plan, [self.to], self.settings, SystemClock())
        return frame.go(self.guard, MetricsFile(self.metrics), tell_each(listener))


def once_under_way(act, *, done=5):
    """A listener that calls ``act`` from another thread when ``done`` files are in place and one is not."""
    begun: list[threading.Thread] = []

    def listener(event):
        if not begun and isinstance(event, Progress) and event.done >= done and event.active:
            begun.append(threading.Thread(target=act))
            begun[0].start()

    return listener


class EngineContract:
    """``engine_of`` is the subclass's: an engine for a scene, in a context that lasts as long as its run."""

    def engine_of(self, scene: Scene) -> AbstractContextManager[Engine]:
        """Make the engine."""
        raise NotImplementedError

    @pytest.fixture
    def scene_of(self, tmp_path):
        """A run of ``FILES`` at an origin; ``twin``: the last of them once more, under this path."""

        @contextmanager
        def make(origin, *, twin=None, **options):
            settings = Settings(to=(str(tmp_path / "to"),), mitigation=False, **options)
            host = origin.url.removeprefix("http://").strip("/")
            entries = [entry_of(n, name, b"", size=1000, host=host) for n, name in enumerate(NAMES)]
            if twin is not None:
                entries.append(msgspec.structs.replace(entries[-1], path=twin))
            (tmp_path / "plan").mkdir()
            with freeze_entries(entries, name="m.json", directory=tmp_path / "plan") as plan:
                scene = Scene(tmp_path, plan, settings)
                with self.engine_of(scene) as scene.engine:
                    yield scene

        return make

    def test_all_entries_are_brought_and_the_plan_is_committed(self, scene_of):
        """The run begins, each entry ends once, and the run ends with a summary of them."""
        with served(FILES) as origin, scene_of(origin) as scene:
            summary = scene.go()
        assert (summary.status, summary.exit_code, summary.files.done) == ("completed", 0, 6)
        assert sorted(event.record.path for event in scene.of(EntryFinished)) == NAMES
        assert (type(scene.events[0]), type(scene.events[-1])) == (RunStarted, RunFinished)
        assert scene.events[0].files == 6
        assert scene.guard.committed == [(6, TOTAL_BYTES)]
        assert tree(scene.to) == whole(FILES)

    def test_an_entry_that_cannot_be_had_leaves_the_plan_open(self, scene_of):
        """The others are in place; retries are the same live and in the summary."""
        faults = {
            NAMES[0]: Fault(kind="status", status=404, first=0),
            NAMES[1]: Fault(kind="reset", after_bytes=10),
        }
        with served(FILES, faults) as origin, scene_of(origin) as scene:
            summary = scene.go()
        assert (summary.status, summary.exit_code, summary.files.failed) == ("partial", 1, 1)
        assert [failure.path for failure in summary.failures] == [NAMES[0]]
        assert summary.retries == len(scene.of(RetryScheduled)) == 1
        assert scene.guard.committed == []
        assert tree(scene.to) == {name: body for name, body in whole(FILES).items() if name != NAMES[0]}

    def test_an_entry_whose_name_is_anothers_fails_alone(self, scene_of):
        """Without a request, though a file of its size stands under that name."""
        with served(FILES) as origin, scene_of(origin, twin=NAMES[0]) as scene:
            summary = scene.go()
            assert asked(origin) == dict.fromkeys(NAMES, 1)
        assert (summary.exit_code, summary.files.done, summary.files.failed) == (1, 6, 1)
        assert [(failure.path, failure.kind) for failure in summary.failures] == [(NAMES[0], "clash")]
        assert tree(scene.to) == whole(FILES)

    def test_a_stop_before_it_begins_ends_it_at_once(self, scene_of):
        """The reason is emitted, and nothing stays under way."""
        with served(FILES, STALLED) as origin, scene_of(origin, stall_timeout=600.0) as scene:
            scene.engine.stop("no more")
            summary = scene.go()
        assert [event.reason for event in scene.of(RunStopping)] == ["no more"]
        assert summary.files.done < 6
        assert scene.guard.committed == []

    def test_a_stop_from_another_thread_ends_what_is_under_way(self, scene_of):
        """What has been brought stays; the stop's reason is emitted once."""
        with served(FILES, STALLED) as origin, scene_of(origin, stall_timeout=600.0) as scene:
            summary = scene.go(once_under_way(lambda: scene.engine.stop("no more")))
        assert [event.reason for event in scene.of(RunStopping)] == ["no more"]
        assert (summary.files.done, summary.exit_code) == (5, 1)
        assert scene.guard.committed == []

    def test_an_error_of_a_listener_ends_what_is_under_way(self, scene_of):
        """A stalled file does not hold the run: the reason is emitted, and the error is raised at the end."""

        def fail(event):
            if isinstance(event, Progress) and event.active:
                raise IndexError("planted")

        with (
            served(FILES, STALLED) as origin,
            scene_of(origin, stall_timeout=600.0) as scene,
            pytest.raises(IndexError, match="planted"),
        ):
            scene.go(fail)
        (reason,) = [event.reason for event in scene.of(RunStopping)]
        assert "IndexError" in reason
        assert "planted" not in reason  # the text may hold a secret
        assert scene.guard.committed == []

    def test_a_plan_that_is_lost_ends_the_run(self, scene_of):
        """The guard is asked and says who has it now: exit 4, said once."""

        def lose():
            scene.guard.lost = Held(LOST)
            scene.engine.lose("no heartbeat")

        with served(FILES, STALLED) as origin, scene_of(origin, stall_timeout=600.0) as scene:
            summary = scene.go(once_under_way(lose))
        assert [event.reason for event in scene.of(RunStopping)] == [LOST]
        assert (summary.exit_code, summary.files.done) == (4, 5)
        assert scene.guard.committed == []

    def test_a_guard_that_was_wrong_changes_nothing(self, scene_of):
        """It is asked, and the plan is still this run's: all is brought, the last file after that."""
        late = LateContent(FILES[NAMES[-1]])

        class Asked(FakeGuard):
            def confirm(self):
                super().confirm()
                late.may_come.set()

        with served(FILES | {NAMES[-1]: late}) as origin, scene_of(origin) as scene:
            scene.guard = Asked()
            summary = scene.go(once_under_way(lambda: scene.engine.lose("no heartbeat"), done=0))
        assert (summary.exit_code, summary.files.done, scene.of(RunStopping)) == (0, 6, [])
        assert scene.guard.asked > 0
        assert scene.guard.committed == [(6, TOTAL_BYTES)]

    def test_metrics_that_cannot_be_written_end_the_run(self, scene_of):
        """Exit 3, and the fault says what to do; nothing is committed."""
        with served(FILES, STALLED) as origin, scene_of(origin, stall_timeout=600.0) as scene:
            scene.metrics = type(scene.metrics)("/dev/full")
            summary = scene.go()
            assert sum(asked(origin).values()) <= 6
        (stopping,) = scene.of(RunStopping)
        assert "cannot write the metrics file /dev/full" in stopping.reason
        assert (summary.exit_code, scene.guard.committed) == (3, [])
