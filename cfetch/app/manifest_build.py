"""``cfetch manifest build``: a manifest made from a list of URLs, or from a directory tree.

A list's files get the sizes that their servers state; a tree's files get sizes and SHA-256.
"""

import asyncio
import random
import threading
from array import array
from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import msgspec

from cfetch.app.work_ahead import work_ahead
from cfetch.base.clock import Clock, SystemClock
from cfetch.base.errors import SourceError
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.entry import Digest, Entry, UnsafePathError, safe_path
from cfetch.manifest.faults import Faults
from cfetch.manifest.plan import Plan
from cfetch.manifest.reading import check_base_url
from cfetch.manifest.url_completion import make_relative_url
from cfetch.manifest.writing import TARGETS, Survey, survey
from cfetch.run.manifest_reader import STANDARD_READER, ManifestReader
from cfetch.run.request_connections import open_transport
from cfetch.storage.files import local_fault
from cfetch.storage.outputs import open_output
from cfetch.storage.tree import ReadOnlyTree, Stopped
from cfetch.wire.document import Prober
from cfetch.wire.network import Network
from cfetch.wire.transport import Transport

PROBES = 16  # under way at once; as many as a download has by default
UNKNOWN = -1

Advance = Callable[[int, int], None]
EmitLine = Callable[[str], None]


def build_from_list(
    manifest: str,
    output: Path | None,
    reader: ManifestReader = STANDARD_READER,
    *,
    probing: bool = True,
    file_network: Callable[[Plan], Network] | None = None,
    advance: Advance,
) -> int:
    """Write a list of any format as JSON, with the sizes that it lacks; return how many files failed.

    A file that cannot be had stays in the list without a size, and the user is told. ``advance`` gets the
    files and bytes that are done. ``file_network`` makes the network to the files, if that is not the list's.

    Raises:
        UsageError: the list cannot be had or has faults.
        LocalFault: ``output`` cannot be written.
    """
    reach = file_network or (lambda _: reader.network)
    with reader.freeze(manifest, file_network=reach) as plan:
        sizes = array("q", plan.sizes)
        failed = 0
        if probing:
            failed = asyncio.run(_probe_all(plan, sizes, reach(plan), advance, reader.emit_line))
        contents = survey(_fill_sizes(plan, sizes), plan.headers)
        with open_output(output, private=contents.has_secrets) as out:
            TARGETS["json"].write(_fill_sizes(plan, sizes), contents, out)
    return failed


def _where(entry: Entry) -> str:
    return f" from {entry.url}" + (f", line {entry.line}" if entry.line else "")


def _fill_sizes(plan: Plan, sizes: "array[int]") -> Iterator[Entry]:
    for index, size_bytes in enumerate(sizes):
        known = None if size_bytes == UNKNOWN else size_bytes
        yield msgspec.structs.replace(plan.entry(index), size_bytes=known)


async def _probe_all(
    plan: Plan, sizes: "array[int]", network: Network, advance: Advance, emit_line: EmitLine
) -> int:
    async with open_transport(network) as transport:
        return await probe(plan, sizes, transport, SystemClock(), advance=advance, emit_line=emit_line)


async def probe(
    plan: Plan,
    sizes: "array[int]",
    transport: Transport,
    clock: Clock,
    *,
    advance: Advance,
    emit_line: EmitLine,
) -> int:
    """Fill in the sizes that are -1, ``PROBES`` at once; return how many files failed."""
    prober = Prober(transport, clock, random.random)
    indexes = iter(range(len(plan)))
    headers = {name: value.reveal() for name, value in plan.headers}
    failed = 0

    async def work() -> None:
        nonlocal failed
        for index in indexes:
            if sizes[index] == UNKNOWN:
                entry = plan.entry(index)
                own = headers | {name: value.reveal() for name, value in entry.headers}
                try:
                    size = await prober.ask_size_bytes(entry.url, own)
                    sizes[index] = UNKNOWN if size is None else size
                except SourceError as error:
                    failed += 1
                    emit_line(
                        f"{printable(entry.path)}: {error}{_where(entry)}; it is in the list, without size"
                    )
            advance(1, max(0, sizes[index]))

    async with asyncio.TaskGroup() as group:
        for _ in range(PROBES):
            group.create_task(work())
    return failed


def build_from_tree(
    root: Path, output: Path | None, *, base_url: str | None = None, advance: Advance, emit_line: EmitLine
) -> None:
    """Write all regular files below ``root`` as JSON with relative URLs; other files are reported, left out.

    Raises:
        UsageError: there is no such directory, or it has names that a manifest cannot hold (all are named).
        LocalFault: a file cannot be read, or ``output`` cannot be written.
    """
    base_url = None if base_url is None else check_base_url(base_url)
    with ReadOnlyTree(root) as tree:
        _check_names(tree, emit_line)
        contents = Survey((), base_url=base_url)
        with open_output(output, private=False) as out:
            TARGETS["json"].write(_hash_tree(tree, advance), contents, out)


def _check_names(tree: ReadOnlyTree, emit_line: EmitLine) -> None:
    """Report all names that no manifest can hold, before the first file is hashed."""
    faults = Faults()
    for path, is_file in tree.walk():
        if not is_file:
            emit_line(f"{printable(path)}: left out, it is a symlink or a special file")
            continue
        try:
            safe_path(path)
        except UnsafePathError as error:
            faults.add(0, str(error))
    faults.raise_if_any(printable(str(tree.root)))


def _hash_tree(tree: ReadOnlyTree, advance: Advance) -> Generator[Entry, None, None]:
    """Yield an entry for each file, in the order of the walk; threads hash a few files ahead."""
    stop = threading.Event()

    def read(size_bytes: int) -> None:
        if stop.is_set():
            raise Stopped
        advance(0, size_bytes)

    def hash_file(numbered: tuple[int, str]) -> Entry:
        return _hash_entry(tree, *numbered, read)

    paths = (listed.path for listed in tree.walk() if listed.is_file)
    for entry in work_ahead(hash_file, enumerate(paths), stop):
        advance(1, 0)
        yield entry


def _hash_entry(tree: ReadOnlyTree, number: int, path: str, read: Callable[[int], None]) -> Entry:
    try:
        digits, size_bytes = tree.hash_of(path, "sha256", read)
    except OSError as error:
        raise local_fault(error, f"cannot read {printable(path)} below {printable(str(tree.root))}") from None
    return Entry(
        id=number,
        url=SecretUrl(make_relative_url(path)),
        path=safe_path(path),
        size_bytes=size_bytes,
        digest=Digest("sha256", digits),
    )
