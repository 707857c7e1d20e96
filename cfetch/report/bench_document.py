"""A bench as a value: what `cfetch bench --json` prints (``cfetch.bench/1``).

Times are seconds, sizes bytes. Wall times are taken around the whole child process, start-up included; CPU is
its user and system time as the kernel accounts it.
"""

from typing import Literal

import msgspec


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One run of cfetch. ``ideal``: the origin behaves; ``none``: faults, no mitigation; ``mitigated``: both.

    ``makespan_s`` is from the first attempt's start to the last file's end. Percentiles are of each file's
    time from its first attempt to its end. ``wrong`` files are missing or differ from the origin's by any
    byte. ``false_alarms`` are cancelled attempts that the origin did not hold back. ``slowdown`` is wall
    against ideal. ``finishes_s`` are end times since the run's start, sorted, thinned evenly when there are
    many; the last one is always kept.
    """

    name: Literal["ideal", "none", "mitigated"]
    wall_s: float
    makespan_s: float
    cpu_s: float
    exit_code: int
    done: int
    failed: int
    wrong: int
    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float
    mitigations: int
    false_alarms: int
    retries: int
    wasted_bytes: int
    slowdown: float
    finishes_s: list[float]


class Trial(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one contender. ``killed``: it was still running at the time limit. ``right`` files match."""

    wall_s: float
    cpu_s: float
    exit_code: int
    killed: bool
    right: int


class Contender(msgspec.Struct, frozen=True, kw_only=True):
    """One tool on the scenario.

    ``wall_s`` and ``cpu_s`` are medians over all trials, killed ones counted with the time they were given.
    In ``command`` L is the list of URLs, K curl's, N that of names, S s5cmd's, M the manifest, O the output
    folder, U the origin and E the origin as an S3 service.
    """

    name: str
    version: str
    command: str
    wall_s: float
    cpu_s: float
    trials: list[Trial]


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """The machine of the bench; figures of different machines cannot be compared."""

    python: str
    platform: str
    cpus: int


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """The whole bench. ``faulty`` files of ``files`` misbehave in the runs with faults.

    ``policy`` judged the stragglers of the mitigated run. ``gain``: how many times faster that was, by wall
    time, than the run without mitigation; ``must`` is the least that was asked for. ``broken``: a sentence
    for each bound that does not hold; with any the bench ends with exit code 1.
    """

    schema: str = "cfetch.bench/1"
    version: str
    machine: Machine
    scenario: str
    description: str
    seed: int
    concurrency: int
    policy: str
    options: dict[str, str]
    files: int
    size_bytes: int
    faulty: int
    runs: list[Figures]
    contenders: list[Contender]
    gain: float
    must: float | None
    broken: list[str]


class CleanSet(msgspec.Struct, frozen=True, kw_only=True):
    """A set of files without faults, and the tools that brought it, cfetch first.

    ``against_curl``: cfetch's wall time as a multiple of that of ``curl -Z``; None: curl is not installed.
    """

    scenario: str
    description: str
    files: int
    size_bytes: int
    contenders: list[Contender]
    against_curl: float | None


class CleanBench(msgspec.Struct, frozen=True, kw_only=True):
    """What `cfetch bench --clean --json` prints (``cfetch.bench-clean/1``).

    ``rounds`` of each tool, in turn; figures are medians. ``server``: what has served the files. ``broken``:
    a sentence for each run of cfetch that did not bring every file; with any the exit code is 1.
    """

    schema: str = "cfetch.bench-clean/1"
    version: str
    machine: Machine
    server: str
    tls: bool
    rounds: int
    sets: list[CleanSet]
    broken: list[str]
