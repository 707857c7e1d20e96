"""What all rooms' tests share: the hypothesis profile, and how tests are shared out."""

import compileall
import gc
import importlib
import os
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from functools import cached_property, partial
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

from tests.storage.s3_server import bucket, moto_server  # noqa: F401 - fixtures
from tests.warm import WarmPopen

with suppress(ModuleNotFoundError):  # the core's tests run without plug-ins too (core_only.py)
    from tests.plugins.spark.session import spark  # noqa: F401 - a fixture

if sys.platform == "linux":  # it needs prctl and /proc
    subprocess.Popen = WarmPopen  # type: ignore[misc]  # also for asyncio, which asks the module for it
if "PYTEST_XDIST_WORKER" in os.environ:  # under nohup, or in a script's background, tests end by signals too
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.dont_write_bytecode = False  # see ``pytest_collection``; commands that tests start still write none
for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]  # messages name a proxy of this machine that is not used
settings.register_profile("cfetch", deadline=None)  # a loaded machine is slow, not wrong
settings.load_profile("cfetch")
OBJECT_STORE = (  # the tests that ask moto, whose server takes a second of a processor to start
    "tests/app/test_bucket_timeline.py",
    "tests/app/test_clashes.py::test_a_prefix_whose_names_clash_is_not_fetched_again",
    "tests/app/test_networks.py::test_private_buckets",
    "tests/app/test_object_sources.py",
    "tests/app/test_plan_guard.py::test_a_store_in_other_hands",
    "tests/app/test_second_run.py",
    "tests/app/test_sync.py::test_a_prefix_over_its_changes",
    "tests/app/test_verify_store.py",
    "tests/run/test_store_marks.py",
    "tests/storage/buckets/test_earlier_records.py",
    "tests/storage/buckets/test_object_",
    "tests/storage/test_contracts.py::TestObjectStoreVolume",
    "tests/timeline/test_bucket_files.py",
)
TOGETHER = dict.fromkeys(OBJECT_STORE, "object store") | {  # the same, or what reads all modules as trees
    "tests/base/test_backoff.py": "syntax",
    "tests/base/test_schemes.py": "syntax",
    "tests/test_house.py": "syntax",
    "tests/test_shape.py": "syntax",
    "tests/plugins/spark/": "spark",
    "tests/plugins/lab/tuning/test_tune.py": "spark",
    "tests/plugins/follow/backends/test_kinesis.py": "kinesis",
    "tests/show/page/test_browser.py": "chromium",
    "tests/crash/test_together.py": "two parents of children",
    "tests/test_packages.py": "wheel",
}

APART = (  # none uses that session, and the process that has it has most to do
    "tests/plugins/spark/frames/test_shards.py",
    "tests/plugins/spark/tables/test_store.py",
    "tests/plugins/spark/test_scale.py",
    "tests/plugins/spark/test_session.py::test_the_verb_makes_a_session_of_its_own",
    "tests/plugins/spark/test_session.py::test_what_spark_submit_was_given_goes_first_and_its_event_log_has_no_signature",
    "tests/plugins/spark/test_task.py",
)

WAITING = (  # tests that wait for processes, disks and clocks more than they compute
    "tests/volumes/",
    "tests/crash/",
    "tests/tasks/processes/",
    "tests/tasks/nodes/",
    "tests/tasks/hub/",
    "tests/app/test_plan_guard.py",
    "tests/timeline_soak/",
    "tests/plugins/follow/",
)
WAITED = 0.85  # of the run: then the last ones have begun, and what is left keeps all processors at work

MEMORY = Path("/dev/shm")
MEMORY_BYTES = 4 << 30


def pytest_configure():
    """Write the tests' files into memory: to make and remove them on a disk takes a fifth of a run.

    Not where the memory has little room, as in many containers, runs no programs, or keeps no attributes of
    files; and not where ``PYTEST_DEBUG_TEMPROOT`` names another directory, as for a run on a disk.
    """
    with suppress(OSError, AttributeError):
        state = os.statvfs(MEMORY)
        room = state.f_bavail * state.f_frsize >= MEMORY_BYTES and not state.f_flag & os.ST_NOEXEC
        with tempfile.NamedTemporaryFile(dir=MEMORY) as file:
            os.setxattr(file.fileno(), "user.cfetch.test", b"")
        if room:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))


