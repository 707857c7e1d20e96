"""What curl, wget, aria2 and cfetch make of the hostile servers of ``tests/conditions``: real processes.

``python benchmarks/hostile_servers.py``; with ``--write`` the result goes into docs/hostile-servers.md. A run
may take ``LIMIT_S``. In cases of resumption the first reply is for an earlier run, which it cuts off.
"""

import argparse
import asyncio
import json
import re
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # the cases are the tests'

from cfetch.base.version import __version__  # noqa: E402
from cfetch.plugins.lab.bench.child import clean_environment  # noqa: E402
from tests.conditions.cases import CASES, Case  # noqa: E402
from tests.conditions.server import CaseServer  # noqa: E402

LIMIT_S = 20.0
NAME = "f"
CURL = "curl -sS --fail -L --max-redirs 50 --retry 2 --speed-limit 1 --speed-time 2 -o {O}/f {U}"
WGET = "wget -q --no-config --tries=3 --waitretry=1 --timeout=2 --max-redirect=50 -P {O} {U}"
CAREFUL = "--remove-on-error --retry-all-errors"
ARIA2 = (
    "aria2c -q --no-conf -d {O} -o f -x1 -s1 -m3 --retry-wait=1 --timeout=2 --connect-timeout=2"
    " --max-file-not-found=1 --file-allocation=none --auto-file-renaming=false --allow-overwrite=true"
    " --always-resume=false {U}"
)
CHECKSUM = "--checksum=sha-256={H}"
CFETCH = (
    "{P} -m cfetch download {M} --to {O} --quiet --max-attempts 3 --stall-timeout 1s --check-interval 100ms"
    " --durability crash"
)


FAIRNESS = """\
- *cfetch, size and hash* and *aria2 --checksum* know the file beforehand; the others know its URL only.
- With the URL only, cfetch is no better than the others against a well-formed lie: a length that is too
  short, an early last chunk, an error page with status 200, other bytes of the same length, another version
  under the same ETag. Its metrics then say `verified: none`.
- cfetch refuses some replies that others accept: two ETags, and with the URL only a body ended only by the
  end of the connection, and bytes after the body.
- *WRONG* in cases 26 and 28: the encoded bytes were saved, as the manuals say.
- In the cases that resume (12 to 21), the earlier run was cut off after 1.5 of 2.5 MiB. The other tools
  resume the file under the final name.
- Only tools that know the size can find 32-longer-than-stated. In 42 and 43 curl waits as the server asks,
  and is killed; in 54-fifty-one-hops a retry begins after the redirects.
- An endless body in chunks, with the URL only, is bounded by the disk alone.
- The others may have better options."""


class Tool(NamedTuple):
    """``command`` for a new file, ``resume`` for one begun by a run; ``knows``: what is stated of it."""

    name: str
    command: str
    resume: str
    knows: str = "nothing"


TOOLS = (
    Tool("curl", CURL, f"{CURL} -C -"),
    Tool("curl, careful", f"{CURL} {CAREFUL}", f"{CURL} {CAREFUL} -C -"),
    Tool("wget", WGET, f"{WGET} -c"),
    Tool("aria2", ARIA2, f"{ARIA2} -c"),
    Tool("aria2 --checksum", f"{ARIA2} {CHECKSUM}", f"{ARIA2} {CHECKSUM} -c", "hash"),
    Tool("cfetch, URL only", CFETCH, CFETCH),
    Tool("cfetch, size and hash", CFETCH, CFETCH, "hash"),
)  # fmt: skip
WORDS = {
    "right": "exit 0 and the right file",
    "told": "an error, and nothing under the final name",
    "marked": "an error; the final name has what came, beside a control file",
    "left": "an error, but a partial or wrong file under the final name",
    "WRONG": "exit 0 with a wrong, partial or missing file",
    "endless": f"not ended within {LIMIT_S:g} s",
}


async def run(words: list[str], limit_s: float = LIMIT_S) -> int | None:
    """The exit code; None if it had to be killed."""
    child = await asyncio.create_subprocess_exec(
        *words,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        env=clean_environment(),
        cwd=ROOT,
    )
    try:
        async with asyncio.timeout(limit_s):
            return await child.wait()
    except TimeoutError:
        child.kill()
        await child.wait()
        return None


def words_of(command: str, tool: Tool, case: Case, url: str, folder: Path) -> list[str]:
    """The command line; writes cfetch's manifest."""
    stated = {"size": len(case.body), "sha256": case.sha256()} if tool.knows == "hash" else {}
    manifest = folder / "m.json"
    manifest.write_text(json.dumps({"version": 1, "files": [{"url": url, "path": NAME, **stated}]}))
    letters = {"O": str(folder / "O"), "U": url, "M": str(manifest), "P": sys.executable, "H": case.sha256()}
    return [word.format(**letters) for word in command.split()]


async def outcome(tool: Tool, case: Case, folder: Path) -> str:
    """One of ``WORDS``."""
    (folder / "O").mkdir()
    async with CaseServer(*case.other) as other, CaseServer(*case.replies, other=other.url) as server:
        url = server.url + NAME
        if case.prior:
            server.replies = case.replies[:1]
            first = re.sub(r"--retry 2|--remove-on-error|--retry-all-errors", "", tool.command)
            first = re.sub(r"--tries=3|--max-attempts 3|-m3", lambda m: m[0].replace("3", "1"), first)
            await run(words_of(first, tool, case, url, folder))
            server.replies, server.heads = case.replies[1:], []
        code = await run(words_of(tool.resume if case.prior else tool.command, tool, case, url, folder))
    found = folder / "O" / NAME
    right = found.is_file() and found.read_bytes() == case.body
    if code is None:
        return "endless"
    if code == 0:
        return "right" if right else "WRONG"
    if not found.exists() or right:
        return "told"
    return "marked" if found.with_name(f"{NAME}.aria2").exists() else "left"


