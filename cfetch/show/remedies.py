"""What a person does about failures that a repetition alone does not repair (pure)."""

from collections.abc import Iterable
from typing import NamedTuple

from cfetch.base.errors import Blocked, Corrupt, Expired, Refused, Unstorable
from cfetch.base.records import Summary


class Remedy(NamedTuple):
    """A row: a failure of one of these ``kinds``, and of a status if there are some, needs this ``step``."""

    kinds: frozenset[str]
    statuses: frozenset[int]
    step: str


REMEDIES = (  # of failures that a repetition alone does not repair; the first row that fits counts
    Remedy(
        frozenset({Refused.kind, Expired.kind}),
        frozenset({401, 403}),
        "log in (-H, --bearer-env, --netrc, --cookies), or get a list with fresh links",
    ),
    Remedy(
        frozenset({Refused.kind, Corrupt.kind}),
        frozenset(),
        "correct the links, sizes or hashes of what failed",
    ),
    Remedy(frozenset({Blocked.kind}), frozenset(), "move away what stands in the way"),
    Remedy(
        frozenset({Unstorable.kind}),
        frozenset(),
        "give what this file system does not take another name or another --to",
    ),
)


def find_remedy(failures: Iterable[Summary.Failure]) -> str:
    """The steps that are needed before a repetition; empty if that alone may be enough for one of them."""
    steps = {_find_step(failure) for failure in failures}
    if "" in steps:
        return ""
    return ", and ".join(remedy.step for remedy in REMEDIES if remedy.step in steps)


def _find_step(failure: Summary.Failure) -> str:
    fitting = (
        remedy.step
        for remedy in REMEDIES
        if failure.kind in remedy.kinds and (not remedy.statuses or failure.http_status in remedy.statuses)
    )
    return next(fitting, "")
