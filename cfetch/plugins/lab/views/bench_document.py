"""The document of a bench, which ``cfetch bench --json`` prints (``cfetch.bench/1``).

Times are seconds, sizes bytes. Wall times are of the whole child process, with its start-up; CPU is its user
and system time by the kernel's accounts.
"""

from typing import Literal

import msgspec


class Figures(msgspec.Struct, frozen=True, kw_only=True):
    """One run of cfetch. ``ideal``: the origin behaves; ``none``: faults, no mitigation; ``mitigated``: both.

    ``makespan_s`` is from the first attempt's start to the last file's end. Percentiles are of each file's
    time from its first attempt to its end. ``wrong`` files are missing or differ from the origin's in any
    byte. ``false_alarms`` are cancelled attempts that the origin did not slow down; of ``in_segments`` files
    further connections brought segments. ``slowdown`` is wall time
    divided by the ideal run's. ``finishes_s`` are end times since the run's start, sorted; if there are many,
    they are thinned evenly, and the last one is always kept.
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
    in_segments: int = 0
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

    ``wall_s`` and ``cpu_s`` are medians over all trials; a killed trial counts with its time limit. In
    ``command`` L is the list of URLs, K curl's list, N the list of names, S s5cmd's list, M the manifest, O
    the output folder, U the origin and E the origin as an S3 service.
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

    ``policy`` judged the stragglers of the mitigated run. ``gain``: how many times faster that run was, by
    wall time, than the run without mitigation; ``must`` is the required minimum. ``broken``: a sentence for
    each bound that does not hold; if there is any, the exit code is 1.
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

    ``against_curl``: cfetch's wall time divided by the time of ``curl -Z``; None: curl is not installed.
    """

    scenario: str
    description: str
    files: int
    size_bytes: int
    contenders: list[Contender]
    against_curl: float | None


class CleanBench(msgspec.Struct, frozen=True, kw_only=True):
    """The document that ``cfetch bench --clean --json`` prints (``cfetch.bench-clean/1``).

    Each tool makes ``rounds`` runs, in turn; figures are medians. ``server`` has served the files.
    ``broken``: a sentence for each run of cfetch that did not bring every file; if there is any, the exit
    code is 1.
    """

    schema: str = "cfetch.bench-clean/1"
    version: str
    machine: Machine
    server: str
    tls: bool
    rounds: int
    sets: list[CleanSet]
    broken: list[str]
