"""The least that an aiohttp downloader does: 16 tasks, one session, 256 KiB chunks, plain files.

The yardstick of ``cpu_ratio.py``: no check, no retry, no metrics, no safe names. Usage::

    python benchmarks/bare_loop.py MANIFEST DIR
"""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp

TASKS = 16
CHUNK_BYTES = 256 << 10


async def work(session: aiohttp.ClientSession, jobs: Iterator[tuple[str, Path]]) -> None:
    """Fetch what ``jobs`` still holds, one after the other."""
    for url, path in jobs:
        async with session.get(url) as reply:
            with path.open("wb") as file:
                async for chunk in reply.content.iter_chunked(CHUNK_BYTES):
                    file.write(chunk)


async def main(document: dict[str, Any], folder: Path) -> None:
    """Fetch every file of a native manifest with flat names into ``folder``."""
    jobs = ((document["base_url"] + entry["url"], folder / entry["url"]) for entry in document["files"])
    async with aiohttp.ClientSession(raise_for_status=True) as session:
        await asyncio.gather(*(work(session, jobs) for _ in range(TASKS)))


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_bytes()), Path(sys.argv[2])))
