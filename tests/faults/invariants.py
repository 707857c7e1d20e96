"""What must hold after every run and every crash; whatever does not is a ``Breach``."""

import hashlib
import os
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from cfetch.base.errors import LocalFault
from cfetch.engine.segments import MOST_FAILURES
from cfetch.wire.next_step import MAX_REFRESHES
from cfetch.wire.partial_replies import MAX_SKIPPED_BYTES
from tests.faults.world import hex_of

__all__ = ["Breach", "Checks"]

PROGRESS_BYTES = 64 << 10  # so many new bytes give a file its tries back
MITIGATIONS = 2
CANARY = b"not yours"


@lru_cache(32)
def _hex_of(data):
    """Of files that mostly stand as they stood at the check before."""
    return hashlib.sha256(data).hexdigest()


class Breach(NamedTuple):
    """``kind`` is one word, for counting: corruption, promise, liveness, records, debris and so on."""

    kind: str
    text: str


class Checks:
    """Collects breaches. ``_promised``: what runs that ended in good order have said to be in place."""

    def __init__(self, world, folder, violations):
        self._world = world
        self._outside = Path(folder) / "outside"
        self._folder = Path(folder)
        self._violations = violations
        self._entries = {entry.path: entry for entry in world.entries}
        self._promised: set[str] = set()

    def _breach(self, kind, text):
        if (kind, text) not in self._violations:
            self._violations.append(Breach(kind, text))

    def prepare(self, root):
        """The destination as it stood before the first run."""
        root.mkdir()
        self._outside.mkdir()
        (self._outside / "canary").write_bytes(CANARY)
        for path, data in self._world.old.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
        for path, kind in self._world.obstacles.items():
            full = root / path
            if kind == "symlinked parent":
                full.parent.symlink_to(self._outside)
                continue
            full.parent.mkdir(parents=True, exist_ok=True)
            if kind == "directory":
                full.mkdir()
            else:
                full.symlink_to(self._outside / "canary")

    def tree(self, root):
        """A final name is absent or holds what the manifest vouches for; nothing else was written."""
        found: set[str] = set()
        for folder, below, files in os.walk(root):
            if folder == str(root) and ".cfetch" in below:
                below.remove(".cfetch")
            for name in files:
                full = Path(folder, name)
                path = str(full.relative_to(root))
                if not full.is_symlink():
                    self._file(path, full.read_bytes(), found)
        for path in self._promised - found:
            self._breach("promise", f"{path} was said to be in place and is not")
        if [one.name for one in self._outside.iterdir()] != ["canary"]:
            self._breach("outside", "something was written outside the destination")
        elif (self._outside / "canary").read_bytes() != CANARY:
            self._breach("outside", "a file outside the destination was changed")
        strangers = {one.name for one in self._folder.iterdir()} - {"outside"}
        if any(not name.startswith("tree") for name in strangers):
            self._breach("outside", "something was written beside the destination")

    def _file(self, path, data, found):
        if path not in self._entries:
            self._breach("outside", f"{path} is no name of the manifest")
        elif _hex_of(data) in self._world.vouched[path]:
            found.add(path)
        elif data != self._world.old.get(path) or path in self._promised:
            self._breach("corruption", f"{path} holds {len(data)} bytes that nothing vouches for")

    def ended(self, run, root):
        """Records, summary and exit code agree with each other and with the disk."""
        if run.error is not None:
            causes = run.error.exceptions if isinstance(run.error, BaseExceptionGroup) else (run.error,)
            self._breach("bug", f"run {run.number} failed by {', '.join(sorted(set(map(repr, causes))))}")
        if run.hung:
            self._breach("liveness", f"run {run.number} does not end")
        if run.fault is not None and not run.faulty:
            self._breach("records", f"run {run.number} ended by a fault that there was not: {run.fault}")
        if run.summary is None or run.error is not None or run.hung:
            return
        ids = [record.id for record in run.records]
        if len(ids) != len(set(ids)):
            self._breach("records", f"run {run.number} told of an entry twice")
        by = {
            word: {r.path for r in run.records if r.status == word} for word in ("done", "skipped", "failed")
        }
        files, total = run.summary.files, len(self._entries)
        cut_short = run.stopped or run.fault is not None
        if len(ids) > total or (len(ids) < total and not cut_short):
            self._breach("records", f"run {run.number} told of {len(ids)} of {total} entries")
        if (files.total, files.done, files.skipped, files.failed) != (total, *(len(by[word]) for word in by)):
            self._breach("records", f"the summary of run {run.number} differs from its records")
        if not cut_short and sum(len(paths) for paths in by.values()) != total:
            self._breach("records", f"run {run.number} cancelled entries although nobody asked it to")
        in_place = len(by["done"]) + len(by["skipped"])
        wanted = 130 if run.stopped else 3 if isinstance(run.fault, LocalFault) else int(in_place < total)
        if run.summary.exit_code != wanted:
            self._breach(
                "exit code", f"run {run.number} ended with {run.summary.exit_code} instead of {wanted}"
            )
        if not isinstance(run.fault, LocalFault):
            self._promised |= by["done"] | by["skipped"]
        if run.summary.exit_code == 0:
            self._no_attempts(run, root)

    def _no_attempts(self, run, root):
        if run.unused:
            self._breach("debris", f"run {run.number} ended well and did not drop {run.unused[0]}")
        left = sorted((root / ".cfetch" / "attempts").rglob("*"))
        if left:
            self._breach("debris", f"run {run.number} ended well and left {left[-1].relative_to(root)}")

    def left_open(self, run, tasks, responses, before, after):
        """No task, no response, no descriptor is left."""
        if responses:
            self._breach("response", f"run {run.number} left {len(responses)} responses open")
            responses.clear()
        for name in tasks:
            self._breach("task", f"run {run.number} left the task {name} behind")
        if after > before:
            self._breach("descriptor", f"run {run.number} left {after - before} descriptors open")

    def requests(self, run, requests, elapsed_s):
        """No storm: failed tries, refreshes, mitigations and helpers bound what is asked for an entry."""
        settings = self._world.settings
        for path, count in requests.items():
            entry = self._entries[path]
            largest = max(
                version.size_bytes
                for (_, name), one in self._world.objects.items()
                if name == path
                for version in one.versions
            )
            sources = 1 + len(entry.mirrors)
            helpers = MOST_FAILURES if settings.segments > 1 else 0
            tries = settings.max_attempts * (1 + largest // PROGRESS_BYTES) * sources
            if count > tries + (MAX_REFRESHES + MITIGATIONS) * sources + helpers:
                self._breach("storm", f"run {run.number} asked {count} times for {path} in {elapsed_s:.0f} s")

    def rate(self, run, read_bytes, elapsed_s):
        """A limit holds over any run, but for a tenth of a second that is made up for."""
        limit_bps = self._world.settings.limit_rate
        if limit_bps is not None and read_bytes > self._world.processes * limit_bps * (elapsed_s + 0.2):
            self._breach("rate", f"run {run.number} read {read_bytes} bytes in {elapsed_s:.1f} s")

    def leaks(self, leaks):
        """Secrets go to their own origin only."""
        for leak in leaks:
            self._breach("secret", leak)
        leaks.clear()

    def missing(self, root, now_s):
        """The paths of what can be had from one of its sources and is not in place."""
        return [path for path in self._obtainable(now_s) if not self._is_in_place(root / path, path)]

    def is_quiet(self, root, now_s):
        """Liveness: without faults, everything that can be had is had."""
        for path in self.missing(root, now_s):
            self._breach("liveness", f"{path} could be had and is not there")

    def in_place(self):
        """What runs have said to be in place, until now."""
        return set(self._promised)

    def asks_for_nothing_twice(self, run, in_place, requests):
        """What was in place before ``run`` and is vouched for is not asked for again."""
        for path in requests:
            entry = self._entries[path]
            if path in in_place and (entry.digest or entry.size_bytes is not None):
                self._breach("twice", f"run {run.number} asked for {path}, which was in place")

    def _is_in_place(self, full, path):
        if full.is_symlink() or not full.is_file():
            return False
        return _hex_of(full.read_bytes()) in self._world.vouched[path]

    def _obtainable(self, now_s):
        for path, entry in self._entries.items():
            if self._world.obstacles.get(path) in ("directory", "symlinked parent"):
                continue
            has_tries = self._world.settings.max_attempts > len(entry.mirrors)
            sources = (entry.url, *entry.mirrors) if has_tries else (entry.url,)
            if any(self._brings(entry, self._world.hosts[url.host()], now_s) for url in sources):
                yield path

    def _brings(self, entry, host, now_s):
        """Whether a server without faults gives what the manifest vouches for, and can be believed."""
        version = self._world.objects[host.name, entry.path].at(now_s)
        says_its_length = host.framing != "close" or entry.digest or entry.size_bytes is not None
        start = entry.range_start
        can_cut = start is None or (entry.digest is not None and start <= MAX_SKIPPED_BYTES)
        gives_range = host.ranges or can_cut or not entry.size_bytes
        is_vouched = hex_of(entry, version) in self._world.vouched[entry.path]
        return says_its_length and gives_range and is_vouched
