"""Signals at any time, and readers that go away: exit codes, and a next run that completes the tree."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from tests.crash.process import command, ended, started
from tests.crash.scene import KIB, MIB, Job, Scene, serving

FILES = {f"d/{i}": Synthetic(f"d/{i}", 2 * MIB) for i in range(6)}
JOB = Job(FILES, hashed=tuple(FILES)[::2])
NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
HELD = ("--quiet", "--no-mitigation", "--stall-timeout", "10m")  # what the server holds is held


@pytest.fixture(scope="module")
def url():
    with serving(FILES, pace_bps=4.0 * MIB) as origin:
        yield origin.url


@pytest.fixture
def held_url():
    """The last file of the first run stands still: no run is over before its signal comes."""
    held = {"d/5": Fault(kind="stall", after_bytes=3 * MIB // 2)}
    with serving(FILES, faults=held, pace_bps=4.0 * MIB) as origin:
        yield origin.url


def wait_for_parts(scene, process):
    """Until the run is well under way; one that nothing holds may be over before this is seen."""
    while not list(scene.to.glob(".cfetch/attempts/*/*/*")) and process.poll() is None:
        time.sleep(0.01)


@pytest.mark.parametrize(("number", "durability"), [*zip(NUMBERS, ["power", "crash", "power"], strict=True)])
def test_c101_a_signal_at_a_random_time(tmp_path, held_url, children, number, durability):
    """128 and its number; no file is half; the next run goes on."""
    dice = random.Random(f"{number} {durability}")
    scene = Scene(tmp_path, held_url, children, durability=durability, job=JOB)
    process = started(command(scene, *HELD))
    wait_for_parts(scene, process)
    time.sleep(dice.uniform(0, 0.4))
    done = ended(process, number)
    assert done.code == 128 + number
    assert f"stopped by {number.name}" in done.said
    assert scene.wrong() == []
    held = scene.held_bytes()
    again = scene.finish() + held - JOB.total_bytes
    # parts under 1 MiB are kept if a hash can prove them, but for what is on its way into the file
    assert again <= sum(256 * KIB if name in JOB.hashed else MIB for name in FILES)


IMPORTS = {  # of the command, and of its verb
    "from cfetch.__main__ import main": ("typer.py", -signal.SIGINT),
    "import cfetch.cli.app; from cfetch.__main__ import main": ("cfetch_verb.py", 128 + signal.SIGINT),
}


@pytest.mark.parametrize("start", IMPORTS)
def test_c101_a_ctrl_c_while_the_command_is_imported(tmp_path, start):
    """The process ends without a traceback."""
    name, code = IMPORTS[start]
    (tmp_path / name).write_text("import os, signal\nos.kill(os.getpid(), signal.SIGINT)\n")
    verb = "import cfetch.cli.app as app; app.load = lambda kind, name: __import__('cfetch_verb')"
    words = [
        sys.executable,
        "-c",
        f"import sys\n{start}\n{verb if name != 'typer.py' else ''}\nmain()",
        "download",
    ]
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize("pause", [0.0, 0.003, 0.02])
def test_c101_a_second_signal_while_the_first_is_obeyed(tmp_path, held_url, children, pause):
    """It ends the process at once, and that is as safe as kill -9."""
    scene = Scene(tmp_path, held_url, children, job=JOB)
    process = started(command(scene, *HELD))
    wait_for_parts(scene, process)
    process.send_signal(signal.SIGINT)
    time.sleep(pause)
    done = ended(process, signal.SIGINT)
    assert done.code in (130, -signal.SIGINT)  # a shell says 130 for both; the latter once Python is leaving
    assert scene.wrong() == []
    scene.finish()


def test_c101_a_hangup_that_the_caller_ignores_is_ignored(tmp_path, url, children):
    """As under nohup."""
    scene = Scene(tmp_path, url, children, job=JOB)
    words = ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *command(scene, "--quiet")]
    process = started(["/bin/sh", *words[1:]])
    wait_for_parts(scene, process)
    done = ended(process, signal.SIGHUP)
    assert (done.code, done.said) == (0, "")
    assert scene.missing() == []


@pytest.mark.parametrize(("stream", "code"), [("stdout", 128 + signal.SIGPIPE), ("stderr", 0)])
def test_c101_a_reader_that_has_gone(tmp_path, url, children, stream, code):
    """Of the result: the exit code says so. Of the words: the job is done all the same."""
    scene = Scene(tmp_path, url, children, job=JOB)
    reading, writing = os.pipe()
    os.close(reading)
    process = started(command(scene, "--json"), **{stream: writing})
    os.close(writing)
    done = ended(process)
    assert done.code == code
    assert (scene.wrong(), scene.missing(), scene.debris()) == ([], [], [])


def modes(folder):
    """Every path below: whether it is a directory, and its mode."""
    return {
        str(p.relative_to(folder)): (p.is_dir(), oct(p.lstat().st_mode & 0o777)) for p in folder.rglob("*")
    }


@pytest.mark.parametrize(("umask", "elsewhere"), [(0o000, False), (0o022, True)])
def test_c110_nobody_else_may_read_the_state(tmp_path, held_url, children, umask, elsewhere):
    """Links, notes and metrics are their owner's, whatever the umask; the files are as the umask says."""
    scene = Scene(tmp_path, held_url, children, job=JOB)
    state = tmp_path / "x/state" if elsewhere else scene.to / ".cfetch"
    words = command(scene, *HELD, *(["--state", str(state)] if elsewhere else []))
    process = started(words, umask=umask, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not list(scene.to.glob(".cfetch/attempts/*/*/*.note")):
        assert process.poll() is None
        time.sleep(0.005)
    process.kill()
    process.communicate()
    found = modes(scene.to / ".cfetch") | modes(state)
    assert any(name.endswith("entries.msgpack") for name in found)
    assert any(name.endswith(".jsonl") for name in found)
    for name, (is_directory, mode) in found.items():
        leaf = name.rpartition("/")[2]
        is_part = len(leaf) == 33 and leaf[0] in "hsr"  # a final file in the making, in a closed directory
        wanted = 0o700 if is_directory else 0o666 & ~umask if is_part else 0o600
        assert mode == oct(wanted), name
    assert state.stat().st_mode & 0o777 == 0o700
    assert (scene.to / ".cfetch").stat().st_mode & 0o777 == 0o700
    assert ended(started(words, umask=umask)).code == 0
    assert {oct((scene.to / name).stat().st_mode & 0o777) for name in FILES} == {oct(0o666 & ~umask)}
