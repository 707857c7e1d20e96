"""Several processes keep the contract of engines."""

from contextlib import contextmanager
from types import SimpleNamespace

from cfetch.base.clock import SystemClock
from cfetch.base.errors import LocalFault
from cfetch.plugins.lab.bench.content import pieces
from cfetch.run.fresh_links import ManifestRef
from cfetch.straggler.knowledge import NOTHING
from cfetch.tasks.processes import engine
from cfetch.tasks.processes.engine import LocalTasks
from cfetch.tasks.shares.driver import DriverSetup, ShareEngine
from tests.run.engines import FILES, NAMES, EngineContract
from tests.tasks.scene import served


class TestProcesses(EngineContract):
    """Two children of this process."""

    @contextmanager
    def engine_of(self, scene):
        """The state is in the destination."""
        clock, origin = SystemClock(), ManifestRef("m.json", None, None)
        setup = DriverSetup(scene.plan, scene.to, scene.to / ".cfetch", scene.settings, origin, clock)
        yield ShareEngine(LocalTasks(scene.plan, scene.settings, 2, clock), setup)

    def test_files_that_a_full_disk_left_without_a_report_are_counted(self, scene_of, monkeypatch):
        """They stand, whatever the receipts say; a shorter file does not count."""

        def work(*_, **__):
            (scene.to / "d").mkdir()
            for name in NAMES[:4]:
                (scene.to / name).write_bytes(b"".join(pieces(FILES[name])))
            (scene.to / NAMES[4]).write_bytes(b"cut short")
            return SimpleNamespace(
                failure=LocalFault("the disk is full"),
                learned=NOTHING,
                start=lambda: None,
                stop=lambda: None,
                take_notes=list,
                views=list,
                wait=lambda _: True,
            )

        monkeypatch.setattr(engine, "ChildProcesses", work)
        with served(FILES) as origin, scene_of(origin) as scene:
            summary = scene.go()
        assert (summary.exit_code, summary.files.skipped, summary.files.done) == (3, 4, 0)
