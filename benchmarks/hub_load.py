"""What the hub of a run on a cluster costs its driver: so many tasks on real sockets, a beat a second each.

The tasks are in another process, which has no part in the figure. Each has 16 attempts under way, tells as
many of them as it would in a run of that size, and asks for connections to one host that all share. Usage::

    python benchmarks/hub_load.py [--tasks 1000] [--seconds 20] [--json]
"""

import argparse
import asyncio
import json
import multiprocessing
import time
from multiprocessing.connection import Connection

import msgspec

from cfetch.base.clock import SystemClock
from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.events import ActiveAttempt
from cfetch.base.secret import SecretText
from cfetch.straggler.merged import SpeedSample
from cfetch.tasks.hub.connection import connect
from cfetch.tasks.hub.leases import Demand
from cfetch.tasks.hub.messages import EVERY_S, MOST_ORDERS_BYTES, HubAddress, TaskBeat
from cfetch.tasks.hub.registry import TaskRegistry
from cfetch.tasks.hub.server import HubPlace, open_hub
from cfetch.tasks.shares.task import MOST_SHOWN, SHOWN

ATTEMPTS = 16
LOOKS_A_SECOND = 4  # the driver's, for the dashboard


def attempts(many: int) -> list[ActiveAttempt]:
    """As a task has them under way."""
    one = ActiveAttempt(
        id=123_456,
        path="warehouse/sales/2026/region=7/part-00042-c000.arrow",
        host="bucket-3.s3.example.net",
        size_bytes=64 << 20,
        bytes=12 << 20,
        rate_bps=12e6,
        elapsed_s=4.2,
        expected_s=9.9,
        n=1,
        state="ok",
    )
    return [one] * many


async def task(at: HubAddress, number: int, tasks: int, took_s: list[float]) -> None:
    """Beat until cancelled."""
    shown = attempts(min(ATTEMPTS, MOST_SHOWN, max(2, SHOWN // tasks)))
    samples = [SpeedSample("bucket-3.s3.example.net", 64 << 20, 1e7 + number)] * 3
    lease = 0
    async with connect(at, within_s=60.0) as hub:
        await asyncio.sleep(number / tasks * EVERY_S)
        while True:
            began_s = time.perf_counter()
            beat = TaskBeat(
                task=number,
                executor=f"worker-{number // 4}:4000",
                active=shown,
                under_way=ATTEMPTS,
                active_bytes=ATTEMPTS << 20,
                demands={"bucket-3.s3.example.net": Demand(min(lease, ATTEMPTS), lease, ATTEMPTS)},
                samples=samples,
                finished=3,
            )
            hub.write(beat)
            orders = msgspec.msgpack.decode(await hub.read(MOST_ORDERS_BYTES))
            took_s.append(time.perf_counter() - began_s)
            lease = orders["leases"]["bucket-3.s3.example.net"]
            await asyncio.sleep(EVERY_S - (time.perf_counter() - began_s))


def all_tasks(host: str, port: int, key: str, tasks: int, told: Connection) -> None:
    """In a process of their own, until told to end; their answers' times."""
    took_s: list[float] = []

    async def main() -> None:
        at = HubAddress(host, port, SecretText(key))
        running = [asyncio.create_task(task(at, number, tasks, took_s)) for number in range(tasks)]
        await asyncio.to_thread(told.recv)
        for one in running:
            one.cancel()
        found = await asyncio.gather(*running, return_exceptions=True)
        assert all(isinstance(one, asyncio.CancelledError) for one in found), found

    asyncio.run(main())
    told.send(took_s)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    spawn = multiprocessing.get_context("spawn")
    ours, theirs = spawn.Pipe()
    with open_hub(
        TaskRegistry(StragglerConfig(), 2 * args.tasks), HubPlace("127.0.0.1"), SystemClock()
    ) as hub:
        key = hub.address.key.reveal()
        process = spawn.Process(
            target=all_tasks, args=(hub.address.host, hub.address.port, key, args.tasks, theirs)
        )
        process.start()
        while sum(executor.tasks for executor in hub.view().executors) < args.tasks:
            assert process.is_alive()
            time.sleep(0.1)
        began_s, cpu_s, in_looks_s = time.perf_counter(), time.process_time(), 0.0
        while time.perf_counter() - began_s < args.seconds:
            before_s = time.thread_time()
            hub.view()
            in_looks_s += time.thread_time() - before_s
            time.sleep(1 / LOOKS_A_SECOND)
        wall_s, spent_s = time.perf_counter() - began_s, time.process_time() - cpu_s
        ours.send("enough")
        took_s = sorted(ours.recv())
        process.join()
    found = {
        "tasks": args.tasks,
        "beats_a_second": round(len(took_s) / wall_s, 1),
        "share_of_a_core": round(spent_s / wall_s, 4),
        "of_it_looking": round(in_looks_s / wall_s, 4),
        "answer_median_ms": round(1000 * took_s[len(took_s) // 2], 2),
        "answer_p99_ms": round(1000 * took_s[len(took_s) * 99 // 100], 2),
    }
    print(
        json.dumps(found) if args.json else "\n".join(f"{name:>20}  {value}" for name, value in found.items())
    )


if __name__ == "__main__":
    main()
