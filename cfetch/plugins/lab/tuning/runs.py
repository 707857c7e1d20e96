"""Reads recorded runs from metrics files, prepares them for replay, and scores them.

`replay_runs` does it, in this process or in a task of Spark (``replay_job.py``). An item is text
that ``load`` turns into recorded runs: usually the path of a metrics file.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec
import numpy as np

from cfetch.base.config.settings import Settings
from cfetch.base.records import FileRecord
from cfetch.plugins.lab.tuning.adaptive_replay import Stage, play, prepare_stage
from cfetch.plugins.lab.tuning.choice import RunResult
from cfetch.plugins.lab.tuning.curves import RecordedFile, record_curves
from cfetch.plugins.lab.tuning.history import History, build_history
from cfetch.plugins.lab.tuning.replay import ReplayGroup, Setting, prepare_group, replay
from cfetch.plugins.lab.views.tuning_document import Estimates
from cfetch.show.metrics import RunHeader
from cfetch.show.metrics_reading import MetricsRun, read_metrics

HOST_FILES = 100  # a host with fewer files in a run shows nothing about its slowest files
GROUP_FILES = 400_000  # replayed side by side: 50 MB of columns
MOST_GROUPS = 32  # more gain nothing: the calls of numpy then take a small part of the time
REPORT_EVERY = 20_000  # records between two reports of progress
EXPLAINED = 0.15  # of the recorded time; a replay that differs by more does not explain the run

Policy = Literal["adaptive", "cloudfetch"]


class RecordedRun(NamedTuple):
    """One run, or one host's part of it (``host``), before its preparation.

    ``policy``: the policy that judged it, or "none". ``unfit``: why it cannot be replayed. ``recording``: for
    a replay of the adaptive policy; ``history`` is empty then.
    """

    source: str
    instant: str
    host: str | None
    history: History
    workers: int
    tick_s: float
    own: Setting
    policy: str = "none"
    stall_timeout_s: float = 30.0
    recording: tuple[RecordedFile, ...] | None = None
    unfit: str = ""
    segments: int = 1


Load = Callable[[str], Iterable[RecordedRun]]


def read_recorded_policy(path: Path) -> str:
    """The policy that judged the stragglers of the file's first run, or "none". Raises UsageError."""
    return next((_find_policy(run.header) for run in read_metrics([path])), "none")


def read_recorded_runs(
    path: str, on_records: Callable[[int], None] = lambda _: None, policy: Policy = "cloudfetch"
) -> Iterator[RecordedRun]:
    """The runs of a metrics file, prepared for a replay of ``policy``; ``on_records`` gets counts.

    For the formula each run comes as a whole and then by host.

    Raises:
        UsageError: as ``read_metrics``.
    """
    for run in read_metrics([Path(path)]):
        if policy == "adaptive":
            yield _record_progress(run, on_records)
        else:
            yield from _split_by_host(run, on_records)


def _record_progress(run: MetricsRun, on_records: Callable[[int], None]) -> RecordedRun:
    had = run.header.settings
    return RecordedRun(
        str(run.source), run.header.instant, None, _NOTHING, _count_workers(run.header), 0.0,
        _read_own_setting(had), _find_policy(run.header), _read_number(had, "stall_timeout"),
        tuple(record_curves(_count_records(run.files, on_records))),
        segments=int(_read_number(had, "segments")),
    )  # fmt: skip


def _find_policy(header: RunHeader) -> str:
    had = header.settings
    return str(had.get("policy", "cloudfetch")) if had.get("mitigation", True) is True else "none"


def _find_other_baseline(had: dict[str, object]) -> str:
    """Why the formula cannot be replayed; empty if its baseline was the median."""
    percentile = had.get("percentile", 50)
    return (
        "" if percentile == 50 else f"recorded with percentile {percentile}; the replay knows the median only"
    )


def _read_own_setting(had: dict[str, object]) -> Setting:
    mitigated = had.get("mitigation", True) is True
    return Setting(
        _read_number(had, "multiplier"),
        _read_number(had, "quantile"),
        _read_number(had, "padding") if mitigated else float("inf"),
    )


def _split_by_host(run: MetricsRun, on_records: Callable[[int], None]) -> Iterator[RecordedRun]:
    had = run.header.settings
    stall_timeout_s = _read_number(had, "stall_timeout")
    columns, hosts = build_history(_count_records(run.files, on_records), stall_timeout_s=stall_timeout_s)
    run_of = partial(
        RecordedRun, str(run.source), run.header.instant, workers=_count_workers(run.header),
        tick_s=_read_number(had, "check_interval"), own=_read_own_setting(had),
        policy=_find_policy(run.header), stall_timeout_s=stall_timeout_s, unfit=_find_other_baseline(had),
    )  # fmt: skip
    yield run_of(host=None, history=columns)
    if len(hosts) > 1:
        counts = np.bincount(columns.host.astype(int), minlength=len(hosts))
        for number in np.nonzero(counts >= HOST_FILES)[0].tolist():
            yield run_of(host=hosts[number], history=columns.select(columns.host == number))


