"""Makes a world that fails smaller, part by part, as long as it still fails in the same way."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from tests.attack.world import Ending, File, World

__all__ = ["shrink"]

replace: Any = msgspec.structs.replace
TRIES = 2  # real processes: a failure may need luck


def shrink(world: World, fails: Callable[[World], bool], *, limit_s: float) -> World:
    """The smallest world reached in ``limit_s`` for which ``fails`` still says so."""
    until_s = time.monotonic() + limit_s
    smaller: World | None = world
    while smaller is not None:
        world, smaller = smaller, None
        for candidate in candidates(world):
            if time.monotonic() > until_s:
                return world
            if any(fails(candidate) for _ in range(TRIES)):
                smaller = candidate
                break
    return world


def candidates(world: World) -> Iterator[World]:
    """Worlds with one thing less, the largest things first."""
    if len(world.files) > 2:
        half = len(world.files) // 2
        yield replace(world, files=world.files[:half])
        yield replace(world, files=world.files[half:])
    for files in _without(world.files) if len(world.files) > 1 else ():
        yield replace(world, files=files)
    for endings in _without(world.endings):
        yield replace(world, endings=endings)
    if world.disk != "plain":
        yield replace(world, disk="plain")
    if world.volumes > 1:
        yield replace(world, volumes=world.volumes - 1)
    for options in _without(world.options):
        yield replace(world, options=options)
    plain_fields: dict[str, Any] = {"own_state": False, "tls": False, "ranges": True, "rate_bps": 1 << 30}
    for field, plain in (plain_fields | {"command": "download", "hub": False}).items():
        if getattr(world, field) != plain:
            yield replace(world, **{field: plain})
    for number, file in enumerate(world.files):
        for smaller in _smaller_files(file):
            yield replace(world, files=(*world.files[:number], smaller, *world.files[number + 1 :]))
    for number, ending in enumerate(world.endings):
        for calmer in _calmer(ending):
            yield replace(world, endings=(*world.endings[:number], calmer, *world.endings[number + 1 :]))


def _without(things: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for number in range(len(things)):
        yield things[:number] + things[number + 1 :]


def _smaller_files(file: File) -> Iterator[File]:
    if any(file.faults):
        yield replace(file, faults=())
    if len(file.faults) > 1:
        for faults in _without(file.faults):
            yield replace(file, faults=faults)
    if len(file.versions) > 1:
        yield replace(file, versions=file.versions[1:])
    plain_fields = {"mirrored": False, "batch": None, "prior": None, "pieces": 1, "goes": False}
    for field, plain in plain_fields.items():
        if getattr(file, field) != plain:
            yield replace(file, **{field: plain})


def _calmer(ending: Ending) -> Iterator[Ending]:
    for field, plain in (("signal", ""), ("pause_s", 0.0), ("rival", False), ("is_childs", False)):
        if getattr(ending, field) != plain:
            yield replace(ending, **{field: plain})
