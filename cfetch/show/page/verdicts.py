"""The sentence with which a page begins: how long a run took, how good that is, why, what to change. Pure.

Of several runs only those are compared that had the same files to download; other differences are named.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from cfetch.show.document import RunLine
from cfetch.show.ending_text import MitigationSetup, explain_tail, find_advice
from cfetch.show.format import count, duration, plural, rate
from cfetch.show.page.document import PageVerdict, Tone

CLOSE = 1.1  # times the ideal: less is noise
GOOD = 1.5  # times the ideal: a run up to here needs no change
SAME = "had the same to download, by the same engine, on the same machine"
ALIKE = 0.05  # share by which the bytes of runs may differ whose times are compared
IDEAL = (
    "Ideal: the time for the same files, each at least as fast as is usual at its host, with no slot idle, "
    "over a link that always gives the most that it gave for a tenth of this run."
)


class Circumstances(NamedTuple):
    """What runs must have in common to be compared. ``files``: a sum over the paths not in place before."""

    files: int
    is_whole: bool
    engine: str
    machine: str


def judge_run(line: RunLine, ideal_s: float | None) -> PageVerdict:
    """The verdict on one run that is over; ``ideal_s`` as of ``IdealBuilder``."""
    if line.had_nothing_to_do:
        there = "The file was" if line.planned == 1 else f"All {plural(line.planned, 'file')} were"
        return PageVerdict(
            title="Verdict", text=f"{there} in place before: nothing had to be downloaded.", tone="good"
        )
    ratio = None if ideal_s is None else line.elapsed_s / ideal_s
    is_slow = ratio is not None and ratio > CLOSE
    text = _describe_result(line) + _compare_with_ideal(ideal_s, ratio)
    if reason := _explain_end(line):
        text += (", because " if is_slow else "; what set the end: ") + reason
    return PageVerdict(
        title="Verdict", text=f"{text}.", tone=_tone_of(line, ratio), lines=[] if ideal_s is None else [IDEAL]
    )


def compare(
    lines: Sequence[RunLine],
    names: Sequence[str],
    verdicts: Sequence[PageVerdict],
    circumstances: Sequence[Circumstances],
) -> PageVerdict:
    """The verdict on several runs: the last against the one before it, or all like it by their speed."""
    if len(lines) == 2:
        text = _compare_two(lines, names, circumstances)
        own = [f"{name}: {verdict.text}" for name, verdict in zip(names, verdicts, strict=True)]
        return PageVerdict(title="Verdict", text=text, lines=own)
    text = _compare_many(lines, names, circumstances)
    return PageVerdict(title="Verdict", text=text, lines=[f"{names[-1]}: {verdicts[-1].text}"])


def _compare_many(
    lines: Sequence[RunLine], names: Sequence[str], circumstances: Sequence[Circumstances]
) -> str:
    """The latest against the fastest of those that had the same to download, engine and machine."""
    number, last = count(len(lines)), len(lines) - 1
    if lines[last].had_nothing_to_do:
        return f"The latest of {number} runs, {names[last]}, had nothing to download."
    like = [index for index, each in enumerate(circumstances) if each == circumstances[last]]
    is_alike = _brought_alike([lines[index] for index in like])
    speed = {
        index: 1 / max(lines[index].elapsed_s, 1e-9) if is_alike else lines[index].rate_bps for index in like
    }
    best, verb = max(like, key=speed.__getitem__), "took" if is_alike else "came at"
    latest = f"the latest, {names[last]}, {verb} {_pace(lines[last], is_alike=is_alike)}"
    if like == [last]:
        return f"Of {number} runs {latest}; no other {SAME}."
    few = "" if len(like) == len(lines) else f"{count(len(like))} {SAME}; of these "
    if speed[best] <= CLOSE * speed[last]:
        return f"Of {number} runs {few}{latest}, and none was clearly faster."
    fastest = f"the fastest, {names[best]}, {verb} {_pace(lines[best], is_alike=is_alike)}"
    return f"Of {number} runs {few}{latest}; {fastest}."


def _brought_alike(lines: Sequence[RunLine]) -> bool:
    """Whether runs brought so nearly the same bytes that their times can be compared, and not only rates."""
    return max(line.bytes for line in lines) * (1 - ALIKE) <= min(line.bytes for line in lines)


def find_obstacle(
    lines: Sequence[RunLine], names: Sequence[str], circumstances: Sequence[Circumstances]
) -> str | None:
    """Why two runs cannot be compared; None if they can."""
    for line, name, each in zip(lines, names, circumstances, strict=True):
        if line.had_nothing_to_do:
            return f"{name} had nothing to download"
        if not each.is_whole:
            return f"{name} was stopped before its end, or still goes on"
    first, second = circumstances
    return None if first.files == second.files else "they had not the same files to download"


def _list_differences(first: Circumstances, second: Circumstances) -> Iterator[str]:
    if first.engine != second.engine:
        yield f"by engine {second.engine}, not {first.engine}"
    if first.machine != second.machine:
        yield f"on {second.machine}, not on {first.machine}"


def _compare_two(
    lines: Sequence[RunLine], names: Sequence[str], circumstances: Sequence[Circumstances]
) -> str:
    (old, new), (first, second), is_alike = names, lines, _brought_alike(lines)
    if (obstacle := find_obstacle(lines, names, circumstances)) is not None:
        return f"The two runs cannot be compared: {obstacle}."
    if is_alike:
        factor = first.elapsed_s / max(second.elapsed_s, 1e-9)
    else:
        factor = second.rate_bps / first.rate_bps if first.rate_bps > 0 else 1.0
    word = "faster" if factor > 1 else "slower"
    times = factor if factor > 1 else 1 / max(factor, 1e-9)
    said = f"was {times:.1f} times {word} than" if times > CLOSE else "was as fast as"
    pair = f"{_pace(second, is_alike=is_alike)} against {_pace(first, is_alike=is_alike)}"
    differences = ["" if is_alike else "of different amounts", *_list_differences(*circumstances)]
    return f"{', '.join([f'{new} {said} {old}: {pair}', *filter(None, differences)])}."


def _pace(line: RunLine, *, is_alike: bool) -> str:
    return duration(line.elapsed_s) if is_alike else rate(line.rate_bps)


def _describe_result(line: RunLine) -> str:
    took, in_place = duration(line.elapsed_s), line.done + line.skipped
    of_all = f"{count(in_place)} of {plural(line.planned, 'file')}"
    if not line.complete or line.cancelled:
        failed = f", {count(line.failed)} failed" if line.failed else ""
        return f"The run was stopped or still goes on: {of_all} are in place after {took}{failed}"
    if line.failed:
        return f"{count(line.failed)} of {plural(line.planned, 'file')} failed; the run took {took}"
    if line.planned == 1:
        return f"The file is in place after {took}"
    return f"All {plural(line.planned, 'file')} are in place after {took}"


def _explain_end(line: RunLine) -> str:
    """What set the end, with its reason in brackets, and what to change; empty if no cause is known."""
    setup = MitigationSetup(line.policy, line.widths, line.most)
    words = explain_tail(line.tail, setup)
    advice = words[-1:] if find_advice(line.tail, setup) else []
    what, reasons = words[:1], words[1 : len(words) - len(advice)]
    return "; ".join([" ".join([*what, *(f"({reason})" for reason in reasons)]), *advice]) if what else ""


def _compare_with_ideal(ideal_s: float | None, ratio: float | None) -> str:
    if ideal_s is None or ratio is None:
        return ""
    if ratio <= CLOSE:
        return f", close to the ideal of {duration(ideal_s)}"
    return f", {ratio:.1f} times the ideal of {duration(ideal_s)}"


def _tone_of(line: RunLine, ratio: float | None) -> Tone:
    if line.failed or line.cancelled or not line.complete or line.exit_code:
        return "bad"
    return "good" if ratio is not None and ratio <= GOOD else ""
