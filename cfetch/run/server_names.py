"""Asks servers for the names of files (``--name-by header``), before anything is downloaded.

A part is named by its path, a later run finds a file by its path, and of two entries with one path the later
one fails. So a plan has all names before it begins; the price is one small request for each file in the first
run (``known_names.py``). An entry whose name cannot be had counts as a row with a fault.
"""

import asyncio
import random
from collections.abc import Callable, Container, Iterator, Sequence
from itertools import islice
from pathlib import Path

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.config.path_filter import PathFilter
from cfetch.base.errors import SourceError
from cfetch.base.secret import printable
from cfetch.manifest.checked_entries import freeze_again
from cfetch.manifest.entry import Entry, SafePath
from cfetch.manifest.faults import Faults, UrlError
from cfetch.manifest.fields import FieldError, Headers, check_path
from cfetch.manifest.folding import KEEPS_NAMES, Folding
from cfetch.manifest.names import name_range
from cfetch.manifest.plan import Plan
from cfetch.manifest.urls import last_segment
from cfetch.run.known_names import KnownNames
from cfetch.run.request_connections import open_transport
from cfetch.storage.resume import identity_of
from cfetch.wire.network import Network
from cfetch.wire.stated_name import ask_name
from cfetch.wire.transport import Transport

AT_ONCE = 16  # requests; as many as a run has downloads by default
MOST_NOTES = 20
BLOCK = 1000  # entries whose names are in memory together

Named = SafePath | SourceError | FieldError | UrlError


def name_by_servers(
    plan: Plan,
    directory: Path,
    *,
    network: Network,
    clock: Clock,
    progress: Callable[[int], None] | None = None,
    report: Callable[[int, str], None] | None = None,
    only: Container[str] | None = None,
    paths: PathFilter | None = None,
    known: KnownNames | None = None,
    asks_all: bool = False,
    folding: Folding = KEEPS_NAMES,
    by_final_url: bool = False,
    clash: str = "fail",
) -> Plan:
    """Freeze the plan again, with the names from servers for entries whose paths the manifest does not state.

    Servers are asked only for names that are not ``known``, unless ``asks_all``. ``report`` gets the line and
    the reason of each entry without a name, which is then left out. ``paths``: which of the names are taken.
    ``by_final_url``: the name is the one in
    the URL after redirects. A name that no file may have is replaced by the URL's, and noted. The other
    arguments are as in ``freeze``.

    Raises:
        ManifestError: there are entries without names, or two with one name.
        LocalFault: ``directory`` cannot be written.
    """
    faults = Faults(report)
    notes: list[str] = []
    link_of = _link_after_redirects if by_final_url else identity_of

    def name_all() -> Iterator[Entry]:
        named, rest = 0, plan.entries()
        while block := list(islice(rest, BLOCK)):
            if known is not None and not asks_all:
                block = _take_known(block, known, link_of)
            names = ask_names(
                block, network, clock, headers=plan.headers, by_final_url=by_final_url, notes=notes
            )
            if known is not None:
                stated = zip(block, names, strict=True)
                known.keep(
                    {
                        link_of(entry): name
                        for entry, name in stated
                        if entry.is_unnamed and isinstance(name, str)
                    }
                )
            for entry, name in zip(block, names, strict=True):
                if isinstance(name, str):
                    named += 1
                    yield name_entry(entry, name) if entry.is_unnamed else entry
                else:
                    faults.add(entry.line, f"the name of {entry.url} cannot be had: {name}")
            if progress is not None:
                progress(named)
        if report is not None and named:
            faults.forgive(0)

    frozen = freeze_again(
        plan, name_all(), faults, directory=directory, only=only, paths=paths, folding=folding, clash=clash
    )
    if len(notes) > MOST_NOTES:
        notes[MOST_NOTES:] = [f"… and {len(notes) - MOST_NOTES} more names of servers that no file may have"]
    frozen.add_notes(notes)
    return frozen


def _link_after_redirects(entry: Entry) -> str:
    return f"{identity_of(entry)} final-url"


def name_entry(entry: Entry, name: SafePath) -> Entry:
    """The entry under the name that its server has chosen; it replaces no file but cfetch's own."""
    return msgspec.structs.replace(entry, path=name, is_unnamed=False, is_named_by_server=True, clash=None)


def _take_known(entries: Sequence[Entry], known: KnownNames, link_of: Callable[[Entry], str]) -> list[Entry]:
    """Name the entries whose names are known; return all entries."""
    links = [link_of(entry) if entry.is_unnamed else "" for entry in entries]
    paths = known.find([link for link in links if link])
    return [
        name_entry(entry, paths[link]) if link in paths else entry
        for entry, link in zip(entries, links, strict=True)
    ]


def ask_names(
    entries: Sequence[Entry],
    network: Network,
    clock: Clock,
    *,
    headers: Headers = (),
    by_final_url: bool = False,
    notes: list[str] | None = None,
) -> list[Named]:
    """Return the names of the entries, or the errors; ``headers`` go with every request.

    ``notes`` gets a line for each stated name that no file may have; the URL names the file then.
    """
    if not any(entry.is_unnamed for entry in entries):
        return [entry.path for entry in entries]

    async def ask() -> list[Named]:
        turns = asyncio.Semaphore(AT_ONCE)
        async with open_transport(network) as transport:
            asked = (
                _ask_one(entry, headers, transport, clock, turns, notes, by_final_url=by_final_url)
                for entry in entries
            )
            return list(await asyncio.gather(*asked))

    return asyncio.run(ask())


def _check_stated(name: str) -> str:
    """Raises FieldError: programs read files of such names as settings, in a home or a project."""
    if name.startswith("."):
        raise FieldError(f"the server states {printable(name)!r}, and no server may choose a hidden file")
    return name


def _make_path(entry: Entry, name: str) -> SafePath:
    """The path of an entry with this name. Raises FieldError."""
    if entry.range_start is not None:
        name = name_range(name, entry.range_start, entry.size_bytes or 0)
    return check_path(name)


async def _ask_one(
    entry: Entry,
    headers: Headers,
    transport: Transport,
    clock: Clock,
    turns: asyncio.Semaphore,
    notes: list[str] | None,
    *,
    by_final_url: bool,
) -> Named:
    if not entry.is_unnamed:
        return entry.path
    secrets = {name: value.reveal() for name, value in (*headers, *entry.headers)}
    try:
        async with turns:
            stated = await ask_name(
                entry.url,
                secrets,
                transport=transport,
                clock=clock,
                jitter=random.random,
                by_final_url=by_final_url,
                has_hash=entry.digest is not None,
            )
        if stated is not None:
            try:
                return _make_path(entry, _check_stated(stated))
            except FieldError as error:
                if notes is None:
                    raise
                notes.append(f"{entry.url} is named by its URL: {error}")
        return _make_path(entry, last_segment(entry.url.value))
    except (SourceError, FieldError, UrlError) as error:
        return error
