"""Damages a sample step by step. A step is three numbers, so that hypothesis can shrink a list of them.

A step does what a person, a disk or an enemy does: another value or key in JSON, lines lost or doubled, bytes
flipped, cut, repeated, or taken from another sample. What a step cannot do to a sample leaves it as it is.
"""

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from hypothesis import strategies as st

Step = tuple[int, int, int]
MOST_BYTES = 128 << 10  # an honest reader takes a second for rows of two bytes, on a busy machine three
RAW = "\ue000raw\ue000"  # stands for JSON text that Python would not write

VALUES = (
    "null", "true", "-1", "0", "1", "1.5", "-0.0", "1e308", "1e400", "NaN", "-Infinity",
    "9223372036854775807", "9223372036854775808", "18446744073709551616", "-9223372036854775809", "1" * 400,
    "1" * 5000, '""', '"a"', '"\\u0000"', '"\\ud800"', '"\\u202e\\u001b[2J"', '"../../x"', '"/etc/passwd"',
    '"http://h/a"', '"http://[::1/"', '"//h/%2e%2e/a"', '"2026-01-01T00:00:00Z"',
    '"0001-01-01T00:00:00+23:59"', '"9999-12-31T23:59:59-23:59"', "[]", "{}", "[[]]", "[null]", '{"": 1}',
    '{"a": 1, "a": 2}', "[" * 2000 + "]" * 2000, '{"a":' * 2000 + "1" + "}" * 2000, "[" * 100_000,
    '"' + "é" * 300 + '"', '"' + "a" * 5000 + '"', '"' + "ab" * 32 + '"', '"' + "f" * 32 + "-" + '"', "1_0",
    "01", "+1", "0x10", '"\U0001f4a9"', '"a/b"', '"a\\\\b"', '"."', '"~"', '".cfetch/x"', '"-0"', '"1e5"',
    "[1,2]", '[["a",1]]', '"\\r\\n"',
)  # fmt: skip
TOKENS = (
    b"\x00", b"\xff", b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x00\x00\x00", b"\n", b"\r", b"\r\n",
    b"\t", b" ", b'"', b"'", b"\\", b"{", b"}", b"[", b"]", b",", b":", b"#", b"=", b"<", b">", b"&",
    b"%00", b"%2F..", b"\xef\xbb\xbf", b"\xc0\x80", b"\xed\xa0\x80", "\u202e".encode(), "\u2028".encode(),
    "é".encode(), b"<!DOCTYPE a [<!ENTITY b 'c'>]>", b"&b;", b"<![CDATA[", b"<!--", b"PAR1",
    b"\x1f\x8b\x08\x00", b"\x28\xb5\x2f\xfd", b"http://h/a", b"url", b"-1", b"9" * 30, b"\xc1",
    b"\xdf\xff\xff\xff\xff", b"\xdd\xff\xff\xff\xff", b"\xc6\xff\xff\xff\xff",
    b"\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01", b"&anchor", b"*anchor", b"!!python", b"? ", b"- ", b": ",
    b"|", b"%YAML 9", b"---\n",
)  # fmt: skip
_NUMBER = re.compile(rb"[0-9]+")


def mutations(samples: Sequence[bytes], *, most_bytes: int) -> st.SearchStrategy[bytes]:
    """Samples after some steps; each stays below ``most_bytes``."""
    small = st.integers(0, 2**16 - 1)
    steps = st.lists(st.tuples(st.integers(0, len(_ACTIONS) - 1), small, small), max_size=8)
    return st.builds(
        lambda start, walk: mutate(samples, start, walk, most_bytes),
        st.integers(0, len(samples) - 1),
        steps,
    )


def mutate(samples: Sequence[bytes], start: int, steps: Sequence[Step], most_bytes: int) -> bytes:
    """``samples[start]`` after ``steps``."""
    data = samples[start]
    for action, first, second in steps:
        changed = _ACTIONS[action](data, first, second, samples)
        if len(changed) <= most_bytes:
            data = changed
    return data


