"""Processes that ask for shares over a real hub, and a dealer that notes what it is told."""

import queue
from contextlib import contextmanager

from cfetch.base.clock import SystemClock
from cfetch.base.config.straggler import StragglerConfig
from cfetch.tasks.hub import claims
from cfetch.tasks.hub.messages import Dealt, ShareClaim, ShareEnded, StillAlive, TaskFault
from cfetch.tasks.hub.registry import TaskRegistry
from cfetch.tasks.hub.server import HubPlace, open_hub
from tests.tasks.hub.beats import FakeTask

FULL = TaskFault("full", is_volumes=True)
CLAIM = ShareClaim(executor="a")


class Noted:
    """A dealer with these tasks to give; ``heard`` has its calls, in their order."""

    def __init__(self, *tasks):
        self.left = list(tasks)
        self.heard = queue.Queue[tuple[object, ...]]()
        self.is_over = False

    def claim(self, executor):
        task = self.left.pop(0) if self.left else None  # else a share lost since it was heard would be given
        self.heard.put(("claim", executor))
        return task

    def renew(self, task):
        self.heard.put(("renew", task))

    def end(self, ended):
        self.is_over = not self.left
        self.heard.put(("end", ended.task, ended.fault))

    def lose(self, task):
        self.left.append(task + 100)
        self.heard.put(("lose", task))

    def wait_for(self, *call):
        """Pass over what was heard before this call."""
        while self.heard.get(timeout=60) != call:
            pass


@contextmanager
def dealing(*tasks):
    dealer = Noted(*tasks)
    with open_hub(TaskRegistry(StragglerConfig(), None), HubPlace("127.0.0.1"), SystemClock()) as hub:
        hub.deal_by(dealer)
        yield hub, dealer


def test_a_process_gets_one_share_after_the_other_until_all_are_over():
    """Its signs of life and the ends of its shares reach the dealer, with the fault that ended one."""
    with dealing(1, 2) as (hub, dealer), FakeTask(hub.address) as process:
        assert process.meet().ask(CLAIM, Dealt).task == 1
        process.say(StillAlive(task=1))
        dealer.wait_for("renew", 1)
        process.say(ShareEnded(task=1, fault=FULL))
        assert process.ask(CLAIM, Dealt).task == 2
        dealer.wait_for("end", 1, FULL)
        process.say(ShareEnded(task=2))
        assert process.ask(CLAIM, Dealt) == Dealt(is_over=True)


def test_a_process_that_dies_with_a_share_loses_it_to_one_that_waits(monkeypatch):
    """Whoever waits gets it at once; a process that dies with no share leaves nothing behind."""
    monkeypatch.setattr(claims, "ANSWER_S", 600.0)
    monkeypatch.setattr(claims, "LOOK_S", 600.0)
    with dealing(1) as (hub, dealer), FakeTask(hub.address) as waiting, FakeTask(hub.address) as idle:
        with FakeTask(hub.address) as dying:
            assert dying.meet().ask(CLAIM, Dealt).task == 1
            waiting.meet().say(CLAIM)
            dealer.wait_for("claim", "a")
            dealer.wait_for("claim", "a")
            dying.vanish()
        assert waiting.hear(Dealt).task == 101
        dealer.wait_for("lose", 1)
        dealer.wait_for("claim", "a")
        idle.meet().say(CLAIM)
        dealer.wait_for("claim", "a")
        idle.vanish()
    lost = {call for call in dealer.heard.queue if call[0] == "lose"}
    assert lost <= {("lose", 101)}  # by the one that waited, if the hub sees it leave before it ends itself


def test_a_process_is_told_to_ask_again_and_a_silent_one_loses_its_share(monkeypatch):
    """Nobody waits for ever: neither for a share, nor for a process that stands still."""
    monkeypatch.setattr(claims, "ANSWER_S", 0.1)
    monkeypatch.setattr(claims, "LOOK_S", 0.1)
    with dealing(1) as (hub, dealer), FakeTask(hub.address) as frozen, FakeTask(hub.address) as other:
        assert frozen.meet().ask(CLAIM, Dealt).task == 1
        assert other.meet().ask(CLAIM, Dealt) == Dealt()
        with monkeypatch.context() as patch:
            patch.setattr(claims, "TICK_S", 0.001)
            frozen.say(StillAlive(task=1))
            dealer.wait_for("lose", 1)
            assert frozen.is_closed()
        with FakeTask(hub.address) as third:
            third.meet()
            while (dealt := third.ask(CLAIM, Dealt)).task is None:
                assert not dealt.is_over
            assert dealt.task == 101


def test_who_talks_of_a_share_that_it_does_not_have_is_not_heard():
    """Its connection ends, and the share of another process stays where it is."""
    with dealing(1) as (hub, dealer), FakeTask(hub.address) as process, FakeTask(hub.address) as other:
        assert process.meet().ask(CLAIM, Dealt).task == 1
        other.meet().say(ShareEnded(task=1))
        assert other.is_closed()
        process.say(StillAlive(task=1))
        dealer.wait_for("renew", 1)
    assert not any(call[0] == "end" for call in dealer.heard.queue)
