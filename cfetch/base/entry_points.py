"""Finds the plug-ins of other distributions: entry points of the groups ``cfetch.<kind>``.

``registry.py`` says which kinds there are, and what an entry point of each names. Here are the search, which
is fast where nobody has such a plug-in, and the error that names the distribution of one that fails.
"""

import sys
from contextlib import suppress
from functools import cache
from importlib.machinery import PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

from cfetch.base.errors import UsageError
from cfetch.base.secret import printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


def list_points(kind: str) -> "tuple[EntryPoint, ...]":
    """The entry points of a kind in all distributions."""
    if not _has_any(*sys.path):
        return ()
    from importlib.metadata import entry_points

    return tuple(entry_points(group=f"cfetch.{kind}"))


@cache
def _has_any(*places: str) -> bool:
    """Whether a distribution in one of these directories has a plug-in, or may have one.

    Each has a file of its entry points: to search these files takes 3 ms, to import ``importlib.metadata``
    and let it read them 25 ms, in each start of cfetch. It must do so where a place is an archive, and where
    another finder than Python's own knows of distributions.
    """
    if any(hasattr(finder, "find_distributions") for finder in sys.meta_path if finder is not PathFinder):
        return True
    return any(place.is_file() or _names_plugins(place) for place in map(Path, places))


def _names_plugins(place: Path) -> bool:
    with suppress(OSError):
        for distribution in place.iterdir():
            if distribution.name.lower().endswith("-info"):
                with suppress(OSError):
                    if b"[cfetch." in (distribution / "entry_points.txt").read_bytes():
                        return True
    return False


def find_point(kind: str, name: str) -> "EntryPoint | None":
    """The entry point of this kind and name, if a distribution has one."""
    return next((point for point in list_points(kind) if point.name == name), None)


def load_point(kind: str, point: "EntryPoint") -> Any:  # noqa: ANN401 - the kind says what it is
    """The object that an entry point names. Raises UsageError: it does not load."""
    try:
        return point.load()
    except Exception as error:
        raise make_plugin_error(kind, point.name, error) from error


def name_distribution(kind: str, name: str) -> str:
    """The distribution that a plug-in comes from, with its version, for messages; empty for cfetch's own."""
    point = find_point(kind, name)
    return "" if point is None or point.dist is None else f"{point.dist.name} {point.dist.version}"


def make_plugin_error(kind: str, name: str, error: Exception, *, extra: str = "") -> UsageError:
    """Make the error that says which plug-in failed, and how; it is no bug in cfetch.

    ``extra``: of its distribution, which has the libraries that it needs; else the entry point may name it,
    as ``name = module:object [extra]``.
    """
    package = name_distribution(kind, name)
    point = find_point(kind, name)
    extras = extra or ("" if point is None else ",".join(point.extras))
    if isinstance(error, ModuleNotFoundError) and extras and point is not None and point.dist is not None:
        return UsageError(
            f"the plug-in {printable(name)} ({kind}) of the package {package} needs the library "
            f"{printable(error.name or '')}, which is not installed: "
            f"pip install '{point.dist.name}[{extras}]'"
        )
    source = f" of the package {package}" if package else ""
    return UsageError(
        f"the plug-in {printable(name)} ({kind}){source} failed with {type(error).__name__}: "
        f"{printable(str(error))}"
    )
