"""Real processes, killed: what a later run finds, keeps and fetches again."""

import asyncio
import hashlib
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from cfetch.plugins.lab.bench.content import Synthetic
from cfetch.plugins.lab.bench.origin import Origin
from tests.cli.verbs import count_bytes

PROJECT = Path(__file__).parents[2]
MIB = 1 << 20
FILES = {f"d/{i}": Synthetic(f"d/{i}", 6 * MIB) for i in range(12)}


def manifest_of(origin, *, digest):
    rows = [
        {"url": name, "path": name, "size": content.size_bytes}
        | ({"sha256": content.sha256()} if digest else {})
        for name, content in FILES.items()
    ]
    return msgspec.json.encode({"version": 1, "base_url": origin.url, "files": rows})


async def start(manifest, to, *flags):
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "cfetch", "download", "-", "--to", str(to), "--json", *flags),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=PROJECT,
    )
    assert child.stdin is not None
    child.stdin.write(manifest)
    child.stdin.close()
    return child


def whole(to):
    return {str(p.relative_to(to)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in to.rglob("*") if p.is_file() and ".cfetch" not in p.parts}  # fmt: skip


@pytest.mark.parametrize(("number", "digest"), [(signal.SIGKILL, True), (signal.SIGINT, False)])
async def test_a_killed_run_is_gone_on_with(tmp_path, digest, number):
    """Half the bytes are there when it dies; the next run fetches the other half, and leaves no debris."""
    total = sum(content.size_bytes for content in FILES.values())
    async with Origin(FILES, pace_bps=8 * MIB) as origin:
        manifest = manifest_of(origin, digest=digest)
        child = await start(manifest, tmp_path, "--concurrency", "4", "--segments", "1", "--quiet")
        parts = tmp_path / ".cfetch/attempts"
        while count_bytes(tmp_path, "**/*") < total / 2:
            assert child.returncode is None, await child.communicate()
            await asyncio.sleep(0.02)
        child.send_signal(number)
        await child.communicate()
        kept = count_bytes(parts, "**/*")
        assert kept > 0
        assert all(content.size_bytes == (tmp_path / name).stat().st_size
                   for name, content in FILES.items() if (tmp_path / name).exists())  # fmt: skip
        in_place = sum((tmp_path / name).exists() for name in FILES)
        before = len(origin.requests)
        child = await start(manifest, tmp_path, "--concurrency", "4", "--segments", "1", "--quiet")
        out, err = await child.communicate()
        assert (child.returncode, err) == (0, b"")
        summary = msgspec.json.decode(out)
        again = len(origin.requests) - before
    assert summary["files"]["skipped"] == in_place
    assert again <= len(FILES) - in_place  # a part that was whole already needs no request
    got_twice = summary["bytes"]["fetched"] - (total - in_place * 6 * MIB - kept)
    assert got_twice <= 0.02 * total
    assert whole(tmp_path) == {name: content.sha256() for name, content in FILES.items()}
    assert not list(parts.rglob("*"))