def _count_workers(header: RunHeader) -> int:
    return max(0, header.concurrency)


def _read_number(had: dict[str, object], name: str) -> float:
    """A setting of the run's header; the default if the header has no usable value."""
    value = had.get(name)
    usable = isinstance(value, int | float) and 0 < value < float("inf")
    default: float = getattr(Settings(), name)
    return float(value) if usable or (name == "padding" and value == 0) else default  # type: ignore[arg-type]


def _count_records(records: Iterable[FileRecord], on_records: Callable[[int], None]) -> Iterator[FileRecord]:
    number = 0
    for number, record in enumerate(records, start=1):
        yield record
        if number % REPORT_EVERY == 0:
            on_records(REPORT_EVERY)
    on_records(number % REPORT_EVERY)


def replay_runs(items: Iterable[str], load: Load, settings: Sequence[Setting]) -> Iterator[RunResult]:
    """Replay every run of every item under every setting, in order."""
    batch: list[tuple[RecordedRun, ReplayGroup | None]] = []
    files = 0
    for loaded in chain.from_iterable(map(load, items)):
        if loaded.recording is not None:
            yield _score_recording(loaded, loaded.recording, settings)
            continue
        ready = prepare_group(loaded.history, workers=loaded.workers, tick_s=loaded.tick_s, own=loaded.own)
        batch.append((loaded._replace(history=_NOTHING), ready))
        files += len(loaded.history.start_s)
        if files >= GROUP_FILES or len(batch) >= MOST_GROUPS:
            yield from _score_batch(batch, settings)
            batch, files = [], 0
    yield from _score_batch(batch, settings)


_NOTHING = History(*(np.empty(0) for _ in History._fields))


def _score_batch(
    batch: list[tuple[RecordedRun, ReplayGroup | None]], settings: Sequence[Setting]
) -> Iterator[RunResult]:
    groups = [ready for _, ready in batch if ready is not None]
    scores = iter(replay(groups, settings) if groups else ())
    for loaded, ready in batch:
        result = RunResult(
            source=loaded.source,
            instant=loaded.instant,
            host=loaded.host,
            policy=loaded.policy,
            unfit=loaded.unfit,
        )
        if ready is not None:
            score = next(scores)
            result = msgspec.structs.replace(
                result,
                files=len(ready.alone_s),
                finished=len(ready.ends_s),
                workers=ready.workers,
                recorded_s=ready.recorded_s,
                own_s=score.own_makespan_s,
                estimates=ready.estimates,
                makespan_s=score.makespan_s.tolist(),
                flagged=score.flagged.tolist(),
                false_alarms=score.false_alarms.tolist(),
                twice_bytes=score.twice_bytes.tolist(),
            )
        yield result


def _score_recording(
    loaded: RecordedRun, recording: Sequence[RecordedFile], settings: Sequence[Setting]
) -> RunResult:
    """Score a run under the adaptive policy, with the multiplier of each setting."""
    stage = prepare_stage(recording, stall_timeout_s=loaded.stall_timeout_s, segments=loaded.segments)
    own_s = 0.0 if stage is None else play(stage, _read_multiplier(loaded.own)).makespan_s
    unfit = _find_misfit(loaded, stage, own_s)
    plays = []
    if stage is not None and not unfit:  # else the run is left out, whatever a setting would do
        plays = [play(stage, _read_multiplier(setting)) for setting in settings]
    cut = [curve for file in recording for curve in file.curves if curve.is_cut]
    by_rate = sum(curve.rest_bps > 0 for curve in cut)
    return RunResult(
        source=loaded.source,
        instant=loaded.instant,
        host=None,
        policy=loaded.policy,
        unfit=unfit,
        files=len(recording),
        finished=sum(bool(file.curves) and not file.curves[-1].is_cut for file in recording),
        workers=0 if stage is None else stage.slots,
        recorded_s=0.0 if stage is None else stage.recorded_s,
        own_s=own_s,
        estimates=Estimates(by_rate=by_rate, by_stall_rule=len(cut) - by_rate, drawn=0),
        makespan_s=[played.makespan_s for played in plays],
        flagged=[float(played.flagged) for played in plays],
        false_alarms=[float(played.false_alarms) for played in plays],
        twice_bytes=[float(played.twice_bytes) for played in plays],
    )


def _read_multiplier(setting: Setting) -> float | None:
    return None if math.isinf(setting.padding_s) else setting.multiplier


def _find_misfit(loaded: RecordedRun, stage: Stage | None, own_s: float) -> str:
    """Why the run cannot be compared with a replay of the adaptive policy; empty if it can."""
    if loaded.policy == "cloudfetch":
        return "recorded under policy cloudfetch, so there is nothing to compare the adaptive policy with"
    if stage is not None and abs(own_s - stage.recorded_s) > EXPLAINED * stage.recorded_s:
        return f"replayed as it was set it takes {own_s:.2f} s, recorded were {stage.recorded_s:.2f} s"
    return ""
