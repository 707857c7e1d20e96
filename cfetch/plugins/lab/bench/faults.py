"""The faults of the origin and the files that have them: an exact number, the same for the same seed.

A file has a script: each of its faults covers the file's next ``first`` requests, and requests after the last
fault are served well. A fraction is an exact number of files (``round(fraction * n)``), not drawn for each
file: one file more than planned can make two waves of stragglers and double the time of a bench.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from cfetch.base.errors import ConfigError

Kind = Literal["slow", "stall", "delay", "status", "reset", "truncate"]

KINDS: Mapping[Kind, str] = {
    "slow": "rate_bps",
    "stall": "after_bytes",
    "delay": "delay_s",
    "status": "status",
    "reset": "after_bytes",
    "truncate": "after_bytes",
}


class Fault(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One way to misbehave, for the next ``first`` GET requests of a file (0: for ever).

    slow: the body at ``rate_bps``, evenly. stall: nothing more after ``after_bytes`` of body. delay:
    ``delay_s`` before the headers. status: a reply with this status instead, with ``retry_after_s`` as
    Retry-After if given. reset: RST after ``after_bytes``. truncate: a plain close after ``after_bytes``. A
    stall, reset or truncate always withholds the last byte of a body, however small the file is.

    Raises:
        ConfigError: the field that ``kind`` needs is missing or out of its range.
    """

    kind: Kind
    first: int = 1
    rate_bps: float | None = None
    after_bytes: int | None = None
    delay_s: float | None = None
    status: int | None = None
    retry_after_s: int | None = None

    def __post_init__(self) -> None:
        needed = KINDS[self.kind]
        value = getattr(self, needed)
        if value is None:
            raise ConfigError(f"a fault of kind {self.kind!r} needs {needed!r}")
        low, high = (300, 599) if needed == "status" else (1e-9, 1e12) if needed == "rate_bps" else (0, 1e15)
        if not low <= value <= high:
            raise ConfigError(
                f"{needed!r} of a fault of kind {self.kind!r} is {value}, not between {low:g} and {high:g}"
            )
        if self.first < 0:
            raise ConfigError(f"'first' of a fault is {self.first}; it counts requests, and 0 means all")


Script = Fault | Sequence[Fault]


class FaultRule(msgspec.Struct, frozen=True, kw_only=True):
    """``fault`` for exactly ``round(fraction * n)`` of n files."""

    fraction: float
    fault: Fault

    def __post_init__(self) -> None:
        if not 0 <= self.fraction <= 1:
            raise ConfigError(f"'fraction' of a fault is {self.fraction}, not between 0 and 1")


def draw(names: Sequence[str], rules: Sequence[FaultRule], seed: int) -> dict[str, tuple[Fault, ...]]:
    """Draw the faulty files and their faults; no file gets two.

    Raises:
        ConfigError: the fractions together ask for more files than there are.
    """
    counts = [round(rule.fraction * len(names)) for rule in rules]
    if sum(counts) > len(names):
        raise ConfigError(
            f"the 'fraction's of all faults ask for {sum(counts)} files, but there are {len(names)}"
        )
    chosen = iter(random.Random(seed).sample(names, sum(counts)))  # noqa: S311 - reproducible, not secret
    return {
        next(chosen): (rule.fault,) for rule, count in zip(rules, counts, strict=True) for _ in range(count)
    }


def fault_for(script: Script | None, n: int) -> Fault | None:
    """The fault for the ``n``-th request (from 1) of a file."""
    if script is None:
        return None
    for fault in (script,) if isinstance(script, Fault) else script:
        if fault.first == 0 or n <= fault.first:
            return fault
        n -= fault.first
    return None
