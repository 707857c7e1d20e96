"""The hub over real sockets: tasks that belong to the run, and everything that does not."""

import socket
from contextlib import ExitStack, contextmanager

import msgspec
import pytest

from cfetch.base.clock import SystemClock
from cfetch.base.config.straggler import StragglerConfig
from cfetch.tasks.hub import registry
from cfetch.tasks.hub import server as module
from cfetch.tasks.hub.connection import TASK
from cfetch.tasks.hub.leases import Demand
from cfetch.tasks.hub.messages import KEY_BYTES, MOST_BEAT_BYTES, NONCE_BYTES, PROOF_BYTES, make_proof
from cfetch.tasks.hub.registry import TaskRegistry
from cfetch.tasks.hub.server import HubPlace, open_hub
from tests.tasks.hub.beats import FakeTask, beat, count_tasks, samples


@contextmanager
def running(per_host=None):
    with open_hub(TaskRegistry(StragglerConfig(), per_host), HubPlace("127.0.0.1"), SystemClock()) as hub:
        yield hub


def is_served(hub):
    """A task of the run is."""
    with FakeTask(hub.address) as task:
        return task.meet().ask(beat(99)).answers


def test_a_beat_is_answered():
    """Over one connection, again and again; what the hub knows is there to be looked at."""
    with running(per_host=3) as hub, FakeTask(hub.address) as task:
        task.meet()
        assert task.ask(beat(7, demands={"h": Demand(0, 0, 9)})).leases == {"h": 3}
        assert task.ask(beat(7, demands={"h": Demand(3, 3, 9)}, **samples(1, 9))).median_bps == 1 << 20
        assert count_tasks(hub) == 1


def test_a_stop_is_told_at_once():
    """Without being asked; and to those who come later."""
    with running() as hub, FakeTask(hub.address) as task, FakeTask(hub.address) as later:
        task.meet().ask(beat(1))
        hub.stop()
        orders = task.hear()
        assert (orders.stop, orders.answers) == (True, False)
        assert later.meet().ask(beat(2)).stop


def sent(hub, data):
    """Say something and wait for the end of the connection."""
    with FakeTask(hub.address) as stranger:
        stranger.socket.sendall(data)
        return stranger.is_closed()


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n" * 9, bytes(4096), b"\xff" * 100], ids=len)
def test_garbage_ends_its_connection_and_nothing_else(data):
    """Not one byte of it is taken for a message."""
    with running() as hub:
        assert sent(hub, data)
        assert is_served(hub)
        assert count_tasks(hub) == 1


def test_a_wrong_key_is_told_nothing():
    """The hub proves nothing to one who has proved nothing."""
    with running() as hub, FakeTask(hub.address, bytes(KEY_BYTES)) as stranger:
        other = stranger.read(NONCE_BYTES)
        own = bytes(NONCE_BYTES)
        stranger.socket.sendall(own + make_proof(stranger.key, TASK, own, other))
        with pytest.raises(EOFError):
            stranger.read(1)
        assert is_served(hub)


def test_what_was_heard_on_one_connection_is_worth_nothing_on_another():
    """The hub asks each for another proof."""
    with running() as hub, FakeTask(hub.address) as task, FakeTask(hub.address) as thief:
        own, other = bytes(NONCE_BYTES), task.read(NONCE_BYTES)
        said = own + make_proof(task.key, TASK, own, other)
        task.socket.sendall(said)
        assert len(task.read(PROOF_BYTES)) == PROOF_BYTES
        thief.socket.sendall(said)
        assert thief.read(NONCE_BYTES) != other
        with pytest.raises(EOFError):
            thief.read(1)


@pytest.mark.parametrize("what", ["forged", "said twice", "too large", "no beat"])
def test_a_bad_message_ends_a_known_tasks_connection(what, monkeypatch):
    """At once. Somebody is in between, or it is not this package: the task comes again."""
    monkeypatch.setattr(module, "SILENT_S", 600.0)
    with running() as hub, FakeTask(hub.address) as task:
        task.meet()
        data = task.outgoing.seal(b"\x90" if what == "no beat" else msgspec.msgpack.encode(beat(5)))
        if what == "forged":
            data = data[:-1] + bytes([data[-1] ^ 1])
        elif what == "too large":
            data = (MOST_BEAT_BYTES + 1).to_bytes(4) + data[4:]
        elif what == "said twice":
            data += data
        task.socket.sendall(data)
        assert task.is_closed()
        assert count_tasks(hub) == (what == "said twice")
        assert is_served(hub)


