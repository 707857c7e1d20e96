"""The hub of all frames of a driver keeps them apart, and the sources of Spark get it too."""

import pytest

from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.config.wire import NO_LIMITS
from cfetch.tasks.hub.leases import Demand
from cfetch.tasks.hub.messages import SharedRun
from tests.tasks.hub.beats import beat

pytest.importorskip("pyspark")

from cfetch.plugins.spark import _register_source, register
from cfetch.plugins.spark.frames.frame_hub import KEPT_S, FrameRegistry, open_frame_hub


def limits(run, per_host):
    """Of a frame."""
    return SharedRun(run=run, config=StragglerConfig(), per_host=per_host, rates=NO_LIMITS)


def test_each_frame_has_its_own_limits_and_is_forgotten_when_it_is_over():
    """Two tasks of one frame share three connections; a task of another frame has its own."""
    hub = FrameRegistry()

    def ask(task, run, per_host, now_s):
        wants = {"h": Demand(0, 0, 9)}
        return hub.answer(beat(task, demands=wants, limits=limits(run, per_host)), now_s).leases["h"]

    assert ask(1, "a", 3, 0.0) == 3
    assert ask(2, "a", 3, 0.5) < 3
    assert ask(2, "b", 5, 0.5) == 5
    assert ask(3, "c", 5, KEPT_S + 1) == 5
    assert set(hub._frames) == {"c"}


def test_sources_know_the_hub_of_the_driver(spark, monkeypatch):
    """A source is planned in a process without a session, so the registered class has the address."""
    registered = []
    monkeypatch.setattr(
        f"{_register_source.__module__}.{_register_source.__name__}",
        lambda _, source: registered.append(source.hub),
    )
    register(spark)
    hub = open_frame_hub(spark)
    assert hub is not None
    assert registered == [hub.address] * 4
