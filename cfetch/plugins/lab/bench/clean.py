"""``cfetch bench --clean``: compares cfetch and curl without faults, on small, medium and large files.

Every tool in turn gets the same files from one server. cfetch runs with its defaults, so it begins with as
many connections as curl is given, and may take more. Files are in memory if the system has a folder there: a
disk would be the same for all, and hide the cost of the tools.
"""

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from cfetch.base.errors import ConfigError, LocalFault
from cfetch.base.version import __version__
from cfetch.plugins.lab.bench.compare import describe_machine
from cfetch.plugins.lab.bench.peers import PEERS, Peer, find_program, run_peer, take_turns
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.scenario_file import find_scenario
from cfetch.plugins.lab.bench.static_server import static_server
from cfetch.plugins.lab.views.bench_document import CleanBench, CleanSet, Contender, Trial
from cfetch.show.format import plural

SETS = ("clean-small", "clean-medium", "clean-large")
QUICK_SETS = ("clean-16k", "clean-1m")
ROUNDS = 5
LIMIT_S = 600.0
MEMORY = Path("/dev/shm")  # noqa: S108 - all users may see these synthetic files
CURL = "curl -Z"
_OTHERS = ("aria2", "wget2")
_TRUST = {
    "cfetch": "--ca-file {A}",
    CURL: "--cacert {A}",
    "aria2": "--ca-certificate={A}",
    "wget2": "--ca-certificate={A}",
}


class CleanOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a clean bench. No ``scenarios``: ``SETS``, or ``QUICK_SETS`` in one round if ``quick``.

    ``peers``: aria2 and wget2 too. Files go below ``folder``, by default in memory.
    """

    scenarios: Sequence[str] = ()
    quick: bool = False
    peers: bool = False
    tls: bool = False
    folder: Path | None = None


def run(options: CleanOptions, say: Callable[[str], None] = lambda _: None) -> CleanBench:
    """Run the bench; ``say`` gets a line for a person before each step.

    Raises:
        ConfigError: there is no such scenario, it is wrong, or it has faults.
        LocalFault: there is no room for the files, or no server.
    """
    names = options.scenarios or (QUICK_SETS if options.quick else SETS)
    scenarios = [find_scenario(name) for name in names]
    for scenario in scenarios:
        if scenario.rules or scenario.network is not None:
            raise ConfigError(f"{scenario.name} has faults or a slow network; --clean measures without them")
    rounds = 1 if options.quick else ROUNDS
    sets, servers = [], set()
    for scenario in scenarios:
        clean, server = _measure(scenario, options, rounds, say)
        sets.append(clean)
        servers.add(server)
    return CleanBench(
        version=__version__,
        machine=describe_machine(),
        server=servers.pop(),
        tls=options.tls,
        rounds=rounds,
        sets=sets,
        broken=[sentence for clean in sets for sentence in _find_broken(clean)],
    )


def _measure(
    scenario: Scenario, options: CleanOptions, rounds: int, say: Callable[[str], None]
) -> tuple[CleanSet, str]:
    """Measure one set. Also returns the name of the server."""
    folder = options.folder or _choose_folder(2 * scenario.size_bytes)
    with (
        tempfile.TemporaryDirectory(prefix="cfetch-clean-", dir=folder) as inner,
        static_server(scenario, Path(inner), tls=options.tls) as server,
    ):
        say(f"{scenario.name}: {plural(len(scenario.names), 'file')}, served by {server.name}")

        def run_clean(peer: Peer, empty: Path) -> Trial:
            return run_peer(peer, scenario, server.url, empty, LIMIT_S, server.ca_file)

        entrants = _find_entrants(scenario, options)
        contenders = take_turns(entrants, run_clean, scenario, folder, rounds=rounds, say=say)
    return _sum_up(scenario, contenders), server.name


def _find_entrants(scenario: Scenario, options: CleanOptions) -> list[Peer]:
    """The installed tools, cfetch first, with the options that make them trust the server."""
    flags = scenario.flags()
    wanted = (CURL, *_OTHERS) if options.peers else (CURL,)
    others = [peer for peer in PEERS if peer.name in wanted and find_program(peer)]
    entrants = [Peer("cfetch", " ".join(["cfetch download {M} --to {O} --quiet", *flags])), *others]
    if not options.tls:
        return entrants
    return [Peer(peer.name, f"{peer.command} {_TRUST[peer.name]}") for peer in entrants]


def _choose_folder(size_bytes: int) -> Path:
    """A folder in memory if it has room, or else the system's temporary one. Raises LocalFault."""
    temporary = Path(tempfile.gettempdir())
    for folder in (MEMORY, temporary):
        if folder.is_dir() and os.access(folder, os.W_OK) and shutil.disk_usage(folder).free > size_bytes:
            return folder
    raise LocalFault(
        f"the bench needs {size_bytes:,} bytes in {temporary}; set TMPDIR to a folder with more room"
    )


def _sum_up(scenario: Scenario, contenders: Sequence[Contender]) -> CleanSet:
    walls_s = {contender.name: contender.wall_s for contender in contenders}
    curl_s = walls_s.get(CURL)
    return CleanSet(
        scenario=scenario.name,
        description=scenario.description,
        files=len(scenario.names),
        size_bytes=scenario.size_bytes,
        contenders=list(contenders),
        against_curl=None if curl_s is None else walls_s["cfetch"] / curl_s,
    )


def _find_broken(clean: CleanSet) -> list[str]:
    """A sentence for each run of cfetch that did not bring all files."""
    return [
        f"{clean.scenario}: a run of cfetch left {clean.files - trial.right:,} of {clean.files:,} files "
        f"wrong or missing, with exit code {trial.exit_code}"
        for trial in clean.contenders[0].trials
        if trial.right < clean.files
    ]
