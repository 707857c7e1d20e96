"""``python -m tests.crash.part_child``: writes a part in ranges in forked children, killed at a call.

Each line of stdin is a JSON list: the directory, and the number of the call. Each line of stdout tells
whether the child came so far. A process of its own, as a fork of the tests' large one takes five times as
long.
"""

import json
import os
import random
import signal
import sys
from pathlib import Path

from cfetch.storage import part as part_module
from cfetch.storage.directory import Directory
from cfetch.storage.part import Part
from tests.engine.drive import entry_of, split

DATA = random.Random("killed").randbytes(200_000)
CALLS = ("open", "write", "pwrite", "close", "rename", "unlink", "setxattr")


def bring_it(root):
    """A whole file in three segments, one of them twice, with notes as it goes on."""
    part_module.NOTE_EVERY_BYTES = 30_000
    volume = Directory(root, "attempts/i/0")
    part = Part(volume, entry_of(0, "a", DATA))
    part.validator = '"v1"'
    part.write(DATA[:20_000])
    ranges = part.split_into_ranges(len(DATA))
    own = part.segment
    assert own is not None
    out = [own, split(ranges, own, 130_000), split(ranges, own, 60_000)]
    out.append(ranges.join(out[1].position, out[1].end))
    for number in range(100):
        for segment in out[: 4 if number > 1 else 3]:
            part.write_at(segment, DATA[segment.position : min(segment.position + 9_000, segment.end)])
    part.verify(len(DATA), None)
    part.publish()
    volume.close()


def killed_at(root, n):
    """Whether it came so far: killed as call number ``n // 2`` begins, or as it ends if ``n`` is odd."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    try:
        left = n // 2

        def watched(real):
            def call(*args, **how):
                nonlocal left
                left -= 1
                if left < 0 and n % 2 == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                done = real(*args, **how)
                if left < 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                return done

            return call

        for name in CALLS:
            setattr(os, name, watched(getattr(os, name)))
        bring_it(root)
    finally:
        os._exit(0)


if __name__ == "__main__":
    for line in sys.stdin:
        folder, number = json.loads(line)
        print(json.dumps(killed_at(Path(folder), number)), flush=True)
