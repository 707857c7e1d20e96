"""A manifest by the name that a person gives it: a path, an http(s) URL, or ``-`` for standard input."""

import asyncio
import glob
import os
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from cfetch.base.clock import Clock, SystemClock
from cfetch.base.config.reading import STANDARD, ReadingOptions
from cfetch.base.errors import LocalFault, SourceError, UsageError
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.faults import BrokenDocumentError
from cfetch.manifest.formats.detection import detect_format
from cfetch.manifest.formats.table import INDEX, Continued, find_more
from cfetch.manifest.freezing import Opened, Part, freeze
from cfetch.manifest.names import refuse_server_names
from cfetch.manifest.object_urls import Listing, is_object_url, split_object_url
from cfetch.manifest.plan import Plan
from cfetch.manifest.repository_hub import find_endpoint
from cfetch.manifest.repository_urls import is_repository_url, make_link, split_repository_url
from cfetch.manifest.source import Source
from cfetch.manifest.urls import is_url
from cfetch.run.asking import open_transport
from cfetch.run.listings import find_further_page, find_listing, leads_away, list_files
from cfetch.run.rejected_rows import describe_skipped
from cfetch.run.server_names import name_by_servers
from cfetch.storage.files import input_fault
from cfetch.wire.document import MAX_MANIFEST_BYTES, Fetched, fetch_document
from cfetch.wire.network import DIRECT, Network


def is_elsewhere(manifest: str) -> bool:
    """Whether the name means no local file, but a document of a server or store, or a listing of objects."""
    return is_url(manifest) or is_object_url(manifest) or is_repository_url(manifest)


def shown_name(manifest: str) -> str:
    """The manifest's name for messages, without secrets."""
    if manifest == "-":
        return "stdin"
    return str(SecretUrl(manifest)) if "://" in manifest else printable(manifest)


@contextmanager
def open_manifest(
    manifest: str, clock: Clock | None = None, *, network: Network = DIRECT, whole_tree: bool = False
) -> Iterator[Opened]:
    """Open a manifest; with ``whole_tree``, a directory index lists all directories below it too.

    Raises:
        UsageError: the manifest cannot be had.
        LocalFault: its disk fails, or no temporary file can be written.
    """
    if manifest != "-" and not is_elsewhere(manifest):
        with _open_file(manifest) as file:
            yield Opened(file)
        return
    with tempfile.TemporaryFile() as spool:
        try:
            opened = _fetch_manifest(spool, manifest, clock or SystemClock(), network, whole_tree=whole_tree)
            spool.seek(0)
        except SourceError as error:
            remedy = "; is the address right?" if error.http_status in (404, 410) else ""
            raise UsageError(f"cannot read the manifest {shown_name(manifest)}: {error}{remedy}") from None
        except OSError as error:
            raise LocalFault(
                f"cannot keep {shown_name(manifest)} in a temporary file: {error.strerror}"
            ) from None
        yield opened


def _fetch_manifest(
    spool: BinaryIO, manifest: str, clock: Clock, network: Network, *, whole_tree: bool
) -> Opened:
    """Write the manifest to ``spool``; if its name means a list of files, write the rows of that list.

    Raises SourceError, UsageError, OSError.
    """
    if manifest == "-":
        shutil.copyfileobj(sys.stdin.buffer, spool)
        return Opened(spool)
    if (listing := _find_listing(manifest)) is not None:
        _write_rows(spool, (file.row for file in list_files(listing, clock, network)))
        return Opened(spool)
    fetched = asyncio.run(fetch_to(spool, _find_document(manifest), clock, network))
    own_url, doubt = fetched.place.reveal(), _find_doubt(manifest, fetched)
    if is_object_url(manifest):
        own_url = manifest[: manifest.rindex("/") + 1]
    more = _find_more(spool, own_url, whole_tree=whole_tree, is_page=is_url(manifest))
    if more is not None:
        _write_rows(spool, more.list_files(clock, network))
        return Opened(spool, own_url, doubt or more.doubt, more.notes)
    return Opened(spool, own_url, doubt)


