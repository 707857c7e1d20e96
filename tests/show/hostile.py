"""Random metrics files: ordinary runs of every shape, and the same with numbers that no run can have.

``benchmarks/hostile_metrics.py`` gives them to the commands, the tests to the functions behind them.
"""

import json
from random import Random
from typing import Any

FAR = [1e9, 1e10, 1e12, 1e24, 1e30, 1e308, 5e-324, -1e-9, -1.0, -1e308]
BIG = [1 << 31, 1 << 40, (1 << 63) - 1, 1 << 63, 10**30, -1, -(1 << 63)]
ODD: list[object] = [float("nan"), float("inf"), float("-inf"), None, "text", [], {}, True, 0, 0.0, 2.5]
OUTCOMES = ["done", "straggler", "stalled", "error", "expired", "lost", "moved"]
POLICIES: list[dict[str, object]] = [
    {"policy": "adaptive"},
    {"policy": "cloudfetch"},
    {"mitigation": False},
    {},
]
DENSITIES = [0.0, 0.0, 0.001, 0.01, 0.1, 0.5]  # the share of the fields that are spoilt


def make_metrics(random: Random) -> str:
    """A metrics file: 1 to 50 hosts, whose files begin and end at any time; perhaps no file at all."""
    hosts = [f"h{n}" for n in range(random.choice([1, 2, 3, 50]))]
    files = random.choice([0, 1, 2, 30, 200])
    span_s = random.choice([0.0, 0.001, 1.0, 100.0, 1e6])
    records = [_make_file(random, index, random.choice(hosts), span_s) for index in range(files)]
    header: dict[str, Any] = {
        "schema": "cfetch.run/1",
        "instant": "i1",
        "wall_start": "2026-01-01T00:00:00Z",
        "version": "0.1.0",
        "host": "worker",
        "files": files,
        "concurrency": random.choice([1, 16, 64]),
        "settings": {"segments": 16, "limit_rate": 1000, "rate": 2.0, **random.choice(POLICIES)},
    }
    lines = [header, *records, *(_make_event(random, span_s) for _ in range(random.choice([0, 0, 3, 500])))]
    if random.random() < 0.3:
        lines.append(_make_end(random, span_s))
    density = random.choice(DENSITIES)
    return "".join(json.dumps(_spoil(random, line, density)) + "\n" for line in lines)


def _make_file(random: Random, index: int, host: str, span_s: float) -> dict[str, Any]:
    size = random.choice([0, 1, 1000, 1 << 20, 1 << 40])
    starts = sorted(random.uniform(0, span_s) for _ in range(random.choice([0, 1, 1, 1, 2, 9])))
    attempts = [_make_attempt(random, n, start_s, span_s, size) for n, start_s in enumerate(starts, start=1)]
    end_s = max((attempt["end_s"] for attempt in attempts), default=0.0) + random.choice([0.0, 0.0, span_s])
    status = random.choice(["done", "done", "done", "failed", "cancelled"]) if attempts else "skipped"
    is_failed = status == "failed"
    return {
        "schema": "cfetch.file/1",
        "instant": "i1",
        "id": index,
        "offset": index,
        "path": f"a/{index}",
        "host": host,
        "size_bytes": random.choice([size, None]),
        "bytes": size if status in {"done", "skipped"} else 0,
        "status": status,
        "verified": "size",
        "volume": "/v",
        "queued_s": 0.0,
        "start_s": starts[0] if starts else 0.0,
        "end_s": end_s,
        "rate_bps": size / max(end_s, 0.001),
        "stragglers": sum(attempt["outcome"] == "straggler" for attempt in attempts),
        "attempts": attempts,
        "error_kind": random.choice(["corrupt", "refused", None]) if is_failed else None,
        "error": "HTTP 403" if is_failed else None,
    }


def _make_attempt(random: Random, n: int, start_s: float, span_s: float, size: int) -> dict[str, Any]:
    end_s = start_s + random.choice([0.0, random.uniform(0, span_s)])
    first_s = random.choice([None, start_s, (start_s + end_s) / 2])
    times = sorted(random.uniform(start_s, end_s) for _ in range(random.choice([0, 0, 2, 32])))
    return {
        "n": n,
        "start_s": start_s,
        "first_byte_s": first_s,
        "end_s": end_s,
        "from_byte": random.choice([0, size // 2]),
        "bytes": random.choice([0, size // 2, size]),
        "http_status": 200,
        "outcome": random.choice(OUTCOMES) if random.random() < 0.3 else "done",
        "error": None,
        "peer": None,
        "median_bps": random.choice([None, 1e6]),
        "expected_s": random.choice([None, 1.0]),
        "samples": [[time_s, size * step // 33] for step, time_s in enumerate(times)],
        "mirror": random.choice([None, None, "m"]),
        "to_byte": random.choice([None, None, size]),
        "helper": n > 1 and random.random() < 0.3,
        "held_s": random.choice([None, 0.5]),
    }


def _make_event(random: Random, span_s: float) -> dict[str, Any]:
    kind = random.choice(["pause", "width", "slowdown", "of a later version"])
    fields = {"host": "h0", "places": 4, "before": 16, "seconds": 2.0, "reason": "HTTP 503"}
    return {"schema": "cfetch.event/1", "kind": kind, "t_s": random.uniform(0, span_s), **fields}


def _make_end(random: Random, span_s: float) -> dict[str, Any]:
    numbers = ("done", "skipped", "failed", "cancelled", "bytes", "wasted_bytes", "retries", "stragglers")
    bound = random.choice(["places", "slow file", "large file", "disk", "flush"])
    return {
        "schema": "cfetch.end/1",
        "instant": "i1",
        "t_s": span_s,
        "status": "partial",
        "exit_code": 1,
        **dict.fromkeys(numbers, 3),
        "saved_s": 1.5,
        "policy": "adaptive",
        "places": 16,
        "most": 64,
        "widths": {"h0": 4},
        "tail": {"bound": bound, "seconds": 2.0, "limit": 16, "path": "a/0", "rate_bps": 10.0, "fresh": 2},
    }


def _spoil(random: Random, value: object, density: float) -> object:
    """The document with a part of its fields replaced by hostile values, or missing."""
    if isinstance(value, dict):
        kept = {key: _spoil(random, each, density) for key, each in value.items()}
        lost = [key for key in kept if key not in {"schema", "instant"} and random.random() < density / 4]
        return {key: each for key, each in kept.items() if key not in lost}
    if isinstance(value, list):
        return [_spoil(random, each, density) for each in value]
    if isinstance(value, int | float) and not isinstance(value, bool) and random.random() < density:
        fitting = BIG if isinstance(value, int) else [*FAR, *BIG]
        return random.choice(fitting if random.random() < 0.8 else ODD)
    return value
