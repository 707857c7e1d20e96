"""A tuning on a terminal: the recommendation and its gain, then the Pareto front as a table with bars.

Rendering only; every number comes from the `Tuning` value.
"""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cfetch.base.config.settings import KINDS
from cfetch.base.secret import printable
from cfetch.plugins.lab.views.tuning_document import (
    Estimated,
    HostChoice,
    Score,
    SettingScore,
    Tuning,
    describe_values,
    format_values,
)
from cfetch.show.format import count, duration, plural, shorten, size

BAR = 16  # columns of a bar for the default's makespan
MOST = 24  # columns of the longest bar: with it a line has 80 columns
LEFT_OUT = 5  # more lines of reasons would hide the answer


def view(tuning: Tuning, written: str | None = None) -> RenderableType:
    """The whole tuning, for ``Console.print``; ``written``: the file that holds the recommended values."""
    front: tuple[RenderableType, ...] = (_draw_table(tuning), *_draw_legend(tuning))
    return Group(
        *draw_answer(tuning), Text(), *front, Text(), *draw_grounds(tuning), *_draw_end(tuning, written)
    )


def draw_answer(tuning: Tuning) -> Iterator[Text]:
    """The recommendation and its gain."""
    choice = tuning.choice
    stays = tuning.leave
    said = "leave the default: " if stays else "recommended: "
    values = tuning.default if stays else choice.recommended
    yield Text.assemble(
        (said, "bold"), (describe_values(values), "bold green"), (f"  (policy {tuning.policy})", "dim")
    )
    if stays:
        yield Text(f"  {tuning.leave}")
    if choice.recommended != tuning.default:
        yield Text(f"  {describe_values(choice.recommended)} against the default: {ratio_text(choice.ratio)}")
    yield Text(
        f"  its time over that of the recorded runs ({_policies_text(tuning)}): {ratio_text(choice.recorded)}"
    )
    promise = choice.promise_s
    span = f"{duration(promise.low)} to {duration(promise.high)}"
    yield Text(
        f"  with {describe_values(choice.recommended)} such a run takes {duration(promise.mean)} ({span})"
    )
    yield Text(f"  cross-validated in {choice.held_out.folds} folds: {ratio_text(choice.held_out.ratio)}")
    yield Text(f"  without mitigation, over the default: {ratio_text(tuning.unmitigated.ratio)}")
    for name, text, end in _find_edges(tuning):
        yield Text(f"  {name} {text} is the {end} of the grid; --grid can try beyond it", "yellow")


def _policies_text(tuning: Tuning) -> str:
    return " and ".join(
        "no mitigation" if policy == "none" else f"policy {policy}"
        for policy in sorted({run.policy for run in tuning.runs})
    )


def _find_edges(tuning: Tuning) -> Iterator[tuple[str, str, str]]:
    """The recommended values that are the least or the most of the tried values: name, text, end."""
    picked, default = tuning.choice.recommended, tuning.default
    for name, text in format_values(picked).items():
        field = "padding_s" if name == "padding" else name
        value = getattr(picked, field)
        tried = {getattr(score.values, field) for score in tuning.settings}
        ends = {min(tried), max(tried)} - {KINDS[name].low, KINDS[name].high, getattr(default, field)}
        if value in ends:
            yield name, text, "least" if value == min(tried) else "most"


