"""What cfetch does with each list of ``samples/``, small ones of real shapes as people have them.

As a program it prints the table of docs/manifests.md: ``python -m tests.manifest.lists``.
"""

import io
from typing import NamedTuple

from msgspec import convert

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.errors import ManifestError, UsageError
from cfetch.manifest.compressed import open_decompressed
from cfetch.manifest.formats.detection import detect_format
from cfetch.manifest.reading import Reading
from cfetch.manifest.source import Source
from tests.manifest.sample import Sample
from tests.manifest.samples.archives import ARCHIVES
from tests.manifest.samples.lists_of_tools import TOOLS
from tests.manifest.samples.no_lists import NO_LISTS
from tests.manifest.samples.plain_lists import PLAIN
from tests.manifest.samples.tables import TABLES


class Outcome(NamedTuple):
    """What reading a sample came to."""

    paths: tuple[str, ...]
    urls: tuple[str, ...]
    known: frozenset[str]
    notes: tuple[str, ...]
    faults: tuple[str, ...]
    partial: str | None = None


GROUPS = {
    "Tables": TABLES,
    "Lists of URLs": PLAIN,
    "Lists of other tools": TOOLS,
    "Archives and catalogues": ARCHIVES,
    "What is no list": NO_LISTS,
}
SAMPLES = [sample for group in GROUPS.values() for sample in group]


def read(sample: Sample) -> Outcome:
    """Read a sample as ``manifest check`` would, but for what needs all entries."""
    flags = dict(zip(sample.flags.split()[::2], sample.flags.split()[1::2], strict=True))
    base_url = flags.pop("--base-url", None)
    options = convert({flag[2:].replace("-", "_"): value for flag, value in flags.items()}, ReadingOptions)
    with open_decompressed(io.BytesIO(sample.content), sample.file) as plain:
        source = Source(plain, sample.file, own_url=sample.own_url)
        try:
            reading = Reading(source, base_url, options=options)
            entries = list(reading)
        except UsageError as error:
            return Outcome((), (), frozenset(), (), (str(error),))
    faults: list[str] = []
    if reading.faults.total:
        try:
            reading.faults.raise_if_any(sample.file)
        except ManifestError as error:
            faults = [problem.message for problem in error.problems]
    known = {entry.digest.algorithm for entry in entries if entry.digest}
    known |= {"size"} if any(entry.size_bytes is not None for entry in entries) else set()
    return Outcome(
        tuple(entry.path for entry in entries),
        tuple(entry.url.reveal() for entry in entries),
        frozenset(known),
        tuple(reading.document.notes),
        tuple(faults),
        reading.document.partial,
    )


_UNLIKE_THEIR_GROUP = {
    "LAION metadata (Parquet: URL, TEXT, WIDTH, …)",
    "img2dataset input (Parquet: url, caption, width, height)",
    "Parquet with url alone",
    "Parquet with a column of nested values",
    "URL, size, SHA-256 set apart by spaces",
    "quoted URLs",
    "YAML: - URL",
    "curl config with range",
    "the same without --from-format",
    "DataLad addurls table",
    "manifest.json of an S3 inventory",
    "Databricks SQL statement",
    "ENA file report with several kinds",
    "aws s3 ls --human-readable",
    "workbook (.xlsx)",
    "a script with wget and curl",
    "playlist of segments (HLS)",
    "description of a data set without files",
    "playlist of playlists (HLS)",
    "GeoJSON without files",
    "saved index of a directory whose links are absolute paths (IIS)",
}


def needs_plugins(sample: Sample) -> bool:
    """Whether a plug-in reads or recognises it: most lists of tools and archives, and a few others."""
    is_foreign = any(sample in group for group in (TOOLS, ARCHIVES))
    return is_foreign is not (sample.name in _UNLIKE_THEIR_GROUP)


def find_samples() -> dict[str, list[bytes]]:
    """The samples that are read, by the name of their format."""
    samples: dict[str, list[bytes]] = {}
    for sample in SAMPLES:
        if sample.refusal or not sample.paths or "--query" in sample.flags:
            continue
        with open_decompressed(io.BytesIO(sample.content), sample.file) as plain:
            stated = sample.flags.partition("--from-format ")[2]
            name = stated.partition(" ")[0] or detect_format(Source(plain, sample.file))
            plain.seek(0)
            samples.setdefault(name, []).append(plain.read())
    return samples


def describe(sample: Sample) -> str:
    """What cfetch does with a sample, in a cell of the table."""
    outcome = read(sample)
    if outcome.faults:
        return f"refused: {outcome.faults[0].removesuffix('; what follows was not read')}"
    if not outcome.paths:
        return "refused: it has no entries; `--allow-empty` takes it"
    known = ", ".join(name for name in ("size", "sha256", "md5") if name in outcome.known)
    how = f" with `{sample.flags}`" if sample.flags and "--" not in sample.name else ""
    more = f" ({known})" if known else ""
    return f"read{how} as `{outcome.paths[0]}`{more}" + "".join(f"; {note}" for note in outcome.notes)


def make_table() -> str:
    """The table of docs/manifests.md."""
    lines = []
    for title, samples in GROUPS.items():
        lines += [f"### {title}", "", "| list | cfetch |", "|---|---|"]
        lines += [f"| {sample.name} | {describe(sample).replace('|', chr(92) + '|')} |" for sample in samples]
        lines.append("")
    return "\n".join(lines)


if __name__ == "__main__":
    print(make_table(), end="")
