"""The attempts of a run as bars in lanes. Pure, in one pass; the page's size does not grow with the run.

A lane holds one attempt at a time: each attempt, in the order of the starts, takes the lowest lane that is
free. The most notable files have a story and bars of their own: first files with trouble, then those that
took longest. If there are more than ``MOST_BARS``, neighbours in a lane with the same outcome are merged into
bars that are just wide enough to be seen.
"""

import heapq
from array import array
from collections.abc import Iterable
from typing import NamedTuple

from cfetch.base.events import ActiveAttempt
from cfetch.base.records import AttemptRecord, FileRecord
from cfetch.base.secret import printable
from cfetch.show.format import duration, plural, rate, size
from cfetch.show.page.document import Timeline
from cfetch.show.saved_time import SavingVerdict, list_verdicts

MOST_BARS = 6000
MOST_STORIES = 1500
MOST_TOLD = 2 * MOST_BARS  # attempts with a story: each has a bar of its own and a line
MOST_LANES = 1024  # more are thinner than a pixel; slots then share a lane
OUTCOMES = ("done", "cut", "error", "helper", "under way")
_CODES = {"done": 0, "straggler": 1, "lost": 1, "moved": 1, "stalled": 2, "error": 2, "expired": 2}
_HELPER, _UNDER_WAY = 3, 4


_Notable = tuple[bool, float, int, FileRecord]


class Bar(NamedTuple):
    """A bar for one or several ``attempts``; ``outcome`` and ``story`` are indices as in ``Timeline``."""

    from_s: float
    to_s: float
    lane: int
    outcome: int
    attempts: int
    story: int


class TimelineBuilder:
    """``add`` the records of entries in any order; ``section`` may be asked at any time."""

    def __init__(self) -> None:
        self._from_s, self._to_s = array("d"), array("d")
        self._outcome, self._record = array("b"), array("q")
        self._notable: list[_Notable] = []  # a heap; the number breaks ties
        self._seen = 0

    def add(self, record: FileRecord) -> None:
        """Add an entry that has ended."""
        if not record.attempts:
            return
        self._seen += 1
        for attempt in record.attempts:
            self._from_s.append(attempt.start_s)
            self._to_s.append(max(attempt.end_s, attempt.start_s))
            self._outcome.append(_code_of(attempt))
            self._record.append(self._seen)
        has_trouble = len(record.attempts) > 1 or record.status != "done"
        item = (has_trouble, record.end_s - record.start_s, self._seen, record)
        if len(self._notable) < MOST_STORIES:
            heapq.heappush(self._notable, item)
        elif item > self._notable[0]:
            heapq.heapreplace(self._notable, item)

    def section(self, end_s: float, active: Iterable[ActiveAttempt] = ()) -> Timeline:
        """The section of a run that has lasted ``end_s``, with the attempts that are under way."""
        notable = sorted(_choose_told(self._notable), key=lambda item: item[2])
        stories = [_tell_file(record) for _, _, _, record in notable]
        story_of = {number: index for index, (_, _, number, _) in enumerate(notable)}
        spans = [
            (from_s, to_s, outcome, story_of.get(number, -1))
            for from_s, to_s, outcome, number in zip(
                self._from_s, self._to_s, self._outcome, self._record, strict=True
            )
        ]
        for attempt in active:
            spans.append((max(0.0, end_s - attempt.elapsed_s), end_s, _UNDER_WAY, len(stories)))
            stories.append(_tell_active(attempt))
        bars, slots = lay_out(spans)
        bars, lanes = _merge_lanes(bars, slots)
        attempts = len(bars)
        bars = merge_bars(bars, lanes, end_s)
        merged = f"; {attempts:,} attempts in {len(bars):,} bars" if attempts > len(bars) else ""
        each = "each slot" if lanes == slots else f"every {-(-slots // lanes)} slots"
        return Timeline(
            title="Attempts",
            note=f"a lane for {each}, a bar for each attempt{merged}; drag to zoom",
            summary=_summarise(self._outcome, lanes),
            end_s=round(end_s, 3),
            lanes=lanes,
            outcomes=list(OUTCOMES),
            from_s=[round(bar.from_s, 3) for bar in bars],
            to_s=[round(bar.to_s, 3) for bar in bars],
            lane=[bar.lane for bar in bars],
            outcome=[bar.outcome for bar in bars],
            files=[bar.attempts for bar in bars],
            story=[bar.story for bar in bars],
            stories=stories,
        )


def lay_out(spans: Iterable[tuple[float, float, int, int]]) -> tuple[list[Bar], int]:
    """Give each span (start, end, outcome, story) the lowest free lane; the bars by start, and the lanes."""
    busy: list[tuple[float, int]] = []  # (end, lane)
    free: list[int] = []
    lanes = 0
    bars: list[Bar] = []
    for from_s, to_s, outcome, story in sorted(spans):
        while busy and busy[0][0] <= from_s:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if free:
            lane = heapq.heappop(free)
        else:
            lane, lanes = lanes, lanes + 1
        heapq.heappush(busy, (to_s, lane))
        bars.append(Bar(from_s, to_s, lane, outcome, 1, story))
    return bars, lanes


