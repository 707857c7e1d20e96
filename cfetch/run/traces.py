"""What a finished ``get`` leaves beside its files: nothing, where only gets have been.

A mirror needs the timeline, the metrics and what was learned: the next run builds on them. Somebody who gets
a file into the working directory expects no directory beside it. The proof that a file is whole is on the
file itself (or below ``sources/``, where the file system keeps no attributes), so a second ``get`` skips it
all the same. While any other run, guard or label is in the state, all stays: it may be another's.
"""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.base.config.settings import Settings
from cfetch.base.records import NOT_DECODED
from cfetch.storage.files import STATE_NAME
from cfetch.storage.state_format import FORMAT_NAME
from cfetch.timeline.frozen_plans import PLANS
from cfetch.timeline.full_disk_reserve import BALLAST
from cfetch.timeline.records import PlanRecord
from cfetch.timeline.states import Action, State, is_instant, parse
from cfetch.timeline.store import TIMELINE

_KEPT = frozenset({"sources", "names"})  # a few bytes that files, or their names, are known by
_FILES = (BALLAST, "baseline.json")
_METRICS = "metrics"
_EMPTY = ("attempts", "heartbeats", _METRICS)
_KNOWN = frozenset({*_KEPT, *_FILES, *_EMPTY, PLANS, TIMELINE, FORMAT_NAME})


class Traces:
    """The traces of one run of the plan called ``name`` in ``state``, which are removed at its end.

    ``are_wanted`` says that they stay: the state is one that the user has named, shares or keeps metrics in,
    or something else is in it already.
    """

    def __init__(self, state: Path, name: str, settings: Settings) -> None:
        self._state = state
        self._name = name
        self.are_wanted = (
            state.name != STATE_NAME
            or settings.state is not None
            or bool(settings.group)
            or settings.keep_metrics is not None
            or settings.metrics_tables is not None
            or len(settings.to) > 1
            or not self._are_all_of_gets(also_pending=True)
        )
        self.is_over = False

    def remove(self) -> None:
        """Remove them, if the run has set ``is_over``. Never raises OSError: what stays is harmless."""
        with suppress(OSError):
            if self.is_over and not self.are_wanted and not self._is_used() and self._are_all_of_gets():
                self._remove_all()

    def _is_used(self) -> bool:
        """Whether another run is here: each has a directory of its own from its first step to its last."""
        return (self._state / PLANS).exists()

    def _are_all_of_gets(self, *, also_pending: bool = False) -> bool:
        """Whether the state has nothing but what finished gets have left, or those that are under way too."""
        try:
            if not {entry.name for entry in os.scandir(self._state)} <= _KNOWN:
                return False
            paths = list((self._state / TIMELINE).iterdir())
            return all(self._is_of_get(path, also_pending=also_pending) for path in paths)
        except FileNotFoundError:
            return True
        except OSError:
            return False

    def _is_of_get(self, path: Path, *, also_pending: bool) -> bool:
        entry = parse(path.name)
        if entry is None:
            return False
        if entry.action is Action.ROLLBACK:  # of one of them, as there are no others
            return also_pending or entry.state is State.COMPLETED
        with suppress(*NOT_DECODED):
            record = msgspec.json.decode(path.read_bytes(), type=PlanRecord)
            return record.manifest == self._name and (also_pending or entry.state is State.COMPLETED)
        return False

    def _remove_all(self) -> None:
        """Remove files, then directories that are empty, and stop as soon as another run is there.

        Such a run makes missing directories anew, up to its first step on the timeline.
        """
        for name in _FILES:
            (self._state / name).unlink(missing_ok=True)
        with suppress(FileNotFoundError):
            for path in (self._state / _METRICS).iterdir():
                if is_instant(path.name.partition(".")[0]):
                    path.unlink(missing_ok=True)
        for path in (self._state / TIMELINE).iterdir():
            if self._is_used():
                return
            path.unlink(missing_ok=True)
        for name in (TIMELINE, *_EMPTY):
            if self._is_used():
                return
            with suppress(FileNotFoundError):
                (self._state / name).rmdir()
        if self._is_used():
            return
        if not any((self._state / name).exists() for name in _KEPT):
            (self._state / FORMAT_NAME).unlink(missing_ok=True)
            self._state.rmdir()
