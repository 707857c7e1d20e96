"""Runs a command of the user: bounded in time and output, and ended with all processes that it has started.

asyncio's own ``communicate`` keeps all output in memory, waits for every process that has inherited the
pipes, and under uvloop raises RuntimeError if the command has ended without having read its stdin.
"""

import asyncio
import errno
import os
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import BinaryIO

from cfetch.base.errors import Refused, Transient

COMMAND_TIMEOUT_S = 60.0  # after which a signing helper counts as hanging
MOST_OUTPUT_BYTES = 64 << 10  # a link with its headers has less than a tenth; a log or a page may have no end
REST_S = 1.0  # how long the pipe is read after the command's end, if a process outside its group holds it
_LACKING = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}  # what the machine may have again soon


async def run_command(words: Sequence[str], question: bytes) -> tuple[int | None, bytes]:
    """Run the command with ``question`` on its stdin; return its exit code, and what it has printed.

    If it prints more than ``MOST_OUTPUT_BYTES``, some bytes more than these are returned, and it is killed.

    Raises:
        Refused: it cannot be started.
        Transient: it takes too long, or the machine lacks what a process needs.
    """
    async with _open_pipe() as (reader, far_end):
        child = await _start(words, far_end)
        try:
            async with asyncio.timeout(COMMAND_TIMEOUT_S):
                _tell(child, question)
                out = await _read_output(child, reader)
                if len(out) <= MOST_OUTPUT_BYTES:
                    await child.wait()
        except TimeoutError:
            raise Transient(f"the refresh command took longer than {COMMAND_TIMEOUT_S:g} s") from None
        finally:
            await _end(child)
    return child.returncode, out


@asynccontextmanager
async def _open_pipe() -> AsyncIterator[tuple[asyncio.StreamReader, BinaryIO]]:
    """A pipe of our own: a process that outlives its command may hold asyncio's, and ``wait`` with it."""
    try:
        near_end, far_end = os.pipe()
    except OSError as error:
        raise Transient(f"the refresh command cannot be started: {error.strerror}") from None
    with os.fdopen(far_end, "wb", 0) as to_command:
        reader, from_command = asyncio.StreamReader(limit=MOST_OUTPUT_BYTES), os.fdopen(near_end, "rb", 0)
        try:
            transport, _ = await asyncio.get_running_loop().connect_read_pipe(
                lambda: asyncio.StreamReaderProtocol(reader), from_command
            )
        except BaseException:
            from_command.close()
            raise
        try:
            yield reader, to_command
        finally:
            transport.close()  # it closes the file: libuv ends the process if somebody else does


async def _start(words: Sequence[str], stdout: BinaryIO) -> asyncio.subprocess.Process:
    """Start the command. A cancellation meanwhile waits until the process is known, and ends it."""

    async def start() -> asyncio.subprocess.Process:
        with stdout:  # only the command may hold it, or its end would not be seen
            return await asyncio.create_subprocess_exec(
                *words, stdin=asyncio.subprocess.PIPE, stdout=stdout, start_new_session=True
            )

    starting = asyncio.create_task(start())
    try:
        return await asyncio.shield(starting)
    except OSError as error:
        failed = Transient if error.errno in _LACKING else Refused
        raise failed(f"the refresh command cannot be started: {error.strerror}") from None
    except (RuntimeError, ValueError) as error:  # no thread can be started; a word holds a NUL
        raise Transient(f"the refresh command cannot be started: {error}") from None
    except asyncio.CancelledError:
        with suppress(OSError, RuntimeError, ValueError):
            await _end(await starting)
        raise


def _tell(child: asyncio.subprocess.Process, question: bytes) -> None:
    """Write to the command, which may read it or not, or may have ended already."""
    assert child.stdin is not None
    with suppress(OSError, RuntimeError):
        child.stdin.write(question)
    with suppress(OSError, RuntimeError):
        child.stdin.close()


async def _read_output(child: asyncio.subprocess.Process, reader: asyncio.StreamReader) -> bytes:
    """Read to the end of the output or of the command, and no further than shows that it is too long."""
    out = bytearray()

    async def read() -> None:
        with suppress(OSError):
            while len(out) <= MOST_OUTPUT_BYTES and (data := await reader.read(MOST_OUTPUT_BYTES)):
                out.extend(data)

    reading, ending = asyncio.ensure_future(read()), asyncio.ensure_future(child.wait())
    try:
        await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
        if ending.done():
            _kill_group(child)  # what it leaves running may hold the pipe, and nobody else ends it
            await asyncio.wait((reading,), timeout=REST_S)
    finally:
        reading.cancel()
        ending.cancel()
    return bytes(out)


async def _end(child: asyncio.subprocess.Process) -> None:
    """Kill the command, if it runs, and all processes that it has started."""
    _kill_group(child)
    if child.returncode is None:
        await child.wait()


def _kill_group(child: asyncio.subprocess.Process) -> None:
    with suppress(OSError):  # none is left
        os.killpg(child.pid, signal.SIGKILL)