def _draw_table(tuning: Tuning) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    read = ("mult", "quant", "pad")[: len(format_values(tuning.default))]
    for name in ("", *read, "makespan", "alarms", "wasted"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("against the default", no_wrap=True)
    shown = sorted((score for score in tuning.settings if score.front), key=lambda score: score.ratio.mean)
    for extra in (tuning.choice.recommended, tuning.default):
        if all(score.values != extra for score in shown):
            shown += [score for score in tuning.settings if score.values == extra]
    for score in shown:
        mark = "=" if score.values == tuning.default else ""
        if score.values == tuning.choice.recommended:
            mark = "→"
        table.add_row(mark, *_cell_texts(score), _draw_bar(score.ratio), style="bold" if mark == "→" else "")
    alone = tuning.unmitigated
    blank = ("",) * len(read)
    table.add_row(*blank, "none", *_figure_texts(alone), _draw_bar(alone.ratio), style="dim")
    return table


def _cell_texts(score: SettingScore) -> tuple[str, ...]:
    return (*format_values(score.values).values(), *_figure_texts(score))


def _figure_texts(score: Score) -> tuple[str, str, str]:
    return duration(score.makespan_s.mean), f"{score.false_alarms.mean:.1f}", size(score.twice_bytes.mean)


def _draw_bar(ratio: Estimated) -> Text:
    """A bar as long as the makespan, thin over its interval."""
    sure, most = round(BAR * ratio.low), round(BAR * ratio.high)
    more = "…" if most > MOST else ""
    bar = Text("━" * min(sure, MOST), "cyan")
    bar.append("╌" * (min(most, MOST) - min(sure, MOST)), "cyan")
    return bar.append(f"{more} {ratio.mean:.2f}")


def _draw_legend(tuning: Tuning) -> Iterator[Text]:
    front = sum(score.front for score in tuning.settings)
    settings = plural(len(tuning.settings), "setting")
    yield Text(f"  → recommended, = default; of {settings} the {count(front)} that no other beats", "dim")
    yield Text("  means a run; alarms: flagged, but sooner done if left alone; ╌ 95 % interval", "dim")


def draw_grounds(tuning: Tuning) -> Iterator[Text]:
    """The data that the recommendation is made from, and its limits."""
    finished = sum(run.finished for run in tuning.runs)
    yield Text(f"from {plural(len(tuning.runs), 'run')}, {plural(finished, 'finished file')}")
    known = [run for run in tuning.runs if run.recorded_s > 0]
    ratios = [run.replayed_s / run.recorded_s for run in known if run.replayed_s is not None]
    if ratios:
        span = f"{min(ratios):.2f} to {max(ratios):.2f}"
        yield Text(f"  replayed with their own settings, the runs take {span} of their recorded time")
    seen = tuning.estimates
    if seen.by_rate or seen.by_stall_rule or seen.drawn:
        yield Text("  attempts that were cut off, whose full time is an estimate:")
        yield Text(
            f"    {seen.by_rate:,} from their last rate, {seen.by_stall_rule:,} by the stall rule, "
            f"{seen.drawn:,} from the times of other attempts"
        )
    for remark in tuning.remarks:
        yield Text(f"  {remark}", "yellow")
    for host in tuning.hosts:
        yield _draw_host(host)
    for omission in [*tuning.left_out, *tuning.hosts_left_out][:LEFT_OUT]:
        yield Text(f"  left out: {shorten(omission.name, 60)}: {printable(omission.reason)}", "dim")
    more = len(tuning.left_out) + len(tuning.hosts_left_out) - LEFT_OUT
    if more > 0:
        yield Text(f"  and {more:,} more left out", "dim")


def _draw_host(host: HostChoice) -> Text:
    name, choice = f"{shorten(host.host, 40)} alone, {plural(host.files, 'file')}", host.choice
    return Text(f"  {name}: {describe_values(choice.recommended)}; {ratio_text(choice.ratio)}")


def _draw_end(tuning: Tuning, written: str | None) -> Iterator[Text]:
    yield Text()
    if written is not None:
        yield Text(f"written to {printable(written)}; use it with --config")
        return
    if tuning.leave:
        return
    flags = (f"--{name} {text}" for name, text in format_values(tuning.choice.recommended).items())
    yield Text(f"cfetch download MANIFEST --policy {tuning.policy} {' '.join(flags)}")


def ratio_text(ratio: Estimated) -> str:
    """A ratio with its interval."""
    return f"{ratio.mean:.2f} ({ratio.low:.2f} to {ratio.high:.2f})"
