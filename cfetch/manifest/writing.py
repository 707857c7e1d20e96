"""Writes manifests in cfetch's own formats and in other tools' formats.

Writing takes two walks: ``survey`` counts the keys that the entries state, so that ``list_left_out`` can tell
which of them a target cannot hold, before a line is written.
"""

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import NamedTuple, TextIO

import msgspec

from cfetch.base.errors import UsageError
from cfetch.base.secret import printable
from cfetch.manifest.assembly import name_batch
from cfetch.manifest.digests import ARIA2_NAMES
from cfetch.manifest.entry import Entry
from cfetch.manifest.faults import UrlError
from cfetch.manifest.fields import Headers
from cfetch.manifest.names import name_range
from cfetch.manifest.rows import KEYS
from cfetch.manifest.urls import last_segment

_ARIA2_TYPES = {ours: theirs for theirs, ours in ARIA2_NAMES.items()}


@dataclass
class Survey:
    """The contents of a manifest: how many entries state each key, and whether there are secrets.

    ``base_url`` is for entries whose URLs are relative; only json can hold it.
    """

    headers: Headers
    base_url: str | None = None
    files: int = 0
    stated: Counter[str] = field(default_factory=Counter)
    has_secrets: bool = False


class Target(NamedTuple):
    """A format to write. ``holds`` are the native keys that it can hold.

    ``needs`` is a key without which an entry cannot be written.
    """

    write: Callable[[Iterable[Entry], Survey, TextIO], None]
    holds: frozenset[str]
    needs: str | None = None


def survey(entries: Iterable[Entry], headers: Headers) -> Survey:
    """Walk over the entries; ``headers`` are the document's."""
    contents = Survey(headers, has_secrets=bool(headers))
    for entry in entries:
        contents.files += 1
        stated = _make_fields(entry, headers)
        if entry.path == _find_default_path(entry):
            del stated["path"]
        contents.stated.update(stated.keys())
        if entry.chunk is not None:
            contents.stated["chunk"] += 1
        urls = (entry.url, *entry.mirrors)
        contents.has_secrets |= bool(entry.headers) or any("?" in url.value for url in urls)
    return contents


def list_left_out(contents: Survey, target: Target) -> list[str]:
    """The keys that ``target`` cannot hold, as phrases: ``size of 3 files``."""
    lost = []
    if target.needs is not None and (without := contents.files - contents.stated[target.needs]):
        lost.append(f"{_count_files(without)} without {target.needs}")
    places = (*KEYS, "chunk")
    stated = Counter(contents.stated)
    if "length" in target.holds:
        stated["offset"] -= stated["length"]  # then it can hold this offset too
    lost += [
        f"{key} of {_count_files(stated[key])}" for key in places if key not in target.holds and stated[key]
    ]
    return lost


def check_parts(contents: Survey, target: Target, name: str) -> None:
    """Raise UsageError if ``target`` cannot hold ranges or pieces, and would so make other files."""
    if contents.stated["assemble"] and "assemble" not in target.holds:
        raise UsageError(
            f"{_count_files(contents.stated['assemble'])} are pieces of others, and {name} "
            "has no place for that; use json, jsonl or csv"
        )
    if contents.stated["length"] and "url" in target.holds and "length" not in target.holds:
        raise UsageError(
            f"{_count_files(contents.stated['length'])} are byte ranges of their URLs, and {name} has no "
            "place for that; use json, jsonl, csv or curl"
        )


def _count_files(number: int) -> str:
    return "1 file" if number == 1 else f"{number:,} files"


def _find_default_path(entry: Entry) -> str | None:
    try:
        name = last_segment(entry.url.value)
    except UrlError:
        return None
    if entry.range_start is None or entry.size_bytes is None:
        return name
    return name_range(name, entry.range_start, entry.size_bytes)


def _make_fields(entry: Entry, headers: Headers) -> dict[str, object]:
    """The entry's values by native keys; its headers are merged with the document's ``headers``."""
    fields: dict[str, object] = {"url": entry.url.reveal(), "path": entry.path}
    if entry.range_start is not None:
        fields["offset"], fields["length"] = entry.range_start, entry.size_bytes
    elif entry.size_bytes is not None:
        fields["size"] = entry.size_bytes
    if entry.offset is not None and entry.range_start is None:
        fields["offset"] = entry.offset
    if entry.piece is not None:
        fields["assemble"] = True
    if entry.digest is not None:
        fields[entry.digest.algorithm] = entry.digest.hex
    if entry.expires_at is not None:
        fields["expires_at"] = _format_moment(entry.expires_at)
    if entry.batch is not None and not (entry.piece and entry.batch == name_batch(entry.path)):
        fields["batch"] = entry.batch
    merged = _merge_headers(headers, entry.headers)
    if merged:
        fields["headers"] = merged
    if entry.mirrors:
        fields["mirrors"] = [mirror.reveal() for mirror in entry.mirrors]
    return fields


