"""The document of simulated runs, which ``cfetch bench --simulate --json`` prints (``cfetch.simulation/1``).

Times are seconds of virtual time, sizes bytes.
"""

import msgspec

LEVEL = 0.02  # share of the makespan; a smaller difference does not count
JUDGED = "adaptive"
SEED_POLICIES = ("none", "cloudfetch")  # ``adaptive`` is compared with the better of them


class Played(msgspec.Struct, frozen=True, kw_only=True):
    """One run of one scenario under one policy.

    ``makespan_s`` is the end of the last file. ``mitigations`` are attempts that were cancelled as slow;
    ``false_alarms`` are those of them whose connection was good: neither slow nor stalled by the scenario,
    and with at least a quarter of its host's usual rate. ``sent_bytes`` came over the link, and
    ``twice_bytes`` of them are in no finished file. Percentiles are of each file's time from its first
    attempt to its end. ``events`` are counts by kind; ``volumes`` are bytes written by volume.
    """

    scenario: str
    policy: str
    seed: int
    makespan_s: float
    files: int
    size_bytes: int
    done: int
    failed: int
    mitigations: int
    false_alarms: int
    requests: int
    connections: int
    sent_bytes: int
    twice_bytes: int
    p50_s: float
    p95_s: float
    p99_s: float
    max_s: float
    events: dict[str, int]
    volumes: list[int]


class PolicyRow(msgspec.Struct, frozen=True, kw_only=True):
    """One policy over all seeds. ``ratio``: its makespan divided by the ideal run's with the same seed.

    Mitigations, false alarms and ``twice`` (a share of the files' bytes) are means over the seeds.
    """

    policy: str
    makespan_s: float
    ratio_p50: float
    ratio_worst: float
    mitigations: float
    false_alarms: float
    twice: float
    not_done: int


class ScenarioComparison(msgspec.Struct, frozen=True, kw_only=True):
    """One scenario: the ``ideal`` run's median makespan, a row for each policy, and the verdict in words."""

    scenario: str
    description: str
    files: int
    size_bytes: int
    ideal_s: float
    rows: list[PolicyRow]
    verdict: str


class Simulation(msgspec.Struct, frozen=True, kw_only=True):
    """The whole simulation; equal versions, scenarios and seeds give equal documents."""

    schema: str = "cfetch.simulation/1"
    version: str
    seeds: list[int]
    scenarios: list[ScenarioComparison]
    runs: list[Played]


def verdict(rows: list[PolicyRow]) -> str:
    """Compare ``adaptive`` with the better of two other policies; empty if it was not run."""
    by_name = {row.policy: row for row in rows}
    judged = by_name.get(JUDGED)
    others = [by_name[name] for name in SEED_POLICIES if name in by_name]
    if judged is None or not others:
        return ""
    best = min(others, key=lambda row: row.ratio_p50)
    change = judged.ratio_p50 / best.ratio_p50 - 1
    word = (
        "level with"
        if abs(change) <= LEVEL
        else f"{abs(change):.0%} {'slower' if change > 0 else 'faster'} than"
    )
    return f"{JUDGED} is {word} the better of the others ({best.policy})"
