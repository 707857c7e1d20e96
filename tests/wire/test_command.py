"""The user's command for a fresh link: whatever it does, one refresh is bounded, and leaves no process."""

import asyncio
import shlex
import time
from contextlib import suppress
from pathlib import Path

import pytest
import uvloop

from cfetch.base.errors import Refused
from cfetch.wire import command as command_module
from cfetch.wire.command import MOST_OUTPUT_BYTES, run_command


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request):
    """Run a command in each of the loops that a download may have."""

    def run_in_loop(command, told=b"{}\n"):
        with asyncio.Runner(loop_factory=request.param) as runner:
            return runner.run(run_command(shlex.split(command), told))

    return run_in_loop


@pytest.mark.parametrize(
    ("command", "expected"),
    [("echo x", (0, b"x\n")), ("true", (0, b"")), ("false", (1, b"")), ("cat", (0, b"{}\n"))],
)
def test_a_command_need_not_read_its_stdin(run, command, expected):
    """It may have ended before anything is written to it."""
    assert run(command) == expected


def test_output_without_end_is_read_up_to_its_limit(run):
    """The command is killed, and the few bytes beyond the limit show that it was too long."""
    _, out = run("yes")
    assert MOST_OUTPUT_BYTES < len(out) <= 2 * MOST_OUTPUT_BYTES


def test_what_a_command_leaves_running_ends_with_it(run, tmp_path, monkeypatch):
    """It holds the pipe, whose end would never be seen, and nobody else would end it."""
    monkeypatch.setattr(command_module, "REST_S", 300)
    monkeypatch.setattr(command_module, "COMMAND_TIMEOUT_S", 20)
    told = tmp_path / "pid"
    assert run(f"sh -c 'sleep 300 & echo $! > {told}; echo x'") == (0, b"x\n")
    state = Path(f"/proc/{told.read_text().strip()}/stat")
    end_s = time.monotonic() + 60
    with suppress(FileNotFoundError, ProcessLookupError):  # it may go between any two steps
        while state.read_text().rpartition(")")[2].split()[0] != "Z":
            assert time.monotonic() < end_s
            time.sleep(0.01)


def test_a_command_that_cannot_be_started_leaves_the_pipe_closed(run):
    """The error names the system's reason."""
    with pytest.raises(Refused, match="cannot be started: No such file"):
        run("/no/such/helper")
