"""From scores to a choice: intervals, the Pareto front, the recommended setting, and how it does elsewhere.

Pure. Arrays are (runs, settings). The bootstrap draws whole runs, as files of one run share its weather; its
dice are seeded, so that equal metrics give equal answers.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from cfetch.report.tuning_document import Choice, Estimated, HeldOut, Score, SettingScore, Values
from cfetch.tuning.history import Column
from cfetch.tuning.replay import Censored, Setting

__all__ = ["RULE", "Result", "Table", "choose", "scored", "table", "values"]

DRAWS = 2000  # the ends of a 95 % interval are good to a few per cent of its width
SEED = 79
FOLDS = 5
SAME = 0.01  # the replay is no finer: a difference of less than 1 % of the makespan is none
RULE = (
    "of the settings that the data cannot tell from the one with the lowest mean makespan ratio (within 1 %, "
    "or better than it in part of the bootstrap), the one with the fewest bytes twice, then the nearest to "
    "the default"
)


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """A run's scores, one entry a setting; empty where no file of it finished."""

    source: str
    instant: str
    host: str | None
    files: int
    finished: int
    workers: int
    recorded_s: float
    own_s: float
    estimates: Censored
    makespan_s: list[float]
    flagged: list[float]
    false_alarms: list[float]
    twice_bytes: list[float]


class Table(NamedTuple):
    """All runs under all settings; ``default`` is the default's column."""

    settings: tuple[Setting, ...]
    default: int
    makespan_s: Column
    flagged: Column
    false_alarms: Column
    twice_bytes: Column

    @property
    def ratio(self) -> Column:
        """Of makespans, against the default's in the same run."""
        return self.makespan_s / self.makespan_s[:, self.default, None]

    def only(self, runs: NDArray[np.bool_]) -> "Table":
        """Some of the runs."""
        parts = (self.makespan_s, self.flagged, self.false_alarms, self.twice_bytes)
        return Table(self.settings, self.default, *(part[runs] for part in parts))


def table(settings: Sequence[Setting], default: int, results: Sequence[Result]) -> Table:
    """One row a run. A run that took no time counts as a millisecond, so that ratios are finite."""
    makespan_s, flagged, alarms, twice = (
        np.array([getattr(one, name) for one in results])
        for name in ("makespan_s", "flagged", "false_alarms", "twice_bytes")
    )
    return Table(tuple(settings), default, np.maximum(makespan_s, 0.001), flagged, alarms, twice)


def values(setting: Setting) -> Values:
    """As the document has it."""
    return Values(multiplier=setting.multiplier, quantile=setting.quantile, padding_s=setting.padding_s)


def choose(found: Table, allowed: int) -> Choice:
    """The best of the first ``allowed`` settings by `RULE`; and, chosen on some runs, its worth on others."""
    picked = _pick(found, allowed)
    runs = len(found.makespan_s)
    folds = min(FOLDS, runs)
    fold = np.arange(runs) % folds
    picks = [_pick(found.only(fold != one), allowed) for one in range(folds)]
    held_out = found.ratio[np.arange(runs), [picks[one] for one in fold]]
    return Choice(
        recommended=values(found.settings[picked]),
        ratio=_estimated(found.ratio[:, picked, None])[0],
        held_out=HeldOut(
            folds=folds,
            ratio=_estimated(held_out[:, None])[0],
            picks=[values(found.settings[one]) for one in picks],
        ),
    )


def scored(found: Table, allowed: int) -> tuple[list[SettingScore], list[Score]]:
    """The first ``allowed`` settings with their figures and their front, and the figures of the others."""
    makespans, ratios, alarms, twice = (
        _estimated(part) for part in (found.makespan_s, found.ratio, found.false_alarms, found.twice_bytes)
    )
    front = _front(found, allowed)
    figures = [
        Score(makespan_s=took, ratio=ratio, flagged=flagged, false_alarms=alarm, twice_bytes=again)
        for took, ratio, flagged, alarm, again in zip(
            makespans, ratios, found.flagged.mean(axis=0).tolist(), alarms, twice, strict=True
        )
    ]
    return [
        SettingScore(**msgspec.structs.asdict(one), values=values(setting), front=at in front)
        for at, (one, setting) in enumerate(zip(figures[:allowed], found.settings, strict=False))
    ], figures[allowed:]


def _pick(found: Table, allowed: int) -> int:
    ratio, twice = found.ratio[:, :allowed], found.twice_bytes[:, :allowed].mean(axis=0)
    far = _distances(found)[:allowed]
    best = int(np.lexsort((far, ratio.mean(axis=0)))[0])
    behind = ratio - ratio[:, best, None]
    low = np.percentile(_draws(len(ratio)) @ behind, 2.5, axis=0)
    same = (low < 0) | (behind.mean(axis=0) <= SAME)
    order = np.lexsort((far, twice, ~same))
    return int(order[0])


def _front(found: Table, allowed: int) -> set[int]:
    """Settings that none beats; of several with equal scores, the nearest to the default."""
    rows = np.array([part.mean(axis=0) for part in (found.ratio, found.false_alarms, found.twice_bytes)]).T
    rows, far = rows[:allowed], _distances(found)
    return {
        at
        for at, row in enumerate(rows)
        if not any(
            (other <= row).all() and ((other < row).any() or far[rival] < far[at])
            for rival, other in enumerate(rows)
        )
    }


def _distances(found: Table) -> Column:
    """From the default, in steps that feel alike: logarithms of multiplier and padding, and the quantile."""
    home = found.settings[found.default]
    return np.array(
        [
            abs(math.log(one.multiplier / home.multiplier))
            + abs(one.quantile - home.quantile)
            + abs(math.log((1 + one.padding_s) / (1 + home.padding_s)))
            for one in found.settings
        ]
    )


def _draws(runs: int) -> Column:
    """(`DRAWS`, runs) weights: each row is a draw of as many runs, with replacement."""
    drawn = np.random.default_rng(SEED).integers(0, runs, (DRAWS, runs))
    return np.array([np.bincount(row, minlength=runs) for row in drawn]) / runs


def _estimated(rows: Column) -> list[Estimated]:
    means = rows.mean(axis=0)
    low, high = np.percentile(_draws(len(rows)) @ rows, (2.5, 97.5), axis=0)
    return [
        Estimated(mean=float(mean), low=float(one), high=float(other))
        for mean, one, other in zip(means, low, high, strict=True)
    ]
