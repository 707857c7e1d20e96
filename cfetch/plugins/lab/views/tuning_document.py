"""The document of a tuning, which ``cfetch tune --json`` prints (``cfetch.tuning/1``).

Times are seconds, sizes bytes; an interval is the middle 95 % of a bootstrap over runs. A ratio compares a
setting's makespan with the default's in the same run: 0.8 means a fifth less.
"""

from typing import Literal

import msgspec

from cfetch.base.config.settings import KINDS


class Values(msgspec.Struct, frozen=True, kw_only=True):
    """Options of ``cfetch download``; None: the policy does not read it. ``padding_s`` in seconds."""

    multiplier: float
    quantile: float | None = None
    padding_s: float | None = None


GRID_KEYS = ("multiplier", "quantile", "padding")  # the options of ``Values``, in the order of its fields


def format_values(values: Values) -> dict[str, str]:
    """The text of each option that the policy reads, as on a command line."""
    given = zip(GRID_KEYS, msgspec.structs.astuple(values), strict=True)
    return {key: KINDS[key].show(value) for key, value in given if value is not None}


def describe_values(values: Values) -> str:
    """The options of a setting with their values: ``multiplier 1.5, quantile 0.6, padding 5s``."""
    return ", ".join(f"{key} {text}" for key, text in format_values(values).items())


class Estimated(msgspec.Struct, frozen=True, kw_only=True):
    """A mean over runs, and its interval."""

    mean: float
    low: float
    high: float


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The replay of a run. ``false_alarms``: flagged attempts that would have ended sooner without that."""

    makespan_s: Estimated
    ratio: Estimated
    flagged: float
    false_alarms: Estimated
    twice_bytes: Estimated


class SettingScore(Score, frozen=True, kw_only=True):
    """The score of one setting. ``front``: no other beats it in ratio, false alarms and bytes together."""

    values: Values
    front: bool


class HeldOut(msgspec.Struct, frozen=True, kw_only=True):
    """Values are chosen on some runs and scored on the others: ``ratio`` there, ``picks`` by fold."""

    folds: int
    ratio: Estimated
    picks: list[Values]


class Estimates(msgspec.Struct, frozen=True, kw_only=True):
    """Cancelled attempts: their true time is estimated by their rate, by the stall rule, or by a draw."""

    by_rate: int
    by_stall_rule: int
    drawn: int


class Replayed(msgspec.Struct, frozen=True, kw_only=True):
    """A run that was used; ``policy`` judged its stragglers ("none": no policy did).

    ``replayed_s``: its makespan in the replay with its own setting; None if its policy is not the replayed
    one.
    """

    source: str
    instant: str
    files: int
    finished: int
    workers: int
    policy: str
    recorded_s: float
    replayed_s: float | None


class LeftOutRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run or a host that was not used, and why."""

    name: str
    reason: str


class TuningChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The recommended values, and their gain compared with the default.

    ``recorded``: the makespan compared with the settings that were really used. ``promise_s``: the expected
    time of such a run.
    """

    recommended: Values
    ratio: Estimated
    recorded: Estimated
    promise_s: Estimated
    held_out: HeldOut


class HostChoice(msgspec.Struct, frozen=True, kw_only=True):
    """The choice for the files of a single host."""

    host: str
    runs: int
    files: int
    choice: TuningChoice


class Tuning(msgspec.Struct, frozen=True, kw_only=True):
    """The whole answer about ``policy``. ``settings``: the grid and the default.

    ``unmitigated``: the score without mitigation. ``leave``: why the default is to stay; empty if the
    recommended values are better. ``remarks``: limits of the recorded data.
    """

    schema: str = "cfetch.tuning/1"
    version: str
    engine: Literal["local", "spark"]
    policy: Literal["adaptive", "cloudfetch"]
    leave: str
    remarks: list[str]
    rule: str
    default: Values
    choice: TuningChoice
    settings: list[SettingScore]
    unmitigated: Score
    runs: list[Replayed]
    left_out: list[LeftOutRun]
    estimates: Estimates
    hosts: list[HostChoice]
    hosts_left_out: list[LeftOutRun]
