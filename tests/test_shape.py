"""The shape of the house: what a plain download imports, circles, and how large the rooms are."""

import ast
import json
import os
import subprocess
import sys
import threading
import tomllib
from collections import Counter
from functools import cache
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.syntax import list_nodes

ROOT = Path(__file__).parents[1]
# The latest of 19 rooms is the plug-in ``sources``: the schemes beyond http and object stores have a place of
# their own, so that a further scheme is one file there and none in the core.
MOST_MODULES, MOST_LINES, MOST_ROOMS = 200, 32_000, 19
WHEN_SLOW = {  # what set the end of a long run, and who is cancelled
    "cfetch.show.live.files_under_way", "cfetch.show.live.prediction", "cfetch.show.live.time_left",
    "cfetch.straggler.evidence",
}  # fmt: skip
FILES = {
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted((ROOT / "cfetch").rglob("*.py"))
}

# Each process of the run notes its modules when it ends.
RECORDER = """
import atexit, json, os, sys
def note():
    names = sorted(name for name in sys.modules if name == "cfetch" or name.startswith("cfetch."))
    open(os.path.join(os.environ["NOTES"], str(os.getpid())), "w").write(json.dumps(names))
atexit.register(note)
"""


class QuietHandler(SimpleHTTPRequestHandler):
    """Serves a directory, and logs nothing."""

    def log_message(self, *_):
        pass


class PromptServer(ThreadingHTTPServer):
    """It accepts sixteen connections at once; Python's own lets the kernel drop most, for a second."""

    request_queue_size = 64


@pytest.fixture
def list_of_files(tmp_path):
    """A list of twenty small files that a server on loopback has."""
    www = tmp_path / "www"
    www.mkdir()
    for number in range(20):
        (www / f"f{number}").write_bytes(bytes(5000))
    server = PromptServer(("127.0.0.1", 0), lambda *values: QuietHandler(*values, directory=str(www)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    urls = tmp_path / "urls.txt"
    urls.write_text("".join(f"http://127.0.0.1:{server.server_port}/f{n}\n" for n in range(20)))
    yield urls
    server.shutdown()
    thread.join()
    server.server_close()


def count_lines(path):
    """The lines of a file."""
    return path.read_bytes().count(b"\n")


def run_recorded(list_of_files, folder):
    """The modules of cfetch that all processes of a plain download imported."""
    notes, site = folder / "notes", folder / "site"
    notes.mkdir(parents=True)
    site.mkdir()
    (site / "sitecustomize.py").write_text(RECORDER)
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CFETCH_", "OTEL_"))}
    env |= {"PYTHONPATH": f"{site}{os.pathsep}{ROOT}", "NOTES": str(notes)}
    done = subprocess.run(
        [sys.executable, "-m", "cfetch", "download", str(list_of_files), "-o", "out"],
        cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert len([*(folder / "out").glob("f*")]) == 20
    imported = {name for note in notes.iterdir() for name in json.loads(note.read_text())} & FILES.keys()
    assert {"cfetch.engine.pool", "cfetch.wire.http", "cfetch.straggler.adaptive"} <= imported
    assert [name for name in imported if name.startswith("cfetch.plugins") or "doctor" in name] == []
    return imported


def test_a_plain_download_imports_a_part_of_cfetch(list_of_files, tmp_path):
    """At most 200 modules and 32,000 lines, in all processes of the command together.

    On a busy machine a run also explains what set its end, and cancels attempts: what slowness alone brings
    does not count, and one of three runs has to be within the limits. If it imports more: import what a plain
    run does not use where it is first needed, with the reason beside it, or move a type or a constant to a
    lower module.
    """
    assert FILES.keys() >= WHEN_SLOW
    sizes = []
    for number in range(3):
        imported = run_recorded(list_of_files, tmp_path / str(number)) - WHEN_SLOW
        sizes.append((len(imported), sum(count_lines(FILES[name]) for name in imported)))
        if sizes[-1][0] <= MOST_MODULES and sizes[-1][1] <= MOST_LINES:
            return
    pytest.fail(f"a plain download imports so many modules and lines: {sizes}")


@cache
def graph():
    """Module -> the modules that it imports anywhere: at its top, in a function, or for types alone."""
    arrows = {}
    for name, path in FILES.items():
        targets = set()
        for node in list_nodes(path):
            if isinstance(node, ast.Import):
                targets |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    member = f"{node.module}.{alias.name}"
                    targets.add(member if member in FILES else node.module)
        arrows[name] = (targets & FILES.keys()) - {name}
    return arrows


def find_circles(arrows):
    """The modules of each circle: those that lead back to themselves. Others are taken away one by one."""
    left = {name: set(targets) for name, targets in arrows.items()}
    while True:
        used = {target for targets in left.values() for target in targets}
        ends = {name for name, targets in left.items() if not targets & left.keys() or name not in used}
        if not ends:
            return {name: sorted(targets & left.keys()) for name, targets in left.items()}
        left = {name: targets - ends for name, targets in left.items() if name not in ends}


@pytest.mark.needs_plugins
def test_no_import_goes_in_a_circle():
    """Neither eager nor lazy, nor for types: a port stands in a file of its own, below what implements it."""
    assert len(graph()) > 500
    assert find_circles(graph()) == {}


def test_a_circle_is_found():
    """The search leaves what is in a circle, and nothing beside it."""
    arrows = {"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}
    assert find_circles(arrows) == {"b": ["c"], "c": ["b"]}


def room_of(name):
    """The room of a module: a package below ``cfetch``, or below its plug-ins; None: it is in no room."""
    parts = name.split(".")[1:]
    if parts[:1] == ["plugins"]:
        return f"plugins/{parts[1]}" if len(parts) > 1 else None
    return parts[0] if parts and FILES.get(f"cfetch.{parts[0]}", Path()).name == "__init__.py" else None


@pytest.mark.needs_plugins
def test_a_room_grows_only_with_a_reason():
    """The table has each room, its most lines and the reason for them."""
    table = tomllib.loads((ROOT / "tests" / "room_sizes.toml").read_text(encoding="utf-8"))
    sizes: Counter[str | None] = Counter()
    for name, path in FILES.items():
        sizes[room_of(name)] += count_lines(path)
    del sizes[None]
    assert (
        len(sizes.keys() - {"testing"}) <= MOST_ROOMS
    )  # suites for authors of plug-ins: no run imports them
    assert table.keys() == sizes.keys()
    assert [room for room, row in table.items() if len(row["reason"].split()) < 4] == []
    larger = {room: (sizes[room], row["most_lines"]) for room, row in table.items()}
    larger = {room: (lines, most) for room, (lines, most) in larger.items() if lines > most}
    assert not larger, (
        f"lines, and at most: {larger}. Make the room smaller, or raise its row in tests/room_sizes.toml and "
        "write there what it has got that a user misses without it"
    )


@pytest.mark.parametrize(
    ("call", "home"),
    [("fcntl.flock(", "storage/locks.py"), ("sqlite3.connect(", "storage/own_databases.py")],
    ids=["locks", "databases"],
)
def test_one_file_calls_it_for_all(call, home):
    """Who needs a lock of the kernel or a database of SQLite asks the file that knows what can go wrong."""
    users = {path for path in FILES.values() if call in path.read_text(encoding="utf-8")}
    assert users == {ROOT / "cfetch" / home}
