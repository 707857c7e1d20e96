"""A manifest, an origin in a thread beside the test, and whole downloads over it in this process."""

import asyncio
import json
import threading
from collections import Counter
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.base.events import tell_each
from cfetch.base.records import FileRecord
from cfetch.plugins.lab.bench.content import Synthetic, pieces
from cfetch.plugins.lab.bench.origin import Origin
from cfetch.run.fresh_links import ManifestRef
from cfetch.tasks.hub.receipts import ReceiptReader, ReportedEvent, TaskReport
from cfetch.tasks.shares.task_destination import directory_destination
from cfetch.tasks.shares.work import RunSpec, Share
from tests.engine.drive import tree
from tests.manifest.frozen import freeze

__all__ = [
    "asked",
    "download",
    "everything",
    "files_of",
    "read_receipts",
    "served",
    "share_of",
    "spec_of",
    "whole",
    "write_manifest",
]


class Told(NamedTuple):
    """A receipt, with all of its records; ``report`` is its last one."""

    name: str
    records: list[FileRecord]
    events: list[ReportedEvent]
    report: TaskReport

    @property
    def is_over(self) -> bool:
        """Whether it says that its share is over."""
        return self.name.startswith("share-")


def files_of(count, size_bytes=1000, folder="d"):
    """Synthetic files by name."""
    names = [f"{folder}/{n:04d}.bin" for n in range(count)]
    return {name: Synthetic(name, size_bytes) for name in names}


def everything(volumes):
    """All files, each of which has to stand once."""
    assert max(Counter(name for volume in volumes for name in tree(volume)).values()) == 1
    return {name: data for volume in volumes for name, data in tree(volume).items()}


@contextmanager
def served(files, faults=None, **how):
    """An origin whose loop is another thread's: the test's own may be busy with a download."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    origin = Origin(files, faults, **how)
    try:
        asyncio.run_coroutine_threadsafe(origin.__aenter__(), loop).result()
        yield origin
    finally:
        asyncio.run_coroutine_threadsafe(origin.__aexit__(None, None, None), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def write_manifest(path, origin, files, *, digest=True):
    """The manifest of ``files``; its path."""
    rows = [
        {"url": name, "path": name, "size": content.size_bytes}
        | ({"sha256": content.sha256()} if digest else {})
        for name, content in files.items()
    ]
    path.write_text(json.dumps({"version": 1, "base_url": origin.url, "files": rows}))
    return path


def spec_of(tmp_path, settings, hub=None):
    """What the driver tells each task of a run, whose directories it makes below ``tmp_path``."""
    (tmp_path / "receipts").mkdir()
    destination = directory_destination(tmp_path / "to", "i", 1)
    Path(destination.fence).mkdir(parents=True)
    return RunSpec(
        settings=settings,
        headers=(),
        env={},
        origin=ManifestRef("m.json", None, None),
        instant="i",
        epoch=1,
        destination=destination,
        receipts=str(tmp_path / "receipts"),
        wall_start_s=0.0,
        part_s=0.0,
        at_a_time=2,
        hub=hub,
    )


def share_of(tmp_path, manifest, sharers=1):
    """All entries of ``manifest`` as one share."""
    directory = tmp_path / f"plan-{manifest.stem}"
    directory.mkdir()
    with manifest.open("rb") as source, freeze(source, name="m", directory=directory) as plan:
        return Share([plan.entry(index) for index in range(len(plan))], sharers)


def read_receipts(tmp_path):
    """All receipts of the run, in the order in which they came."""
    receipts = ReceiptReader(tmp_path / "receipts", "i").read_new(lambda _: True)
    return [
        Told(
            one.name,
            one.read_records(),
            [event for each in one.reports for event in each.events],
            one.reports[-1],
        )
        for one in receipts
    ]


def download(manifest, to, listener=lambda _: None, **settings):
    """Bring the manifest to ``to``; the summary."""
    with prepare(str(manifest), Settings(to=(str(to),), **settings), env={}) as prepared:
        summary = prepared.run(tell_each(listener))
    assert summary is not None
    return summary


def whole(files):
    """What a tree of ``files`` holds."""
    return {name: b"".join(pieces(content)) for name, content in files.items()}


def asked(origin):
    """How often each file was asked for."""
    return Counter(request.path for request in origin.requests)
