"""A terminal that never blocks: text that it does not take at once is kept, and new frames are left out.

A terminal stops reading when somebody presses Ctrl-S, when its connection hangs, when its program is stopped.
A write would then block the event loop, and with it every download. So the terminal is opened a second time,
non-blocking: O_NONBLOCK on the given stream would also affect the shell and all others that share it.
"""

import os
import select
import time
from contextlib import suppress
from typing import TextIO

LAST_WORDS_S = 2.0  # wait for a slow terminal; a stopped one must not keep a finished run from ending
LAST_TRIES = 100


class Terminal:
    """Takes text like a file, for ``rich.console.Console``. Raises OSError when the terminal is gone."""

    encoding = "utf-8"

    def __init__(self, stream: TextIO) -> None:
        self._given = stream.fileno()
        self._fd = self._given
        self._pending = bytearray()
        with suppress(OSError):  # another user's terminal, as under su: then only ``ready`` avoids blocking
            self._fd = os.open(os.ttyname(self._given), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK)

    def write(self, text: str) -> int:
        """Keep the text for ``flush``."""
        self._pending += text.encode(errors="replace")
        return len(text)

    def flush(self) -> None:
        """Write what the terminal takes now; the rest waits for the next call."""
        while self._pending and self._takes_more():
            try:
                del self._pending[: os.write(self._fd, self._pending)]
            except BlockingIOError:
                return

    def isatty(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """The given stream's descriptor."""
        return self._given

    def ready(self) -> bool:
        """Whether a new frame can be shown: the last one is out, and the terminal reads."""
        self.flush()
        return not self._pending and self._takes_more()

    def close(self) -> None:
        """Wait a moment until the last text is written, then close."""
        try:
            self.flush()
            for _ in range(LAST_TRIES):
                if not self._pending:
                    break
                time.sleep(LAST_WORDS_S / LAST_TRIES)
                self.flush()
        finally:
            if self._fd != self._given:
                os.close(self._fd)

    def _takes_more(self) -> bool:
        poll = select.poll()
        poll.register(self._fd, select.POLLOUT)
        return bool(poll.poll(0))
