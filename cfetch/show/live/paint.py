"""One frame of the live view, as lines of styled text for a given width and height.

From the top: the title, the overall bar, the numbers, the rate of the last minute, the baseline, mitigation,
the volumes if there are several, a cluster's executors, the slow hosts, the attempts by risk, the latest
trouble. On small terminals the least useful lines are left out.
Every state has a colour, a sign and a word, and each of the three alone is enough.
"""

from rich.text import Text

from cfetch.base.events import ActiveAttempt, Progress, RunStarted
from cfetch.base.secret import printable
from cfetch.show.ending import RunLimits, describe_setup
from cfetch.show.format import cells, count, duration, fit, plural, rate, shorten, size
from cfetch.show.live.executors import executors_line, executors_panel
from cfetch.show.live.files_under_way import by_risk, fold_segments
from cfetch.show.live.host_rows import hosts_panel, pace_panel
from cfetch.show.live.pace import Pace
from cfetch.show.live.prediction import percent_text, predict, starting_text, total_text
from cfetch.show.live.rows import NARROW, bar, header, rows
from cfetch.show.live.view import ShownNote, View
from cfetch.show.live.volumes import volumes_line, volumes_panel
from cfetch.show.table_text import sparkline

TALL = 18  # from this height on, the title and the sparkline are shown
SPACIOUS = 23
LEAST_NAME = 8  # columns of the destination, for which the title leaves out the policy
MANY_WHOLE = 10  # files that wait for their names; fewer get them in the same second
ONE_FILE_NUMBERS = 54  # columns for "1023 MiB of 1023 MiB  1023 KiB/s  16 connections"
CALM = ("ok", "segment")
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
    top += [_draw_overall(view, width), _draw_numbers(view, run, progress, width)]
    if is_tall:
        top.append(_draw_last_minute(view, width))
    if run.files > 1:  # with a single file there is nothing to compare with
        top += _draw_baseline(view, run, progress, width)
    top.append(_draw_mitigation(view, run, progress, width))
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
    limits = RunLimits.of(run.settings, run.concurrency)
    slots = max(view.hosts.count_slots(progress.active), len({attempt.id for attempt in progress.active}))
    setup = describe_setup(limits, slots)
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
    time_left = predict(view)
    rough = "~" if time_left and time_left.is_rough else ""
    left = f"{rough}{duration(time_left.seconds)} left" if time_left else "time left unknown"
    tail = f" {percent_text(view):>5}  {left}"
    if starting := starting_text(view):
        tail = f" {starting}"
    filled, empty = bar(view.fraction, max(10, width - len(tail)))
    return _join_parts((filled, "green"), (empty, "dim"), (tail, "bold"))


def _draw_numbers(view: View, run: RunStarted, progress: Progress, width: int) -> Text:
    """Draw what is in place and what has come; on a narrow terminal the least useful numbers are left out."""
    quick = view.pace.is_too_quick(len(progress.active))
    connections = len(progress.active) if run.files == 1 else 0
    parts = [  # how soon it is left out, 0: never; the words; their style
        *_draw_files(view, run, progress, width),
        (1, f"  {size(view.bytes_in_hand)}", "bold"),
        (3, total_text(view), ""),
        (2, f"  {rate(view.rate_bps)}", "bold cyan"),
        (0, f"  × {count(progress.failed)} failed" if progress.failed else "", "bold red"),
        (4, f"  {count(round(view.pace.files_per_s))} files/s" if quick else "", "bold cyan"),
        (5, f"  {plural(connections, 'connection')}" if connections > 1 else "", "dim"),
        (6, f"  {count(progress.skipped)} already there" if progress.skipped else "", "dim"),
        (7, f"  {count(progress.whole)} to be named" if progress.whole >= MANY_WHOLE else "", "dim"),
    ]
    for first in (7, 6, 5, 4, 3, 2, 1):
        if sum(cells(words) for _, words, _ in parts) > width:
            parts = [part for part in parts if part[0] != first]
    return _join_parts(*((words, style) for _, words, style in parts if words))


def _draw_files(view: View, run: RunStarted, progress: Progress, width: int) -> list[tuple[int, str, str]]:
    """Draw how many files are in place; if there is only one, its name, as the run's bar is its bar."""
    if run.files == 1 and progress.active:
        return [(0, shorten(progress.active[0].path, max(LEAST_NAME, width - ONE_FILE_NUMBERS)), "bold")]
    words = f" of {plural(run.files, 'file')}"
    return [(0, count(view.files_in_place), "bold"), (0, words, ""), (4, f" {view.where}", "")]