def _merge_headers(headers: Headers, own: Headers) -> dict[str, str]:
    """Merge the document's headers with the entry's, which win; case does not matter."""
    taken = {name.lower() for name, _ in own}
    rest = [(name, value) for name, value in headers if name.lower() not in taken]
    return {name: value.reveal() for name, value in (*rest, *own)}


def _format_moment(seconds: float) -> str | float:
    if seconds.is_integer():
        return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return seconds


def _write_json(entries: Iterable[Entry], contents: Survey, out: TextIO) -> None:
    top: dict[str, object] = {"version": 1}
    if contents.base_url is not None:
        top["base_url"] = contents.base_url
    if contents.headers:
        top["headers"] = _merge_headers(contents.headers, ())
    out.write(_encode_json(top)[:-1] + ',"files":[')
    for position, entry in enumerate(entries):
        out.write((",\n" if position else "\n") + _encode_json(_make_fields(entry, ())))
    out.write("\n]}\n")


def _write_json_lines(entries: Iterable[Entry], contents: Survey, out: TextIO) -> None:
    if contents.headers:
        out.write(_encode_json({"version": 1, "headers": _merge_headers(contents.headers, ())}) + "\n")
    for entry in entries:
        out.write(_encode_json(_make_fields(entry, ())) + "\n")


def _encode_json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _write_csv(entries: Iterable[Entry], contents: Survey, out: TextIO) -> None:
    columns = [key for key in KEYS if key in ("url", "path") or contents.stated[key]]
    table = csv.writer(out, lineterminator="\n")
    table.writerow(columns)
    for entry in entries:
        fields = _make_fields(entry, contents.headers)
        table.writerow([_encode_cell(fields.get(column)) for column in columns])


def _encode_cell(value: object) -> object:
    return json.dumps(value) if isinstance(value, dict | list | bool) else value


def _write_urls(entries: Iterable[Entry], contents: Survey, out: TextIO) -> None:  # noqa: ARG001 - a writer
    for entry in entries:
        out.write(entry.url.reveal() + "\n")


def _write_aria2(entries: Iterable[Entry], contents: Survey, out: TextIO) -> None:
    for entry in entries:
        if entry.path != entry.path.strip():
            raise UsageError(
                f"aria2 drops the blanks around the name {printable(entry.path)!r}; rename it, or use json"
            )
        out.write("\t".join(url.reveal() for url in (entry.url, *entry.mirrors)))
        out.write(f"\n  out={entry.path}\n")
        if entry.digest is not None and (kind := _ARIA2_TYPES.get(entry.digest.algorithm)):
            out.write(f"  checksum={kind}={entry.digest.hex}\n")
        for name, value in _merge_headers(contents.headers, entry.headers).items():
            out.write(f"  header={name}: {value}\n")


def _write_curl(entries: Iterable[Entry], contents: Survey, out: TextIO) -> None:
    """A file for ``curl --config``; ``next`` keeps one entry's headers from another's request."""
    for position, entry in enumerate(entries):
        path = entry.path if entry.path != "-" else "./-"  # a dash alone would be stdout
        out.write("next\n" if position else "")
        out.write(f"url = {_quote_for_curl(entry.url.reveal())}\noutput = {_quote_for_curl(path)}\n")
        for name, value in _merge_headers(contents.headers, entry.headers).items():
            line = f"{name}: {value}" if value.strip() else f"{name};"  # "NAME:" would remove the header
            out.write(f"header = {_quote_for_curl(line)}\n")
        if entry.range_start is not None and entry.size_bytes is not None:
            if not entry.size_bytes:
                raise UsageError(f"curl has no empty range, as {printable(entry.path)} is; use json")
            out.write(f"range = {entry.range_start}-{entry.range_start + entry.size_bytes - 1}\n")
        out.write("globoff\npath-as-is\ncreate-dirs\nfail\nlocation\n")


def _quote_for_curl(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t") + '"'


def _write_checksums(entries: Iterable[Entry], contents: Survey, out: TextIO) -> None:  # noqa: ARG001 - a writer
    for entry in entries:
        if entry.digest is not None and entry.digest.algorithm == "sha256":
            path = entry.path if entry.path != "-" else "./-"  # a dash alone would be stdin
            out.write(f"{entry.digest.hex}  {path}\n")


_ALL = frozenset(KEYS)
_BASE = frozenset({"url", "path"})

TARGETS: dict[str, Target] = {
    "aria2": Target(_write_aria2, _BASE | {"mirrors", "headers"} | _ARIA2_TYPES.keys()),
    "csv": Target(_write_csv, _ALL),
    "curl": Target(_write_curl, _BASE | {"headers", "length"}),
    "json": Target(_write_json, _ALL),
    "jsonl": Target(_write_json_lines, _ALL),
    "sha256sum": Target(_write_checksums, frozenset({"path", "sha256"}), needs="sha256"),
    "urls": Target(_write_urls, frozenset({"url"})),
}
"""The formats that cfetch writes."""
