"""Shares the tests among processes that are forked when they have been collected: ``--processes``.

A plug-in of pytest, whose hooks ``conftest.py`` imports.

pytest-xdist has each process collect all ten thousand tests for itself. That costs six seconds of a processor
and half a gigabyte a time, together an eighth of a run on two processors. Here one process collects. Its
children know the tests already, so that more of them than processors cost next to nothing: they keep the
processors at work while others wait for disks and servers.

The parent gives each child units of tests, by their numbers in the list that all have, and prints the reports
that come back. A child asks for its next unit while it still has one test to run, since pytest must know the
next test to see which fixtures to keep. When a child dies, the test that it ran has failed, and another child
gets what it had left.
"""

import os
import random
import selectors
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any

import pytest
from _pytest.config import create_terminal_writer

__all__ = ["GROUP", "count_processes", "find_function", "pytest_addoption", "pytest_runtestloop"]

Unit = list[int]  # places of tests in the list of all
GROUP = pytest.StashKey[str]()  # of a test: those with the same run in one process
PATIENCE_S = 10.0  # for children that are told to end in the midst of a test


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("general")
    group.addoption("--processes", metavar="N", help="in how many processes the tests run, or 'auto'")


def count_processes(config: pytest.Config) -> int:
    """In how many processes the tests run: 0 for this one alone.

    Where it is for us to say, three more than processors: more than half of a run's time its tests wait for
    others, and with two more, the processors stood still for three tenths of a run.
    """
    number = config.option.processes or "0"
    return (os.cpu_count() or 1) + 3 if number == "auto" else int(number)


def find_function(item: pytest.Item) -> str:
    """The function of a test, whose cases run in one process, one after the other."""
    return item.nodeid.partition("[")[0]


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool | None:
    """Run the tests; all of a group go to one process, elsewhere each function's.

    Raises ``Session.Failed`` and ``Session.Interrupted`` as pytest's own loop does, and ``RuntimeError`` when
    a child ends for another reason than a test.
    """
    processes = count_processes(session.config)
    if not processes or session.config.option.collectonly or session.testsfailed:
        return None
    units: dict[str, Unit] = {}
    for number, item in enumerate(session.items):
        units.setdefault(item.stash.get(GROUP, find_function(item)), []).append(number)
    _Parent(session, list(units.values()), processes).run()
    return True


@dataclass
class _Child:
    """What the parent knows of a child. ``left``: tests that it was given, from the one that it runs on."""

    name: str
    process: int
    left: Unit = field(default_factory=list)
    has_ended: bool = False


