"""What shards in a directory and in an object store have in common."""

import re
from collections.abc import Sequence

from cfetch.base.errors import LocalFault
from cfetch.base.secret import printable

EMPTY = ".empty"  # behind the name of a staged shard in which no file is: only its table is published
FAILED = "failed-"  # before the name of such a table: the same rows that fail again replace it
PUBLISHED = re.compile(rf"(?:([0-9]{{5,}})\.(?:tar|parquet)|{FAILED}[0-9]+-[0-9]+-[0-9a-f]{{32}}\.parquet)\Z")
"""What a job has published; a shard has a number, and a table without one has none."""

Published = tuple[str, int | None]
"""The name of a shard in the stage, and its number; None: no file is in it."""


def name_published(shard: Published) -> str:
    """The final name, without its ending."""
    name, number = shard
    return f"{FAILED}{name}" if number is None else f"{number:05d}"


def refuse_gone(gone: Sequence[str], names: Sequence[str], place: object) -> None:
    """Raise LocalFault if some of the staged shards are ``gone``."""
    if gone:
        raise LocalFault(
            f"another job has published {len(gone)} of the {len(names)} shards of the same rows to "
            f"{printable(str(place))}; run this one again if it should have them twice"
        )
