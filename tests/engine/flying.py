"""Attempts under way without a fetcher: for tests of those who read them."""

from types import SimpleNamespace
from typing import Any

from cfetch.base.config.settings import Settings
from cfetch.engine.attempts_under_way import AttemptsUnderWay
from cfetch.engine.hosts import Hosts
from cfetch.straggler.detector import Detector
from cfetch.wire.retry import Limits

__all__ = ["new_flights", "new_transfer"]


def new_flights(policy=None, hosts=None, emit=lambda _: None):
    """Nothing is under way; what is learned goes to a policy and hosts of their own unless given."""
    return AttemptsUnderWay(
        policy or Detector(Settings().straggler),
        hosts or Hosts(100, Limits(5, 60.0)),
        emit,
        jitter=lambda: 0.5,
    )


def new_transfer(entry_id: int = 0) -> Any:
    """As much of a transfer as an attempt's start and end ask for."""
    return SimpleNamespace(
        entry=SimpleNamespace(id=entry_id, size_bytes=100, digest=None),
        verified="none",
        attempts=[],
        tries=SimpleNamespace(mitigations=0),
        part=SimpleNamespace(position=0),
        may_resume=lambda: False,
    )
