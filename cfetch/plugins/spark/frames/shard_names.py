"""What shards in a directory and in an object store have in common."""

from collections.abc import Sequence

from cfetch.base.errors import LocalFault
from cfetch.base.secret import printable


def refuse_gone(gone: Sequence[str], names: Sequence[str], place: object) -> None:
    """Raise LocalFault if some of the staged shards are ``gone``."""
    if gone:
        raise LocalFault(
            f"another job has published {len(gone)} of the {len(names)} shards of the same rows to "
            f"{printable(str(place))}; run this one again if it should have them twice"
        )
