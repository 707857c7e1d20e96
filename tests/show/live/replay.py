"""A made-up run as a stream of events, to look at the dashboard and to test it.

Run it in a terminal: `python -m tests.show.live.replay [--files N] [--speed X] [--hostile] [--unknown]
[--volumes N] [--executors N] [--explain]`.
"""

import argparse
import random
import time
from pathlib import Path
from typing import Any

from cfetch.base import events as ev
from cfetch.base import records
from cfetch.show.live.open import open_dashboard
from cfetch.show.metrics import MetricsFile
from cfetch.show.summary import Tally

TICK_S = 0.25
MIB = 1024 * 1024
HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\n[bold]x[/bold]:smile:"


class Simulation:
    """Sixteen connections at about 12 MiB/s each, a few stragglers, a few failures, expiring links."""

    def __init__(
        self,
        files=400,
        concurrency=16,
        seed=1,
        hostile="",
        unknown=False,
        straggling=0.03,
        volumes=1,
        executors=0,
    ):
        self.random = random.Random(seed)
        self.sizes = [int(self.random.lognormvariate(2.5, 0.8) * MIB) for _ in range(files)]
        self.files, self.concurrency, self.hostile, self.unknown = files, concurrency, hostile, unknown
        self.straggling = straggling
        self.queue = list(range(files))[::-1]
        self.active = {}
        self.counts = {"done": 0, "skipped": 0, "failed": 0}
        self.retries = self.wasted = self.bytes_done = self.stragglers = 0
        self.rates = []
        self.attempts = {}
        self.fallback = False
        self.volumes = Volumes(self, volumes) if volumes > 1 else None
        self.executors = [f"worker-{n + 1}{hostile}:{4000 + n}" for n in range(executors)]

    def path(self, id_):
        return f"warehouse/sales/2026/region={id_ % 7}/{self.hostile}part-{id_:05d}-c000.arrow"

    def host(self, id_):
        return f"bucket-{id_ % 3}.s3.example.net"

    def executor(self, id_):
        return self.executors[id_ % len(self.executors)] if self.executors else None

    def share(self, index, t_s):
        """Each third executor is slow after eight seconds."""
        return 0.2 + index / 1000 if index % 3 == 2 and t_s > 8 else None

    def executor_views(self, t_s):
        return [
            ev.ExecutorView(
                name=name,
                tasks=(index + 1) % 5,
                files=(self.counts["done"] + index) // len(self.executors),
                rate_bps=(index + 1) % 5 * (8 if self.share(index, t_s) else 37) * MIB,
                fraction=self.share(index, t_s),
            )
            for index, name in enumerate(self.executors)
        ]

    def events(self):
        yield ev.RunStarted(
            t_s=0.0,
            instant="20261121T013800123",
            wall_start="2026-11-21T01:38:00Z",
            version="0.1.0",
            host="worker-1",
            files=self.files,
            bytes_known=0 if self.unknown else sum(self.sizes),
            sizes_unknown=self.files if self.unknown else 0,
            concurrency=self.concurrency,
            destination=", ".join(self.destinations()),
            destinations=self.destinations(),
            settings={"policy": "cloudfetch", "multiplier": 1.5, "quantile": 0.6, "padding_s": 1.0},
        )
        t_s = 0.0
        while self.queue or self.active:
            t_s += TICK_S
            if self.volumes:
                yield from self.volumes.step(t_s)
            for index, name in enumerate(self.executors):
                if self.share(index, t_s) and not self.share(index, t_s - TICK_S):
                    yield ev.ExecutorSlow(t_s=t_s, executor=name, fraction=self.share(index, t_s))
            yield from self.step(t_s)
            yield self.progress(t_s)

    def destinations(self):
        return self.volumes.names if self.volumes else (f"/data/{self.hostile}lake/landing",)

    def step(self, t_s):
        while self.queue and len(self.active) < self.concurrency:
            self.start(self.queue.pop(), t_s, 1, 0)
        for id_ in list(self.active):
            attempt = self.active[id_]
            attempt["bytes"] = min(
                self.sizes[id_],
                attempt["bytes"] + int(attempt["rate"] * TICK_S * self.random.uniform(0.6, 1.4)),
            )
            attempt["samples"].append((t_s, attempt["bytes"] - attempt["from"]))
            if attempt["bytes"] >= self.sizes[id_]:
                yield self.finish(id_, t_s, "done")
            elif attempt["doomed"] and t_s - attempt["start"] > 1:
                yield from self.break_off(id_, t_s)
            elif (
                self.limit(id_) is not None and t_s - attempt["start"] > self.limit(id_) and attempt["n"] < 3
            ):
                yield from self.cancel(id_, t_s)

    def start(self, id_, t_s, n, from_byte):
        slow = self.random.random() < self.straggling and n == 1
        self.active[id_] = {
            "start": t_s,
            "n": n,
            "bytes": from_byte,
            "from": from_byte,
            "samples": [],
            "rate": self.random.uniform(0.1, 1.0) * MIB if slow else self.random.uniform(7, 17) * MIB,
            "doomed": self.random.random() < 0.02,
        }

    def size(self, id_):
        return None if self.unknown else self.sizes[id_]

    def median(self):
        return sorted(self.rates)[len(self.rates) // 2] if len(self.rates) >= self.required() else None

    def required(self):
        return min(60, self.files * 6 // 10)

    def limit(self, id_):
        median = self.median()
        return None if median is None or self.unknown else 1.5 * self.sizes[id_] / median + 1.0

    def record_attempt(self, id_, t_s, outcome, error=None):
        attempt = self.active[id_]
        self.attempts.setdefault(id_, []).append(
            records.AttemptRecord(
                n=attempt["n"],
                start_s=attempt["start"],
                first_byte_s=attempt["start"] + 0.05,
                end_s=t_s,
                from_byte=attempt["from"],
                bytes=attempt["bytes"] - attempt["from"],
                http_status=200,
                outcome=outcome,
                error=error,
                peer="10.0.0.1:443",
                median_bps=self.median(),
                expected_s=self.limit(id_),
                samples=attempt["samples"],
            )
        )

    def finish(self, id_, t_s, status, error=None):
        if status == "done":
            self.record_attempt(id_, t_s, "done")
        attempt = self.active.pop(id_)
        self.counts[status] += 1
        bytes_ = self.sizes[id_] if status == "done" else 0
        self.bytes_done += bytes_
        attempts = self.attempts.pop(id_)
        elapsed = max(t_s - attempt["start"], 0.01)
        if status == "done":
            self.rates.append((attempt["bytes"] - attempt["from"]) / elapsed)
        return ev.EntryFinished(
            t_s=t_s,
            record=records.FileRecord(
                instant="20261121T013800123",
                id=id_,
                offset=id_,
                path=self.path(id_),
                host=self.host(id_),
                size_bytes=self.size(id_),
                bytes=bytes_,
                status=status,
                verified="size",
                volume=self.destinations()[id_ % len(self.destinations())],
                queued_s=0.0,
                start_s=attempts[0].start_s,
                end_s=t_s,
                rate_bps=bytes_ / elapsed,
                stragglers=sum(a.outcome == "straggler" for a in attempts),
                attempts=attempts,
                error_kind="refused" if error else None,
                error=error,
            ),
        )

    def break_off(self, id_, t_s):
        attempt = self.active[id_]
        if self.random.random() < 0.3:
            error = f"HTTP 404 from {self.host(id_)}{self.hostile}: the object does not exist"
            self.record_attempt(id_, t_s, "error", error)
            self.wasted += attempt["bytes"]
            yield self.finish(id_, t_s, "failed", error)
            return
        error = f"HTTP 503 from {self.host(id_)}: slow down{self.hostile}"
        self.record_attempt(id_, t_s, "error", error)
        self.retries += 1
        yield ev.RetryScheduled(
            t_s=t_s,
            id=id_,
            path=self.path(id_),
            n=attempt["n"] + 1,
            delay_s=0.5,
            error_kind="throttled",
            error=error,
        )
        self.start(id_, t_s, attempt["n"] + 1, attempt["bytes"])

    def cancel(self, id_, t_s):
        attempt = self.active[id_]
        elapsed_s, expected_s = t_s - attempt["start"], self.limit(id_)
        self.stragglers += 1
        yield ev.StragglerCheck(
            t_s=t_s,
            active_downloads=len(self.active),
            completed_downloads=len(self.rates),
            stragglers=[id_],
            median_bps=self.median(),
        )
        yield ev.StragglerCancelling(
            t_s=t_s, id=id_, offset=id_, path=self.path(id_), elapsed_s=elapsed_s, expected_s=expected_s
        )
        self.record_attempt(id_, t_s, "straggler")
        yield ev.StragglerCancelled(
            t_s=t_s,
            id=id_,
            offset=id_,
            path=self.path(id_),
            size_bytes=self.size(id_),
            elapsed_s=elapsed_s,
            attempt=attempt["n"],
            kept_bytes=attempt["bytes"],
            completed=False,
            executor=self.executor(id_),
        )
        if self.stragglers == 12 and not self.fallback:
            self.fallback = True
            yield ev.FallbackTriggered(t_s=t_s, stragglers=12, threshold=10)
        self.start(id_, t_s, attempt["n"] + 1, attempt["bytes"])

    def progress(self, t_s):
        return ev.Progress(
            t_s=t_s,
            **self.counts,
            retries=self.retries,
            bytes_done=self.bytes_done,
            bytes_active=sum(attempt["bytes"] for attempt in self.active.values()),
            bytes_wasted=self.wasted,
            active=[self.view(id_, attempt, t_s) for id_, attempt in self.active.items()],
            waiting=len(self.queue),
            baseline=ev.BaselineView(
                median_bps=self.median(), finished=len(self.rates), required=self.required()
            ),
            stragglers=self.stragglers,
            sequential=self.fallback and len(self.queue) > self.files // 4,
            volumes=self.volumes.views() if self.volumes else [],
            executors=self.executor_views(t_s),
            unshown=1200 if self.executors else 0,
        )

    def view(self, id_, attempt, t_s):
        elapsed_s, expected_s = t_s - attempt["start"], self.limit(id_)
        used = elapsed_s / expected_s if expected_s else 0
        state: ev.State = "ok"
        if attempt["n"] == 3:
            state = "last try"
        elif used > 0.6:
            state = "straggler" if used >= 1 else "slow"
        return ev.ActiveAttempt(
            id=id_,
            path=self.path(id_),
            host=self.host(id_),
            size_bytes=self.size(id_),
            bytes=attempt["bytes"],
            rate_bps=(attempt["bytes"] - attempt["from"]) / elapsed_s if elapsed_s else 0.0,
            elapsed_s=elapsed_s,
            expected_s=expected_s,
            n=attempt["n"],
            state=state,
            executor=self.executor(id_),
        )


class Volumes:
    """Several disks; the third (or last) fails after ten seconds, is tried again, and then given up."""

    def __init__(self, run, number):
        self.run, self.number = run, number
        self.names = tuple(f"/mnt/{run.hostile}nvme/disk{index + 1}/lake" for index in range(number))
        self.breakers: list[Any] = ["closed"] * number
        self.placed = self.committed = 0

    def step(self, t_s):
        if self.placed < 4 * self.number and t_s >= self.placed * TICK_S:
            index = self.placed % self.number
            why = f"{self.names[index]}: done in {3 + self.placed / 10:.1f} s; {self.names[index - 1]} 5.2 s"
            yield ev.BatchPlaced(
                t_s=t_s, batch=self.batch(), files=12, size_bytes=180 * MIB, volume=self.names[index], why=why
            )
            self.placed += 1
        if self.committed < self.placed and t_s > 5 + self.committed:
            yield ev.BatchCommitted(
                t_s=t_s,
                batch=f"b{self.committed:03d}{self.run.hostile}",
                files=12,
                size_bytes=180 * MIB,
                volume=self.names[self.committed % self.number],
            )
            self.committed += 1
        sick = min(2, self.number - 1)
        for at_s, breaker, pause_s in ((10, "open", 5.0), (15, "half-open", None), (16, "open", None)):
            if t_s == at_s:
                self.breakers[sick] = breaker
                if breaker == "open":
                    yield ev.VolumePaused(
                        t_s=t_s, volume=self.names[sick], pause_s=pause_s, reason=self.reason()
                    )

    def batch(self):
        return f"b{self.placed:03d}{self.run.hostile}"

    def reason(self):
        return f"cannot write part-00042: Input/output error{self.run.hostile}"

    def views(self):
        share = self.run.bytes_done // self.number
        left = (sum(self.run.sizes) - self.run.bytes_done) // self.number
        return [
            ev.VolumeView(
                name=name,
                load_bytes=0 if self.breakers[index] == "open" else min(left, 400 * MIB),
                load_files=0 if self.breakers[index] == "open" else 2 + index,
                running=0 if self.breakers[index] == "open" else 2,
                queued=0 if self.breakers[index] == "open" else index,
                speed_bps=0.0 if self.breakers[index] == "open" else (40.0 + index) * MIB,
                breaker=self.breakers[index],
                reason=self.reason() if self.breakers[index] == "open" else None,
                free_bytes=None if index == self.number - 1 else (1 << 40) // (index + 1) - share,
                batches_done=self.committed // self.number,
                bytes_done=share * (index + 1) * 2 // self.number,
            )
            for index, name in enumerate(self.names)
        ]


def stream(metrics=None, **options):
    """All events of a simulated run, the last one with the summary that the real tally makes of them."""
    tally, t_s = Tally(), 0.0
    for event in Simulation(**options).events():
        tally(event)
        t_s = event.t_s
        yield event
    yield ev.RunFinished(t_s=t_s, summary=tally.summary(t_s, metrics=metrics))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", type=int, default=400)
    parser.add_argument("--speed", type=float, default=1.0)
    parser.add_argument("--until", type=float, default=float("inf"))
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--unknown", action="store_true")
    parser.add_argument("--straggling", type=float, default=0.03)
    parser.add_argument("--volumes", type=int, default=1)
    parser.add_argument("--executors", type=int, default=0)
    parser.add_argument("--explain", action="store_true")
    parser.add_argument("--progress", default="auto")
    parser.add_argument("--metrics")
    args = parser.parse_args()
    listeners = [MetricsFile(Path(args.metrics))] if args.metrics else []
    events = stream(
        metrics=args.metrics,
        files=args.files,
        hostile=HOSTILE if args.hostile else "",
        unknown=args.unknown,
        straggling=args.straggling,
        volumes=args.volumes,
        executors=args.executors,
    )
    with open_dashboard(progress=args.progress, explain=args.explain) as show:
        tell = ev.fan_out(show, *listeners)
        for event in events:
            tell(event)
            if isinstance(event, ev.Progress):
                if event.t_s >= args.until:
                    time.sleep(600)
                time.sleep(TICK_S / args.speed)


if __name__ == "__main__":
    main()
