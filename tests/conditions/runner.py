"""Runs the real command in this process against a case's server, and keeps what it leaves behind."""

import asyncio
import contextlib
import functools
import io
import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import typer

from cfetch.base.errors import CfetchError
from cfetch.cli import app
from tests.conditions.server import CaseServer
from tests.engine.drive import tree

__all__ = ["SECRETS", "Ran", "call", "manifest_of", "play", "secrets_in", "watched"]

CANARY = "CANARY"
SECRETS = {
    "query": "CANARYQUERY",
    "document": "CANARYDOCUMENT",
    "entry": "CANARYENTRY",
    "token": "CANARYTOKEN",
}
CONTROLS = {chr(c) for c in (*range(32), *range(127, 160)) if chr(c) != "\n"} | set(
    "\u202a\u202e\u2066\u2069"
)


@dataclass
class Ran:
    """What a call said and how it ended."""

    code: int
    out: str
    err: str
    heads: list[str] = field(default_factory=list)
    other_heads: list[str] = field(default_factory=list)
    records: dict[str, Any] = field(default_factory=dict)
    tree: dict[str, bytes] = field(default_factory=dict)

    @property
    def said(self):
        """Both streams."""
        return self.out + self.err


@functools.cache
def build_command():
    """All verbs, once: typer would inspect their parameters anew at each call, for half of a call's time."""
    app.add_verbs()
    return typer.main.get_command(app.app)


def call(*words):
    """The command line with ``words``, as ``cfetch`` would run it, in this thread."""
    command = build_command()
    kept = io.BytesIO(), io.BytesIO()
    out, err = (io.TextIOWrapper(one, encoding="utf-8", write_through=True) for one in kept)
    argv, sys.argv = sys.argv, ["cfetch", *map(str, words)]
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = app._run_verb(command)
    finally:
        sys.argv = argv
    return Ran(code, kept[0].getvalue().decode(), kept[1].getvalue().decode())


def manifest_of(case, url, known):
    """One entry that states as much as ``known`` says, and secrets wherever a manifest may hold them."""
    states = {"nothing": {}, "size": {"size": len(case.body)},
              "hash": {"size": len(case.body), "sha256": case.sha256()}}[known]  # fmt: skip
    entry = {"url": f"{url}a?sig={SECRETS['query']}", "path": "d/a", **states}
    entry["headers"] = {"Authorization": f"Bearer {SECRETS['entry']}"}
    document = {"version": 1, "headers": {"X-Team-Key": SECRETS["document"]}, "files": [entry]}
    return json.dumps(document).encode()


async def play(case, known, to, *flags):
    """Download the case's file into ``to``."""
    async with CaseServer(*case.other) as other, CaseServer(*case.replies, other=other.url) as server:
        manifest = to.parent / f"{to.name}.json"
        manifest.write_bytes(manifest_of(case, server.url, known))
        words = ["download", manifest, "--to", to, "--durability", "crash", "--max-attempts", "3"]
        ran = await asyncio.to_thread(call, *words, *case.flags, *flags)
    ran.heads, ran.other_heads = server.heads, other.heads
    for path in (to / ".cfetch/metrics").glob("*.jsonl"):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        ran.records |= {line["path"]: line for line in lines if line["schema"] == "cfetch.file/1"}
    ran.tree = tree(to)
    return ran


def secrets_in(root, *, sealed=False):
    """Files below ``root`` that hold a canary in name, content or an extended attribute.

    A pending plan holds its links, for its owner only: with ``sealed`` they count too.
    """
    found = []
    for path in Path(root).rglob("*"):
        attributes = os.listxattr(path, follow_symlinks=False)
        values = [os.getxattr(path, name, follow_symlinks=False) for name in attributes]
        held = [*values, *map(os.fsencode, attributes), os.fsencode(path.name)]
        held += [path.read_bytes()] if path.is_file() else []
        is_sealed = "plans" in path.parts and not path.stat().st_mode & 0o077
        if any(CANARY.encode() in one for one in held) and (sealed or not is_sealed):
            found.append(str(path.relative_to(root)))
    return found


@contextlib.contextmanager
def watched(monkeypatch):
    """Every error of ours that is made meanwhile, as long as the ``with`` lasts."""
    made: list[CfetchError] = []
    original = CfetchError.__init__

    def remember(self, *args):
        original(self, *args)
        made.append(self)

    with monkeypatch.context() as patched:
        patched.setattr(CfetchError, "__init__", remember)
        yield made
