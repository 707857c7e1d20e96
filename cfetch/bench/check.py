"""Whether a folder holds what the origin served: every file, byte for byte.

Comparing with the content itself says more than a hash and costs less.
"""

from collections.abc import Iterable, Mapping
from pathlib import Path

from cfetch.bench.content import Content, pieces

__all__ = ["count_right"]


def count_right(folder: Path, names: Iterable[str], files: Mapping[str, Content]) -> int:
    """How many of ``names`` stand in ``folder`` whole and unaltered."""
    return sum(_same(folder / name, files[name]) for name in names)


def _same(path: Path, content: Content) -> bool:
    try:
        with path.open("rb") as file:
            return all(file.read(len(piece)) == piece for piece in pieces(content)) and not file.read(1)
    except OSError:
        return False
