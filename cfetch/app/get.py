"""One or a few files, named by their URLs: the same engine, guard and summary as a manifest's.

The URLs become entries of a plan that is called «the list of URLs». A hash is stated (``--sha256 HEX``), or
lies beside the file on the server, as ``URL.sha256``.
"""

import asyncio
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from io import BytesIO
from pathlib import PurePath
from urllib.parse import urlsplit, urlunsplit

from msgspec.structs import replace as replace_fields

from cfetch.app.given import prepare_entries
from cfetch.app.prepared import Prepared
from cfetch.base.clock import Clock, SystemClock
from cfetch.base.config.kinds import is_object_store
from cfetch.base.config.reading import ASKING, STANDARD, ReadingOptions
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ManifestError, SourceError, UsageError
from cfetch.base.schemes import find_doi, is_object_url
from cfetch.base.secret import SecretUrl, hide_login, printable
from cfetch.manifest.entry import Digest, Entry, SafePath
from cfetch.manifest.faults import Faults, UrlError
from cfetch.manifest.fields import FieldError, check_hash, check_path
from cfetch.manifest.folding import is_state_name
from cfetch.manifest.names import choose_path
from cfetch.manifest.reading import read_entries
from cfetch.manifest.repository_hub import find_endpoint
from cfetch.manifest.rows import Document, Row, check_row
from cfetch.manifest.urls import last_segment, strip_signature
from cfetch.run.fetched_manifest import fetch_to
from cfetch.run.header_hosts import aim_headers, aim_repository_token
from cfetch.run.listings import find_listing, list_files
from cfetch.run.server_names import ask_names, name_entry
from cfetch.run.traces import Traces
from cfetch.storage.files import STATE_NAME
from cfetch.wire.network import Network, make_network

NAME = "the list of URLs"
BESIDE = "beside"
_HEX = re.compile(r"[0-9A-Fa-f]{64}\Z")
_LONGEST_SIDECAR = 1 << 20  # bytes: enough for the hashes of ten thousand files


@contextmanager
def prepare_get(
    urls: Sequence[str],
    settings: Settings,
    *,
    output: str | None = None,
    sha256: str | None = None,
    env: Mapping[str, str],
    clock: Clock | None = None,
) -> Iterator[Prepared]:
    """Make a plan of ``urls``, which is run in the same way as the plan of a download.

    ``output`` names the file of a single URL. ``sha256`` is 64 hexadecimal digits, or ``BESIDE``: each hash
    is read from the URL with ``.sha256`` behind its path.

    Raises:
        UsageError: a URL, the name or the hash is wrong, or there is no hash beside a file.
        LocalFault: as ``prepare_entries``.
    """
    clock = clock or SystemClock()
    for url in urls:
        _require_scheme(url)
    are_several = len(urls) > 1 or any(find_listing(url) for url in urls)
    stated = None if sha256 is None or sha256 == BESIDE else _check_sha256(sha256)
    settings, name = _choose_place(settings, output)
    if are_several and (name is not None or stated is not None):
        option = "--output" if name is not None else "--sha256 HEX"
        raise UsageError(f"{option} is for one file; run `cfetch get` for each file by itself")
    settings = aim_repository_token(settings, urls, env)
    files = _list_files(urls, clock, make_network(settings.network, env))
    entries = _make_entries(files, name, settings.name_by)
    settings = aim_headers(settings, dict.fromkeys(entry.url.host() for entry in entries))
    by_final_url = settings.name_by == "final-url"
    entries = _ask_names(entries, make_network(settings.network, env), clock, by_final_url=by_final_url)
    if sha256 is not None:
        network = make_network(settings.network, env)
        digests = (stated or _read_hash_beside(entry.url, clock, network) for entry in entries)
        entries = [replace_fields(e, digest=digest) for e, digest in zip(entries, digests, strict=True)]
    with prepare_entries(entries, NAME, settings, env=env, clock=clock, traces=Traces) as prepared:
        yield prepared


def _check_sha256(value: str) -> Digest:
    """Check the hash that the user gives. Raises UsageError."""
    try:
        return check_hash("sha256", value)
    except FieldError as error:
        raise UsageError(f"--sha256: {error}, or the word beside, by which URL.sha256 is read") from None


def _require_scheme(url: str) -> None:
    """Raise UsageError if ``url`` is no URL, but empty, or the name of a file or of a host."""
    if not url.strip():
        raise UsageError("the URL is empty; is a variable of the shell unset?")
    if "://" not in url:
        shown = printable(hide_login(url.partition("?")[0]))
        if re.match("magnet:", url, re.IGNORECASE):
            raise UsageError("a magnet: link names a torrent and no file on a server; aria2 downloads it")
        remedy = (
            f"for the list in that file run `cfetch download {shown}`"
            if os.path.isfile(url)
            else f"for the files of the record run `cfetch download {shown}`"
            if find_doi(url) is not None
            else "write http:// or https:// before it"
        )
        raise UsageError(f"{shown} is no URL; {remedy}")


