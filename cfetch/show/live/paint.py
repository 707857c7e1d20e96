"""One frame of the live view, as lines of styled text for a given width and height.

From the top: the title, the overall bar, the numbers, the rate of the last minute, the baseline, mitigation,
the volumes if there are several, a cluster's executors, the slow hosts, the attempts by risk, the latest
trouble. On small terminals the least useful lines are left out.
Every state has a colour, a sign and a word, and each of the three alone is enough.
"""

from rich.text import Text

from cfetch.base.events import ActiveAttempt, BaselineView, Progress, RunStarted
from cfetch.base.secret import printable
from cfetch.show.ending import Limits, describe_setup
from cfetch.show.format import cells, count, duration, fit, percent, plural, rate, shorten, size, sparkline
from cfetch.show.live.executors import executors_line, executors_panel
from cfetch.show.live.host_rows import hosts_panel, pace_panel
from cfetch.show.live.pace import Pace
from cfetch.show.live.rows import bar, header, rows
from cfetch.show.live.view import Note, View, by_risk
from cfetch.show.live.volumes import volumes_line, volumes_panel

TALL = 18  # from this height on, the title and the sparkline are shown
SPACIOUS = 23
LEAST_NAME = 8  # columns of the destination, for which the title leaves out the policy
OLD_S = 2.0  # among files that take milliseconds, an attempt of this age is worth a row

_NOTES = {
    "failed": ("×", "red"),
    "straggler": ("▲", "yellow"),
    "retry": ("↻", "magenta"),
    "pause": ("‖", "magenta"),
    "volume": ("×", "red"),
    "waiting": ("‖", "magenta"),
    "executor": ("▲", "bold yellow"),
    "width": ("↔", "cyan"),
    "slowdown": ("!", "bold yellow"),
    "rescue": ("!", "bold yellow"),
    "in use": ("●", "green"),
    "min-rate": ("!", "bold yellow"),
    "fallback": ("!", "bold yellow"),
}


