"""``cfetch download … --to -``: the files go to standard output, as a tar archive or one after the other.

The run has the main thread, as every run of a command; a thread of its own writes what becomes whole. A
reader who is slow holds the run up, and one who has gone ends it.
"""

import io
import os
import sys
import tarfile
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO

from cfetch.app.download import prepare
from cfetch.app.stream import open_plan_place
from cfetch.base.config.layers import Resolved
from cfetch.base.errors import CfetchError, ConfigError, UsageError
from cfetch.base.events import RunFinished, RunStopping
from cfetch.base.secret import SecretUrl, printable
from cfetch.base.threads import start_thread
from cfetch.cli.output import end_with
from cfetch.cli.streams import ReaderGone
from cfetch.manifest.unpacking import check_libraries, unpack
from cfetch.run.stream_run import Handed, Outbox
from cfetch.show.live.open import reading_lines

if TYPE_CHECKING:
    from cfetch.app.prepared import Prepared
    from cfetch.base.config.settings import Settings
    from cfetch.base.events import Event, Listener
    from cfetch.base.records import Summary

MEMBER_MODE = 0o644


def stream_out(
    manifests: list[str],
    resolved: Resolved,
    *,
    run: "Callable[[Prepared, Resolved, Callable[[Listener], Summary]], Summary | None]",
    preview: "Callable[[Prepared, Settings], None]",
) -> None:
    """Write the files of the manifests to stdout, and exit with the summary's code.

    ``run`` and ``preview`` are those of the verb.

    Raises:
        UsageError: stdout is a terminal or is wanted for the summary, or the memory is too small.
    """
    settings = resolved.settings
    if settings.to != ("-",):
        raise ConfigError("--to - is standard output, and cannot be one of several destinations")
    if settings.json:
        raise ConfigError("--json prints the summary on standard output, which --to - needs for the files")
    if sys.stdout.isatty():
        raise UsageError("standard output is a terminal; send it to a program or a file: | tar -x, > all.tar")
    joined, unpacked = settings.joined, settings.unpacked
    if unpacked:
        check_libraries()
    most_bytes = settings.memory // 2 if unpacked else settings.memory
    manifest, *more = manifests
    shown = str(SecretUrl(manifest)) if "://" in manifest else manifest
    with ExitStack() as stack:
        placed = stack.enter_context(open_plan_place(settings))
        prepared = stack.enter_context(
            prepare(
                manifest,
                placed,
                more=more,
                env=os.environ,
                progress=reading_lines(shown, quiet=settings.quiet),
                needs_room=False,
            )
        )
        if settings.dry_run:
            preview(prepared, settings)
            return
        pack = _Joined(sys.stdout.buffer) if joined else _Tar(sys.stdout.buffer)
        # joined bytes have no other order than the manifest's
        is_ordered = settings.ordered or joined
        writing = _Writing(pack, ordered=is_ordered, most_unpacked=most_bytes if unpacked else None)

        def bring(listener: "Listener") -> "Summary":
            return writing.bring(prepared, most_bytes, listener)

        summary = run(prepared, resolved, bring)
    assert summary is not None
    end_with(summary, json=False)


class _Tar:
    """A tar archive; it gets its end only when all is written."""

    can_skip = True

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._tar = tarfile.open(mode="w|", fileobj=out, format=tarfile.PAX_FORMAT)  # noqa: SIM115 - until ``end``

    def add(self, path: str, data: bytes) -> None:
        """Add a file. Its time is 0, so that equal files make equal archives."""
        member = tarfile.TarInfo(path)
        member.size, member.mode = len(data), MEMBER_MODE
        self._tar.addfile(member, io.BytesIO(data))

    def end(self) -> None:
        """Write the archive's end."""
        self._tar.close()
        self._out.flush()


class _Joined:
    """The bytes of all files, one after the other."""

    can_skip = False

    def __init__(self, out: BinaryIO) -> None:
        self._out = out

    def add(self, path: str, data: bytes) -> None:  # noqa: ARG002 - as _Tar
        """Add a file."""
        self._out.write(data)

    def end(self) -> None:
        """Write what is not written yet."""
        self._out.flush()


class _Writing:
    """Writes files in a thread, while the main thread brings them."""

    def __init__(self, pack: _Tar | _Joined, *, ordered: bool, most_unpacked: int | None) -> None:
        self._pack = pack
        self._outbox = Outbox(ordered=ordered)
        self._most_unpacked = most_unpacked
        self._error: BaseException | None = None

    def bring(self, prepared: "Prepared", most_bytes: int, listener: "Listener") -> "Summary":
        """Bring the files and write them. Raises what a write has raised."""
        thread = start_thread(self._write_all, "stdout")

        def tell(event: "Event") -> None:
            if not (isinstance(event, RunStopping | RunFinished) and isinstance(self._error, ReaderGone)):
                listener(event)

        try:
            summary = prepared.stream(self._outbox, most_bytes, tell)
        finally:
            self._outbox.close()
            thread.join()
        if self._error is not None:
            raise self._error
        return summary

    def _write_all(self) -> None:
        try:
            while (handed := self._outbox.wait_and_take()) is not None and self._write(handed):
                self._outbox.give_away(handed.key)
            if handed is None:
                self._pack.end()
        except BaseException as error:  # noqa: BLE001 - the main thread raises it
            self._error = error
            self._outbox.stop("what comes cannot be written to standard output")

    def _write(self, handed: Handed) -> bool:
        """Write a file; False: it cannot be had, and nothing may come after it."""
        path = handed.entry.path
        if handed.error is not None:
            if not self._pack.can_skip:
                self._outbox.stop(f"{printable(path)} cannot be had, and nothing may follow in its place")
            return self._pack.can_skip
        data = handed.take()
        if self._most_unpacked is not None:
            try:
                data = unpack(data, self._most_unpacked)
            except CfetchError as error:
                raise type(error)(f"{printable(path)}: {error}") from None
        self._pack.add(path, data)
        return True
