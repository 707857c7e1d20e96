"""Chooses by scores: intervals, the Pareto front, the recommended setting, and its gain on held-out runs.

Pure. Arrays are (runs, settings). The bootstrap draws whole runs, as files of one run share its conditions;
its random numbers are seeded, so that equal metrics give equal answers.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from cfetch.plugins.lab.tuning.history import Column
from cfetch.plugins.lab.tuning.replay import Setting
from cfetch.plugins.lab.views.tuning_document import (
    Estimated,
    Estimates,
    HeldOut,
    Score,
    SettingScore,
    TuningChoice,
    Values,
)

DRAWS = 2000  # the ends of a 95 % interval are good to a few per cent of its width
SEED = 79
FOLDS = 5
SAME = 0.01  # the replay is not more exact: a difference of less than 1 % of the makespan does not count
RULE = (
    "of the settings that the data cannot tell from the one with the lowest mean makespan ratio (within 1 %, "
    "or better than it in part of the bootstrap), the one that wastes the fewest bytes, then the nearest to "
    "the default"
)


class RunResult(msgspec.Struct, frozen=True, kw_only=True):
    """A run's scores, one entry a setting; empty if no file of it finished.

    ``policy``: the policy that judged its stragglers, or "none". ``unfit``: why it cannot be replayed.
    """

    source: str
    instant: str
    host: str | None
    policy: str = "none"
    unfit: str = ""
    files: int = 0
    finished: int = 0
    workers: int = 0
    recorded_s: float = 0.0
    own_s: float = 0.0
    estimates: Estimates = Estimates(by_rate=0, by_stall_rule=0, drawn=0)
    makespan_s: list[float] = []
    flagged: list[float] = []
    false_alarms: list[float] = []
    twice_bytes: list[float] = []


class ScoreTable(NamedTuple):
    """All runs under all settings of a policy; ``default`` is the default's column."""

    settings: tuple[Setting, ...]
    default: int
    makespan_s: Column
    flagged: Column
    false_alarms: Column
    twice_bytes: Column
    recorded_s: Column
    policy: str = "cloudfetch"

    @property
    def ratio(self) -> Column:
        """Makespans divided by the default's in the same run."""
        return self.makespan_s / self.makespan_s[:, self.default, None]

    def select(self, runs: NDArray[np.bool_]) -> "ScoreTable":
        """Some of the runs."""
        return self._replace(
            makespan_s=self.makespan_s[runs],
            flagged=self.flagged[runs],
            false_alarms=self.false_alarms[runs],
            twice_bytes=self.twice_bytes[runs],
            recorded_s=self.recorded_s[runs],
        )


def build_table(
    settings: Sequence[Setting], default: int, results: Sequence[RunResult], policy: str = "cloudfetch"
) -> ScoreTable:
    """One row a run. A run that took no time counts as a millisecond, so that ratios are finite."""
    makespan_s, flagged, alarms, twice = (
        np.array([getattr(result, name) for result in results])
        for name in ("makespan_s", "flagged", "false_alarms", "twice_bytes")
    )
    recorded_s = np.maximum([result.recorded_s for result in results], 0.001)
    makespan_s = np.maximum(makespan_s, 0.001)
    return ScoreTable(tuple(settings), default, makespan_s, flagged, alarms, twice, recorded_s, policy)


def describe_setting(setting: Setting, policy: str = "cloudfetch") -> Values:
    """The setting for the document; the adaptive policy reads only the multiplier."""
    if policy == "adaptive":
        return Values(multiplier=setting.multiplier)
    return Values(multiplier=setting.multiplier, quantile=setting.quantile, padding_s=setting.padding_s)


