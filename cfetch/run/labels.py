"""The labels by which a run knows its volumes again.

If a disk is not mounted, the empty directory below its mount would be filled in its place. So each of several
directories has a label, a random id in ``.cfetch/volume``, and the state knows which label stood at which
destination. A destination without its label is left out, until the file of labels is removed.

The state may be new, or lie on the disk that is missing. With ``--mounted`` a run asks the file system too: a
destination is taken only if it has a label or something is mounted there, and it gets a label then.
"""

import os
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from cfetch.base.errors import LocalFault, VolumeFault
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import printable
from cfetch.storage.files import STATE_NAME, publish_once, replace_file

LABELS = "volumes.json"  # in the state directory: labels by destination
LABEL = f"{STATE_NAME}/volume"  # below each destination
_LABEL_BYTES = 16


def require_mount(root: Path) -> None:
    """Raise VolumeFault if ``root`` is a bare directory, below a mount that is missing.

    A label tells a volume that is no mount of its own, such as a directory on a mounted disk.
    """
    if read_label(root) is None and not os.path.ismount(os.path.realpath(root)):
        raise VolumeFault(
            f"{root} is no mounted volume: no file system is mounted there, and it has no label of an "
            "earlier run; mount it, or leave out --mounted"
        )


class Labels:
    """The labels that the state knows; without a readable file it knows none."""

    def __init__(self, state: Path) -> None:
        self._path = state / LABELS
        self._known: dict[str, str] = {}
        with suppress(OSError, *NOT_DECODED):
            self._known = msgspec.json.decode(self._path.read_bytes(), type=dict[str, str])

    @property
    def roots(self) -> list[Path]:
        """The destinations that earlier runs have used together with this state."""
        return [Path(root) for root in self._known]

    def check(self, root: Path) -> None:
        """Raise VolumeFault if earlier runs have seen another volume at ``root``."""
        known, label = self._known.get(str(root)), read_label(root)
        if known is None or label == known:
            return
        before = next((place for place, other in self._known.items() if other == label), None)
        if before is not None:
            raise VolumeFault(
                f"{root} is the volume that earlier runs have used as {printable(before, 1000)}; mount each "
                "disk where it was"
            )
        raise VolumeFault(
            f"{root} is not the volume that earlier runs have used; is it mounted? If it is a new disk, "
            f"remove {self._path}"
        )

    def put(self, root: Path) -> None:
        """Label the volume at ``root`` unless it has a label, and let the state know it.

        A volume or a state that cannot be written has no label.
        """
        with suppress(LocalFault):
            publish_once(root / LABEL, secrets.token_hex(_LABEL_BYTES).encode())
            label = read_label(root)
            if label is not None and label != self._known.get(str(root)):
                self._known[str(root)] = label
                replace_file(self._path, msgspec.json.encode(self._known))


def note_left_out(state: Path, roots: Sequence[Path | str]) -> list[str]:
    """Notes about the destinations that the state knows and ``roots`` do not name."""
    return [
        f"earlier runs have filled {printable(str(root), 1000)} too: what stands only there is fetched "
        "again, as this run leaves it out; give it as --to, and its files count as in place"
        for root in Labels(state).roots
        if root not in roots
    ]


def read_label(root: Path) -> str | None:
    """The label of the volume at ``root``; None: it has none."""
    with suppress(OSError, UnicodeDecodeError):
        return (root / LABEL).read_text("ascii").strip()
    return None