def _merge_lanes(bars: list[Bar], slots: int, most: int = MOST_LANES) -> tuple[list[Bar], int]:
    """Let neighbouring slots share a lane if there are more than ``most``; the bars, and the lanes."""
    together = max(1, -(-slots // most))
    if together == 1:
        return bars, slots
    return [bar._replace(lane=bar.lane // together) for bar in bars], -(-slots // together)


def _choose_told(notable: "list[_Notable]") -> "list[_Notable]":
    """The most notable files whose attempts together can all be told."""
    chosen, attempts = [], 0
    for item in sorted(notable, reverse=True):
        if attempts + len(item[3].attempts) <= MOST_TOLD:
            attempts += len(item[3].attempts)
            chosen.append(item)
    return chosen


def merge_bars(bars: list[Bar], lanes: int, end_s: float, most: int = MOST_BARS) -> list[Bar]:
    """Merge neighbours in a lane without a story until about ``most`` bars are left."""
    if len(bars) <= most:
        return bars
    least_s = end_s * lanes / most
    merged: list[Bar] = []
    open_of: dict[int, Bar] = {}
    for bar in bars:
        last = open_of.get(bar.lane)
        if last is not None:
            is_alike = bar.story < 0 and bar.outcome == last.outcome
            if is_alike and bar.to_s - last.from_s <= least_s:
                to_s, attempts = max(last.to_s, bar.to_s), last.attempts + bar.attempts
                open_of[bar.lane] = last._replace(to_s=to_s, attempts=attempts)
                continue
            merged.append(open_of.pop(bar.lane))
        if bar.story < 0:
            open_of[bar.lane] = bar
        else:
            merged.append(bar)
    return sorted([*merged, *open_of.values()])


def _tell_file(record: FileRecord) -> list[str]:
    """The lines about a file: its name, its result, and each attempt with the verdict on it."""
    verdicts = {id(verdict.attempt): verdict for verdict in list_verdicts(record)}
    took = duration(record.end_s - record.start_s)
    result = f"{record.status} in {took}" if record.status == "done" else f"{record.status} after {took}"
    lines = [
        printable(record.path),
        f"{size(record.size_bytes or record.bytes)} from {printable(record.host, 80)}, {result}",
    ]
    if record.error:
        lines.append(printable(record.error))
    return lines + [_tell_attempt(attempt, verdicts.get(id(attempt))) for attempt in record.attempts]


def _tell_attempt(attempt: AttemptRecord, verdict: SavingVerdict | None) -> str:
    name = "helper" if attempt.helper else "try"
    first = "no byte"
    if attempt.first_byte_s is not None:
        first = f"first byte after {duration(attempt.first_byte_s - attempt.start_s)}"
    took_s = attempt.end_s - attempt.start_s
    details = [
        f"{duration(attempt.start_s)} to {duration(attempt.end_s)}",
        first,
        f"{size(attempt.bytes)} at {rate(attempt.bytes / took_s if took_s > 0 else None)}",
        attempt.outcome,
        printable(attempt.error) if attempt.error else "",
    ]
    if verdict is not None and verdict.projected_s is not None and verdict.saved_s is not None:
        word = "sooner" if verdict.saved_s > 0 else "later"
        difference = f"{duration(abs(verdict.saved_s))} {word}"
        details.append(
            f"alone it would have ended at {duration(verdict.projected_s)}; the file came {difference}"
        )
    return f"{name} {attempt.n}: {', '.join(filter(None, details))}"


def _tell_active(attempt: ActiveAttempt) -> list[str]:
    received = f"{size(attempt.bytes)} of {size(attempt.size_bytes)} at {rate(attempt.rate_bps)}"
    return [
        printable(attempt.path),
        f"from {printable(attempt.host, 80)}, {attempt.state}",
        f"try {attempt.n}: for {duration(attempt.elapsed_s)}, {received}",
    ]


def _code_of(attempt: AttemptRecord) -> int:
    code = _CODES[attempt.outcome]
    return _HELPER if attempt.helper and code == 0 else code


def _summarise(outcomes: "array[int]", lanes: int) -> str:
    if not outcomes:
        return "No attempt has ended yet."
    numbers = [outcomes.count(code) for code in range(_UNDER_WAY)]
    named = ", ".join(f"{number:,} {OUTCOMES[code]}" for code, number in enumerate(numbers) if number)
    return f"{plural(len(outcomes), 'attempt')} in {plural(lanes, 'lane')}: {named}."
