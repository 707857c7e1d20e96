"""No server and no name drives the terminal (T16): real runs on a pseudo-terminal, beside harmless ones."""

import asyncio
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import threading
from pathlib import Path

import pytest

from tests.conditions.cases import BODY, ESCAPE, head, raw, whole
from tests.conditions.server import CaseServer
from tests.show.live.test_live import SEQUENCE

NOTE_S = 1.0  # several frames
ROOT = Path(__file__).parents[2]
NAMES = ("[bold]x[/bold]", "a", ":smile:", "[link=http:h]y", "%1b[31m", "b", "c", "d")
YELLOW = b"\x1b[33m"  # of what is slow, which only a busy machine shows; the servers send red


def replies(text):
    """One for each name, with ``text`` wherever a server can put some.

    The one after the 503 is late, so that the note of its host's pause is drawn in every run.
    """
    return (
        whole(b"", status=f"404 {text}"),
        whole(BODY, f"X: {text}", f"ETag: {text}"),
        whole(b"", f"Location: http://h.test/{text}", status="302 x"),
        whole(BODY, f"Content-Encoding: {text}"),
        whole(b"", f"Retry-After: {text}", status="503 x"),
        raw(NOTE_S, head("200 OK", f"Content-Length: {text}")),
        raw(text.encode("latin-1") + b"\r\n\r\n"),
        whole(text.encode("latin-1"), status="410 x"),
    )


def on_a_terminal(command, term):
    """What it writes to a terminal of that kind, both streams together."""
    env = {k: v for k, v in os.environ.items() if k not in {"CI", "NO_COLOR", "COLUMNS", "LINES"}}
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
    written = bytearray()

    def read():
        while True:
            try:
                written.extend(os.read(master, 65536))
            except OSError:  # the child has closed its side
                return

    env |= {"TERM": term, "PYTHONUTF8": "1"}
    with subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, env=env, cwd=ROOT) as child:
        os.close(slave)
        reader = threading.Thread(target=read)
        reader.start()
        child.wait(300)
        reader.join()
    os.close(master)
    assert child.returncode == 1
    return bytes(written)


async def shown(text, tmp_path, term):
    """What a run is shown as whose server says ``text``."""
    async with CaseServer(*replies(text)) as server:
        files = [{"url": f"{server.url}{i}", "path": name} for i, name in enumerate(NAMES)]
        manifest = tmp_path / f"{len(text)}.json"
        manifest.write_text(json.dumps({"version": 1, "files": files}))
        words = ["download", manifest, "--to", tmp_path / manifest.stem, "--max-attempts", "1"]
        command = [sys.executable, "-m", "cfetch", *map(str, words), "--concurrency", "1"]
        written = await asyncio.to_thread(on_a_terminal, command, term)
    assert len(server.heads) == len(NAMES)
    return written


@pytest.mark.parametrize("term", ["xterm-256color", "dumb"])
async def test_c53_c75_no_reply_brings_a_control_sequence_of_its_own(term, tmp_path):
    """The live view writes those that it writes beside a harmless server; plain lines write none at all."""
    harmless, hostile = [await shown(text, tmp_path, term) for text in ("harmless", ESCAPE)]
    found = set(SEQUENCE.findall(hostile))
    assert found <= (set(SEQUENCE.findall(harmless)) | {YELLOW} if term != "dumb" else {b"\r"})
    assert b"owned" not in hostile
    assert b"404" in hostile
    assert b"[bold]x" in hostile
    assert b":smile:" in hostile