def _find_more(spool: BinaryIO, own_url: str, *, whole_tree: bool, is_page: bool) -> Continued | None:
    """The rest of the list in ``spool``, if it is one whose rest has to be asked for.

    ``whole_tree``: the directories below a directory index are wanted too. ``is_page``: the document comes
    from an http(s) URL, so that it may name a next page.
    """
    source = Source(spool, own_url=own_url)
    name = detect_format(source)
    if not (whole_tree if name == INDEX else is_page):
        return None
    try:
        return find_more(source, name)
    except BrokenDocumentError:  # the format's reader reports it
        return None


def _write_rows(spool: BinaryIO, rows: Iterable[object]) -> None:
    """Replace the document in ``spool`` by the rows of a list."""
    spool.seek(0)
    spool.truncate()
    spool.writelines(msgspec.json.encode(row) + b"\n" for row in rows)


def _find_listing(manifest: str) -> Listing | None:
    """The listing that a URL of objects means; None for a manifest by itself. Raises UsageError."""
    if is_object_url(manifest) and split_object_url(manifest) is None:
        raise UsageError(f"{shown_name(manifest)} is no URL of a bucket, like s3://bucket/prefix/")
    if is_repository_url(manifest) and split_repository_url(manifest) is None:
        raise UsageError(
            f"{shown_name(manifest)} is no URL of a repository, like hf://datasets/owner/name@revision/"
        )
    return find_listing(manifest)


def _find_document(manifest: str) -> SecretUrl:
    """The URL of the manifest itself."""
    file = split_repository_url(manifest)
    return SecretUrl(manifest if file is None else make_link(file, find_endpoint()))


def _find_doubt(manifest: str, fetched: Fetched) -> str | None:
    """The reason why the document may lack files of its source; None: there is no such reason."""
    if (doubt := find_further_page(fetched.headers)) is not None:
        return doubt
    if is_url(manifest) and leads_away(SecretUrl(manifest), fetched.source):
        return f"its server redirects it to {fetched.source}, which may be another list; give the URL of that"
    return None


def _open_file(manifest: str) -> BinaryIO:
    if not manifest:  # Path("") is the working directory
        raise UsageError("the name of a manifest is empty; is a variable of the shell not set?")
    try:
        file = Path(manifest).open("rb")  # noqa: SIM115 - handed over to a with
    except OSError as error:
        what = f"cannot read the manifest {shown_name(manifest)}"
        if "://" in manifest:
            why = "its scheme is not http, https, s3, gs, az or hf; fetch the list first, and give the file"
            raise UsageError(f"{what}: {why}") from None
        raise input_fault(error, what) from None
    if not file.seekable():
        file.close()
        raise UsageError(f"{shown_name(manifest)} is a pipe; give it as standard input with -")
    return file


async def fetch_to(
    sink: BinaryIO, url: SecretUrl, clock: Clock, network: Network, *, max_bytes: int = MAX_MANIFEST_BYTES
) -> Fetched:
    """Write the document at ``url`` to ``sink``, over a connection of its own.

    Raises:
        SourceError: it cannot be had.
    """
    async with open_transport(network) as transport:
        return await fetch_document(
            url, sink, transport=transport, clock=clock, jitter=random.random, max_bytes=max_bytes
        )


class Expanded(NamedTuple):
    """The names of manifests; ``notes`` say what was left out in the given directories."""

    manifests: list[str]
    notes: list[str]


def expand_manifests(names: Sequence[str]) -> Expanded:
    """Expand names: a directory becomes the files directly in it, a pattern the files that it matches.

    The files are in the order of names; names that begin with a dot or an underscore are left out.

    Raises:
        UsageError: a name stands for no manifest.
    """
    manifests: dict[str, None] = {}
    notes: list[str] = []
    for name in names:
        path, is_directory = Path(name), os.path.isdir(name)
        if name == "-" or is_elsewhere(name) or not (is_directory or glob.has_magic(name)) or path.is_file():
            manifests[name] = None
            continue
        try:
            within = path.iterdir() if is_directory else map(Path, glob.iglob(name))  # noqa: PTH207 - it may be absolute
            candidates = [path for path in within if path.name[0] not in "._"]
            directories = sum(path.is_dir() for path in candidates)
            # with broken symlinks: an entry must not be missing without an error
            files = sorted(str(path) for path in candidates if path.is_file() or not path.exists())
        except OSError as error:
            raise input_fault(error, f"cannot read {shown_name(name)}") from None
        if not files:
            raise UsageError(f"there are no manifests in {shown_name(name)}")
        manifests |= dict.fromkeys(files)
        if directories:
            notes.append(f"directories in {shown_name(name)} that are left out: {directories}; name them too")
    if len(manifests) > 1 and "-" in manifests:
        raise UsageError("standard input cannot be one of several manifests; give it by itself")
    return Expanded(list(manifests), notes)


