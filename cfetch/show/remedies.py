"""What a person does about failures that a repetition alone does not repair (pure)."""

import re
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from cfetch.base.errors import Blocked, Clashing, Corrupt, Expired, Refused, Transient, Unstorable
from cfetch.base.records import Summary


class Remedy(NamedTuple):
    """A row: a failure of one of these ``kinds``, and of a status if there are some, needs this ``step``.

    ``words``: a pattern of the message's beginning, where the kind alone does not say enough.
    """

    kinds: frozenset[str]
    statuses: frozenset[int]
    step: str
    words: str = ""


LOGIN = frozenset({401, 403})  # statuses of links that need a login, or a fresh signature
GONE = frozenset({404, 410})
REMEDIES = (  # of failures that a repetition alone does not repair; the first row that fits counts
    Remedy(
        frozenset({Refused.kind, Expired.kind}),
        LOGIN,
        "log in (-H, --bearer-env, --netrc, --cookies), or get fresh links",
    ),
    Remedy(frozenset({Refused.kind}), GONE, "correct the links of what is not there"),
    Remedy(
        frozenset({Refused.kind, Corrupt.kind}),
        frozenset(),
        "correct the links, sizes or hashes of what failed",
    ),
    Remedy(
        frozenset({Transient.kind}),
        frozenset(),
        "check the address of the proxy, and whether it runs",
        "cannot connect to the proxy",
    ),
    Remedy(
        frozenset({Transient.kind}),
        frozenset(),
        "check the host and the port of the links: nothing answers there",
        "cannot connect: .*Connection refused",
    ),
    Remedy(
        frozenset({Transient.kind}),
        frozenset(),
        "write http:// in place of https:// if the server has no TLS",
        ".*port speaks no TLS",
    ),
    Remedy(frozenset({Blocked.kind}), frozenset(), "move away what stands in the way"),
    Remedy(
        frozenset({Clashing.kind}),
        frozenset(),
        "say --clash rename or --clash skip, or give one of the files that clash another name",
    ),
    Remedy(
        frozenset({Unstorable.kind}),
        frozenset(),
        "give what this file system does not take another name or another --to",
    ),
)

MOST_STEPS = 2  # more are no next step, and the causes above them say the rest
AS_SAID = "do what the reasons of the failures say"
_CODE = re.compile(r"HTTP \d{3}[^,;]{0,80}, ([\w.:-]{1,60})", re.ASCII)


def find_remedy(failures: Iterable[Summary.Failure]) -> str:
    """The steps that are needed before a repetition, for the largest kinds; empty if it alone may be enough.

    A kind for which a repetition may be enough is one of those ``MOST_STEPS`` kinds, and has no step.
    """
    counts = Counter(map(_find_step, failures))
    known = [*(remedy.step for remedy in REMEDIES), AS_SAID, ""]
    largest = sorted(counts, key=lambda step: (-counts[step], known.index(step)))[:MOST_STEPS]
    return ", and ".join(step for step in largest if step)


def is_plain_refusal(failures: Iterable[Summary.Failure]) -> bool:
    """Whether the server has said all there is to say, as with HTTP 404: no step helps but another link."""
    return all(failure.kind == Refused.kind and failure.http_status not in LOGIN for failure in failures)


def _find_step(failure: Summary.Failure) -> str:
    code = _CODE.match(failure.message)
    if code is not None:
        from cfetch.base.refusals import find_known  # few refusals state a code

        known = find_known(code[1])
        if known is not None and known.next_step:
            return AS_SAID
    fitting = (
        remedy.step
        for remedy in REMEDIES
        if failure.kind in remedy.kinds and (not remedy.statuses or failure.http_status in remedy.statuses)
        if re.match(remedy.words, failure.message)
    )
    return next(fitting, "")
