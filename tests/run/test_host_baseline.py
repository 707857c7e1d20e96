"""The file in which a run leaves what it has learned for the next one."""

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys

import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.run import host_baseline
from cfetch.run.host_baseline import keep_baseline, read_baseline
from cfetch.straggler.knowledge import NOTHING, HostKnowledge, Knowledge
from tests.app.test_download import ended, manifest_of, run, started

NOW_S = 1_800_000_000.0
A = Knowledge(hosts={"a.test": HostKnowledge(0.1, 1e6, 0.2, 10.0, NOW_S)})
B = Knowledge(hosts={"b.test": HostKnowledge(0.2, 2e6, 0.2, 10.0, NOW_S)})


def test_what_is_kept_is_read(tmp_path):
    """By the owner only; of two runs one after the other nothing is lost."""
    assert read_baseline(tmp_path) == (NOTHING, None)
    keep_baseline(tmp_path, A, NOW_S)
    assert read_baseline(tmp_path) == (A, None)
    keep_baseline(tmp_path, B, NOW_S)
    assert set(read_baseline(tmp_path)[0].hosts) == {"a.test", "b.test"}
    assert [path.name for path in tmp_path.iterdir()] == ["baseline.json"]
    assert (tmp_path / "baseline.json").stat().st_mode & 0o777 == 0o600
    assert json.loads((tmp_path / "baseline.json").read_text())["schema"] == "cfetch.baseline/1"


def test_a_run_that_has_learned_nothing_leaves_no_file(tmp_path):
    """Nor does it touch what is there."""
    keep_baseline(tmp_path, NOTHING, NOW_S)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"schema":"cfetch.baseline/2","hosts":{}}',
        b'{"schema":"cfetch.baseline/1","hosts":{"a":{"rate_bps":1}}}',
        b" " * (1 << 21),
    ],
)
def test_a_file_that_cannot_be_read_is_not_used(tmp_path, text):
    """One line for a person, no error; the run's end puts a sound one in its place."""
    (tmp_path / "baseline.json").write_bytes(text)
    found, note = read_baseline(tmp_path)
    assert found == NOTHING
    assert note is not None
    assert str(tmp_path) in note
    assert note.endswith("This run learns anew")
    keep_baseline(tmp_path, A, NOW_S)
    assert read_baseline(tmp_path) == (A, None)


def test_absurd_numbers_are_left_out(tmp_path):
    """The rest of the file counts."""
    hosts = {
        name: {"latency_s": 0, "rate_bps": rate, "spread": 0, "weight": 5, "wall_s": NOW_S}
        for name, rate in (("good", 1.0), ("bad", 0))
    }
    (tmp_path / "baseline.json").write_text(json.dumps({"schema": "cfetch.baseline/1", "hosts": hosts}))
    assert set(read_baseline(tmp_path)[0].hosts) == {"good"}


def test_a_link_is_not_followed(tmp_path):
    """Neither to read, nor to write: what it points to stays as it is."""
    elsewhere = tmp_path / "elsewhere.json"
    keep_baseline(tmp_path, A, NOW_S)
    (tmp_path / "baseline.json").rename(elsewhere)
    (tmp_path / "baseline.json").symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    found, note = read_baseline(tmp_path)
    assert (found, note is None) == (NOTHING, False)
    keep_baseline(tmp_path, B, NOW_S)
    assert elsewhere.read_bytes() == before
    assert read_baseline(tmp_path) == (B, None)


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_what_is_no_file_is_not_waited_for(tmp_path, make):
    """A pipe or a directory of that name harms nobody."""
    make(tmp_path / "baseline.json")
    assert read_baseline(tmp_path)[0] == NOTHING
    keep_baseline(tmp_path, A, NOW_S)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_strangers_file_is_not_used(tmp_path):
    """Who is slow is not for others to say."""
    keep_baseline(tmp_path, A, NOW_S)
    os.chown(tmp_path / "baseline.json", 12345, 12345)
    assert read_baseline(tmp_path)[0] == NOTHING