def refuse_empty(entries: int, name: str, *, allowed: bool) -> None:
    """Raise UsageError if a list has no entries: perhaps the command that writes it has failed."""
    if not allowed and not entries:
        raise UsageError(
            f"{name} has no entries; did the command that writes it fail? If it may be empty, say "
            "--allow-empty"
        )


def refuse_unmatched(entries: int, name: str, *, allowed: bool) -> None:
    """Raise UsageError if --include and --exclude have left nothing."""
    if not allowed and not entries:
        raise UsageError(
            f"{name}: no path matches --include and --exclude; a pattern is for the whole path, as "
            "'*.parquet' or '2026/*'"
        )


def make_part(
    manifest: str, clock: Clock, network: Network, *, own_url: str | None = None, whole_tree: bool = False
) -> Part:
    """A manifest for ``freeze``; ``own_url`` counts as its address if it does not come from a server.

    ``whole_tree`` is as in ``open_manifest``.
    """

    @contextmanager
    def open_now() -> Iterator[Opened]:
        with open_manifest(manifest, clock, network=network, whole_tree=whole_tree) as opened:
            yield opened._replace(own_url=opened.own_url or own_url)

    return Part(shown_name(manifest), open_now)


def name_list(manifests: Sequence[str]) -> str:
    """The name, for messages, of manifests that are read as one."""
    return shown_name(manifests[0]) if len(manifests) == 1 else f"a list of {len(manifests)} manifests"


def _ignore(_: str) -> None:
    pass


class ManifestReader(NamedTuple):
    """The way in which a command reads its manifests: by which options, over which network.

    ``base_url`` is the base of relative URLs. ``progress`` gets the number of entries that have been read,
    and ``emit_line`` notes for the user.
    """

    options: ReadingOptions = STANDARD
    base_url: str | None = None
    allow_empty: bool = True
    network: Network = DIRECT
    progress: Callable[[int], None] | None = None
    emit_line: Callable[[str], None] = _ignore

    @contextmanager
    def freeze(
        self,
        *names: str,
        own_url: str | None = None,
        file_network: Callable[[Plan], Network] | None = None,
        whole_tree: bool = False,
    ) -> Iterator[Plan]:
        """Freeze and validate manifests as a whole, in a temporary directory that only its owner can read.

        ``own_url`` counts as the address of manifests that do not come from a server. ``file_network`` makes
        the network to the files' servers, if these may be asked for names. ``whole_tree`` is as in
        ``open_manifest``.

        Raises:
            UsageError: a manifest cannot be had, or has faults.
            LocalFault: this machine cannot store it.
        """
        if file_network is None:
            refuse_server_names(self.options.name_by)
        clock = SystemClock()
        manifests, notes = expand_manifests(names)
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cfetch-")))
            plan = stack.enter_context(
                freeze(
                    [
                        make_part(manifest, clock, self.network, own_url=own_url, whole_tree=whole_tree)
                        for manifest in manifests
                    ],
                    name=name_list(manifests),
                    directory=directory,
                    progress=self.progress,
                    base_url=self.base_url,
                    options=self.options,
                )
            )
            if file_network is not None and self.options.name_by == "header":
                (directory / "named").mkdir(0o700)
                plan = stack.enter_context(
                    name_by_servers(
                        plan,
                        directory / "named",
                        network=file_network(plan),
                        clock=clock,
                        only=self.options.paths.narrow(None),
                    )
                )
            plan.add_notes(notes)
            if not self.options.paths.takes_all:
                refuse_unmatched(len(plan), plan.source, allowed=self.allow_empty)
            refuse_empty(len(plan), plan.source, allowed=self.allow_empty)
            for note in (*plan.notes, *self.network.notes):
                self.emit_line(note)
            if plan.skipped:
                self.emit_line(describe_skipped(plan.skipped))
            yield plan


STANDARD_READER = ManifestReader()
