"""One frame of the live view, as lines of styled text for a given width and height.

From the top: the title, the overall bar, the numbers, the rate of the last minute, the baseline, mitigation,
the volumes if there are several, a cluster's executors, the slow hosts, the attempts by risk, the latest
trouble. On small terminals the least useful lines are left out.
Every state has a colour, a sign and a word, and each of the three alone is enough.
"""

from rich.text import Text

from cfetch.dashboard.executors import executors_line, executors_panel
from cfetch.dashboard.host_rows import hosts_panel, pace_panel
from cfetch.dashboard.rows import bar, header, rows
from cfetch.dashboard.view import Note, View, by_risk
from cfetch.dashboard.volumes import volumes_line, volumes_panel
from cfetch.report.ending import Limits, describe_setup
from cfetch.report.format import cells, count, duration, fit, percent, plural, rate, shorten, size, sparkline
from cfetch.secret import printable

TALL = 18  # from this height on, the title and the sparkline are shown
SPACIOUS = 23
OLD_S = 2.0  # among files that take milliseconds, such an attempt is worth a row

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
    if view.progress is None or view.run is None:
        return [_join_parts(("connecting …", "dim"))]
    top = _draw_title(view, width) if height >= TALL else []
    top += [_draw_overall(view, width), _draw_numbers(view)]
    if height >= TALL:
        top.append(_draw_last_minute(view, width))
    top += [_draw_baseline(view), _draw_mitigation(view)]
    gap = [Text()] if height >= SPACIOUS else []
    notes = [_draw_note(note, width) for note in list(view.notes)[-(3 if height >= TALL else 2) :]]
    below = [*gap, *notes] if notes else []
    top += _draw_volumes(view, width, height) + _draw_executors(view, width, height)
    top += _draw_slow_hosts(view, width, height)
    room = height - 1 - len(top) - len(gap) - len(below)
    return [*top, *gap, *_draw_attempts(view, width, room), *below]


def _draw_volumes(view: View, width: int, height: int) -> list[Text]:
    assert view.progress is not None
    volumes = view.progress.volumes
    if not volumes:
        return []
    if height < TALL:
        return [volumes_line(volumes, width)]
    gap = [Text()] if height >= SPACIOUS else []
    return [*gap, *volumes_panel(volumes, width, height // 4)]


def _draw_executors(view: View, width: int, height: int) -> list[Text]:
    assert view.progress is not None
    executors = view.progress.executors
    if not executors:
        return []
    if height < TALL or len(executors) == 1:
        return [executors_line(executors)]
    gap = [Text()] if height >= SPACIOUS else []
    return [*gap, *executors_panel(executors, width, height // 4)]


def _draw_slow_hosts(view: View, width: int, height: int) -> list[Text]:
    assert view.progress is not None
    hosts = view.hosts.list_slow(view.progress.active, view.t_s)
    if not hosts or height < TALL:
        return []
    gap = [Text()] if height >= SPACIOUS else []
    return [*gap, *hosts_panel(hosts, width, max(3, height // 6))]


def _join_parts(*parts: tuple[str, str]) -> Text:
    text = Text(no_wrap=True, overflow="ellipsis")
    for words, style in parts:
        text.append(words, style or None)
    return text


def _draw_title(view: View, width: int) -> list[Text]:
    assert view.run is not None
    age = f"{_setup_text(view)}  {duration(view.t_s)}"
    word, style = ("stopping", "bold yellow") if view.stopping else ("cfetch", "bold")
    room = max(8, width - len(f"{word} to  {age}"))
    destination, others = view.run.destination, len(view.run.destinations) - 1
    if others > 0 and cells(printable(destination, 4096)) > room:
        more = f" and {others} more"
        destination = shorten(view.run.destinations[0], max(8, room - len(more))) + more
    return [
        _join_parts(
            (word, style),
            (" to ", "dim"),
            (fit(shorten(destination, room), room), ""),
            (f" {age}", "dim"),
        )
    ]


def _setup_text(view: View) -> str:
    """The policy, and how many downloads there are at a time."""
    assert view.run is not None
    assert view.progress is not None
    limits = Limits.of(view.run.settings, view.run.concurrency)
    return describe_setup(limits, view.hosts.count_places(view.progress.active))


def _draw_overall(view: View, width: int) -> Text:
    time_left = view.time_left
    rough = "~" if time_left and time_left.is_rough else ""
    left = f"{rough}{duration(time_left.seconds)} left" if time_left else "time left unknown"
    tail = f" {percent(view.fraction):>5}  {left}"
    filled, empty = bar(view.fraction, max(10, width - len(tail)))
    return _join_parts((filled, "green"), (empty, "dim"), (tail, "bold"))


def _draw_numbers(view: View) -> Text:
    run, progress = view.run, view.progress
    assert run is not None
    assert progress is not None
    total = f" of {size(run.bytes_known)}" if not run.sizes_unknown else ""
    parts = [
        (count(view.settled_files), "bold"),
        (f" of {count(run.files)} files  ", ""),
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


def _draw_baseline(view: View) -> Text:
    assert view.progress is not None
    baseline = view.progress.baseline
    if baseline.finished < baseline.required or baseline.median_bps is None:
        share = f"warming up: {count(baseline.finished)} of {count(baseline.required)} needed"
        return _join_parts(("baseline    ", "dim"), (share, ""), (", no straggler is called yet", "dim"))
    return _join_parts(
        ("baseline    ", "dim"),
        (f"median {rate(baseline.median_bps)}", ""),
        (f", {count(baseline.finished)} finished, {count(baseline.required)} needed", "dim"),
    )


def _draw_mitigation(view: View) -> Text:
    progress = view.progress
    assert progress is not None
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


def _draw_attempts(view: View, width: int, room: int) -> list[Text]:
    progress = view.progress
    assert progress is not None
    if room < 2 or not progress.active:
        return []
    title = f"{count(len(progress.active) + progress.unshown)} active"
    waiting = f", {count(progress.waiting)} waiting"
    if view.pace.is_too_quick(len(progress.active)):
        return _draw_pace(view, title + waiting, width, room)
    cluster = bool(progress.executors)
    return [
        header(title, waiting, width, cluster),
        *rows(by_risk(progress.active)[: room - 1], width, cluster),
    ]


def _draw_pace(view: View, title: str, width: int, room: int) -> list[Text]:
    """Draw hosts and failures, and rows only of attempts that are old enough to be read."""
    assert view.progress is not None
    words = view.pace.failures_text()
    failures = [_join_parts(("failures    ", "dim"), (words, "red"))] if words and room > 2 else []
    room -= len(failures)
    old = [attempt for attempt in view.progress.active if attempt.elapsed_s >= OLD_S]
    hosts = view.pace.list_hosts(view.progress.active)
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