def _choose_place(settings: Settings, output: str | None) -> tuple[Settings, str | None]:
    """The settings with the directory of ``output``, and the file's name within it."""
    if output is None:
        return settings, None
    if len(settings.to) > 1:
        raise UsageError("--output names one file; give one --to")
    if output in ("-", ""):
        raise UsageError(
            f"--output is {printable(output)!r}, which names no file; standard output is not supported"
        )
    [directory] = settings.to
    if is_object_store(directory):
        return settings, output
    path = PurePath(directory, output)
    if any(map(is_state_name, PurePath(output).parts)):
        raise UsageError(
            f"--output is {printable(output)!r}; {STATE_NAME} is the name of cfetch's state directory"
        )
    if output.endswith("/") or os.path.isdir(path):  # as with cp
        return replace(settings, to=(str(path),)), None
    return replace(settings, to=(str(path.parent),)), path.name


def _make_entries(files: Iterator[dict[str, object]], name: str | None, name_by: str) -> list[Entry]:
    """Check the URLs by the rules of a manifest's, and name their files. Raises UsageError."""
    faults, document, entries = Faults(), Document(options=STANDARD, hub=find_endpoint), []
    for index, fields in enumerate(files):
        path = fields.get("path", name)
        entry = check_row(Row(0, {**fields, "path": path or "unnamed"}), index, document, faults)
        if entry is not None:
            if path is None:
                asks = name_by in ASKING
                chosen = _choose_name(entry, "hash" if asks else name_by)
                entry = replace_fields(entry, path=chosen, is_unnamed=asks)
            entries.append(entry)
    faults.raise_if_any(NAME)
    return entries


def _list_files(urls: Sequence[str], clock: Clock, network: Network) -> Iterator[dict[str, object]]:
    """The fields of each file; a prefix or a pattern is listed. Raises UsageError."""
    for url in urls:
        listing = find_listing(url)
        if listing is None:
            yield {"url": url}
            continue
        files = list(list_files(listing, clock, network))
        if not files:
            raise UsageError(f"no file is meant by {printable(url)}; correct the prefix or the pattern")
        yield from (file.row for file in files)


def _ask_names(entries: list[Entry], network: Network, clock: Clock, *, by_final_url: bool) -> list[Entry]:
    """Give entries without a name the name that their servers state. Raises UsageError."""
    if not any(entry.is_unnamed for entry in entries):
        return entries
    named = []
    asked = ask_names(entries, network, clock, by_final_url=by_final_url)
    for entry, name in zip(entries, asked, strict=True):
        if not isinstance(name, str):
            raise UsageError(f"the name of {entry.url} cannot be had: {name}; name it with -o FILE")
        named.append(name_entry(entry, name) if entry.is_unnamed else entry)
    return named


def _choose_name(entry: Entry, name_by: str) -> SafePath:
    url = entry.url.reveal()
    try:
        return check_path(last_segment(url) if name_by == "last" else choose_path(url, entry.id, name_by))
    except (FieldError, UrlError) as error:
        raise UsageError(f"{entry.url} gives the file no name: {error}; name it with -o FILE") from None


def _add_ending(url: str, ending: str) -> str:
    if is_object_url(url):
        return url + ending
    parts = urlsplit(url)
    return urlunsplit(parts._replace(path=parts.path + ending, fragment=""))


def _read_hash_beside(url: SecretUrl, clock: Clock, network: Network) -> Digest:
    """The SHA-256 that the server states beside the file. Raises UsageError: it states none."""
    if strip_signature(url.reveal()) != url.reveal():
        raise UsageError(f"{url} is signed for one file; state its hash: --sha256 HEX")
    beside = SecretUrl(_add_ending(url.reveal(), ".sha256"))
    file = BytesIO()
    try:
        asyncio.run(fetch_to(file, beside, clock, network, max_bytes=_LONGEST_SIDECAR))
    except SourceError as error:
        raise UsageError(f"cannot read a hash at {beside}: {error}; state it: --sha256 HEX") from None
    text = file.getvalue()
    if _HEX.match(plain := text.decode("ascii", "replace").strip()):
        return Digest("sha256", plain.lower())
    try:
        entries = list(
            read_entries(
                BytesIO(text),
                name=str(beside),
                base_url="https://h.invalid/",
                options=ReadingOptions(from_format="sha256sum"),
            )
        )
    except ManifestError:
        raise UsageError(f"{beside} is no list of SHA-256 hashes; state the hash: --sha256 HEX") from None
    name = last_segment(url.reveal())
    for entry in entries:
        names_it = len(entries) == 1 or entry.path.rpartition("/")[2] == name
        if names_it and entry.digest is not None and entry.digest.algorithm == "sha256":
            return entry.digest
    raise UsageError(f"{beside} has no SHA-256 of {printable(name)}; state the hash: --sha256 HEX")
