"""What must hold after each life: docs/guarantees.md, asked of the tree, the streams and the exit code."""

import hashlib
import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.attack.life import Life
from tests.attack.world import File, Version, World, body_of
from tests.conditions.runner import CONTROLS, secrets_in

__all__ = ["CANARY", "MAX_PEAK_BYTES", "OWN", "Breach", "Judge"]

CANARY = b"not yours"
OWN = "user's own"  # stands in each volume, is in no list, and holds the canary
MAX_PEAK_BYTES = 256 << 20
HASHES = ("sha256", "git_sha1")
NOISE = (
    "Traceback", "Task exception was never", "Task was destroyed", "Exception ignored", "never awaited",
    "Unclosed ", "was never retrieved", "ResourceWarning",
)  # fmt: skip
# Python's own words where SIGINT reaches it before it has imported a line of ours.
BEFORE_US = re.compile(
    r"Fatal Python error: init_\w+: [^\n]*\nPython runtime state: [^\n]*\n"
    r"Traceback [^\n]*\n(?:  File \"<(?:frozen [\w.]+|string)>\"[^\n]*\n|    [^\n]*\n)*KeyboardInterrupt\n"
)
GIVEN_UP = "was given up: its heartbeat could not be written"  # after a pause, or on a very busy machine
SIGNALS = {"INT": {130, -2}, "TERM": {143, -15}, "KILL": {-9}}  # a shell sees 130 either way


class Breach(NamedTuple):
    """``kind`` is one word, for counting."""

    kind: str
    text: str


