"""`cfetch bench` as one call: options in, a ``Comparison`` out."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import msgspec

from cfetch.base.config.layers import resolve
from cfetch.base.errors import ConfigError, LocalFault
from cfetch.base.events import Listener
from cfetch.base.version import __version__
from cfetch.plugins.lab.bench.compare import compare, describe_machine
from cfetch.plugins.lab.bench.gate import find_broken_bounds, measure_gain
from cfetch.plugins.lab.bench.peers import find_installed, race
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.scenario_file import find_scenario
from cfetch.plugins.lab.views.bench_document import Comparison
from cfetch.show.metrics_reading import MetricsRun

ROUNDS = 3  # the least number at which one bad run does not move the median
LIMIT_S = 120.0  # twice the time of the slowest file in cfetch's own scenarios
QUICK_LIMIT_S = 20.0


class BenchOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a bench. ``scenario`` None: ``stragglers``, or ``stragglers-quick`` if ``quick``.

    ``concurrency`` replaces the scenario's. ``policy`` judges the stragglers with all its default settings,
    which replace the scenario's options. ``peers`` also runs other tools, three rounds or, if ``quick``, one.
    Files go below ``folder``, by default the system's temporary one. ``must``: how many times faster
    mitigation has to be; None: any gain is fine.
    """

    scenario: str | None = None
    concurrency: int | None = None
    policy: str | None = None
    quick: bool = False
    peers: bool = False
    folder: Path | None = None
    must: float | None = None


def run(
    options: BenchOptions,
    say: Callable[[str], None] = lambda _: None,
    keep_run: Callable[[MetricsRun], None] = lambda _: None,
    listener: Listener | None = None,
) -> Comparison:
    """Run the bench; ``say`` gets a line for a person before each step, ``keep_run`` the metrics of each run.

    ``listener`` gets the events of each run while it is under way.

    Raises:
        ConfigError: there is no such scenario or policy, the scenario is wrong, or it has several hosts and
            ``peers`` is set.
        LocalFault: there is no room for the files, or a run ended before it downloaded anything.
    """
    scenario = find_scenario(options.scenario or ("stragglers-quick" if options.quick else "stragglers"))
    if options.concurrency is not None:
        scenario = msgspec.structs.replace(scenario, concurrency=options.concurrency)
    if options.policy is not None:
        scenario = msgspec.structs.replace(scenario, options={"policy": options.policy})
    settings = resolve(flags=scenario.options, env={}).settings
    folder = options.folder or Path(tempfile.gettempdir())
    if options.peers and scenario.network is not None and len(scenario.network.hosts) > 1:
        raise ConfigError(f"{scenario.name} has several hosts; other tools are run on one: leave out --peers")
    _check_room(scenario, folder)
    contenders = []
    runs = compare(scenario, folder, say, keep_run, listener)
    if options.peers:
        rounds, limit_s = (1, QUICK_LIMIT_S) if options.quick else (ROUNDS, LIMIT_S)
        contenders = race(scenario, find_installed(), folder, rounds=rounds, limit_s=limit_s, say=say)
    return Comparison(
        version=__version__,
        machine=describe_machine(),
        scenario=scenario.name,
        description=scenario.description,
        seed=scenario.seed,
        concurrency=scenario.concurrency,
        policy=settings.policy,
        options=scenario.options,
        files=len(scenario.names),
        size_bytes=scenario.size_bytes,
        faulty=len(scenario.faults),
        runs=runs,
        contenders=contenders,
        gain=measure_gain(runs),
        must=options.must,
        broken=find_broken_bounds(runs, scenario.size_bytes, options.must),
    )


def _check_room(scenario: Scenario, folder: Path) -> None:
    free = shutil.disk_usage(folder).free
    if free < scenario.size_bytes:
        raise LocalFault(
            f"the bench needs {scenario.size_bytes:,} bytes in {folder}, which has {free:,} free; "
            "set TMPDIR to a folder with more room"
        )
