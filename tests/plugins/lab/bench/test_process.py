"""The origin in a process of its own: it serves what it is told, and never outlives its parent."""

import asyncio
import hashlib
import os
import select
import signal
import subprocess
import sys
import textwrap

import pytest

from cfetch.base.errors import LocalFault
from cfetch.plugins.lab.bench.content import Group, Synthetic
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec
from tests.plugins.lab.bench.raw import get


def test_it_serves_its_spec_and_ends(tmp_path):
    """Groups, real files and faults arrive through the spec; leaving the block ends the process."""
    (tmp_path / "real").write_bytes(b"real bytes")
    spec = OriginSpec(
        seed=3,
        groups=(Group("g/", 2, 1000),),
        files={"r": str(tmp_path / "real")},
        faults={"r": (Fault(kind="status", status=500),)},
    )
    with OriginProcess(spec) as origin:
        reply = asyncio.run(get(origin.url, "g/0000001.bin"))
        assert hashlib.sha256(reply.body).hexdigest() == Synthetic("g/0000001.bin", 1000, 3).sha256()
        assert asyncio.run(get(origin.url, "r")).status == 500
        assert asyncio.run(get(origin.url, "r")).body == b"real bytes"
        pid = origin.pid
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_it_ends_when_its_parent_is_killed():
    """A kill -9 of the parent closes the pipe, and the origin leaves by itself."""
    code = """
        import time
        from cfetch.plugins.lab.bench.process import OriginProcess
        from cfetch.plugins.lab.bench.spec import OriginSpec
        with OriginProcess(OriginSpec()) as origin:
            print(origin.pid, flush=True)
            time.sleep(60)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        watch = os.pidfd_open(pid)
        parent.send_signal(signal.SIGKILL)
        parent.wait()
    assert select.select([watch], [], [], 60)[0], "the origin outlived its parent by a minute"
    os.close(watch)


def test_an_origin_that_cannot_start_is_a_local_fault(tmp_path, capfd):
    """A real file that is not there is reported, not waited for."""
    with (
        pytest.raises(LocalFault, match="before it was ready"),
        OriginProcess(OriginSpec(files={"x": "/nonexistent"})),
    ):
        pass
    assert "FileNotFoundError" in capfd.readouterr().err


def test_the_origin_is_light():
    """Neither rich nor numpy nor aiohttp is loaded for it."""
    heavy = {"rich", "numpy", "aiohttp", "yaml", "typer"}
    code = f"import sys, cfetch.plugins.lab.bench.origin; print(sorted({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout == b"[]\n"
