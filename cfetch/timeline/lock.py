"""The table lock: keeps executors and cleaners apart for a few file operations.

It makes refusals clear and races rare. Safety does not depend on it: a holder may be stopped for an hour, be
taken for dead, and wake up inside its transaction. It then renames from names that no longer exist
(``states``), and these renames fail.

The lock is the file ``lock``, made with O_EXCL. A process, the holder or one that breaks the lock, removes it
in two steps: it renames the file to a name of its own, and reads it; another holder's lock is put back. A
lock is broken when its holder's process is proved dead, or when the same lock has been seen for ``EXPIRY_S``
on the observer's own monotonic clock. A lock that names nobody, empty or torn as its maker died while
writing, expires in the same way; who waits for it is told so at once.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from cfetch.base.backoff import double
from cfetch.base.errors import LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.timeline.files import TimelineFiles
from cfetch.timeline.owner import Owner

LOCK = "lock"
EXPIRY_S = 30.0  # a transaction is some twenty file operations; only a very sick disk takes a second each
MAX_WAIT_S = 300.0  # if others get the lock all the time, something is wrong that waiting does not repair
UNREADABLE_S = 0.5  # a live maker writes the file that it has made in less
FIRST_PAUSE_S = 0.005
MAX_PAUSE_S = 0.25


class _Holder(msgspec.Struct, frozen=True):
    owner: Owner
    nonce: str


class TableLock:
    """A process has one. ``monotonic`` and ``sleep`` take seconds; ``is_gone`` proves a process dead.

    ``note`` tells the user, by one line, why the lock is waited for.
    """

    def __init__(
        self,
        files: TimelineFiles,
        owner: Owner,
        *,
        monotonic: Callable[[], float],
        sleep: Callable[[float], None],
        is_gone: Callable[[Owner], bool],
        note: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._files = files
        self._owner = owner
        self._monotonic = monotonic
        self._sleep = sleep
        self._is_gone = is_gone
        self._note = note
        self._taken = 0

    @contextmanager
    def hold(self) -> Iterator[float]:
        """Hold the lock; yields the time now by the file system's clock, in seconds since 1970.

        Raises:
            LocalFault: others have kept it for ``MAX_WAIT_S``.
            OSError: a file operation failed.
        """
        self._taken += 1
        nonce = f"{self._owner.token}-{self._taken}"
        data = msgspec.json.encode(_Holder(self._owner, nonce))
        now_s = self._acquire(data, nonce)
        try:
            yield now_s
        finally:
            self._take_away(data, f"{LOCK}.{nonce}")

    def _acquire(self, data: bytes, nonce: str) -> float:
        start_s = seen_s = self._monotonic()
        seen: bytes | None = None
        is_noted = False
        pause_s = FIRST_PAUSE_S
        while True:
            with suppress(FileExistsError, FileNotFoundError):
                self._files.create(LOCK, data)
                return self._files.modified_s(LOCK)
            now_s = self._monotonic()
            content = self._read()
            if content is not None and content != seen:
                seen, seen_s = content, now_s
            holder = _holder(content) if content is not None else None
            if content is not None and (
                now_s - seen_s > EXPIRY_S or (holder is not None and self._is_gone(holder.owner))
            ):
                self._take_away(content, f"{LOCK}.{nonce}.broken")
                continue
            if not is_noted and content is not None and holder is None and now_s - seen_s >= UNREADABLE_S:
                is_noted = True
                self._note(
                    f"the file {LOCK!r} of the timeline is damaged and does not say which run made it; it is "
                    f"removed when it has not changed for {EXPIRY_S:.0f} s"
                )
            if now_s - start_s > MAX_WAIT_S:
                raise LocalFault(
                    f"the timeline's lock could not be had in {MAX_WAIT_S:.0f} s; "
                    f"{holder.owner.shown if holder else 'nobody'} has it now. See what so many runs do "
                    "there, and run the same command again"
                )
            self._sleep(pause_s)
            pause_s = double(pause_s, MAX_PAUSE_S)

    def _read(self) -> bytes | None:
        try:
            return self._files.read(LOCK)
        except FileNotFoundError:
            return None

    def _take_away(self, expected: bytes, aside: str) -> None:
        """Remove the expected lock; another holder's lock is put back, unless a third has one by then."""
        with suppress(FileNotFoundError):
            self._files.rename(LOCK, aside)
            if self._files.read(aside) != expected:
                with suppress(OSError):
                    self._files.link(aside, LOCK)
            self._files.unlink(aside)


def _holder(data: bytes) -> _Holder | None:
    try:
        return msgspec.json.decode(data, type=_Holder)
    except NOT_DECODED:
        return None
