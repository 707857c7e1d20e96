"""How many processes share a plan: the number that was asked for, or as many as make it faster."""

import os

import pytest

from cfetch.app import engines
from cfetch.app.engines import count_cores
from cfetch.app.process_count import (
    LEAST_BYTES,
    LEAST_FILES,
    MOST_FILES,
    SMALL_BYTES,
    Work,
    choose_processes,
)
from cfetch.base.config.settings import Settings

MANY = Work(10 * LEAST_FILES, 0, [0])
GIB = 1 << 30


@pytest.mark.parametrize(
    ("work", "options", "machine", "processes"),
    [
        (MANY, {}, 8, 4),
        (MANY, {}, 4, 2),
        (MANY, {}, 3, 2),
        (MANY, {}, 2, 2),
        (MANY, {}, 1, 1),
        (MANY, {}, 1000, 4),
        (MANY, {"concurrency": 64}, 1000, 10),
        (MANY, {"concurrency": 15}, 1000, 3),
        (Work(2 * LEAST_FILES - 1, 0, [0]), {}, 8, 1),
        (Work(2 * LEAST_FILES, 0, [0]), {}, 8, 2),
        (Work(MANY.files, MANY.files * SMALL_BYTES, [GIB << 10]), {}, 8, 4),
        (Work(MANY.files, MANY.files * SMALL_BYTES + 1, [GIB << 10]), {}, 8, 1),
        (Work(1000, 2 * LEAST_BYTES, [1]), {}, 2, 2),
        (Work(1000, 2 * LEAST_BYTES - 1, [1]), {}, 2, 1),
        (Work(1000, 100 * LEAST_BYTES, [1]), {}, 8, 4),
        (Work(1000, 100 * LEAST_BYTES, [1]), {"concurrency": 64}, 8, 4),
        (Work(64, 64 * GIB, [GIB]), {}, 8, 2),
        (Work(64, 64 * GIB, [GIB + 1]), {}, 8, 1),
        (Work(4, 4 * GIB, [GIB]), {}, 8, 1),
        (Work(1000, 100 * LEAST_BYTES, [1]), {"limit_rate": 1 << 20}, 8, 1),
        (Work(MOST_FILES + 1, 0, [0]), {}, 8, 1),
        (MANY, {"limit_rate": 1 << 20}, 8, 1),
        (MANY, {"limit_rate_per_host": 1 << 20}, 8, 1),
        (MANY, {"concurrency": 3}, 8, 1),
        (MANY, {"processes": 3, "concurrency": 3}, 8, 3),
        (MANY, {"per_host": 2}, 8, 2),
        (Work(0, 0, [0]), {}, 8, 1),
        (MANY, {"processes": 1}, 8, 1),
        (Work(100, 1 << 40, [0]), {"processes": 3}, 1, 3),
        (Work(2, 0, [0]), {"processes": 3}, 1, 2),
        (Work(100, 0, [0]), {"processes": 8, "concurrency": 5}, 1, 5),
        (Work(100, 0, [0]), {"processes": 8, "per_host": 2}, 1, 2),
        (Work(0, 0, [0]), {"processes": 8}, 1, 1),
    ],
)
def test_as_many_as_pay_unless_a_number_is_given(work, options, machine, processes):
    """Half of the cores, at least two if there are two; a given number counts as far as limits permit."""
    assert choose_processes(work, Settings(**options), cores=machine) == processes


@pytest.mark.parametrize(
    ("quota", "count"), [("max 100000", 8), ("250000 100000", 2), ("50000 100000", 1), ("", 8), (None, 8)]
)
def test_a_containers_quota_counts(tmp_path, monkeypatch, quota, count):
    """It is less than the machine has."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(8))
    monkeypatch.setattr(engines, "_QUOTA", tmp_path / "cpu.max")
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota)
    assert count_cores() == count