def frame(view: View, width: int, height: int) -> list[Text]:
    """At most ``height - 1`` lines of at most ``width`` columns: the cursor needs a line of its own."""
    run, progress = view.run, view.progress
    if progress is None or run is None:
        return [_join_parts(("connecting …", "dim"))]
    is_tall = height >= TALL
    gap = [Text()] if height >= SPACIOUS else []
    top = [_draw_title(view, run, progress, width)] if is_tall else []
    top += [_draw_overall(view, width), _draw_numbers(view, run, progress)]
    if is_tall:
        top.append(_draw_last_minute(view, width))
    top += [_draw_baseline(progress.baseline), _draw_mitigation(view, progress)]
    if volumes := progress.volumes:
        panel = volumes_panel(volumes, width, height // 4)
        top += [*gap, *panel] if is_tall else [volumes_line(volumes, width)]
    if executors := progress.executors:
        is_panel = is_tall and len(executors) > 1
        panel = executors_panel(executors, width, height // 4) if is_panel else [executors_line(executors)]
        top += [*gap, *panel] if is_panel else panel
    if is_tall and (hosts := view.hosts.list_slow(progress.active, view.t_s)):
        top += [*gap, *hosts_panel(hosts, width, max(3, height // 6))]
    notes = [_draw_note(note, width) for note in list(view.notes)[-(3 if is_tall else 2) :]]
    below = [*gap, *notes] if notes else []
    room = height - 1 - len(top) - len(gap) - len(below)
    return [*top, *gap, *_draw_attempts(view, progress, width, room), *below]


def _join_parts(*parts: tuple[str, str]) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for words, style in parts:
        text.append(words, style or None)
    return text


def _draw_title(view: View, run: RunStarted, progress: Progress, width: int) -> Text:
    limits = Limits.of(run.settings, run.concurrency)
    setup = describe_setup(limits, view.hosts.count_places(progress.active))
    age = duration(view.t_s)
    word, style = ("stopping", "bold yellow") if view.stopping else ("cfetch", "bold")
    if width - len(f"{word} to  {setup}  {age}") >= LEAST_NAME:
        age = f"{setup}  {age}"
    room = max(LEAST_NAME, width - len(f"{word} to  {age}"))
    destination, others = run.destination, len(run.destinations) - 1
    if others > 0 and cells(printable(destination, 4096)) > room:
        more = f" and {others} more"
        destination = shorten(run.destinations[0], max(LEAST_NAME, room - len(more))) + more
    return _join_parts(
        (word, style),
        (" to ", "dim"),
        (fit(shorten(destination, room), room), ""),
        (f" {age}", "dim"),
    )


def _draw_overall(view: View, width: int) -> Text:
    time_left = view.time_left
    rough = "~" if time_left and time_left.is_rough else ""
    left = f"{rough}{duration(time_left.seconds)} left" if time_left else "time left unknown"
    tail = f" {percent(view.fraction):>5}  {left}"
    filled, empty = bar(view.fraction, max(10, width - len(tail)))
    return _join_parts((filled, "green"), (empty, "dim"), (tail, "bold"))


def _draw_numbers(view: View, run: RunStarted, progress: Progress) -> Text:
    total = f" of {size(run.bytes_known)}" if not run.sizes_unknown else ""
    parts = [
        (count(view.settled_files), "bold"),
        (f" of {plural(run.files, 'file')}  ", ""),
        (size(view.bytes_in_hand), "bold"),
        (f"{total}  ", ""),
        (rate(view.rate_bps), "bold cyan"),
    ]
    if view.pace.is_too_quick(len(progress.active)):
        parts.append((f"  {count(round(view.pace.files_per_s))} files/s", "bold cyan"))
    if progress.failed:
        parts.append((f"  × {count(progress.failed)} failed", "bold red"))
    if progress.skipped:
        parts.append((f"  {count(progress.skipped)} already there", "dim"))
    return _join_parts(*parts)


def _draw_last_minute(view: View, width: int) -> Text:
    columns = 60 if width >= 100 else 30
    values = view.rates(columns)
    peak = f"  peak {rate(max(values))}" if values else ""
    return _join_parts(("last minute ", "dim"), (f"{sparkline(values):<{columns}}", "cyan"), (peak, "dim"))


def _draw_baseline(baseline: BaselineView) -> Text:
    if baseline.finished < baseline.required or baseline.median_bps is None:
        share = f"warming up: {count(baseline.finished)} of {count(baseline.required)} needed"
        return _join_parts(("baseline    ", "dim"), (share, ""), (", no straggler is called yet", "dim"))
    return _join_parts(
        ("baseline    ", "dim"),
        (f"median {rate(baseline.median_bps)}", ""),
        (f", {count(baseline.finished)} finished, {count(baseline.required)} needed", "dim"),
    )


def _draw_mitigation(view: View, progress: Progress) -> Text:
    slow = view.slow_files
    parts = [
        ("mitigation  ", "dim"),
        (plural(slow, "slow file"), "yellow" if slow else ""),
        (f", {plural(view.cancelled, 'attempt')} cancelled, {plural(progress.retries, 'retry')}", ""),
    ]
    if progress.sequential:
        parts.append((", FALLBACK: one at a time", "bold yellow"))
    elif view.fallback_at:
        parts.append((", recovered from fallback", ""))
    if progress.bytes_wasted:
        parts.append((f", {size(progress.bytes_wasted)} in vain", "dim"))
    return _join_parts(*parts)


def _draw_attempts(view: View, progress: Progress, width: int, room: int) -> list[Text]:
    if room < 2 or not progress.active:
        return []
    title = f"{count(len(progress.active) + progress.unshown)} active"
    waiting = f", {count(progress.waiting)} waiting"
    if view.pace.is_too_quick(len(progress.active)):
        return _draw_pace(view.pace, progress.active, title + waiting, width, room)
    cluster = bool(progress.executors)
    return [
        header(title, waiting, width, cluster),
        *rows(by_risk(progress.active)[: room - 1], width, cluster),
    ]


def _draw_pace(pace: Pace, active: list[ActiveAttempt], title: str, width: int, room: int) -> list[Text]:
    """Draw hosts and failures, and rows only of attempts that are old enough to be read."""
    words = pace.failures_text()
    failures = [_join_parts(("failures    ", "dim"), (words, "red"))] if words and room > 2 else []
    room -= len(failures)
    old = [attempt for attempt in active if attempt.elapsed_s >= OLD_S]
    hosts = pace.list_hosts(active)
    panel = pace_panel(hosts, title, width, max(2, room // 2) if old else room)
    room -= len(panel)
    if not old or room < 2:
        return [*failures, *panel]
    title = f"{count(len(old))} older than {duration(OLD_S)}"
    slow = rows(by_risk(old)[: room - 1], width, False)
    return [*failures, *panel, header(title, "", width, False), *slow]


def _draw_note(note: Note, width: int) -> Text:
    sign, style = _NOTES[note.kind]
    name = shorten(note.path, max(16, width // 3))
    age = f"{duration(note.t_s):>6} "
    words = f"{name}: {printable(note.text)}" if name else printable(note.text)
    return _join_parts((age, "dim"), (f"{sign} ", style), (words, ""))
