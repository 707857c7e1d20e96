"""Random worlds of names, and a judge that asks the file system itself which of them it can hold.

The judge makes each file with plain calls of ``os`` in a directory of its own, then all of them in one
directory: what exists already there is a clash. cfetch is then asked for the same names.
"""

import json
import os
import random
import shutil
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from cfetch.base.secret import printable
from cfetch.manifest.entry import UnsafePathError, safe_path
from cfetch.plugins.lab.bench.content import Content

__all__ = ["FOLDERS", "Judged", "World", "files_of", "make_world", "play"]

MOST_ENTRIES = 14
FOLDERS = ("default", "chosen", "judge")  # of a world on the file system
_LETTERS = "abcXYZ019-_ .'&%#+=\u00e9\u00c9\u00df\u0130\u4e2d\u3042\U0001f600"
_SIGNS = '?*<>|":'
_UNSAFE = (
    "a//b",
    "../up",
    "./here",
    "/root",
    "c:/drive",
    "n" * 256,
    "back\\slash",
    ".cfetch/own",
    "tab\there",
)
_BAD_LIST, _FAILED = 2, 1  # exit codes


class World(NamedTuple):
    """The paths that a list states, in their order. ``rename``: of files that clash, the later is renamed."""

    paths: Sequence[str]
    rename: bool


class Judged(NamedTuple):
    """Indexes of paths: refused in a list, held by no such file system, one with others, and all others."""

    unsafe: set[int]
    unheld: set[int]
    clashing: set[int]
    held: set[int]


Run = Callable[[Sequence[str]], tuple[int, str]]


def make_world(dice: random.Random) -> World:
    """Names of letters, signs and long ones; and others made of these that may be one with them."""
    paths: list[str] = []
    for _ in range(dice.randint(4, MOST_ENTRIES)):
        path = _make_twin(dice, dice.choice(paths)) if paths and dice.random() < 0.4 else _make_path(dice)
        paths.append(dice.choice(_UNSAFE) if dice.random() < 0.03 else path)
    return World(paths, dice.random() < 0.5)


def _make_path(dice: random.Random) -> str:
    letters = _LETTERS + (_SIGNS if dice.random() < 0.2 else "")
    parts = ["".join(dice.choices(letters, k=dice.randint(1, 6))) for _ in range(dice.randint(1, 3))]
    if dice.random() < 0.1:
        parts[-1] += "l" * (dice.randint(100, 255) - len(parts[-1].encode()))
    return "/".join(parts)


def _make_twin(dice: random.Random, path: str) -> str:
    twins: list[Callable[[str], str]] = [
        str.upper,
        str.lower,
        lambda text: unicodedata.normalize("NFD", text),
        lambda text: unicodedata.normalize("NFC", text),
        lambda text: f"{text}{dice.choice('. ')}",
        lambda text: f"{text}/{dice.choice('abX')}",
        lambda text: text.rpartition("/")[0] or text,
        str,
    ]
    return dice.choice(twins)(path)


def _content(index: int) -> bytes:
    return f"the file of entry {index}\n".encode() * (index + 1)


def judge(world: World, folder: Path) -> Judged:
    """Ask the file system of ``folder``, which is emptied."""
    unsafe, unheld = set(), set()
    for index, path in enumerate(world.paths):
        try:
            safe_path(path)
        except UnsafePathError:
            unsafe.add(index)
            continue
        alone = folder / f"{index}"
        try:
            alone.mkdir(parents=True)
            _create(alone / path)
        except OSError:
            unheld.add(index)
        shutil.rmtree(alone, ignore_errors=True)
    rest = [index for index in range(len(world.paths)) if index not in unsafe | unheld]
    together = folder / "together"
    for index in rest:
        (together / world.paths[index]).parent.mkdir(parents=True, exist_ok=True)
    clashing = set()
    for index in rest:
        try:
            _create(together / world.paths[index])
        except (FileExistsError, IsADirectoryError):
            clashing.add(index)
    shutil.rmtree(folder, ignore_errors=True)
    # a list does not know what the file system takes: a file gives way to a directory that will not be there
    clashing |= {
        index for index in rest for other in unheld if world.paths[other].startswith(f"{world.paths[index]}/")
    }
    return Judged(unsafe, unheld, clashing, set(rest) - clashing)


