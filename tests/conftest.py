"""What all rooms' tests share: the hypothesis profile, and how tests are shared out."""

import compileall
import gc
import importlib
import os
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest
from hypothesis import settings

from tests import forked
from tests.storage.s3_server import bucket, moto_server  # noqa: F401 - fixtures
from tests.warm import WarmPopen

with suppress(ModuleNotFoundError):  # the core's tests run without plug-ins too (core_only.py)
    from tests.plugins.spark.session import spark  # noqa: F401 - a fixture

if sys.platform == "linux":  # it needs prctl and /proc
    subprocess.Popen = WarmPopen  # type: ignore[misc]  # also for asyncio, which asks the module for it
for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[name]  # messages name a proxy of this machine that is not used
pytest_addoption, pytest_runtestloop = forked.pytest_addoption, forked.pytest_runtestloop
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
    "tests/plugins/spark/tables/test_chunks.py",
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


@pytest.hookimpl(wrapper=True)
def pytest_collection(session):
    """Collect with bytecode at hand.

    The collector of garbage finds next to nothing while ten thousand tests are made, for a quarter of the
    time.
    """
    config = session.config
    gc.disable()
    try:
        if forked.count_processes(config) and config.args == config.getini("testpaths"):
            _write_bytecode(config.rootpath)
        return (yield)
    finally:
        gc.enable()


def _write_bytecode(root):
    """Compile what has changed, on all processors, also where Python is told to write no bytecode.

    Hundreds of commands start here, each of which would compile the package anew, for a quarter of its time.
    To rewrite the asserts of all test modules takes one process 12 s. Bytecode of the package has its
    source's digest, so that it is never stale. An error of a module comes again when it is collected.
    """
    if sys.dont_write_bytecode:
        mode = PycInvalidationMode.CHECKED_HASH
        compileall.compile_dir(root / "cfetch", quiet=2, workers=0, invalidation_mode=mode)
    sys.dont_write_bytecode = False  # the commands that tests start still write none
    modules = [path for path in (root / "tests").rglob("test_*.py") if _is_stale(path)]
    shares = [share for number in range(os.cpu_count() or 1) if (share := modules[number :: os.cpu_count()])]
    processes = [os.fork() or _load(share, root) for share in shares]
    for process in processes:
        os.waitpid(process, 0)


def _is_stale(path):
    """Whether pytest has no bytecode of a test module, or older one."""
    name = f"{path.stem}.{sys.implementation.cache_tag}-pytest-{pytest.__version__}.pyc"
    try:
        return (path.parent / "__pycache__" / name).stat().st_mtime < path.stat().st_mtime
    except FileNotFoundError:
        return True


def _load(modules, root):
    """Import modules, in a process that then ends."""
    for path in modules:
        with suppress(Exception, pytest.skip.Exception):
            importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
    os._exit(0)


def pytest_collection_modifyitems(config, items):
    """Begin with the groups, and mix tests that wait among those that compute; one process keeps its order.

    Where the ones that wait came last, the processors stood still for a third of that time.
    """
    for item in items:
        if group := find_group(item.nodeid):
            item.stash[forked.GROUP] = group
    if not forked.count_processes(config):
        return
    names = dict.fromkeys(forked.find_function(item) for item in items if forked.GROUP not in item.stash)
    waiting = [name for name in names if name.startswith(WAITING)]
    others = [name for name in names if not name.startswith(WAITING)]
    places = {name: number / len(others) for number, name in enumerate(others)}
    places |= {name: WAITED * number / len(waiting) for number, name in enumerate(waiting)}
    items.sort(key=lambda item: places.get(forked.find_function(item), -1.0))


def pytest_collection_finish():
    """Keep ten thousand tests out of the collector's sight, which else looks at them in each full turn."""
    gc.freeze()
