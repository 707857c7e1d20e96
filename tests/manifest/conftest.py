"""Freeze a manifest given as text, and look at its faults."""

import io
import itertools

import pytest

from cfetch.base.errors import ManifestError
from tests.manifest.frozen import freeze


@pytest.fixture
def frozen(tmp_path):
    """A function: text or bytes -> plan. Plans are closed after the test."""
    numbers = itertools.count()
    plans = []

    def make(content, name="m.json", **options):
        directory = tmp_path / f"plan{next(numbers)}"
        directory.mkdir()
        data = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        plan = freeze(io.BytesIO(data), name=name, directory=directory, **options)
        plans.append(plan)
        return plan

    yield make
    for plan in plans:
        plan.close()


@pytest.fixture
def clashes_of(frozen):
    """A function: text or bytes -> line and message of each entry that fails as its name is another's."""

    def make(content, name="m.json", **options):
        return [
            (entry.line, entry.clash.message)
            for entry in frozen(content, name, **options).entries()
            if entry.clash is not None
        ]

    return make


@pytest.fixture
def error_of(frozen):
    """A function: text or bytes -> the ManifestError that freezing it raises."""

    def make(content, name="m.json", **options):
        with pytest.raises(ManifestError) as caught:
            frozen(content, name, **options)
        return caught.value

    return make
