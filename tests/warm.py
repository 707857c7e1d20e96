"""Commands that start warm: each ``python -m cfetch`` of a test is forked by a process that has imported it.

So is a program of ``python -c`` that changes something of cfetch, and then runs it as ``CHANGED`` does, a
child process of a run that a test has in its own process, and each of the tests' own ``PROGRAMS``.

Hundreds of tests run the real command, and to import it took a third of the suite's time. ``WarmPopen``
stands in for ``subprocess.Popen``, also below asyncio. A forked command has its own number, pipes, directory
and environment, and is a child of the tests' process like any other: it can be waited for and killed. All
that needs a fresh interpreter gets one: other words, ``preexec_fn``, a session of its own, and variables
that Python, the loader or the locale read at the start.
"""

import atexit
import ctypes
import gc
import importlib
import inspect
import io
import json
import os
import pkgutil
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import cache
from pathlib import Path
from typing import Any

from cfetch.run import collector

__all__ = ["CHANGED", "COMMAND", "WarmPopen", "import_all"]

PROJECT = Path(__file__).parents[1]
COMMAND = [sys.executable, "-m", "cfetch"]
CHANGED = 'runpy.run_module("cfetch", run_name="__main__", alter_sys=True)'  # the end of a program of a test
PROGRAMS = ("tests.crash.child", "tests.volumes.child")  # of ``python -m``
CHILD = "from cfetch.tasks.processes.child import main; main()"  # the end of a program of ``Worker``
AT_THE_START = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "GLIBC_", "OPENSSL_", "SSL_")
HARMLESS = ("PYTHONPATH", "PYTHONUTF8")  # the one is looked at, the other is so in any case
LAST = (  # what runs import in the midst of their work
    "_strptime",
    "asyncio.runners",
    "encodings.ascii",
    "encodings.idna",
    "encodings.latin_1",
    "pwd",
    "uvloop",
)
# few commands import them
LATER = ("cfetch.__main__", "cfetch.plugins.lab.bench", "cfetch.plugins.spark", "cfetch.testing")
PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None)
_Popen = subprocess.Popen
_signature = inspect.signature(_Popen._execute_child)  # type: ignore[attr-defined]
_PLAIN = {"executable": None, "preexec_fn": None, "pass_fds": (), "shell": False, "process_group": -1}


class WarmPopen(_Popen[Any]):
    """``subprocess.Popen``, where ``python -m cfetch`` starts warm."""

    def _execute_child(self, *args: Any, **kwargs: Any) -> None:
        bound = _signature.bind(self, *args, **kwargs).arguments
        environment = dict(os.environ if bound["env"] is None else bound["env"])
        words = list(map(os.fsdecode, bound["args"]))
        is_plain = all(bound[name] == value for name, value in _PLAIN.items() if name in bound)
        code = _find_program(words)
        is_known = words[:3] == COMMAND or (code and words[0] == sys.executable)
        if not is_plain or not is_known or not _is_usual(environment):
            super()._execute_child(*args, **kwargs)  # type: ignore[misc]
            return
        ends = [bound[name] for name in ("p2cread", "c2pwrite", "errwrite")]
        streams = [number if end == -1 else end for number, end in enumerate(ends)]
        place = os.path.abspath(bound["cwd"] or ".")
        words = ["-c" if code else "cfetch", *words[3:]]
        order = {"code": code, "words": words, "cwd": place, "env": environment, "umask": bound["umask"]}
        order |= {name: bound[name] for name in ("uid", "gid", "gids")}
        order["has_session"] = bool(bound["start_new_session"])
        order["blocked"] = list(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, ())))  # it inherits them
        self.pid = _kitchen().fork(order, streams)
        self._child_created = True
        names = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")
        self._close_pipe_fds(*(bound[name] for name in names))  # type: ignore[attr-defined]


def _find_program(words: list[str]) -> str:
    """The program of ``-c``, if it is one that may start warm."""
    if words[1:2] == ["-c"] and words[2].rstrip().endswith(CHANGED):
        return words[2]
    if words[1:2] == ["-m"] and words[2] in PROGRAMS:
        return f"import runpy; runpy.run_module({words[2]!r}, run_name='__main__', alter_sys=True)"
    return words[3] if words[1:3] == ["-P", "-c"] and words[3].endswith(CHILD) else ""


