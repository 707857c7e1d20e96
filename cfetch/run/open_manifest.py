"""A manifest by the name that a person gives it: a path, an http(s) URL, or ``-`` for standard input."""

import errno
import glob
import os
import re
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, NamedTuple

from cfetch.base.clock import Clock, SystemClock
from cfetch.base.errors import LocalFault, SourceError, UsageError
from cfetch.base.registry import find_source
from cfetch.base.schemes import KNOWN, find_doi, scheme_of
from cfetch.base.secret import SecretUrl, hide_login, printable
from cfetch.manifest.freezing import ManifestPart, Opened
from cfetch.storage.files import input_fault
from cfetch.wire.network import DIRECT, Network

_ONE_SLASH = r"([a-z][a-z0-9+]+):/([^/].*)"


def is_elsewhere(manifest: str) -> bool:
    """Whether the name means no local file, but a document of a server or store, or a listing of objects."""
    row = find_source(scheme_of(manifest))
    return (row is not None and row.may_be_list) or find_doi(manifest) is not None


def shown_name(manifest: str) -> str:
    """The manifest's name for messages, without secrets."""
    if manifest == "-":
        return "stdin"
    return str(SecretUrl(manifest)) if "://" in manifest else printable(hide_login(manifest))


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
    from cfetch.manifest.spool import open_spool  # most lists are read where they are

    with open_spool() as spool:
        try:
            if manifest == "-":
                _copy_stdin(spool)
                opened = Opened(spool)
            else:
                # a manifest on this machine needs nothing of what asks servers for one
                from cfetch.run.fetched_manifest import fetch_manifest

                opened = fetch_manifest(
                    spool, manifest, clock or SystemClock(), network, whole_tree=whole_tree
                )
            spool.seek(0)
        except SourceError as error:
            remedy = "; is the address right?" if error.http_status in (404, 410) else ""
            raise UsageError(f"cannot read the manifest {shown_name(manifest)}: {error}{remedy}") from None
        except OSError as error:
            raise LocalFault(
                f"cannot keep {shown_name(manifest)} in a temporary file: {error.strerror}"
            ) from None
        yield opened


def _copy_stdin(spool: BinaryIO) -> None:
    """Write standard input to ``spool``. Raises OSError; UsageError: it is closed."""
    try:
        shutil.copyfileobj(sys.stdin.buffer, spool)
    except OSError as error:
        if error.errno != errno.EBADF:  # the disk of the temporary file says other things
            raise
        raise UsageError(
            "cannot read the manifest from standard input: it is closed; name a file, or give it with <"
        ) from None


def _open_file(manifest: str) -> BinaryIO:
    if not manifest:  # Path("") is the working directory
        raise UsageError("the name of a manifest is empty; is a variable of the shell not set?")
    try:
        file = Path(manifest).open("rb")  # noqa: SIM115 - handed over to a with
    except OSError as error:
        what = f"cannot read the manifest {shown_name(manifest)}"
        if scheme_of(manifest):
            why = f"its scheme is not {KNOWN}; fetch the list first, and give the file"
            raise UsageError(f"{what}: {why}") from None
        fault = input_fault(error, what)
        if error.errno == errno.ENOENT:
            _refuse_one_slash(manifest)
        if error.errno == errno.ENOENT and manifest.endswith("/"):
            raise UsageError(
                f"{what}: {error.strerror}; if the files are to go there, write --to {shown_name(manifest)}"
            ) from None
        raise fault from None
    if not file.seekable():
        file.close()
        raise UsageError(f"{shown_name(manifest)} is a pipe; give it as standard input with -")
    return file


def _refuse_one_slash(manifest: str) -> None:
    """Raise UsageError for the name of no file that is a URL but for one slash, as ``s3:/bucket/list``."""
    if slip := re.match(_ONE_SLASH, manifest):
        meant = shown_name(f"{slip[1]}://{slip[2]}")
        raise UsageError(f"there is no such file, and a URL has two slashes: write {meant}") from None


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
            if is_directory:
                raise UsageError(f"there are no manifests in {shown_name(name)}; name a list")
            _refuse_one_slash(name)
            raise UsageError(f"no file has a name like {shown_name(name)}; are you in the right directory?")
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


def make_part(
    manifest: str, clock: Clock, network: Network, *, own_url: str | None = None, whole_tree: bool = False
) -> ManifestPart:
    """A manifest for ``freeze``; ``own_url`` counts as its address if it does not come from a server.

    ``whole_tree`` is as in ``open_manifest``.
    """

    @contextmanager
    def open_now() -> Iterator[Opened]:
        with open_manifest(manifest, clock, network=network, whole_tree=whole_tree) as opened:
            yield opened._replace(own_url=opened.own_url or own_url)

    return ManifestPart(shown_name(manifest), open_now)


def name_list(manifests: Sequence[str]) -> str:
    """The name, for messages, of manifests that are read as one."""
    return shown_name(manifests[0]) if len(manifests) == 1 else f"a list of {len(manifests)} manifests"