class Judge:
    """Collects ``breaches``. ``roots``: the volumes; ``outside``: a directory that holds only a canary."""

    def __init__(self, world: World, roots: Sequence[Path], state: Path, outside: Path):
        self._world, self._roots, self._state, self._outside = world, roots, state, outside
        self._files = {file.path: file for file in world.files}
        self._listed = self._files
        self._garbage: set[Path] = set()  # of files that have left the list: what stands there is the user's
        self.breaches: list[Breach] = []

    def breach(self, kind: str, text: str) -> None:
        """Note one, once."""
        if Breach(kind, text) not in self.breaches:
            self.breaches.append(Breach(kind, text))

    def note_change(self) -> None:
        """From now on the list is without the files that leave it."""
        self._listed = {path: file for path, file in self._files.items() if not file.goes}
        places = [(root / path, file) for root in self._roots for path, file in self._files.items()]
        self._garbage = {
            full
            for full, file in places
            if file.goes and full.is_file() and full.stat().st_size and _is_prior(full, file)
        }

    def judge_life(self, life: Life, *, calm: bool) -> None:
        """What a run said, and how it ended."""
        shown = f"exit code {life.code}, said: {life.said[-600:]!r}"
        if life.hung:
            self.breach("hang", f"a run does not end: {shown}")
            return
        for noise in NOISE:
            if noise in BEFORE_US.sub("", life.said) + life.out:
                self.breach("noise", f"{noise!r}: {life.said[-1500:]!r}")
        if CONTROLS & set(life.said + life.out):
            self.breach("controls", f"control characters: {shown}")
        if life.peak_bytes > MAX_PEAK_BYTES:
            self.breach("memory", f"{life.peak_bytes:,} bytes of memory")
        if "CANARY" in life.said + life.out:
            self.breach("secret", f"a secret was printed: {shown}")
        if life.code not in self._permitted(life, calm=calm):
            self.breach("exit code", f"unexpected {shown}")
        if life.code in (1, 3, 4) and not life.said.strip():
            self.breach("exit code", f"no word about it: {shown}")

    def _permitted(self, life: Life, *, calm: bool) -> set[int]:
        codes = {0, 1} | SIGNALS.get(life.signalled, set())
        if life.rival or life.paused:
            codes.add(4)
        if not calm and (self._world.disk != "plain" or GIVEN_UP in life.said):
            codes.add(3)
        return codes

    def judge_tree(self) -> None:
        """A final name is absent or holds one version wholly; nothing else was written anywhere."""
        for root in self._roots:
            for path, full in _files_below(root):
                file = self._files.get(path)
                if path == OWN:
                    continue
                if file is None:
                    self.breach("outside", f"{path} is no name of the manifest")
                elif not self.holds_truth(full, file) and not _is_prior(full, file):
                    self.breach("corruption", f"{path} holds {full.stat().st_size} bytes that are no version")
            if (root / OWN).read_bytes() != CANARY:
                self.breach("own", f"the user's own file in {root} was changed")
        for full in self._garbage:
            if not full.is_file():
                self.breach("own", f"{full} was the user's and is deleted")
        if [path.name for path in self._outside.iterdir()] != ["canary"]:
            self.breach("outside", "something was written outside the destination")
        elif (self._outside / "canary").read_bytes() != CANARY:
            self.breach("outside", "a file outside the destination was changed")
        for place in {*self._roots, self._state}:
            for name in secrets_in(place):
                self.breach("secret", f"{name} holds a secret")

    def judge_end(self, life: Life) -> None:
        """A run that ended by itself and alone: what it claims is so."""
        try:
            summary = json.loads(life.out)
        except ValueError:
            self.breach("json", f"stdout is not one document: {life.out[:200]!r} {life.said[-600:]!r}")
            return
        counts, total = summary["files"], sum(file.pieces for file in self._listed.values())
        if summary["exit_code"] != life.code or counts["total"] != total:
            self.breach("summary", f"exit code {life.code}, summary {summary}")
        if life.code == 0 and (counts["done"] + counts["skipped"] != total or counts["failed"]):
            self.breach("summary", f"exit code 0, files {counts}")
        if life.code == 1 and counts["done"] + counts["skipped"] == total:
            self.breach("summary", f"exit code 1, files {counts}")
        if life.code in (0, 1):
            self._judge_records(Path(summary["metrics"]), counts)
            self._judge_batches(life.code)
        if life.code == 0:
            self._judge_leftovers()

    def _judge_records(self, metrics: Path, counts) -> None:
        records = [json.loads(line) for line in metrics.read_text().splitlines()]
        files = [record for record in records if record["schema"] == "cfetch.file/1"]
        if len({record["id"] for record in files}) != len(files) or len(files) != counts["total"]:
            self.breach("records", f"{len(files)} records of {counts['total']} entries")
        for record in files:
            file = self._files[record["path"]]
            if record["status"] in ("done", "skipped") and not self._is_there(file):
                self.breach("promise", f"{file.path} is said to be {record['status']} and is not there")
            if record["status"] == "done" and "hash" in file.known and record["verified"] not in HASHES:
                self.breach("records", f"{file.path} is done and verified by {record['verified']}")

    def _judge_batches(self, code: int) -> None:
        """A named batch stands whole on one volume, or nowhere."""
        files = self._listed.values()
        for batch in {file.batch for file in files if file.batch}:
            paths = [file.path for file in files if file.batch == batch]
            counts = [sum((root / path).is_file() for path in paths) for root in self._roots]
            if sorted(filter(None, counts)) not in ([len(paths)], *([] if code == 0 else [[]])):
                self.breach("batch", f"{batch} of {len(paths)} files stands on the volumes as {counts}")

    def _judge_leftovers(self) -> None:
        """A manifest that a killed run was still freezing (its directory has a dot) stays for a day."""
        attempts = [root / ".cfetch/attempts" for root in self._roots]
        for place in (*attempts, *(self._state / "plans").glob("[!.]*")):
            left = [path for path in place.rglob("*") if path.is_file()] if place.is_dir() else []
            if left:
                self.breach("debris", f"exit code 0, and {left[0]} is left")

    def missing(self) -> list[str]:
        """What good servers can bring and is not there."""
        files = self._listed.values()
        return [file.path for file in files if not file.is_blocked and not self._is_there(file)]

    def outdated(self) -> list[str]:
        """What stands there in another version than the last one."""
        files = [file for file in self._listed.values() if not file.is_blocked]
        return [file.path for file in files if not self._holds(file, _hashes_of(file.versions[-1:]))]

    def _is_there(self, file: File) -> bool:
        return self._holds(file, _truths(file))

    def _holds(self, file: File, truths: set[bytes]) -> bool:
        places = [root / file.path for root in self._roots]
        return any(
            place.is_file() and not place.is_symlink() and _hash_of(place) in truths for place in places
        )

    def holds_truth(self, full: Path, file: File) -> bool:
        """Whether it is one version that the manifest vouches for."""
        return _hash_of(full) in _truths(file)


def _hash_of(full: Path) -> bytes:
    return hashlib.sha256(full.read_bytes()).digest()


def _hashes_of(versions: Iterable[Version]) -> set[bytes]:
    return {hashlib.sha256(body_of(version)).digest() for version in versions}


def _truths(file: File) -> set[bytes]:
    last = file.versions[-1]
    if "hash" in file.known:
        return _hashes_of((last,))
    if file.known == "size":
        return _hashes_of(version for version in file.versions if version.size_bytes == last.size_bytes)
    return _hashes_of(file.versions)


def _is_prior(full: Path, file: File) -> bool:
    return file.prior == "garbage" and set(full.read_bytes()) <= {0}


def _files_below(root: Path):
    for folder, below, names in os.walk(root):
        if folder == str(root) and ".cfetch" in below:
            below.remove(".cfetch")
        for name in names:
            full = Path(folder, name)
            if not full.is_symlink():
                yield str(full.relative_to(root)), full