def _is_usual(environment: dict[str, str]) -> bool:
    """Whether an interpreter with these variables would start as the kitchen has."""
    path = environment.get("PYTHONPATH")
    is_own_path = path is None or path in (str(PROJECT), os.environ.get("PYTHONPATH"))
    return is_own_path and _read_at_the_start(environment) == _read_at_the_start(_kitchen().environment)


def _read_at_the_start(environment: dict[str, str]) -> dict[str, str]:
    names = [name for name in environment if name.startswith(AT_THE_START) and name not in HARMLESS]
    return {name: environment[name] for name in names}


@cache
def _kitchen() -> "_Kitchen":
    return _Kitchen()


class _Kitchen:
    """The process that has imported the command; it ends with the tests' process, whose socket it reads."""

    def __init__(self) -> None:
        self.environment = os.environ | {"PYTHONPATH": str(PROJECT)}
        self._channel, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            words = [sys.executable, "-m", "tests.warm", str(theirs.fileno())]
            self._process = _Popen(
                words, cwd=PROJECT, env=self.environment, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL
            )
        self._answers = self._channel.makefile("rb")
        self._lock = threading.Lock()
        atexit.register(self._close)

    def _close(self) -> None:
        self._answers.close()
        self._channel.close()
        self._process.wait()

    def fork(self, order: dict[str, Any], streams: list[int]) -> int:
        """The number of a new child of ours, which carries out the order."""
        # Its parent ends at once, so it goes to the nearest process above that takes orphans. That is this
        # one only for now: orphans of the tests' own commands go where they go without us.
        with self._lock:
            _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
            try:
                socket.send_fds(self._channel, [b"s"], streams)
                self._channel.sendall(json.dumps(order).encode() + b"\n")
                return int(self._answers.readline())
            finally:
                _libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def import_all() -> None:
    """Import what commands import, so that none of the children has to."""
    import cfetch

    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # of numpy: a fork copies only one
    for module in pkgutil.walk_packages(cfetch.__path__, "cfetch."):
        if not module.name.startswith(LATER):
            importlib.import_module(module.name)
    for name in LAST:
        importlib.import_module(name)
    threads = os.listdir("/proc/self/task")
    assert len(threads) == 1, f"a fork copies one of {len(threads)} threads: who started them?"


def _wait_for_order(channel: socket.socket) -> dict[str, Any]:
    """In a new child, its order; the process that forks them ends here with the tests."""
    gc.freeze()  # else a child's collections write to, and so copy, all that it has from here
    while True:
        _, streams, *_ = socket.recv_fds(channel, 1, 3)
        if not streams:
            os._exit(0)
        text = b""
        while not text.endswith(b"\n"):
            text += channel.recv(1 << 20)
        reader, writer = os.pipe()
        between = os.fork()
        if between:
            os.close(writer)
            os.waitpid(between, 0)
            for stream in streams:
                os.close(stream)
            channel.sendall(os.read(reader, 20) + b"\n")
            os.close(reader)
            continue
        if os.fork():
            os._exit(0)
        order: dict[str, Any] = json.loads(text)
        if order["has_session"]:  # whoever knows its number may send its group a signal
            os.setsid()
        os.write(writer, b"%d" % os.getpid())
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
        os.closerange(3, max(*streams, channel.fileno(), writer) + 1)
        return order


def _begin(order: dict[str, Any]) -> None:
    """Make of a forked process what a new interpreter is."""
    signal.pthread_sigmask(signal.SIG_SETMASK, order["blocked"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(order["cwd"])
    if order["umask"] >= 0:
        os.umask(order["umask"])
    if order["uid"] is not None:
        os.setgroups(order["gids"])
        os.setgid(order["gid"])
        os.setuid(order["uid"])
    os.environ.clear()
    os.environ.update(order["env"])
    time.tzset()
    # Who froze all that was imported is known; to count it, object by object, takes a sixth of a command.
    collector._calls._is_settled = True
    sys.argv = order["words"]
    read, out, err = (
        os.fdopen(number, mode, closefd=False) for number, mode in enumerate(("rb", "wb", "wb"))
    )
    streams = {
        "stdin": io.TextIOWrapper(read, "utf-8"),
        "stdout": io.TextIOWrapper(out, "utf-8", line_buffering=os.isatty(1)),
        "stderr": io.TextIOWrapper(err, "utf-8", "backslashreplace", line_buffering=True),
    }
    for name, stream in streams.items():
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which end this process
    import_all()
    _order = _wait_for_order(socket.socket(fileno=int(sys.argv[1])))
    _begin(_order)
    exec(_order["code"] or f"import runpy; {CHANGED}", {"__name__": "__main__"})
