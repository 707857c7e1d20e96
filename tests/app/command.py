"""The command line as a process of its own."""

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["cfetch"]


def cfetch(*words, stdin=None):
    """Run ``cfetch`` to its end; its exit code and what it said, as text."""
    return subprocess.run(
        [sys.executable, "-m", "cfetch", *map(str, words)],
        cwd=Path(__file__).parents[2],
        env=os.environ | {"PYTHONUTF8": "1"},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