def choose_setting(table: ScoreTable, allowed: int) -> TuningChoice:
    """The best of the first ``allowed`` settings by `RULE`, and its gain when chosen on other runs."""
    picked = _pick_setting(table, allowed)
    runs = len(table.makespan_s)
    folds = min(FOLDS, runs)
    fold = np.arange(runs) % folds
    picks = [_pick_setting(table.select(fold != number), allowed) for number in range(folds)]
    held_out = table.ratio[np.arange(runs), [picks[number] for number in fold]]
    return TuningChoice(
        recommended=describe_setting(table.settings[picked], table.policy),
        ratio=_estimate(table.ratio[:, picked, None])[0],
        recorded=_estimate((table.makespan_s[:, picked] / table.recorded_s)[:, None])[0],
        promise_s=_estimate(table.makespan_s[:, picked, None])[0],
        held_out=HeldOut(
            folds=folds,
            ratio=_estimate(held_out[:, None])[0],
            picks=[describe_setting(table.settings[pick], table.policy) for pick in picks],
        ),
    )


def score_settings(table: ScoreTable, allowed: int) -> tuple[list[SettingScore], list[Score]]:
    """The first ``allowed`` settings with their figures and their front, and the figures of the others."""
    makespans, ratios, alarms, twice = (
        _estimate(part) for part in (table.makespan_s, table.ratio, table.false_alarms, table.twice_bytes)
    )
    front = _find_front(table, allowed)
    figures = [
        Score(makespan_s=took, ratio=ratio, flagged=flagged, false_alarms=alarm, twice_bytes=again)
        for took, ratio, flagged, alarm, again in zip(
            makespans, ratios, table.flagged.mean(axis=0).tolist(), alarms, twice, strict=True
        )
    ]
    return [
        SettingScore(
            **msgspec.structs.asdict(score),
            values=describe_setting(setting, table.policy),
            front=index in front,
        )
        for index, (score, setting) in enumerate(zip(figures[:allowed], table.settings, strict=False))
    ], figures[allowed:]


def _pick_setting(table: ScoreTable, allowed: int) -> int:
    ratio, twice = table.ratio[:, :allowed], table.twice_bytes[:, :allowed].mean(axis=0)
    far = _measure_distances(table)[:allowed]
    best = int(np.lexsort((far, ratio.mean(axis=0)))[0])
    behind = ratio - ratio[:, best, None]
    low = np.percentile(_draw_weights(len(ratio)) @ behind, 2.5, axis=0)
    same = (low < 0) | (behind.mean(axis=0) <= SAME)
    order = np.lexsort((far, twice, ~same))
    return int(order[0])


def _find_front(table: ScoreTable, allowed: int) -> set[int]:
    """Settings that no other beats; of several with equal scores, the nearest to the default."""
    rows = np.array([part.mean(axis=0) for part in (table.ratio, table.false_alarms, table.twice_bytes)]).T
    rows, far = rows[:allowed], _measure_distances(table)
    return {
        index
        for index, row in enumerate(rows)
        if not any(
            (other <= row).all() and ((other < row).any() or far[rival] < far[index])
            for rival, other in enumerate(rows)
        )
    }


def _measure_distances(table: ScoreTable) -> Column:
    """Measure distances from the default, by logarithms of multiplier and padding, and by the quantile."""
    home = table.settings[table.default]
    return np.array(
        [
            abs(math.log(setting.multiplier / home.multiplier))
            + abs(setting.quantile - home.quantile)
            + abs(math.log((1 + setting.padding_s) / (1 + home.padding_s)))
            for setting in table.settings
        ]
    )


def _draw_weights(runs: int) -> Column:
    """(`DRAWS`, runs) weights: each row is a draw of as many runs, with replacement."""
    drawn = np.random.default_rng(SEED).integers(0, runs, (DRAWS, runs))
    return np.array([np.bincount(row, minlength=runs) for row in drawn]) / runs


def _estimate(rows: Column) -> list[Estimated]:
    means = rows.mean(axis=0)
    low, high = np.percentile(_draw_weights(len(rows)) @ rows, (2.5, 97.5), axis=0)
    return [
        Estimated(mean=float(mean), low=float(least), high=float(most))
        for mean, least, most in zip(means, low, high, strict=True)
    ]
