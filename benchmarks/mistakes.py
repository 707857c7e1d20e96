"""Typical mistakes of new users (mistakes.yaml), and what the command answers: writes docs/mistakes.md.

The list was written first; then each answer was read and graded. If an answer no longer has the words on
which its grade rests, the grade is ``?`` and the exit code 1. Needs root, for a disk that is full. Usage::

    python benchmarks/mistakes.py > docs/mistakes.md
    python benchmarks/mistakes.py --only login --full
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import yaml

PAGE = b"<!DOCTYPE html><html><title>Sign in</title><body>Please log in</body></html>"
HASH = "0" * 64
PAGE_HEAD = """# {number} typical mistakes

What new users type, and the words of the answer that help. An answer of grade A says what happened, to what,
and what to do next; B is noisy, or its next step is weak; C misleads. The list was written first, 53 mistakes
and later 25; then each answer was read and graded. Before the answers were mended: {before}; now: {now}.
Two readers graded the answers apart from each other. The second one, later and stricter, differed on 18 of 78
and gave each of them a B in place of an A. 15 were mended then. The second reader still finds 3 noisy:
`bench --scenario nope`, `follow nowhere` and `download twice.txt`.
`python benchmarks/mistakes.py > docs/mistakes.md` runs all against a local server, and writes this page.

| about | typed after `cfetch` | exit code | before | now | the answer's own words |
|---|---|---|---|---|---|"""
SHORT = "--connect-timeout 3s --retry-budget 2s --max-attempts 2"


class Mistake(NamedTuple):
    """What was typed, after ``cfetch``; the grades before and now; what the answer has to say."""

    typed: str
    grades: str
    said: str


class _Server(BaseHTTPRequestHandler):
    """Answers by the first part of the path."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer a request."""
        first = self.path.strip("/").partition("/")[0]
        code = int(first) if first.isdigit() else 404 if self.path.endswith(".sha256") else 200
        is_page = first in {"login", "page"}
        body = b"" if code != 200 else PAGE if is_page else bytes(3 << 20)
        self.send_response(code)
        self.send_header("Content-Type", "text/html" if is_page else "application/octet-stream")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


class _Quiet(ThreadingHTTPServer):
    """A client that goes away, as one whose disk is full, is no news."""

    def handle_error(self, *_: object) -> None:
        """Say nothing."""


def write_files(url: str) -> None:
    """What the mistakes name, in this directory."""
    texts = {
        "urls.txt": f"{url}a.bin\n",
        "gone.txt": "".join(f"{url}404/{n}.bin\n" for n in range(20)),
        "a-file": "x",
        "SHA256SUMS": f"{HASH}  a.bin\n",
        "folder/a.bin": "x",
        "wrong.yaml": "concurency: 3\n",
        "empty.txt": "",
        "page.txt": PAGE.decode(),
        "broken.json": f'{{"version": 1, "files": [\n{{"url": "{url}a"}}\n{{"url": "{url}b"}}]}}\n',
        "names.csv": "name,count\na,1\n",
        "twice.txt": f"{url}d/a.bin\n{url}e/a.bin\n",
        "relative.csv": "url,size\ndata/a.bin,3\n",
        "outside.json": json.dumps({"version": 1, "files": [{"url": f"{url}a", "path": "../x"}]}),
        "cookies.json": '[{"name": "sid", "value": "x"}]',
        ".netrc": "machine 127.0.0.1 login NAME password KEY\n",
    }
    for name, text in texts.items():
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(text, encoding="utf-8")
    Path("image.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 4)
    Path("empty").mkdir()
    Path(".netrc").chmod(0o644)


def answer(typed: str, folder: Path) -> tuple[int, str]:
    """Exit code, and what was said, in a terminal of 100 columns that is no terminal."""
    prepare = "cd " + str(folder)
    for name, options in (("full", "size=1m"), ("readonly", "ro")):
        if f"--to {name}" in typed:
            prepare += f" && mkdir -p {name} && mount -t tmpfs -o {options} tmpfs {name}"
    command = f"{prepare} && exec {sys.executable} -m cfetch {typed}"
    names = {"COLUMNS": "100", "NO_COLOR": "1", "HOME": str(folder), "PATH": os.environ["PATH"]}
    names["PYTHONPATH"] = str(Path(__file__).parents[1])
    words = ["unshare", "--mount", "sh", "-c", command] if "mount" in prepare else ["sh", "-c", command]
    ended = subprocess.run(words, env=names, capture_output=True, text=True, check=False, timeout=120)
    return ended.returncode, (ended.stdout + ended.stderr).replace(str(folder), "…")


def read_mistakes() -> dict[str, list[Mistake]]:
    """The list, in its groups."""
    text = Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")
    return {group: [Mistake(**row) for row in rows] for group, rows in yaml.safe_load(text).items()}


def run_mistake(mistake: Mistake, url: str, more: str) -> tuple[int, str]:
    """Exit code and answer, in a directory of its own."""
    with tempfile.TemporaryDirectory(prefix="cfetch-mistakes-") as folder:
        os.chdir(folder)
        write_files(url)
        words = mistake.typed.format(url=url, tls=url.replace("http", "https"), hash=HASH, long="n" * 260)
        said = answer(words.replace("?", "\\?") + more, Path(folder))
        os.chdir("/")
    return said


def main() -> int:
    """Print the page, or what was said in full."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--only", default="", help="a part of what was typed")
    parser.add_argument("--full", action="store_true", help="print each answer in full")
    options = parser.parse_args()
    rows = [(group, mistake) for group, mistakes in read_mistakes().items() for mistake in mistakes]
    server = _Quiet(("127.0.0.1", 0), _Server)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/"
    table, before, now = [], Counter[str](), Counter[str]()
    for group, mistake in rows:
        if options.only not in mistake.typed:
            continue
        code, said = run_mistake(mistake, url, f" {SHORT}" if group in {"hosts", "logins"} else "")
        text = " ".join(said.replace("\u2502", " ").split())
        expected = mistake.said.replace("{url}", url)
        grade = mistake.grades[1] if expected in text and "Traceback" not in text else "?"
        before[mistake.grades[0]] += 1
        now[grade] += 1
        typed = mistake.typed.format(url="http://HOST/", tls="https://HOST/", hash="000…", long="nnn…")
        words = mistake.said.replace("{url}", "http://HOST/").replace("|", "\\|")
        table.append(f"| {group} | `{typed}` | {code} | {mistake.grades[0]} | {grade} | {words} |")
        if options.full:
            print(f"$ cfetch {typed}\n{said}")
    server.shutdown()
    sums = [", ".join(f"{count} {grade}" for grade, count in sorted(of.items())) for of in (before, now)]
    print("\n".join([PAGE_HEAD.format(number=len(table), before=sums[0], now=sums[1]), *table]))
    return 1 if now["?"] else 0


if __name__ == "__main__":
    sys.exit(main())