def _draw_last_minute(view: View, width: int) -> Text:
    columns = 60 if width >= 100 else 30
    values = view.rates(columns)
    peak = f"  peak {rate(max(values))}" if values else ""
    return _join_parts(("last minute ", "dim"), (f"{sparkline(values):<{columns}}", "cyan"), (peak, "dim"))


def _draw_baseline(view: View, run: RunStarted, progress: Progress, width: int) -> list[Text]:
    """Draw the normal speed; no line without mitigation, which alone asks for it."""
    baseline, label = progress.baseline, ("baseline    " if width >= NARROW else "", "dim")
    if run.settings.get("mitigation") is False:
        return []
    needed = f"{count(baseline.finished)} of {count(baseline.required)} needed" if baseline.required else ""
    if baseline.finished < baseline.required or baseline.median_bps is None:
        parts = [("warming up" + (f": {needed}" if needed else ""), "")]
        if not view.stragglers:
            parts.append((", no file is called slow yet", "dim"))
        return [_join_parts(label, *parts)]
    parts = [(f"median {rate(baseline.median_bps)}", ""), (f", {count(baseline.finished)} finished", "dim")]
    if baseline.required:
        parts.append((f", {count(baseline.required)} needed", "dim"))
    return [_join_parts(label, *parts)]


def _draw_mitigation(view: View, run: RunStarted, progress: Progress, width: int) -> Text:
    """Draw what was done about stragglers; files that are slow now may come in time: only their rows say so.

    A narrow terminal begins with the fallback, and needs no label.
    """
    is_narrow = width < NARROW
    stragglers, retries = view.stragglers, plural(progress.retries, "retry")
    attempts = count(view.cancelled) if is_narrow else plural(view.cancelled, "attempt")
    parts = [
        (plural(stragglers, "straggler"), "yellow" if stragglers else ""),
        (f"{attempts} cancelled", ""),
        (retries, ""),
    ]
    if run.settings.get("mitigation") is False:
        parts = [("mitigation off" if is_narrow else "off", ""), (retries, "")]
    if progress.sequential:
        parts.insert(0 if is_narrow else len(parts), ("FALLBACK: one at a time", "bold yellow"))
    elif view.fallback_at:
        parts.append(("recovered from fallback", ""))
    if progress.bytes_wasted:
        parts.append((f"{size(progress.bytes_wasted)} wasted", "dim"))
    first, *others = parts
    label = [] if is_narrow else [("mitigation  ", "dim")]
    return _join_parts(*label, first, *((f", {words}", style) for words, style in others))


def _draw_attempts(view: View, progress: Progress, width: int, room: int) -> list[Text]:
    if room < 2 or not progress.active:
        return []
    under_way = fold_segments(progress.active)
    if _is_one_file(view) and all(attempt.state in CALM for attempt in under_way):
        return []  # its bar is that of the run
    title = f"{count(len(under_way) + progress.unshown)} active"
    waiting = f", {count(progress.waiting)} waiting"
    if view.pace.is_too_quick(len(progress.active)):
        return _draw_pace(view.pace, progress.active, title, waiting, width, room)
    cluster = bool(progress.executors)
    return [
        header(title, waiting, width, cluster),
        *rows(by_risk(under_way)[: room - 1], width, cluster),
    ]


def _is_one_file(view: View) -> bool:
    """Whether the run has a single file."""
    return view.run is not None and view.run.files == 1


def _draw_pace(
    pace: Pace, active: list[ActiveAttempt], title: str, waiting: str, width: int, room: int
) -> list[Text]:
    """Draw hosts and failures, and rows only of attempts that are old enough to be read."""
    words = pace.failures_text()
    failures = [_join_parts(("failures    ", "dim"), (words, "red"))] if words and room > 2 else []
    room -= len(failures)
    old = [attempt for attempt in fold_segments(active) if attempt.elapsed_s >= OLD_S]
    hosts = pace.list_hosts(active)
    panel = pace_panel(hosts, title, waiting, width, max(2, room // 2) if old else room)
    room -= len(panel)
    if not old or room < 2:
        return [*failures, *panel]
    slow = rows(by_risk(old)[: room - 1], width, False)
    head = header(f"{count(len(old))} older", f" than {duration(OLD_S)}", width, False)
    return [*failures, *panel, head, *slow]


def _draw_note(note: ShownNote, width: int) -> Text:
    sign, style = _NOTES[note.kind]
    name = shorten(note.path, max(16, width // 3))
    age = f"{duration(note.t_s):>6} "
    words = f"{name}: {printable(note.text)}" if name else printable(note.text)
    return _join_parts((age, "dim"), (f"{sign} ", style), (words, ""))
