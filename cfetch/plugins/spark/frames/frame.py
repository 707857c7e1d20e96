"""The state that a data frame over a manifest keeps on disk: the shares of its plan, and their receipts.

No run owns a frame, as no process lives as long as a data frame; so it is not on the timeline. Its directory
in the state is named by the manifest's contents and the destination: all frames of one manifest over one
directory are one. A share in it has a lock while it is brought, and a receipt after that (``once``). A file
that was frozen before, and has the same bytes, is not frozen again.
A file is published by a rename of a whole and verified part, so another writer to the same directory at that
time, be it another frame or ``cfetch download``, leaves whole files too.
"""

import hashlib
import os
import shutil
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from cfetch.base.errors import LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.base.version import __version__
from cfetch.manifest.fields import Headers
from cfetch.manifest.folding import KEEPS_NAMES
from cfetch.plugins.spark.frames.once import EPOCH, forget_failures, hold_lock
from cfetch.plugins.spark.frames.options import Options
from cfetch.plugins.spark.share_files import ShareFiles, write_shares
from cfetch.run.directories import find_destinations, require_directory
from cfetch.run.fresh_links import ManifestRef
from cfetch.run.manifest_reader import ManifestReader
from cfetch.storage.directory import Directory
from cfetch.storage.files import STATE_NAME, make_private, on_disk, replace_file
from cfetch.storage.name_folding import probe_folding
from cfetch.tasks.hub.messages import HubAddress
from cfetch.tasks.shares.cut import ExpectedPace, count_sharers, cut_shares
from cfetch.tasks.shares.dealing import CutShares
from cfetch.tasks.shares.task_destination import directory_destination
from cfetch.tasks.shares.work import RunSpec, Share
from cfetch.timeline.attempts import ATTEMPTS
from cfetch.wire.network import make_network

FRAMES = "frames"
_FROZEN = "frozen.json"
_SHARES = "shares"
KEEP_S = 30 * 86_400.0  # frames that were not loaded for a month are removed, as they hold links
SINCE_1970 = 0.0  # the times of receipts count from 1970, as frames have no beginning


class FrameState(NamedTuple):
    """A loaded frame as its tasks need it; a partition is the number of a share.

    ``only``: a pattern for the paths of files that are wanted; None: all are.
    """

    spec: RunSpec
    shares: ShareFiles
    content_bytes: int | None
    only: str | None = None

    def read_share(self, number: int) -> Share:
        """The share of that number. Raises LocalFault: it cannot be read; the next load writes it anew."""
        try:
            return self.shares.read_share(number)
        except LocalFault:
            with suppress(OSError):
                Path(self.shares.directory).with_name(_FROZEN).unlink()
            raise


class _Frozen(msgspec.Struct, frozen=True, kw_only=True):
    """The shares of a frame, and the plan's digest and headers (``cfetch.frozen/1``).

    ``source``: what the manifest was read from, see ``_identify_source``; None: it may change unseen, or the
    shares are being written. ``slots`` and ``concurrency``: the same figures give the same shares.
    """

    schema: str = "cfetch.frozen/1"
    source: str | None
    digest: str
    headers: Headers
    shares: ShareFiles
    slots: int
    concurrency: int


def load_frame(manifest: str, options: Options, *, slots: int, hub: HubAddress | None = None) -> FrameState:
    """Freeze ``manifest``, or find it frozen; entries that failed before are tried again.

    Raises:
        UsageError: the manifest cannot be read, or has faults.
        LocalFault: the destination or the state cannot be written.
    """
    state = require_directory(options.settings, "on Spark").state
    source = _identify_source(manifest, options)
    frozen = _find_frozen(source, state / FRAMES)
    if frozen is None:
        frozen = _freeze(manifest, source, options, slots)
    directory = _open_directory(options, frozen.digest)
    spec = make_run_spec(options, directory, manifest, slots=slots, hub=hub)
    with on_disk(directory):
        os.utime(directory)
        make_private(Path(spec.receipts))
    with hold_lock(directory / "lock"):
        forget_failures(Path(spec.receipts))
    sweep_frames(directory.parent, options.root)
    spec = msgspec.structs.replace(spec, headers=frozen.headers)
    return FrameState(spec, frozen.shares, options.content_bytes, options.own.get("only"))


def _identify_source(manifest: str, options: Options) -> str | None:
    """A digest of the manifest's bytes and of all that decides how they are read; None: it is no file."""
    if not os.path.isfile(manifest):
        return None
    settings = options.settings
    how = (
        __version__,
        manifest,
        str(options.root),
        settings.base_url,
        settings.reading,
        os.environ.get("HF_ENDPOINT"),
    )
    with on_disk(Path(manifest)), Path(manifest).open("rb") as file:
        digest = hashlib.file_digest(file, "sha256")
    digest.update(repr(how).encode())
    return digest.hexdigest()


