"""The command line as real processes, and what stands on a timeline meanwhile."""

import asyncio
import os
import sys
from contextlib import suppress
from pathlib import Path

from cfetch.plugins.lab.bench.content import pieces
from tests.app.test_download import Ended

__all__ = [
    "begun",
    "cfetch",
    "cfetch_plan",
    "count_bytes",
    "ended",
    "plans_of",
    "states",
    "under_way",
    "whole",
]

PROJECT = Path(__file__).parents[2]


class Told(Ended):
    """With standard output as exactly one JSON document."""

    @property
    def document(self):
        return self.summary


async def begun(*words, stdin=None, cwd=None, program=("-m", "cfetch"), **how):
    """A process that was given all of ``stdin``. ``program``: words for the interpreter."""
    env = {key: value for key, value in os.environ.items() if not key.startswith(("CFETCH_", "DATABRICKS_"))}
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, *program, *map(str, words)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env=env | {"PYTHONPATH": str(PROJECT)},
        cwd=cwd or PROJECT,
        **how,
    )
    assert child.stdin is not None
    child.stdin.write(stdin or b"")
    child.stdin.close()
    return child


async def ended(child):
    """How a process ended."""
    out, err = await asyncio.wait_for(child.communicate(), 300)
    result = Told(child.returncode, out.decode(), err.decode())
    assert "Traceback" not in result.err
    return result


async def cfetch(*words, **how):
    """A whole run of the command."""
    return await ended(await begun(*words, **how))


async def cfetch_plan(*words, **how):
    """The same of ``cfetch plan``."""
    return await cfetch("plan", *words, **how)


def whole(files):
    """What a tree of ``files`` holds."""
    return {name: b"".join(pieces(content)) for name, content in files.items()}


async def plans_of(to, *words):
    """What ``plan list --json`` tells."""
    result = await cfetch_plan("list", "--to", to, "--json", *words)
    assert (result.code, result.err) == (0, "")
    assert set(result.document) == {"schema", "plans"}
    assert result.document["schema"] == "cfetch.plans/1"
    return result.document["plans"]


async def states(to):
    """Action and state of all instants, oldest first."""
    return [(plan["action"], plan["state"]) for plan in await plans_of(to)]


def count_bytes(folder, pattern):
    """The bytes of files and parts there, without notes; a run may just be giving them other names."""
    count = 0
    with suppress(FileNotFoundError):  # a directory has gone in the middle
        for path in folder.glob(pattern):
            with suppress(FileNotFoundError):
                count += path.stat().st_size if path.is_file() and not path.suffix else 0
    return count


async def under_way(child, to, files):
    """Wait until a run has begun so many files."""
    while len(list((to / ".cfetch").glob("attempts/*/*/*"))) < files:
        assert child.returncode is None, await child.communicate()
        await asyncio.sleep(0.02)
