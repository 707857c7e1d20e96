"""``python -m tests.volumes.child FILE WORDS…``: the command, whose volumes' threads a tracer may hold.

FILE is written again and again: a JSON object of the kernel's numbers of those threads by their volumes.
"""

import ctypes
import json
import os
import sys
import threading
import time
from pathlib import Path

from cfetch.cli.app import main

PR_SET_PTRACER = 0x59616D61  # where only a parent may trace: let strace, which is none
PAUSE_S = 0.005


def tell(told: Path) -> None:
    """Until the process ends."""
    known: dict[str, int | None] = {}
    while True:
        found = {
            thread.name.removeprefix("volume "): thread.native_id
            for thread in threading.enumerate()
            if thread.name.startswith("volume ")
        }
        if found != known:
            known = found
            draft = told.with_suffix(".draft")
            draft.write_text(json.dumps(found))
            draft.rename(told)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
    threading.Thread(target=tell, args=(Path(sys.argv[1]),), daemon=True).start()
    sys.argv = ["cfetch", *sys.argv[2:]]
    # uvloop's threads wake the loop by write(2), and uvloop aborts where that fails
    sys.modules["uvloop"] = None  # type: ignore[assignment]
    os.environ["COLUMNS"] = "200"
    main()