async def compare(tools: list[Tool], cases: list[Case]) -> dict[str, dict[str, str]]:
    """Outcomes by case and tool; the tools play a case at the same time, each with a server of its own."""

    async def one(tool: Tool, case: Case) -> str:
        with tempfile.TemporaryDirectory(prefix="cfetch-hostile-", ignore_cleanup_errors=True) as folder:
            return await outcome(tool, case, Path(folder))

    found: dict[str, dict[str, str]] = {}
    for case in cases:
        words = await asyncio.gather(*(one(tool, case) for tool in tools))
        found[case.name] = dict(zip((tool.name for tool in tools), words, strict=True))
        print(case.name, *words, sep="\t", flush=True)
    return found


async def version(program: str) -> str:
    """As it tells it."""
    child = await asyncio.create_subprocess_exec(program, "--version", stdout=asyncio.subprocess.PIPE)
    out, _ = await child.communicate()
    match = re.search(rb"\d+\.\d+(?:\.\d+)*", out)
    return match.group().decode() if match else "of unknown version"


def _name_program(name: str) -> str:
    """The first word of a tool's name."""
    return re.split(r"\W", name)[0]


def document(tools: list[Tool], found: dict[str, dict[str, str]], versions: str, wall_s: float) -> str:
    """The result as Markdown."""
    names = [tool.name for tool in tools]
    rule = "|---" * (len(names) + 1) + "|"
    totals = {name: Counter(row[name] for row in found.values()) for name in names}
    cases_of: dict[tuple[str, ...], list[str]] = {}
    programs = list(dict.fromkeys(map(_name_program, names)))
    for case, row in found.items():
        cells = (
            " / ".join(dict.fromkeys(row[name] for name in names if _name_program(name) == program))
            for program in programs
        )
        cases_of.setdefault(tuple(cells), []).append(case)
    lines = [
        "# Hostile servers, side by side",
        "",
        f"`python benchmarks/hostile_servers.py --write` played the {len(found)} cases of cfetch's own tests",
        f"(`tests/conditions/cases.py`) with real processes in {wall_s:.0f} s. {versions}.",
        "",
        "| word | meaning |",
        "|---|---|",
        *(f"| {word} | {meaning} |" for word, meaning in WORDS.items()),
        "",
        "Only *WRONG* is silent. Where the server never sends the right file, *told* is as good as *right*.",
        "",
        f"| totals | {' | '.join(names)} |",
        rule,
        *(f"| {word} | {' | '.join(str(totals[name][word]) for name in names)} |" for word in WORDS),
        "",
        "## What is fair",
        "",
        FAIRNESS,
        "",
        "## Cases",
        "",
        "The numbers are those of [the conditions](conditions.md). `left / told` are the outcomes of a",
        "program's first and second column above; a single word stands for both.",
        "",
        f"| cases | {' | '.join(programs)} |",
        "|---" * (len(programs) + 1) + "|",
        *(f"| {', '.join(cases)} | {' | '.join(cells)} |" for cells, cases in cases_of.items()),
        "",
        "## Command lines",
        "",
        "`{U}` is the URL, `{O}` the folder, `{M}` a manifest, `{H}` the hash, `{P}` Python.",
        "",
    ]
    for number, tool in enumerate(tools):
        resume = " ".join(word for word in tool.resume.split() if word not in tool.command.split())
        base = next((other for other in tools[:number] if tool.command.startswith(other.command)), None)
        command = f"`{tool.command}`"
        if base is not None:
            more = tool.command.removeprefix(base.command).strip()
            command = f"as *{base.name}*" + (f", with `{more}`" if more else "")
        lines.append(f"- **{tool.name}**: {command}{f', to resume `{resume}`' if resume else ''}")
    return "\n".join(lines) + "\n"


async def main() -> None:
    """Play, print, and write if asked to."""
    parser = argparse.ArgumentParser(description="cfetch and others against hostile servers")
    parser.add_argument("--write", action="store_true", help="docs/hostile-servers.md")
    parser.add_argument("--only", default="", help="cases whose name begins with this")
    args = parser.parse_args()
    programs = {tool.command.split()[0] for tool in TOOLS} - {"{P}"}
    absent = sorted(program for program in programs if not shutil.which(program))
    tools = [tool for tool in TOOLS if tool.command.split()[0] not in absent]
    known = [f"{name} {await version(name)}" for name in sorted(programs) if name not in absent]
    versions = ", ".join([f"cfetch {__version__}", *known])
    if absent:
        versions += f"; not on this machine and left out: {', '.join(absent)}"
    start = time.monotonic()
    cases = [case for case in CASES if case.name.startswith(args.only)]
    found = await compare(tools, cases)
    text = document(tools, found, versions, time.monotonic() - start)
    print(text)
    if args.write and not args.only:
        (ROOT / "docs/hostile-servers.md").write_text(text)


if __name__ == "__main__":
    asyncio.run(main())
