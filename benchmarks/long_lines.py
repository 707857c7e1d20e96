"""One long line of each shape under each name: whether the time to read it grows faster than the line.

A list is read by many regular expressions, and one that is tried at every place of a line, or that goes back
over it, takes minutes for a line of a megabyte. Usage::

    python benchmarks/long_lines.py [--chars N]

Prints each text that takes a second for a quarter of a million characters, with the time for half of it. Exit
code 1 if there is one for which it is more than three times as long.
"""

import argparse
import io
import itertools
import sys
import time
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from cfetch.base.errors import CfetchError
from cfetch.manifest.reading import Reading
from cfetch.manifest.source import Source

OPENINGS = (
    *("", "http://h/a\n", "url,size\nhttp://h/a,1\n", "<html><body>", "<?xml version='1.0'?><a>", '{"a":'),
    *("[", "http://", "#", "0123456789abcdef0123456789abcdef  "),
)
PIECES = (
    *("a", " ", ":", "/", "<", "[", "{", '"', "'", "#", "=", "\t", "a ", "a:", "a/", "://", "http://h/a "),
    *("<a>", "<!--", "a.", "a,", ",", "|", "(", "-", "\\", "%41", "@", "&", "?", "aa=bb ", "0", "0 ", "é"),
    *("a@", ".a", "- ", "* ", "a\t", "$", "${", "!(", "[a](", "<a href=", "<?xml ", "&amp;"),
)
NAMES = ("m.txt", "m.csv", "m", "m.html", "m.json", "m.jsonl", "m.md5", "m.xml", "m.md", "m.yaml", "m.urls")
LONG_S = 1.0
FACTOR = 3.0


def measure(text: str, name: str) -> float:
    """Seconds of the processor for the first entries of a list, or for its refusal."""
    start = time.process_time()
    with suppress(CfetchError):
        for _ in itertools.islice(Reading(Source(io.BytesIO(text.encode()), name)), 10):
            pass
    return time.process_time() - start


def main() -> int:
    """Measure all; 1 if the time of one grows too fast."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--chars", type=int, default=1 << 18)
    chars = parser.parse_args().chars
    count = 0
    for opening, piece, name, end in itertools.product(OPENINGS, PIECES, NAMES, ("", "\n")):
        times = chars // len(piece)
        whole = measure(opening + piece * times + end, name)
        if whole > LONG_S:
            half = measure(opening + piece * (times // 2) + end, name)
            text = f"{opening!r}, {piece!r} x {times}, {end!r}"
            print(f"{name}: {whole:.1f} s, half of it {half:.1f} s: {text}")
            count += whole > FACTOR * half
    print(f"{count} texts take a time that grows faster than they do")
    return min(count, 1)


if __name__ == "__main__":
    sys.exit(main())
