"""The tree of errors: each class survives a journey to another process, and a copy."""

import copy
import pickle

import pytest

import cfetch
from cfetch.base import errors
from cfetch.base.errors import (
    CfetchError,
    Held,
    Incomplete,
    Interrupted,
    ManifestError,
    Problem,
    SourceError,
    Throttled,
    VolumeFault,
)
from cfetch.base.records import Summary
from cfetch.plugins.follow.backends import kinesis_api

CLASSES = [
    kind
    for home in (errors, kinesis_api)
    for kind in vars(home).values()
    if isinstance(kind, type) and issubclass(kind, CfetchError)
]


SUMMARY = Summary(
    instant="20260101000000000",
    status="partial",
    exit_code=1,
    files=Summary.Files(total=2, done=1, skipped=0, failed=1),
    bytes=Summary.Bytes(total=2, fetched=1, wasted=0),
    elapsed_s=1.0,
    rate_bps=1.0,
    retries=0,
    stragglers=Summary.Stragglers(detected=0, cancelled=0, hedged=0),
    fallback=Summary.Fallback(triggered=False, restored=False),
    failures=[],
    metrics=None,
)


def make_error(kind):
    """One of this class, each of its fields other than its default."""
    if issubclass(kind, ManifestError):
        return kind("list.csv", (Problem(3, "no url", "a"),), 7, table="faults.parquet")
    if issubclass(kind, Incomplete):
        return kind("missing: 1 of 2 files", SUMMARY)
    if issubclass(kind, Interrupted):
        return kind(15)
    if issubclass(kind, Held):
        return kind("held by pid 5", host="nas", pid=5, age_s=2.5, is_certain=False)
    if issubclass(kind, VolumeFault):
        return kind("disk full", no_room=True, denied=True)
    if issubclass(kind, Throttled):
        return kind("slow down", http_status=429, retry_after_s=7.0)
    if issubclass(kind, SourceError):
        return kind("not found", http_status=404)
    return kind("it happened")


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__qualname__)
@pytest.mark.parametrize(
    "send",
    [lambda error: pickle.loads(pickle.dumps(error)), copy.copy, copy.deepcopy],
    ids=["pickle", "copy", "deepcopy"],
)
def test_an_error_survives_pickle_and_copy(kind, send):
    """Type, text, arguments, fields and notes are the same; no ``__init__`` is in the way."""
    error = make_error(kind)
    error.add_note("beside it")
    arrived = send(error)
    assert type(arrived) is kind
    assert (str(arrived), arrived.args, arrived.__dict__) == (str(error), error.args, error.__dict__)
    assert arrived.__notes__ == ["beside it"]


def test_public_results_survive_pickle():
    """What ``cfetch.download`` takes, tells and returns can be sent to another process."""
    values = [
        SUMMARY,
        cfetch.Settings(to=("x",)),
        cfetch.Entry(url="https://a.test/f", size=3),
        cfetch.RunStarted(**dict.fromkeys(cfetch.RunStarted.__struct_fields__)),  # type: ignore[arg-type]
    ]
    assert [pickle.loads(pickle.dumps(value)) for value in values] == values
