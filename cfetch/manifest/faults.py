"""Collects the faults of a manifest, so that the user can correct all at once; and names what is wrong.

A fault in one row is added, and reading goes on. A fault in the document's own grammar ends the reading: it
is raised as ``BrokenDocumentError`` and becomes the last fault.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from cfetch.base.errors import ManifestError, Problem
from cfetch.base.secret import printable

MAX_KEPT = 100  # more than a person reads, and the message does not grow with the manifest; all are counted

_KINDS = {
    str: "a string",
    bool: "a boolean",
    int: "an integer",
    float: "a number with a fraction or an exponent",
    list: "an array",
    dict: "an object",
    type(None): "null",
}


@dataclass(frozen=True)
class Misfit:
    """A value that is wrong for every key; ``reason`` says what it is."""

    reason: str


MOST_OF_ONE_SORT = 500
WAY_OUT = "--bad-rows skip"
_DETAIL = re.compile(r"\A\w+\[[0-9]+\]: |'[^']*'|[0-9]+")


class BrokenDocumentError(Exception):
    """The document cannot be read further than ``line``."""

    def __init__(self, line: int, message: str) -> None:
        super().__init__(message)
        self.line = line


class UrlError(ValueError):
    """A URL that a manifest must not state; the message says why, without the URL."""


def ignore_fault(line: int, reason: str) -> None:
    """Keep no record of a row that is left out."""


class Faults:
    """Counts every fault and keeps the first ``MAX_KEPT``; ``report`` gets each one, if given."""

    def __init__(self, report: Callable[[int, str], None] | None = None, *, gives_up: bool = False) -> None:
        """``gives_up``: end the reading at the ``MOST_OF_ONE_SORT``-th fault of one sort."""
        self.total = 0
        self._gives_up = self._can_skip = gives_up
        self._sorts: Counter[str] = Counter()
        self.skipped = self.skippable = 0  # faults of rows that are left out, or would be on request
        self.source: str | None = None  # the manifest that is read now, if there are several
        self._kept: list[Problem] = []
        self._report = report

    @property
    def are_skipped(self) -> bool:
        """Whether rows with faults are reported and left out."""
        return self._report is not None

    def add(self, line: int, message: str) -> None:
        """Note one fault; ``message`` must hold no query of a URL, no userinfo and no header value.

        Raises:
            BrokenDocumentError: there are so many of its sort that this is another kind of list, or none.
        """
        self._keep(line, message)
        if self._gives_up:
            sort = _DETAIL.sub("", message)
            self._sorts[sort] += 1
            if self._sorts[sort] >= MOST_OF_ONE_SORT or len(self._sorts) > MOST_OF_ONE_SORT:
                raise BrokenDocumentError(
                    line,
                    f"so many rows have a fault like this that it may be a list of another kind, or none: "
                    f"{MOST_OF_ONE_SORT}; --from-format names the kind of a list, and {WAY_OUT} leaves "
                    "such rows out",
                )

    def end_of_rows(self) -> None:
        """Say that all rows have been read: what is wrong between them is no sign of another kind of list."""
        self._gives_up = False

    def _keep(self, line: int, message: str) -> None:
        self.total += 1
        if self._report is not None:
            self._report(line, message if self.source is None else f"{self.source}: {message}")
        if len(self._kept) < MAX_KEPT:
            self._kept.append(Problem(line, message, self.source))

    def note_break(self, error: BrokenDocumentError) -> None:
        """Note where reading ended; this fault is always kept, as later faults are unknown."""
        del self._kept[MAX_KEPT - 1 :]
        self._keep(error.line, f"{error}; what follows was not read")

    def forgive(self, before: int) -> None:
        """Drop all but the first ``before`` faults: they are in rows that are skipped."""
        self.skipped += self.total - before
        self.total = before
        del self._kept[before:]

    def raise_if_any(self, name: str) -> None:
        """Raise ManifestError with all kept faults in the order of their lines, if there are any."""
        if self.total:
            is_said = any(WAY_OUT in problem.message for problem in self._kept)
            way = self._can_skip and self.skippable == self.total and not is_said
            raise ManifestError(
                name,
                tuple(sorted(self._kept, key=lambda problem: (problem.source or "", problem.line))),
                self.total,
                way=f"\n  {WAY_OUT} leaves such rows out, and takes the others" if way else "",
            )


def kind_of(value: object) -> str:
    """The kind of ``value``, in JSON's words; never the value itself, which may be a secret."""
    return value.reason if isinstance(value, Misfit) else _KINDS.get(type(value), "another type")


def quoted_key(key: str) -> str:
    """``key`` in quotes if it looks like one; a URL in its place may hold a secret and is not shown."""
    plain = len(key) <= 64 and key.replace("_", "").replace("-", "").replace(" ", "").isalnum()
    return repr(printable(key)) if plain else f"of {len(key)} characters that is no plain word"
