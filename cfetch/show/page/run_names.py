"""Names of runs and of their pages: what a person has called them, or else when they began. Pure."""

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
    plain = [_name_of(header, source) for header, source in zip(headers, sources, strict=True)]
    uses, seen, names = Counter(plain), Counter[str](), []
    for name in plain:
        seen[name] += 1
        names.append(f"{name} ({seen[name]})" if uses[name] > 1 else name)
    return names


def title_of(headers: Sequence[RunHeader]) -> str:
    """The title of a page of these runs: where their files went."""
    places = list(dict.fromkeys(header.destination.rstrip("/").rpartition("/")[2] for header in headers))
    runs = "" if len(headers) == 1 else plural(len(headers), "run")
    if len(places) == 1 and places[0]:
        place = shorten(places[0], NAME)
        return f"cfetch: {runs} to {place}" if runs else f"cfetch: {place}"
    return f"cfetch: {runs or 'a run'}"


def began_at(header: RunHeader | RunLine) -> str:
    """``2026-01-01 00:00 UTC``; as it is recorded if that is no time."""
    date, mark, time = header.wall_start.partition("T")
    if not mark or len(time) < 5:
        return printable(header.wall_start, 40)
    zone = " UTC" if time.endswith(("Z", "+00:00")) else ""
    return printable(f"{date} {time[:5]}{zone}", 40)


def _name_of(header: RunHeader, source: str) -> str:
    stem = PurePath(source).name.partition(".")[0]
    is_given = bool(stem) and stem != header.instant.partition(".")[0]
    return shorten(stem, NAME) if is_given else began_at(header)