def find_group(nodeid):
    """The group of tests that go to one process, if there is one."""
    known = {} if nodeid.startswith(APART) else TOGETHER
    return next((group for start, group in known.items() if nodeid.startswith(start)), None)


def find_function(nodeid):
    """What is a unit, elsewhere."""
    return nodeid.partition("[")[0]


class ServersTogether(LoadScopeScheduling):  # type: ignore[misc]
    """All tests that use one Spark session go to one process; elsewhere each function is a unit.

    xdist's own groups are lost under pytest 9.2 (pytest-xdist #1386).
    """

    def _split_scope(self, nodeid):
        return find_group(nodeid) or find_function(nodeid)

    def _assign_work_unit(self, node):
        """Send a unit by the numbers of its tests: xdist would search all for each."""
        scope, unit = self.workqueue.popitem(last=False)
        self.assigned_work.setdefault(node, {})[scope] = unit
        node.send_runtest_some([self.numbers[nodeid] for nodeid, is_done in unit.items() if not is_done])

    @cached_property
    def numbers(self):
        """The place of each test in the list that all processes have."""
        return {nodeid: number for number, nodeid in enumerate(self.collection)}

    def mark_test_complete(self, node, item_index, duration=0):
        """Forget a unit that is done: xdist would count all of them, thousands, after each test."""
        units = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        super().mark_test_complete(node, item_index, duration)
        if all(units[scope].values()):
            del units[scope]


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Each process begins with a share of the test modules, and writes bytecode for the others.

    To rewrite the asserts of all modules takes 12 s, which each process would spend on the same ones. An
    error of a module comes again when it is collected. The collector finds next to nothing while ten thousand
    tests are made, for a quarter of the time.
    """
    gc.disable()
    try:
        _load_a_share(session.config)
        return (yield)
    finally:
        gc.enable()


def _load_a_share(config):
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "0"))
    if workers and config.args == config.getini("testpaths"):
        number = int(os.environ["PYTEST_XDIST_WORKER"].removeprefix("gw"))
        for path in sorted((config.rootpath / "tests").rglob("test_*.py"))[number::workers]:
            with suppress(Exception, pytest.skip.Exception):
                importlib.import_module(".".join(path.relative_to(config.rootpath).with_suffix("").parts))


def pytest_collection_modifyitems(items):
    """Begin with the groups, and mix tests that wait among those that compute; one process keeps its order.

    Where the ones that wait came last, the processors stood still for a third of that time.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return
    names = dict.fromkeys(find_function(item.nodeid) for item in items if not find_group(item.nodeid))
    waiting = [name for name in names if name.startswith(WAITING)]
    others = [name for name in names if not name.startswith(WAITING)]
    places = {name: number / len(others) for number, name in enumerate(others)}
    places |= {name: WAITED * number / len(waiting) for number, name in enumerate(waiting)}
    items.sort(key=lambda item: places.get(find_function(item.nodeid), -1.0))


def pytest_collection_finish(session):
    """Keep ten thousand tests out of the collector's sight, which else looks at them in each full turn."""
    gc.freeze()
    for plugin in session.config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor" and not session.config.option.durations:
            plugin.sendevent = partial(_send_what_counts, plugin.sendevent)


def _send_what_counts(send, name, **how):
    """Send one message a test, not five: nobody counts that it begins, ends, and is set up and left well.

    Both ends of ten thousand tests take half a millisecond of a processor for them.
    """
    report = how.get("data") if name == "testreport" else None
    is_plain = report and report["when"] != "call" and report["outcome"] == "passed"
    if name not in ("logstart", "logfinish") and not is_plain:
        send(name, **how)


def pytest_xdist_auto_num_workers(config):
    """Three processes more than processors: more than half of a run's time its tests wait for others.

    With two more, the processors stood still for three tenths of a run. To collect costs each process some
    six seconds of a processor, and it takes two thirds of a gigabyte.
    """
    return (os.cpu_count() or 1) + 3


def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False  # as they are sorted here
    return ServersTogether(config, log)


def pytest_xdist_setupnodes():
    """Compile the package once where Python is told to write no bytecode: hundreds of commands start here.

    Each would compile it anew, for a quarter of its time. Bytecode with its source's digest is never stale.
    """
    if sys.dont_write_bytecode:
        package = Path(__file__).parents[1] / "cfetch"
        compileall.compile_dir(package, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
