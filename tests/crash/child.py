"""``python -m tests.crash.child``: runs cfetch's command line in forked children, each under strace if asked.

A child has imported everything when strace comes to it, so its first call is the first of the command and not
the thousandth of an interpreter that starts; and no test waits for one to start. The command imports much of
itself only when it runs: a child without strace tells its parent which modules it has, and the parent imports
them for all later children. Each line of stdin is a JSON list of strace's options (null: none) and the
command's words; each line of stdout the exit code.
"""

import atexit
import ctypes
import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from cfetch.cli.app import main
from cfetch.timeline import lock
from tests.crash.scene import EXPIRY_S
from tests.warm import import_all

PR_SET_PTRACER = 0x59616D61  # where only a parent may trace: let strace, which is none
ATTACH_S = 60.0


def run(options: list[str] | None, words: list[str], said: str) -> int:
    """The exit code of one child, as a shell tells it; what it prints goes to the file ``said``."""
    release, go = os.pipe()
    modules = Path(f"{said}.modules")
    child = os.fork()
    if not child:
        out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out, 1)
        os.dup2(out, 2)
        ctypes.CDLL(None).prctl(PR_SET_PTRACER, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
        os.close(go)
        os.read(release, 1)
        os.closerange(3, 64)
        sys.argv = ["cfetch", *words]
        if options is None:
            atexit.register(lambda: modules.write_text(" ".join(sys.modules)))
        main()
    os.close(release)
    tracer = None
    if options is not None:
        tracer = subprocess.Popen(["strace", "-qq", "-f", *options, "-p", str(child)])
        deadline = time.monotonic() + ATTACH_S
        while "TracerPid:\t0\n" in Path(f"/proc/{child}/status").read_text():
            if tracer.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError("strace did not attach")
            time.sleep(0.002)
    os.close(go)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if tracer is not None:
        tracer.wait()
    else:
        for name in modules.read_text().split():
            with suppress(ImportError):  # some packages put names there that are no modules
                import_module(name)
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    import_all()
    lock.EXPIRY_S = EXPIRY_S
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        answers.write(json.dumps(run(*json.loads(line))) + "\n")
        answers.flush()