def _find_frozen(source: str | None, frames: Path) -> _Frozen | None:
    """The shares that were written from the same source, if no other source has replaced them since."""
    for path in frames.glob(f"*/{_FROZEN}") if source is not None else ():
        frozen = _read_frozen(path)
        wanted = (source, str(path.with_name(_SHARES)))
        if frozen is not None and (frozen.source, frozen.shares.directory) == wanted:
            return frozen
    return None


def _read_frozen(path: Path) -> _Frozen | None:
    with suppress(OSError, *NOT_DECODED):
        return msgspec.json.decode(path.read_bytes(), type=_Frozen)
    return None


def _freeze(manifest: str, source: str | None, options: Options, slots: int) -> _Frozen:
    """Write the shares anew, as links may be signed anew. Readers see the old files or the new ones."""
    settings, by_slots, concurrency = options.settings, slots, options.settings.concurrency
    network = make_network(settings.network, options.env)
    reader, folding = ManifestReader(settings.reading, settings.base_url, network=network), KEEPS_NAMES
    with suppress(LocalFault), closing(Directory(options.root)) as volume:
        folding = probe_folding(volume)
    with reader.freeze(manifest, folding=folding) as plan:
        directory = _open_directory(options, plan.digest)
        path = directory / _FROZEN
        with hold_lock(directory / "lock"):
            if (before := _read_frozen(path)) is not None:
                by_slots, concurrency = before.slots, before.concurrency
                replace_file(path, msgspec.json.encode(msgspec.structs.replace(before, source=None)))
            cut = cut_shares(
                plan.sizes, plan.host_of, pace=ExpectedPace(concurrency=concurrency), slots=by_slots
            )
            sharers = count_sharers(cut, plan.host_of, slots=slots)
            whole = CutShares(plan, cut.list_members(range(len(plan))), sharers)
            shares = write_shares(directory / _SHARES, whole)
            is_same = source == _identify_source(manifest, options)  # nobody has written to it meanwhile
            frozen = _Frozen(
                source=source if is_same else None,
                digest=plan.digest,
                headers=plan.headers,
                shares=shares,
                slots=by_slots,
                concurrency=concurrency,
            )
            replace_file(path, msgspec.json.encode(frozen))
        return frozen


def _open_directory(options: Options, digest: str) -> Path:
    directory = name_frame_directory(options, f"{__version__} {digest}")
    make_frame_directory(options, directory)
    return directory


def make_frame_directory(options: Options, directory: Path) -> None:
    """Make the directory of a frame, and that for its parts. Raises LocalFault."""
    with closing(Directory(options.root)), on_disk(directory):  # which makes the state private
        make_private(directory)
        make_private(Path(directory_destination(options.root, directory.name, EPOCH).fence))


def name_frame_directory(options: Options, identity: str) -> Path:
    """The path of the directory in the state for one ``identity`` and destination."""
    text = f"{identity}\0{options.root}"
    name = f"{FRAMES}-{hashlib.sha256(text.encode()).hexdigest()[:32]}"
    return find_destinations(options.settings).state / FRAMES / name


def make_run_spec(
    options: Options, directory: Path, manifest: str, *, slots: int, hub: HubAddress | None = None
) -> RunSpec:
    """The facts that all tasks need. The name of ``directory`` takes the place of a plan's instant.

    ``manifest``: the source of fresh links, if it is a URL. ``hub``: of all frames of the driver.
    """
    return RunSpec(
        settings=options.settings,
        headers=(),
        env=options.env,
        origin=ManifestRef(manifest, None, options.settings.base_url, options.settings.reading),
        instant=directory.name,
        epoch=EPOCH,
        destination=directory_destination(options.root, directory.name, EPOCH),
        receipts=str(directory / "receipts"),
        wall_start_s=SINCE_1970,
        part_s=float("inf"),  # no parts: a frame is read when its shares are over
        at_a_time=slots,
        hub=hub,
    )


def sweep_frames(frames: Path, root: Path) -> None:
    """Remove frames that were not loaded for long, and the parts that their dead tasks have left."""
    now_s, attempts = time.time(), root / STATE_NAME / ATTEMPTS
    with suppress(OSError):
        for path in list(frames.iterdir()):
            if now_s - path.stat().st_mtime > KEEP_S:
                shutil.rmtree(attempts / path.name, ignore_errors=True)
                shutil.rmtree(path, ignore_errors=True)
