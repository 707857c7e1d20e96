"""``cfetch manifest check`` and ``convert``: tell what a manifest holds, write it in another format."""

from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

import msgspec

from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.manifest.entry import Entry
from cfetch.manifest.plan import Plan
from cfetch.manifest.writing import TARGETS, check_parts, list_left_out, survey
from cfetch.run.manifest_reader import STANDARD_READER, ManifestReader
from cfetch.storage.outputs import open_output

SHOWN_FILES, SHOWN_CHARS = 3, 200
SHOWN_CLASHES = 100  # as many as faults


class FirstFile(msgspec.Struct, frozen=True):
    """One of the first entries: the path that it gets, its URL without secrets, the size if it is stated."""

    path: str
    url: str
    size: int | None


class FirstClash(msgspec.Struct, frozen=True):
    """One of the first entries that a download would not bring, as its name is another entry's."""

    line: int
    message: str


class Checked(msgspec.Struct, frozen=True, kw_only=True):
    """The contents of a manifest without faults (``cfetch.manifest/1``).

    At ``expires_at`` the first link expires; manifests with equal contents have the same ``digest``.
    ``skipped`` counts the faults of rows that were left out, and ``notes`` are for the user. ``first`` shows
    how rows were read. ``clashing`` counts the entries that a download would not bring, as their names clash
    with others; ``first_clashes`` are the first of them.
    """

    schema: str = "cfetch.manifest/1"
    files: int
    bytes_known: int
    sizes_unknown: int
    without_hash: int
    merged: int
    hosts: dict[str, int]
    expires_at: str | None
    digest: str
    skipped: int = 0
    notes: list[str] = []
    first: list[FirstFile] = []
    clashing: int = 0
    first_clashes: list[FirstClash] = []


def check(*manifests: str, reader: ManifestReader = STANDARD_READER) -> Checked:
    """Validate manifests as a download would. Each is a path, an http(s) URL, ``-``, or a directory of them.

    Raises:
        ManifestError: a manifest has faults; the error names all of them.
        UsageError: a manifest cannot be had.
    """
    with reader.freeze(*manifests) as plan:
        totals = plan.totals
        return Checked(
            files=len(plan),
            bytes_known=totals.size_bytes,
            sizes_unknown=plan.sizes_unknown,
            without_hash=totals.without_hash,
            merged=plan.merged,
            hosts={printable(host): number for host, number in plan.host_files.items()},
            expires_at=None if totals.expires_at is None else _format_moment(totals.expires_at),
            digest=plan.digest,
            skipped=plan.skipped,
            notes=list(plan.notes),
            first=[_show_file(entry) for entry in islice(_entries(plan), SHOWN_FILES)],
            clashing=totals.clashing,
            first_clashes=list(_find_first_clashes(plan)),
        )


def _find_first_clashes(plan: Plan) -> Iterator[FirstClash]:
    """It reads no further than the last clash that is shown: a list may have millions of entries."""
    wanted = min(plan.totals.clashing, SHOWN_CLASHES)
    clashes = ((entry.line, entry.clash) for entry in _entries(plan))
    return islice((FirstClash(line, clash.message) for line, clash in clashes if clash is not None), wanted)


def _show_file(entry: Entry) -> FirstFile:
    return FirstFile(printable(entry.path, SHOWN_CHARS), str(entry.url), entry.size_bytes)


def convert(
    manifest: str,
    to_format: str,
    output: Path | None,
    reader: ManifestReader = STANDARD_READER,
) -> list[str]:
    """Write ``manifest`` in another format to ``output``, or to stdout; return what the format cannot hold.

    Nothing is written when the manifest has faults. URLs come out absolute.

    Raises:
        UsageError: the manifest has faults, there is no such format, or it cannot name a file.
        LocalFault: ``output`` cannot be written.
    """
    target = TARGETS.get(to_format)
    if target is None:
        raise UsageError(
            f"cfetch writes no format called {to_format!r}; it writes {', '.join(sorted(TARGETS))}"
        )
    with reader.freeze(manifest) as plan:
        contents = survey(_entries(plan), plan.headers)
        check_parts(contents, target, to_format)
        with open_output(output, private=contents.has_secrets) as out:
            target.write(_entries(plan), contents, out)
        return list_left_out(contents, target)


def _format_moment(seconds: float) -> str:
    try:
        return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
    except (OverflowError, ValueError):  # beyond the year 9999
        return f"{seconds:.0f} s after 1970"


def _entries(plan: Plan) -> Iterator[Entry]:
    return (plan.entry(index) for index in range(len(plan)))
