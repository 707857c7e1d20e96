"""The sentence with which a page begins: how long a run took, how good that is, why, what to change. Pure."""

from collections.abc import Sequence

from cfetch.show.document import RunLine
from cfetch.show.ending_text import MitigationSetup, explain_tail, find_advice
from cfetch.show.format import count, duration, plural, rate
from cfetch.show.page.document import PageVerdict, Tone

CLOSE = 1.1  # times the ideal: less is noise
GOOD = 1.5  # times the ideal: a run up to here needs no change
ALIKE = 0.05  # share by which the bytes of runs may differ whose times are compared
IDEAL = (
    "Ideal: the time for the same files, each at least as fast as is usual at its host, with no place idle, "
    "over a link that always gives the most that it gave for a tenth of this run."
)


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


def compare(lines: Sequence[RunLine], names: Sequence[str], verdicts: Sequence[PageVerdict]) -> PageVerdict:
    """The verdict on several runs: the last against the one before it, or all by their speed."""
    is_alike = max(line.bytes for line in lines) * (1 - ALIKE) <= min(line.bytes for line in lines)
    if len(lines) == 2:
        text = _compare_two(lines[0], lines[1], names, is_alike=is_alike)
        own = [f"{name}: {verdict.text}" for name, verdict in zip(names, verdicts, strict=True)]
        return PageVerdict(title="Verdict", text=text, lines=own)
    speed = [1 / max(line.elapsed_s, 1e-9) if is_alike else line.rate_bps for line in lines]
    best, last = max(range(len(lines)), key=speed.__getitem__), len(lines) - 1
    verb = "took" if is_alike else "came at"
    paces = [_pace(line, is_alike=is_alike) for line in lines]
    text = f"Of {count(len(lines))} runs the latest, {names[last]}, {verb} {paces[last]}"
    if speed[best] <= CLOSE * speed[last]:
        text += ", and none was clearly faster"
    else:
        text += f"; the fastest, {names[best]}, {verb} {paces[best]}"
    return PageVerdict(title="Verdict", text=f"{text}.", lines=[f"{names[last]}: {verdicts[-1].text}"])


def _compare_two(first: RunLine, second: RunLine, names: Sequence[str], *, is_alike: bool) -> str:
    old, new = names
    if first.had_nothing_to_do or second.had_nothing_to_do:
        idle = new if second.had_nothing_to_do else old
        return f"The two runs cannot be compared: {idle} had nothing to download."
    if is_alike:
        factor = first.elapsed_s / max(second.elapsed_s, 1e-9)
    else:
        factor = second.rate_bps / first.rate_bps if first.rate_bps > 0 else 1.0
    word = "faster" if factor > 1 else "slower"
    times = factor if factor > 1 else 1 / max(factor, 1e-9)
    said = f"was {times:.1f} times {word} than" if times > CLOSE else "was as fast as"
    pair = f"{_pace(second, is_alike=is_alike)} against {_pace(first, is_alike=is_alike)}"
    return f"{new} {said} {old}: {pair}{'' if is_alike else ', of different amounts'}."


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