class _Parent:
    def __init__(self, session: pytest.Session, units: list[Unit], processes: int) -> None:
        self._session = session
        self._units = deque(units)
        self._children: dict[Connection, _Child] = {}
        self._selector = selectors.DefaultSelector()
        self._number = 0
        self._processes = min(processes, len(units))
        # pytest makes one directory for all that a run writes, and removes those of earlier runs
        self._base = session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]

    def run(self) -> None:
        """Run all; returns in a child too, when it has run its own: it then ends as a run of pytest does."""
        terminal = self._session.config.pluginmanager.get_plugin("terminalreporter")
        if terminal:
            terminal.showfspath = False  # the tests of many files come mixed
        try:
            for _ in range(self._processes):
                if self._start():
                    return
            while self._children:
                for key, _ in self._selector.select():
                    if self._listen(key.fileobj):
                        return
                if self._session.shouldfail:
                    raise self._session.Failed(self._session.shouldfail)
                if self._session.shouldstop:
                    raise self._session.Interrupted(self._session.shouldstop)
        finally:
            self._stop()

    def _listen(self, connection: Any) -> bool:
        """Take one message of a child, or bury it; true in a new child that has run its tests."""
        try:
            kind, *values = connection.recv()
        except (EOFError, ConnectionResetError):
            return self._bury(connection)
        child, hook = self._children[connection], self._session.config.hook
        if kind == "next":
            unit = self._units.popleft() if self._units else None
            child.left += unit or ()
            connection.send(unit)
        elif kind == "finish":
            config = self._session.config
            reports = (hook.pytest_report_from_serializable(config=config, data=data) for data in values[0])
            self._show(child.left.pop(0), *reports)
        elif kind == "end":
            child.has_ended = True
        else:
            raise RuntimeError(f"{child.name}: {values[0]}")
        return False

    def _show(self, number: int, *reports: pytest.TestReport) -> None:
        """Tell pytest's plugins of a test, as if it had run in this process."""
        item, hook = self._session.items[number], self._session.config.hook
        hook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in reports:
            hook.pytest_runtest_logreport(report=report)
        hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)

    def _stop(self) -> None:
        """End the children that are left; a test that does not end by an interrupt is killed."""
        for connection, child in self._children.items():
            connection.close()
            os.kill(child.process, signal.SIGINT)
        end = time.monotonic() + PATIENCE_S
        for child in self._children.values():
            while not os.waitpid(child.process, os.WNOHANG)[0]:
                if time.monotonic() > end:
                    os.kill(child.process, signal.SIGKILL)
                time.sleep(0.05)

    def _start(self) -> bool:
        """Fork a child; true in the child, when it has run its tests."""
        name = f"process-{self._number}"
        self._number += 1
        ours, theirs = Pipe()
        sys.stdout.flush()
        sys.stderr.flush()
        process = os.fork()
        if process:
            theirs.close()
            self._children[ours] = _Child(name, process)
            self._selector.register(ours, selectors.EVENT_READ)
            return False
        ours.close()
        for connection in self._children:  # else no child would see that the parent has died
            connection.close()
        self._children.clear()
        self._selector.close()
        directory = self._base / name
        directory.mkdir(mode=0o700)
        _become_child(self._session, theirs)
        self._session.config._tmp_path_factory._basetemp = directory  # type: ignore[attr-defined]
        for number, following in _take_tests(theirs):
            items = self._session.items
            item, after = items[number], None if following is None else items[following]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if self._session.shouldstop:  # by Ctrl-C or pytest.exit
                break
        return True

    def _bury(self, connection: Connection) -> bool:
        """A child has ended; true in another, which has run what was left of its tests."""
        child = self._children.pop(connection)
        self._selector.unregister(connection)
        connection.close()
        status = os.waitstatus_to_exitcode(os.waitpid(child.process, 0)[1])
        if child.has_ended and status:
            raise RuntimeError(f"{child.name} ended with status {status} after its tests: see its output")
        if child.has_ended:
            return False
        if not child.left:
            raise RuntimeError(f"{child.name} ended with status {status} when it had no test to run")
        number = child.left.pop(0)
        item = self._session.items[number]
        text = f"{child.name} ended with status {status} while it ran this test"
        self._show(number, pytest.TestReport(item.nodeid, item.location, {}, "failed", text, "call"))
        if child.left:
            self._units.appendleft(child.left)
        return bool(self._units) and self._start()


def _become_child(session: pytest.Session, connection: Connection) -> None:
    """Let a forked process write its reports to the connection, and nothing to the terminal."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # under nohup, and in a script's background, tests end by
    signal.signal(signal.SIGINT, signal.default_int_handler)  # signals too
    random.seed()
    config = session.config
    config.workerinput = {}  # type: ignore[attr-defined]  # pytest's plugins ask for it: no cache, no JUnit file
    terminal = config.pluginmanager.get_plugin("terminalreporter")
    if terminal:
        terminal._tw = create_terminal_writer(config, open(os.devnull, "w"))  # noqa: SIM115
    capture: Any = config.pluginmanager.get_plugin("capturemanager")
    capture.stop_global_capturing()  # its files are those of the parent and of all children
    capture.start_global_capturing()
    capture.suspend_global_capture()
    config.pluginmanager.register(_Reporter(config, connection.send), "forked-reporter")


def _take_tests(connection: Connection) -> Iterator[tuple[int, int | None]]:
    """The number of each test to run, and that of the one after it."""
    waiting: deque[int] = deque()
    is_over = False
    while True:
        while len(waiting) < 2 and not is_over:
            connection.send(("next",))
            unit = connection.recv()
            is_over = unit is None
            waiting.extend(unit or ())
        if not waiting:
            return
        yield waiting.popleft(), waiting[0] if waiting else None


class _Reporter:
    """Sends what a child has to say of its tests."""

    def __init__(self, config: pytest.Config, send: Callable[[Any], None]) -> None:
        self._config = config
        self._send = send
        self._reports: list[Any] = []

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._reports.append(data)

    def pytest_runtest_logfinish(self) -> None:
        self._send(("finish", self._reports))
        self._reports = []

    def pytest_internalerror(self, excrepr: object) -> None:
        self._send(("error", str(excrepr)))

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        self._send(("end",))
        session.exitstatus = 0  # of this process: whether tests have failed is for the parent to say