def test_one_who_says_nothing_is_not_waited_for(monkeypatch):
    """Nor one who says it byte by byte; the others are served meanwhile."""
    with running() as hub:
        with monkeypatch.context() as patch:
            patch.setattr(module, "MEETING_S", 0.2)
            silent, slow = FakeTask(hub.address), FakeTask(hub.address)
            assert silent.read(NONCE_BYTES)
            assert slow.read(NONCE_BYTES)
        with silent, slow:  # only of these two: a busy machine may need longer for the third
            slow.socket.sendall(b"x")
            assert is_served(hub)
            assert silent.is_closed()
            assert slow.is_closed()


def test_a_task_that_falls_silent_is_not_waited_for(monkeypatch):
    """Nor one that stops in the middle of a message."""
    with running() as hub:
        with monkeypatch.context() as patch, FakeTask(hub.address) as silent, FakeTask(hub.address) as slow:
            patch.setattr(module, "SILENT_S", 0.2)
            silent.meet()
            slow.meet().socket.sendall(slow.outgoing.seal(b"x" * 100)[:50])
            assert silent.is_closed()
            assert slow.is_closed()
        assert is_served(hub)


def test_too_many_unproved_are_turned_away(monkeypatch):
    """They take no place of a task that has one."""
    monkeypatch.setattr(module, "MOST_UNPROVED", 2)
    monkeypatch.setattr(module, "MEETING_S", 600.0)  # the first two stay, however slow the machine is
    with running() as hub, ExitStack() as stack:
        task = stack.enter_context(FakeTask(hub.address)).meet()
        strangers = [stack.enter_context(FakeTask(hub.address)) for _ in range(2)]
        for stranger in strangers:
            assert stranger.read(NONCE_BYTES)
        with FakeTask(hub.address) as third, pytest.raises(EOFError):
            third.read(1)
        assert task.ask(beat(1)).answers


def test_two_hundred_tasks(monkeypatch):
    """All are heard, and together have no more than there may be; half of them are killed.

    The test asks for one after the other, and none is silent for too long however slow the machine is.
    """
    monkeypatch.setattr(module, "SILENT_S", 600.0)
    monkeypatch.setattr(registry, "SILENT_S", 600.0)
    with running(per_host=150) as hub, ExitStack() as stack:
        tasks = [stack.enter_context(FakeTask(hub.address)).meet() for _ in range(200)]
        demand = {"h": Demand(0, 0, 4)}
        leases = [
            task.ask(beat(n, executor=f"e{n % 9}", demands=demand)).leases for n, task in enumerate(tasks)
        ]
        assert sum(lease["h"] for lease in leases) == 150
        for task in tasks[::2]:
            task.vanish()
        living = [(n, task) for n, task in enumerate(tasks) if n % 2]
        assert all(task.ask(beat(n, executor=f"e{n % 9}")).answers for n, task in living)
        assert count_tasks(hub) == 200  # a killed one may come again, and is missed for a while


def test_a_hub_that_ends_closes_its_connections():
    """And its port is free."""
    with running() as hub, FakeTask(hub.address) as task:
        task.meet().ask(beat(1))
        hub.close()
        assert task.is_closed()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((hub.address.host, hub.address.port))


def test_an_address_of_somebody_else_is_told_before_anything_starts():
    """The caller goes on without."""
    with (
        pytest.raises(OSError),
        open_hub(TaskRegistry(StragglerConfig(), None), HubPlace("192.0.2.1"), SystemClock()),
    ):
        pass


def test_the_key_is_not_shown():
    """In a log or in a traceback."""
    with running() as hub:
        assert hub.address.key.reveal() not in f"{hub.address!r}"


def test_the_hub_takes_the_port_that_it_is_given_and_no_other():
    """For networks that let executors reach named ports only."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = HubPlace("127.0.0.1", port=taken.getsockname()[1])
        with pytest.raises(OSError), open_hub(TaskRegistry(StragglerConfig(), None), place, SystemClock()):
            pass
