"""Groups failures by their cause: many files fail for few reasons, and a person needs the reasons. Pure.

Two failures have one cause if their kinds, their statuses and their messages are the same, apart from what
belongs to one file: its path, its link, a hash, a number.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

from cfetch.base.records import Summary

# How the names of two entries clash, as ``manifest/clashes.py`` says it after the first name or both.
_CLASH = re.compile(
    r"['\"].*['\"] (differ only|are one file|is stated twice|is a file, and a directory for)", re.DOTALL
)
_OWN = re.compile(r"[a-z][a-z0-9+.-]*://\S+|\b[0-9a-f]{8,}\b|\d[\d,.]*", re.IGNORECASE)


class Cause(NamedTuple):
    """A cause, the files that failed for it, and the first of them as an example."""

    files: int
    example: Summary.Failure


def group_by_cause(failures: Iterable[Summary.Failure]) -> list[Cause]:
    """The causes, those of most files first."""
    causes: dict[tuple[str, ...], Cause] = {}
    for failure in failures:
        key = (failure.kind, str(failure.http_status), find_cause(failure.message, failure.path))
        files, example = causes.get(key, (0, failure))
        causes[key] = Cause(files + 1, example)
    return sorted(causes.values(), key=lambda cause: -cause.files)


def find_cause(message: str, path: str) -> str:
    """The part of a message that is not about one file."""
    if (clash := _CLASH.match(message)) is not None:
        return clash[1]
    whole = re.compile(rf"(?<!\w){re.escape(path)}(?!\w)")  # "k" is a path, and no part of "back"
    return _OWN.sub("#", whole.sub("#", message))
