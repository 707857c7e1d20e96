"""A tuning for a person's terminal: the recommendation and its worth, then the front as a table with bars.

Rendering only; every number comes from the `Tuning` value.
"""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from cfetch.config.settings import KINDS
from cfetch.report.format import count, duration, plural, shorten, size
from cfetch.report.tuning_document import Estimated, HostChoice, Score, SettingScore, Tuning, Values
from cfetch.secret import printable

__all__ = ["view"]

BAR = 16  # columns of a bar for the default's makespan
MOST = 24  # and of the longest: with it a line has 80 columns
_NAMES = ("multiplier", "quantile", "padding")
LEFT_OUT = 5  # more lines of reasons bury the answer


def view(found: Tuning, written: str | None = None) -> RenderableType:
    """Everything, for ``Console.print``; ``written``: the file that holds the recommended values."""
    front: tuple[RenderableType, ...] = (_table(found), *_legend(found))
    return Group(*_answer(found), Text(), *front, Text(), *_grounds(found), *_end(found, written))


def _answer(found: Tuning) -> Iterator[Text]:
    choice = found.choice
    stays = choice.recommended == found.default
    said = "the default stays: " if stays else "recommended: "
    yield Text.assemble((said, "bold"), (_words(choice.recommended), "bold green"))
    if not stays:
        yield Text(f"  makespan against the default's: {_ratio(choice.ratio)}")
    yield Text(
        f"  chosen on some runs and checked on the others: {_ratio(choice.held_out.ratio)}, "
        f"{choice.held_out.folds} folds"
    )
    yield Text(f"  without mitigation: {_ratio(found.unmitigated.ratio)}")
    for name, text, end in _edges(found):
        yield Text(f"  {name} {text} is the {end} of the grid; --grid can try beyond it", "yellow")


def _edges(found: Tuning) -> Iterator[tuple[str, str, str]]:
    """Where the recommended values are the last that were tried in their direction."""
    picked, default = found.choice.recommended, found.default
    for name, text in zip(_NAMES, _texts(picked), strict=True):
        field = "padding_s" if name == "padding" else name
        value = getattr(picked, field)
        tried = {getattr(one.values, field) for one in found.settings}
        ends = {min(tried), max(tried)} - {KINDS[name].low, KINDS[name].high, getattr(default, field)}
        if value in ends:
            yield name, text, "least" if value == min(tried) else "most"


def _table(found: Tuning) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 1, 0, 0))
    for name in ("", "mult", "quant", "pad", "makespan", "alarms", "twice"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("against the default", no_wrap=True)
    shown = sorted((one for one in found.settings if one.front), key=lambda one: one.ratio.mean)
    for extra in (found.choice.recommended, found.default):
        if all(one.values != extra for one in shown):
            shown += [one for one in found.settings if one.values == extra]
    for one in shown:
        mark = "→" if one.values == found.choice.recommended else "=" if one.values == found.default else ""
        table.add_row(mark, *_cells(one), _bar(one.ratio), style="bold" if mark == "→" else "")
    alone = found.unmitigated
    table.add_row("", "", "", "none", *_figures(alone), _bar(alone.ratio), style="dim")
    return table


def _cells(one: SettingScore) -> tuple[str, ...]:
    return (*_texts(one.values), *_figures(one))


def _figures(one: Score) -> tuple[str, str, str]:
    return duration(one.makespan_s.mean), f"{one.false_alarms.mean:.1f}", size(one.twice_bytes.mean)


def _bar(ratio: Estimated) -> Text:
    """A bar as long as the makespan, thin over its interval."""
    sure, most = round(BAR * ratio.low), round(BAR * ratio.high)
    more = "…" if most > MOST else ""
    bar = Text("━" * min(sure, MOST), "cyan")
    bar.append("╌" * (min(most, MOST) - min(sure, MOST)), "cyan")
    return bar.append(f"{more} {ratio.mean:.2f}")


def _legend(found: Tuning) -> Iterator[Text]:
    front = sum(one.front for one in found.settings)
    settings = plural(len(found.settings), "setting")
    yield Text(f"  → recommended, = default; of {settings} the {count(front)} that no other beats", "dim")
    yield Text("  means a run; alarms: flagged, but sooner done if left alone; ╌ 95 % interval", "dim")


def _grounds(found: Tuning) -> Iterator[Text]:
    finished = sum(run.finished for run in found.runs)
    yield Text(f"from {plural(len(found.runs), 'run')}, {plural(finished, 'finished file')}")
    ratios = [run.replayed_s / run.recorded_s for run in found.runs if run.recorded_s > 0]
    if ratios:
        span = f"{min(ratios):.2f} to {max(ratios):.2f}"
        yield Text(f"  replayed as they were set, they take {span} of their recorded time")
    seen = found.estimates
    if seen.by_rate or seen.by_stall_rule or seen.drawn:
        yield Text("  broken off, so that their true time is an estimate:")
        yield Text(
            f"    {seen.by_rate:,} by their last rate, {seen.by_stall_rule:,} by the stall rule, "
            f"{seen.drawn:,} by the others' times"
        )
    for host in found.hosts:
        yield _host(host)
    for one in [*found.left_out, *found.hosts_left_out][:LEFT_OUT]:
        yield Text(f"  left out: {shorten(one.name, 60)}: {printable(one.reason)}", "dim")
    more = len(found.left_out) + len(found.hosts_left_out) - LEFT_OUT
    if more > 0:
        yield Text(f"  and {more:,} more left out", "dim")


def _host(host: HostChoice) -> Text:
    name, choice = f"{shorten(host.host, 40)} alone, {plural(host.files, 'file')}", host.choice
    return Text(f"  {name}: {_words(choice.recommended)}; {_ratio(choice.ratio)}")


def _end(found: Tuning, written: str | None) -> Iterator[Text]:
    yield Text()
    if written is not None:
        yield Text(f"written to {printable(written)}; use it with --config")
        return
    texts = _texts(found.choice.recommended)
    flags = (f"--{name} {text}" for name, text in zip(_NAMES, texts, strict=True))
    yield Text(f"cfetch download MANIFEST --policy cloudfetch {' '.join(flags)}")


def _ratio(one: Estimated) -> str:
    return f"{one.mean:.2f} ({one.low:.2f} to {one.high:.2f})"


def _words(one: Values) -> str:
    return ", ".join(f"{name} {text}" for name, text in zip(_NAMES, _texts(one), strict=True))


def _texts(one: Values) -> tuple[str, ...]:
    given = (one.multiplier, one.quantile, one.padding_s)
    return tuple(KINDS[name].show(value) for name, value in zip(_NAMES, given, strict=True))