def _flip(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    if not data:
        return data
    where = (first << 16 | second) % (8 * len(data))
    return data[: where // 8] + bytes([data[where // 8] ^ 1 << where % 8]) + data[where // 8 + 1 :]


def _set(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    where = first % (len(data) + 1)
    return data[:where] + bytes([second & 255]) + data[where + 1 :]


def _cut(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    where = first % (len(data) + 1)
    return data[:where] + data[where + second % 64 :]


def _end(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    return data[: first % (len(data) + 1)]


def _insert(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    where = first % (len(data) + 1)
    return data[:where] + TOKENS[second % len(TOKENS)] + data[where:]


def _overwrite(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    where, token = first % (len(data) + 1), TOKENS[second % len(TOKENS)]
    return data[:where] + token + data[where + len(token) :]


def _repeat(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    where, size = first % (len(data) + 1), 1 + second % 61
    return data[:where] + data[where : where + size] * (2 + second % 5) + data[where + size :]


def _repeat_often(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    """Long enough for what takes quadratic time or a hundred times the memory."""
    where, size = first % (len(data) + 1), 1 + second % 40
    return data[:where] + data[where : where + size] * (1 << (second >> 3) % 19) + data[where + size :]


def _fill(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    where = first % (len(data) + 1)
    return data[:where] + TOKENS[second % len(TOKENS)] * (1 << (second >> 6) % 20) + data[where:]


def _splice(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    other = samples[second % len(samples)]
    where = first % (len(data) + 1)
    return data[:where] + other[first % (len(other) + 1) :]


def _number(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    places = list(_NUMBER.finditer(data[: 1 << 16]))
    if not places:
        return data
    begin, end = places[first % len(places)].span()
    return data[:begin] + VALUES[second % len(VALUES)].encode() + data[end:]


def _lines(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    lines = data.splitlines(keepends=True)
    if not lines:
        return data
    where = first % len(lines)
    if second % 3 == 0:
        del lines[where]
    elif second % 3 == 1:
        lines.insert(second % len(lines), lines[where])
    else:
        lines[where], lines[0] = lines[0], lines[where]
    return b"".join(lines)


def _json(data: bytes, first: int, second: int, samples: Sequence[bytes]) -> bytes:
    """Another value, a lost key, a strange key or a doubled one, somewhere in a document or in a line."""
    lines = [data]
    where = 0
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        lines = data.splitlines(keepends=True)
        if not lines:
            return data
        where = first % len(lines)
        try:
            tree = json.loads(lines[where])
        except (ValueError, RecursionError):
            return data
    raw = VALUES[second % len(VALUES)]
    try:
        places = list(_places([tree]))
        holder, key = places[first % len(places)]
        kind = second // len(VALUES) % 8
        if kind == 0 and isinstance(holder, dict):
            del holder[key]
        elif kind == 1 and isinstance(holder, dict):
            holder["\ue001"] = holder[key]
            raw = str(key)
        elif kind == 2 and isinstance(holder, dict):
            holder[("x", "", "é", "\x00", str(key).upper())[second % 5]] = holder[key]
        elif kind == 3 and isinstance(holder, list) and len(holder) < 1000:
            holder[:] = holder * 2
        elif holder is not None:
            holder[key] = RAW
        if len(places) == 1:
            tree = RAW
        text = json.dumps(tree)
    except (ValueError, RecursionError):
        return data
    escaped = json.dumps(RAW)
    text = text.replace(escaped, raw).replace(r"\ue001", raw)
    if lines[where].endswith(b"\n"):
        text += "\n"
    lines[where] = text.encode("utf-8", "surrogatepass")
    return b"".join(lines)


def _places(top: object) -> "list[tuple[Any, Any]]":
    places: list[tuple[Any, Any]] = []
    waiting: list[Any] = [top]
    while waiting and len(places) < 5000:
        holder = waiting.pop()
        items = holder.items() if isinstance(holder, dict) else enumerate(holder)
        for key, value in items:
            places.append((holder, key))
            if isinstance(value, dict | list):
                waiting.append(value)
    return places


_Action = Callable[[bytes, int, int, Sequence[bytes]], bytes]
_ACTIONS: tuple[_Action, ...] = (
    _json, _json, _json, _json, _json, _json, _json, _number, _number, _flip, _flip, _set, _cut, _cut, _end,
    _insert, _insert, _overwrite, _repeat, _lines, _lines, _splice, _repeat_often, _fill,
)  # fmt: skip
