"""Names of runs and of their pages: the name of a file, the destination, or when a run began. Pure."""

from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath

from cfetch.base.secret import printable
from cfetch.show.document import RunLine
from cfetch.show.format import plural, shorten
from cfetch.show.metrics import RunHeader

NAME = 32  # characters; longer names push the figures off a phone


def name_runs(headers: Sequence[RunHeader], sources: Sequence[str]) -> list[str]:
    """A name for each run, all different. A single run needs none: it is this run."""
    if len(headers) == 1:
        return ["this run"]
    places = [_place_of(header) for header in headers]
    others = places if len({*places, ""}) == len(places) + 1 else _times_of(headers)
    plain = [
        _given_name(header, source) or other
        for header, source, other in zip(headers, sources, others, strict=True)
    ]
    uses, seen, names = Counter(plain), Counter[str](), []
    for name in plain:
        seen[name] += 1
        names.append(f"{name} ({seen[name]})" if uses[name] > 1 else name)
    return names


def title_of(headers: Sequence[RunHeader]) -> str:
    """The title of a page of these runs: where their files went."""
    places = list(dict.fromkeys(map(_place_of, headers)))
    runs = "" if len(headers) == 1 else plural(len(headers), "run")
    if len(places) == 1 and places[0]:
        return f"cfetch: {runs} to {places[0]}" if runs else f"cfetch: {places[0]}"
    return f"cfetch: {runs or 'a run'}"


def began_at(header: RunHeader | RunLine) -> str:
    """``2026-01-01 00:00 UTC``; as it is recorded if that is no time."""
    date, mark, time = header.wall_start.partition("T")
    if not mark or len(time) < 5:
        return printable(header.wall_start, 40)
    zone = " UTC" if time.endswith(("Z", "+00:00")) else ""
    return printable(f"{date} {time[:5]}{zone}", 40)


def _place_of(header: RunHeader) -> str:
    """The last part of the destination."""
    return shorten(header.destination.rstrip("/").rpartition("/")[2], NAME)


def _times_of(headers: Sequence[RunHeader]) -> list[str]:
    """When each began; without the date if all began on one."""
    times = [began_at(header) for header in headers]
    dates = {time.partition(" ")[0] for time in times}
    return [time.partition(" ")[2] or time for time in times] if len(dates) == 1 else times


def _given_name(header: RunHeader, source: str) -> str:
    """The name that a person gave to the file; empty: there is none."""
    stem = PurePath(source).name.partition(".")[0]
    return shorten(stem, NAME) if stem != header.instant.partition(".")[0] else ""
