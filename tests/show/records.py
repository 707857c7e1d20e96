"""Short ways to write down events and records for tests."""

from cfetch.base import events as ev
from cfetch.base.records import AttemptRecord, FileRecord

MIB = 1024 * 1024


def attempt(n=1, start_s=0.0, end_s=1.0, from_byte=0, size=100, outcome="done", samples=(), **more):
    """An attempt whose first byte came at once."""
    fields = {
        "n": n,
        "start_s": start_s,
        "first_byte_s": start_s,
        "end_s": end_s,
        "from_byte": from_byte,
        "bytes": size,
        "http_status": 200,
        "outcome": outcome,
        "error": None,
        "peer": None,
        "median_bps": None,
        "expected_s": None,
        "samples": list(samples),
    }
    return AttemptRecord(**{**fields, **more})


def record(id_=0, size=100, *attempts, status="done", bytes_=None, **more):
    """A file of ``size`` bytes; ``bytes_`` stand on disk, all of them unless said otherwise."""
    first = attempts[0].start_s if attempts else 0.0
    last = attempts[-1].end_s if attempts else 0.0
    fields = {
        "instant": "i1",
        "id": id_,
        "offset": id_,
        "path": f"a/{id_}",
        "host": "h",
        "size_bytes": size,
        "bytes": (size if status in {"done", "skipped"} else 0) if bytes_ is None else bytes_,
        "status": status,
        "verified": "size",
        "volume": "/v",
        "queued_s": 0.0,
        "start_s": first,
        "end_s": last,
        "rate_bps": size / (last - first) if last > first else 0.0,
        "stragglers": sum(tried.outcome == "straggler" for tried in attempts),
        "attempts": list(attempts),
    }
    return FileRecord(**{**fields, **more})


def segments(*outcomes):
    """A file that was brought by several segments at once, the first by the entry's own attempt."""
    return record(
        0,
        90,
        *(
            attempt(n, from_byte=30 * (n - 1), size=30, to_byte=30 * n, helper=n > 1, outcome=outcome)
            for n, outcome in enumerate(outcomes, 1)
        ),
    )


def finished(*records):
    """EntryFinished events, each at its record's end."""
    return [ev.EntryFinished(t_s=entry.end_s, record=entry) for entry in records]


def started(files=1, bytes_known=100, **more):
    fields = {
        "t_s": 0.0,
        "instant": "i1",
        "wall_start": "2026-01-01T00:00:00Z",
        "version": "0.1.0",
        "host": "worker",
        "files": files,
        "bytes_known": bytes_known,
        "sizes_unknown": 0,
        "concurrency": 4,
        "destination": "/data",
        "settings": {"multiplier": 1.5},
    }
    return ev.RunStarted(**{**fields, **more})


def progress(t_s, **more):
    fields = {
        "done": 0,
        "skipped": 0,
        "failed": 0,
        "retries": 0,
        "bytes_done": 0,
        "bytes_active": 0,
        "bytes_wasted": 0,
        "active": [],
        "waiting": 0,
        "baseline": ev.BaselineView(median_bps=None, finished=0, required=6),
        "stragglers": 0,
        "sequential": False,
    }
    return ev.Progress(t_s=t_s, **{**fields, **more})


def active(id_=0, **more):
    fields = {
        "path": f"a/{id_}",
        "host": "h",
        "size_bytes": 1000,
        "bytes": 100,
        "rate_bps": 100.0,
        "elapsed_s": 1.0,
        "expected_s": 10.0,
        "n": 1,
        "state": "ok",
    }
    return ev.ActiveAttempt(id=id_, **{**fields, **more})


def cancelled(t_s=1.0, *, completed=False, **more):
    fields = {
        "id": 0,
        "offset": 7,
        "path": "a/0",
        "size_bytes": 2 * MIB,
        "elapsed_s": 9.5,
        "attempt": 1,
        "kept_bytes": 0,
    }
    return ev.StragglerCancelled(t_s=t_s, completed=completed, **{**fields, **more})


def retry(t_s=1.0, **more):
    fields = {"id": 0, "path": "a/0", "n": 2, "delay_s": 1.0, "error_kind": "transient", "error": "HTTP 500"}
    return ev.RetryScheduled(t_s=t_s, **{**fields, **more})


def volume(name="/data1", **more):
    fields = {
        "load_bytes": 100,
        "load_files": 4,
        "running": 1,
        "queued": 2,
        "speed_bps": 1000.0,
        "breaker": "closed",
        "reason": None,
        "free_bytes": 1 << 40,
        "batches_done": 3,
        "bytes_done": 300,
    }
    return ev.VolumeView(name=name, **{**fields, **more})


def placed(t_s=1.0, **more):
    fields = {
        "batch": "shard-7",
        "files": 12,
        "size_bytes": 3 * MIB,
        "volume": "/data2",
        "why": "done in 3 s",
    }
    return ev.BatchPlaced(t_s=t_s, **{**fields, **more})


def committed(t_s=2.0, **more):
    fields = {"batch": "shard-7", "files": 12, "size_bytes": 3 * MIB, "volume": "/data2"}
    return ev.BatchCommitted(t_s=t_s, **{**fields, **more})


def paused(t_s=1.0, **more):
    return ev.VolumePaused(t_s=t_s, **{"volume": "/data3", "pause_s": 30.0, "reason": "disk gone", **more})
