"""Strict JSON: text that Python's decoder wrongly accepts or fails on becomes a value that no check accepts.

Duplicate keys (the last would win silently), ``NaN`` and ``Infinity``, and integers too long to convert
decode to a ``Misfit``. As nothing is raised in the middle of a row, all of its faults are reported at once.
"""

import json
import re
from typing import Any

from cfetch.manifest.faults import BrokenDocumentError, Misfit, quoted_key

# 2**64 has 20; longer integers are out of every range here, and Python refuses 4,301 digits.
MAX_INT_DIGITS = 20
NESTED_TOO_DEEP = "it is nested too deeply; a manifest needs four levels"

_DIGITS = re.compile(rf"[0-9]{{1,{MAX_INT_DIGITS}}}\Z")


def read_digits(text: str, misfit: str) -> int | Misfit:
    """The number that is written in digits; else a ``Misfit`` with this reason."""
    return int(text) if _DIGITS.match(text) else Misfit(misfit)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | Misfit:
    fields = dict(pairs)
    if len(fields) == len(pairs):
        return fields
    seen: set[str] = set()
    twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
    return Misfit(f"an object with the key {quoted_key(twice)} given twice")


def _integer(text: str) -> int | Misfit:
    return int(text) if len(text) <= MAX_INT_DIGITS else Misfit(f"an integer of {len(text)} digits")


def _constant(text: str) -> Misfit:
    return Misfit(f"{text}, which is not JSON")


DECODER = json.JSONDecoder(object_pairs_hook=_object, parse_int=_integer, parse_constant=_constant)


def decode_text(text: str, line: int) -> Any:  # noqa: ANN401 - JSON is any value
    """Decode one whole text.

    Raises:
        BrokenDocumentError: it is not JSON; ``line`` is the line at which the text begins.
    """
    try:
        return DECODER.decode(text)
    except json.JSONDecodeError as error:
        where = line + text.count("\n", 0, error.pos)
        raise BrokenDocumentError(where, f"it is not JSON: {error.msg} at column {error.colno}") from None
    except RecursionError:
        raise BrokenDocumentError(line, NESTED_TOO_DEEP) from None
