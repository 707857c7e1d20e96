"""Makes plans of entries that have been checked already: those of a feed, or of a plan with other names."""

from collections.abc import Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from cfetch.manifest.entry import Entry
from cfetch.manifest.faults import Faults
from cfetch.manifest.folding import KEEPS_NAMES, MAY_FOLD, Folding
from cfetch.manifest.freezing import freeze_blocks
from cfetch.manifest.plan import Plan
from cfetch.manifest.rows import Document

if TYPE_CHECKING:
    from cfetch.base.config.path_filter import PathFilter


def freeze_entries(
    entries: Iterable[Entry], *, name: str, directory: Path, folding: Folding = MAY_FOLD, clash: str = "fail"
) -> Plan:
    """Seal entries in ``directory`` that have been checked one by one already, such as a feed's entries.

    Their ids and line numbers are replaced; ``name`` is their name for messages, without secrets.
    ``folding``: which names are one file at the destination; ``clash``: what happens to the later one.

    Raises:
        LocalFault: ``directory`` cannot be written.
    """
    numbered = (msgspec.structs.replace(entry, id=index, line=0) for index, entry in enumerate(entries))
    return freeze_blocks(
        _singly(numbered), Faults(), Document(), name=name, directory=directory, folding=folding, clash=clash
    )


def freeze_again(
    plan: Plan,
    entries: Iterable[Entry],
    faults: Faults,
    *,
    directory: Path,
    only: Container[str] | None,
    paths: "PathFilter | None" = None,
    folding: Folding = KEEPS_NAMES,
    clash: str = "fail",
) -> Plan:
    """Seal entries of ``plan`` with other paths; ``faults`` are complete when all entries have been read.

    Raises as ``freeze``.
    """
    document = Document(headers=plan.headers, notes=list(plan.notes), partial=plan.partial)
    return freeze_blocks(
        _singly(entries),
        faults,
        document,
        name=plan.source,
        directory=directory,
        only=only,
        folding=folding,
        clash=clash,
        paths=paths,
    )


def _singly(entries: Iterable[Entry]) -> Iterator[Sequence[Entry]]:
    return ((entry,) for entry in entries)
