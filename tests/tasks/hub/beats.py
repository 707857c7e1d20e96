"""Beats of made-up tasks, and a task's end of a line to a real hub without a pool behind it."""

import socket
import struct

import msgspec

from cfetch.base.events import ActiveAttempt
from cfetch.straggler.merged import SpeedSample
from cfetch.tasks.hub.connection import HUB, TASK
from cfetch.tasks.hub.messages import (
    HEAD_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    Channel,
    Orders,
    TaskBeat,
    make_proof,
)

__all__ = ["MIB", "FakeTask", "attempt", "beat", "count_tasks", "samples"]

MIB = 1 << 20


def beat(task=1, *, executor="a", **more):
    return TaskBeat(**{"task": task, "executor": executor, **more})


def count_tasks(hub):
    """How many tasks the hub knows; of executors with names."""
    return sum(executor.tasks for executor in hub.view().executors)


def samples(rate, number, host="h"):
    """For a beat: files of 1 MiB at so many MiB/s."""
    return {"samples": [SpeedSample(host, MIB, rate * MIB)] * number, "finished": number}


def attempt(number=0, *, rate=1.0, elapsed_s=3.0, size_bytes=MIB):
    return ActiveAttempt(
        id=number,
        path=f"f{number}",
        host="h",
        size_bytes=size_bytes,
        bytes=10,
        rate_bps=rate * MIB,
        elapsed_s=elapsed_s,
        expected_s=None,
        n=1,
        state="ok",
    )


class FakeTask:
    """A blocking socket that says what it is told; ``key`` may be a wrong one."""

    def __init__(self, at, key=None):
        self.key = bytes.fromhex(at.key.reveal()) if key is None else key
        self.socket = socket.create_connection((at.host, at.port), timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def meet(self):
        """Prove who one is, and check the hub's proof."""
        own, other = bytes(NONCE_BYTES), self.read(NONCE_BYTES)
        self.socket.sendall(own + make_proof(self.key, TASK, own, other))
        assert self.read(PROOF_BYTES) == make_proof(self.key, HUB, other, own)
        self.outgoing = Channel(self.key, TASK, other, own)
        self.incoming = Channel(self.key, HUB, other, own)
        return self

    def say(self, one):
        self.socket.sendall(self.outgoing.seal(msgspec.msgpack.encode(one)))

    def ask(self, one, kind=Orders):
        self.say(one)
        return self.hear(kind)

    def hear(self, kind=Orders):
        head = self.read(HEAD_BYTES)
        data = self.read(int.from_bytes(head[:4]))
        assert self.incoming.is_genuine(head[4:], data)
        return msgspec.msgpack.decode(data, type=kind)

    def read(self, size):
        data = b""
        while len(data) < size:
            more = self.socket.recv(size - len(data))
            if not more:
                raise EOFError
            data += more
        return data

    def is_closed(self):
        """Whether the hub has ended the connection, after whatever it had to say."""
        try:
            while self.socket.recv(4096):
                pass
        except ConnectionError:
            pass
        return True

    def vanish(self):
        """Without a word, as a killed task."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()