def _create(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def play(world: World, place: Path, aside: Path, url: str, run: Run) -> list[str]:
    """Bring the world to ``place`` by ``run``, which gets the words of a command; return what is wrong.

    ``url`` serves the content of each entry by its number. ``aside`` is for the list.
    """
    judged = judge(world, place / "judge")
    rows = (
        json.dumps({"url": f"{url}{index}", "path": path, "size": len(_content(index))})
        for index, path in enumerate(world.paths)
    )
    manifest = aside / "list.jsonl"
    manifest.write_text("\n".join(rows), encoding="utf-8")
    to = place / "default"
    wrong = [f"default: {line}" for line in _play_default(world, judged, run, manifest, to)]
    words = ["--bad-rows", "skip", *(["--clash", "rename"] if world.rename else [])]
    to = place / "chosen"
    wrong += _play_chosen(world, judged, lambda: run([*_words(manifest, to), *words]), to)
    code, said = run(["verify", str(manifest), "--to", str(to), *words])
    if code != (_FAILED if _read_failed(to) else 0):
        wrong.append(f"verify: exit code {code}: {said[-500:]}")
    return wrong


def _words(manifest: Path, to: Path) -> list[str]:
    return ["download", str(manifest), "--to", str(to), "--quiet", "--durability", "crash"]


def _play_default(world: World, judged: Judged, run: Run, manifest: Path, to: Path) -> list[str]:
    """A list with rows that cannot be files is refused as a whole; of names that clash the later fail."""
    if judged.unsafe:
        code, said = run(_words(manifest, to))
        wrong = [f"{name} is there" for name in _list_files(to)]
        return wrong if code == _BAD_LIST else [*wrong, f"exit code {code}, not {_BAD_LIST}: {said[-300:]}"]
    wrong = _play_twice(world, judged, lambda: run(_words(manifest, to)), judged.held, to)
    failed = _read_failures(to)
    clashing = {index for index, (kind, _) in failed.items() if kind == "clash"}
    if not judged.clashing <= failed.keys() <= judged.clashing | judged.unheld:
        wrong.append(f"failed are {sorted(failed)}; clashing {judged.clashing}, not held {judged.unheld}")
    for index in clashing:
        message = failed[index][1]
        others = (path for number, path in enumerate(world.paths) if number != index)
        if not (_is_named(world.paths[index], message) and any(_is_named(path, message) for path in others)):
            wrong.append(f"the message of {world.paths[index]!r} does not name both: {message}")
    code, said = run(["verify", str(manifest), "--to", str(to)])
    if code != (_FAILED if failed else 0) or said.count("clash: ") != len(clashing):
        wrong.append(f"verify: exit code {code}: {said[-500:]}")
    return wrong


def _play_chosen(world: World, judged: Judged, bring: Callable[[], tuple[int, str]], to: Path) -> list[str]:
    """The others come, and the rest is listed."""
    wanted = judged.held | (judged.clashing if world.rename else set())
    wrong = _play_twice(world, judged, bring, wanted, to)
    rejected = _read_rejected(to)
    for index in judged.unsafe | (set() if world.rename else judged.clashing):
        if not _is_named(world.paths[index], rejected):
            wrong.append(f"{world.paths[index]!r} is not among the rejected rows: {rejected[-500:]}")
    return wrong


def _play_twice(
    world: World, judged: Judged, bring: Callable[[], tuple[int, str]], wanted: set[int], to: Path
) -> list[str]:
    """The wanted files come; a second run ends in the same way, and writes no file again."""
    code, said = bring()
    wrong = _compare(world, judged, wanted, (code, said), to)
    before = _list_files(to)
    again, said = bring()
    if again != code or _list_files(to) != before:
        wrong.append(f"again: exit code {again} after {code}; {said[-300:]}")
    return wrong


def _compare(world: World, judged: Judged, wanted: set[int], ended: tuple[int, str], to: Path) -> list[str]:
    """Compare the tree with what the judge says; what the file system does not hold must be named.

    A new name may be too long for it; then the entry fails as others do.
    """
    code, said = ended
    failed, rejected = _read_failed(to), _read_rejected(to)
    wrong = []
    if code != (_FAILED if failed else 0):
        wrong.append(f"exit code {code}, and {len(failed)} have failed: {said[-300:]}")
    contents = {_content(index): index for index in wanted}
    for name in _list_files(to):
        index = contents.pop((to / name).read_bytes(), None)
        if index is None:
            wrong.append(f"{name!r} has other bytes than any entry that should be there")
        elif index in judged.held and not _is_same(to / name, to / world.paths[index]):
            wrong.append(f"{name!r} has the bytes of {world.paths[index]!r}")
    lost = set(contents.values())
    unnamed = {
        index
        for index in judged.unheld | (lost & judged.clashing)
        if world.paths[index] not in failed and not _is_named(world.paths[index], rejected)
    }
    renamed = failed - set(world.paths)
    if len(unnamed) > len(renamed):
        wrong.append(f"{[world.paths[index] for index in unnamed]} are not named; failed: {sorted(failed)}")
    return wrong + [f"{world.paths[index]!r} is missing: {said[-300:]}" for index in lost - judged.clashing]


def _is_same(one: Path, other: Path) -> bool:
    return other.exists() and one.read_bytes() == other.read_bytes()


def _is_named(path: str, text: str) -> bool:
    """Whether messages name a path; a long one has its middle cut out."""
    return any(repr(printable(path, *limit)) in text for limit in ((), (120,)))


def _list_files(to: Path) -> dict[str, int]:
    """The files outside of cfetch's own directory, with their times."""
    files = (path for path in to.rglob("*") if ".cfetch" not in path.parts and path.is_file())
    return {str(path.relative_to(to)): path.stat().st_mtime_ns for path in files}


def _read_rejected(to: Path) -> str:
    texts = (path.read_text(encoding="utf-8") for path in to.glob(".cfetch/rejected/*"))
    return "\n".join(json.loads(line)["reason"] for text in texts for line in text.splitlines())


def _read_failed(to: Path) -> set[str]:
    return {record["path"] for record in _read_failed_records(to)}


def _read_failures(to: Path) -> dict[int, tuple[str, str]]:
    """Kind and message of what failed, by the number of its row."""
    return {record["id"]: (record["error_kind"], record["error"]) for record in _read_failed_records(to)}


def _read_failed_records(to: Path) -> Iterator[dict[str, Any]]:
    lines = (line for path in to.glob(".cfetch/metrics/*.jsonl") for line in path.read_text().splitlines())
    return (record for record in map(json.loads, lines) if "path" in record and record["status"] == "failed")


def files_of(most: int = MOST_ENTRIES) -> Mapping[str, Content | bytes]:
    """What the server has: the content of each entry by its number."""
    return {str(index): _content(index) for index in range(most)}