def test_what_a_killed_run_has_left_is_replaced(tmp_path, monkeypatch):
    """But what somebody has put there to lead us elsewhere is not written to."""
    hidden = tmp_path / ".baseline.json.0123456789abcdef"
    hidden.write_bytes(b"half of")
    keep_baseline(tmp_path, A, NOW_S)
    assert read_baseline(tmp_path) == (A, None)
    assert not hidden.exists()
    (tmp_path / "mine").write_bytes(b"precious")
    hidden.symlink_to(tmp_path / "mine")
    monkeypatch.setattr(secrets, "token_hex", lambda _: "0123456789abcdef")
    monkeypatch.setattr(host_baseline, "remove_temporaries", lambda _: None)
    keep_baseline(tmp_path, B, NOW_S)
    assert (tmp_path / "mine").read_bytes() == b"precious"
    assert read_baseline(tmp_path) == (A, None)


def test_a_run_that_learns_nothing_tidies_up_too(tmp_path):
    """The next run finds all files in place, where the one before was killed at its very end."""
    hidden = tmp_path / ".baseline.json.0123456789abcdef"
    hidden.write_bytes(b"half of")
    keep_baseline(tmp_path, NOTHING, NOW_S)
    assert list(tmp_path.iterdir()) == []


def test_a_state_that_cannot_be_written_is_no_fault(tmp_path):
    """The run has done its work."""
    keep_baseline(tmp_path / "gone", A, NOW_S)
    (tmp_path / "file").touch()
    keep_baseline(tmp_path / "file", A, NOW_S)


CHILD = """
import os, signal, sys
from pathlib import Path
from cfetch.run import host_baseline
from cfetch.run.host_baseline import keep_baseline
from cfetch.straggler.knowledge import HostKnowledge, Knowledge
point = sys.argv[2]
real = getattr(os, point)
def die(*args, **more):
    os.kill(os.getpid(), signal.SIGKILL)
setattr(os, point, die)
learned = Knowledge(hosts={"b.test": HostKnowledge(0.2, 2e6, 0.2, 10.0, 1.8e9)})
keep_baseline(Path(sys.argv[1]), learned, 1.8e9)
"""


@pytest.mark.parametrize("point", ["fsync", "rename"])
def test_a_kill_leaves_the_old_file(tmp_path, point):
    """Between any two steps; and the next run is not disturbed by what lies around."""
    keep_baseline(tmp_path, A, NOW_S)
    died = subprocess.run([sys.executable, "-c", CHILD, str(tmp_path), point], check=False)
    assert died.returncode == -signal.SIGKILL
    assert read_baseline(tmp_path) == (A, None)
    keep_baseline(tmp_path, B, NOW_S)
    assert set(read_baseline(tmp_path)[0].hosts) == {"a.test", "b.test"}


FILES = {f"{n}.bin": Synthetic(f"{n}.bin", 50_000) for n in range(8)}


async def test_a_run_leaves_what_it_has_learned(tmp_path):
    """With the adaptive policy only; a host's name and numbers. A broken file costs one line."""
    to = tmp_path / "to"
    async with Origin(FILES) as origin:
        (tmp_path / "m.json").write_bytes(manifest_of(origin, FILES))
        words = (tmp_path / "m.json", "--to", to)
        assert (await run(*words, "--policy", "cloudfetch")).code == 0
        assert not (to / ".cfetch" / "baseline.json").exists()
        for name in FILES:
            (to / name).unlink()
        assert (await run(*words, "--policy", "adaptive")).code == 0
        found, _ = read_baseline(to / ".cfetch")
        ((host, known),) = found.hosts.items()
        assert host.startswith("127.0.0.1:")
        assert known.weight == pytest.approx(len(FILES))
        (to / ".cfetch" / "baseline.json").write_text("{")
        again = await run(*words, "--policy", "adaptive")
    assert again.code == 0
    assert again.err.count("baseline.json is not used") == 1


async def test_an_interrupted_run_leaves_it_too(tmp_path):
    """As far as it came."""
    slow = {name: Fault(kind="slow", first=0, rate_bps=50) for name in list(FILES)[4:]}
    async with Origin(FILES, slow) as origin:
        (tmp_path / "m.json").write_bytes(manifest_of(origin, FILES))
        words = (
            "--to",
            tmp_path / "to",
            "--policy",
            "adaptive",
            "--concurrency",
            "8",
            "--log-format",
            "json",
        )
        child = await started(tmp_path / "m.json", *words)
        async with asyncio.timeout(60):
            while sum((tmp_path / "to" / name).exists() for name in FILES) < 4:
                await asyncio.sleep(0.05)
        child.send_signal(signal.SIGINT)
        assert (await ended(child)).code == 130
    found, _ = read_baseline(tmp_path / "to" / ".cfetch")
    assert [known.weight >= 3.9 for known in found.hosts.values()] == [True]
