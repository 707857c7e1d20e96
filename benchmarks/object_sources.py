"""Files that live in an object store: cfetch beside s5cmd and rclone, where these are installed.

``python benchmarks/object_sources.py [--small 5000] [--large 20] [--only SET]``. Three sets, with cfetch's
defaults, and with 16 workers for the others:

* listed: the small files (16 KiB) below a prefix of a real S3 server (moto), which lists them.
* small: the same number from this project's own server, which answers as S3 does; 1 % of all first requests
  come at 2 KiB/s.
* large: files of 64 MiB from that server; one in twenty first requests comes at 1 MiB/s.

Every file is compared with what was served.
"""

import argparse
import http.client
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import msgspec

from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.content import Group, SyntheticSet, count_right, pieces
from cfetch.plugins.lab.bench.faults import Fault, FaultRule, draw
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec

KIB, MIB = 1 << 10, 1 << 20
BUCKET = "bench"
LIMIT_S = 600.0
LOGIN = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"
MOTO = """
import sys
from moto.server import ThreadedMotoServer
server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


def cfetch_words(_url: str, names: list[str], folder: Path, size_bytes: int = 0) -> list[str]:
    """The prefix itself where the store lists it, which ``size_bytes`` 0 says; else rows of ``s3://``."""
    to = ["--to", str(folder / "O"), "--quiet"]
    command = [sys.executable, "-m", "cfetch", "download"]
    if not size_bytes:
        return [*command, f"s3://{BUCKET}/", *to]
    rows = [{"url": f"s3://{BUCKET}/{name}", "path": name, "size": size_bytes} for name in names]
    (folder / "m.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
    return [*command, str(folder / "m.jsonl"), *to]


def s5cmd_words(url: str, names: list[str], folder: Path, size_bytes: int = 0) -> list[str]:
    """One command for the prefix, or one for each file."""
    command = [find("s5cmd") or "s5cmd", "--endpoint-url", url, "--numworkers", "16"]
    if not size_bytes:
        return [*command, "cp", "--source-region", "us-east-1", f"s3://{BUCKET}/*", f"{folder / 'O'}/"]
    lines = [f"cp --source-region us-east-1 s3://{BUCKET}/{name} {folder / 'O' / name}\n" for name in names]
    (folder / "commands").write_text("".join(lines))
    return [*command, "run", str(folder / "commands")]


def rclone_words(url: str, names: list[str], folder: Path, size_bytes: int = 0) -> list[str]:
    """The same with rclone."""
    (folder / "names").write_text("".join(f"{name}\n" for name in names))
    store = f":s3,provider=Other,env_auth=true,endpoint='{url}',region=us-east-1:{BUCKET}"
    some = ["--files-from-raw", str(folder / "names"), "--no-traverse"] if size_bytes else []
    return ["rclone", "copy", "--config=", "--transfers=16", "--checkers=16", *some, store, str(folder / "O")]


TOOLS = {"cfetch": cfetch_words, "s5cmd": s5cmd_words, "rclone": rclone_words}


def find(tool: str) -> str | None:
    """The path of a program: on PATH, or beside this Python."""
    places = [os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)]
    return shutil.which(tool, path=os.pathsep.join(places))


def measure(store: Callable[[], AbstractContextManager[str]], group: Group, *, is_listed: bool) -> None:
    """Print a line for each tool; each gets a store of its own and an empty directory."""
    files = SyntheticSet((group,), 1)
    names = list(files)
    for tool, words in TOOLS.items():
        if tool != "cfetch" and find(tool) is None:
            print(f"  {tool:8} not installed", flush=True)
            continue
        with tempfile.TemporaryDirectory(prefix="cfetch-objects-") as name, store() as url:
            folder = Path(name)
            (folder / "O").mkdir()
            os.environ["AWS_ENDPOINT_URL"] = url
            command = words(url, names, folder, 0 if is_listed else group.size_bytes)
            done = run_child(command, limit_s=LIMIT_S)
            right = count_right(folder / "O", names, files)
            print(
                f"  {tool:8} {done.wall_s:7.2f} s  {done.cpu_s:6.2f} s of processor time  exit "
                f"{done.exit_code}  {right:,} of {len(names):,} right",
                flush=True,
            )


def measure_small(count: int) -> None:
    """Small files, one in a hundred slow the first time."""
    group = Group(prefix="small-", count=count, size_bytes=16 * KIB)
    slow = FaultRule(fraction=0.01, fault=Fault(kind="slow", rate_bps=2 * KIB))
    measure(lambda: _origin(group, slow), group, is_listed=False)


def measure_large(count: int) -> None:
    """Large files, one in twenty slow the first time."""
    group = Group(prefix="large-", count=count, size_bytes=64 * MIB)
    slow = FaultRule(fraction=0.05, fault=Fault(kind="slow", rate_bps=MIB))
    measure(lambda: _origin(group, slow), group, is_listed=False)


def measure_listed(count: int) -> None:
    """Small files, whose names and sizes the store tells."""
    group = Group(prefix="small-", count=count, size_bytes=16 * KIB)
    with _moto(group) as url:

        @contextmanager
        def same() -> Iterator[str]:
            yield url

        measure(same, group, is_listed=True)


@contextmanager
def _origin(group: Group, rule: FaultRule) -> Iterator[str]:
    names = list(SyntheticSet((group,), 1))
    spec = OriginSpec(groups=(group,), seed=1, bucket=BUCKET, faults=draw(names, [rule], 1))
    with OriginProcess(spec) as origin:
        yield origin.url.removesuffix("/")


@contextmanager
def _moto(group: Group) -> Iterator[str]:
    """A real S3 server that holds the files."""
    child = subprocess.Popen(
        [sys.executable, "-c", MOTO],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert child.stdout is not None
        port = int(child.stdout.readline())
        files = SyntheticSet((group,), 1)

        def put(names: list[str]) -> None:
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
            for name in names:
                body = b"".join(pieces(files[name])) if name else b""
                connection.request("PUT", f"/{BUCKET}/{name}".rstrip("/"), body, {"Authorization": LOGIN})
                reply = connection.getresponse()
                reply.read()
                assert reply.status == 200
            connection.close()

        put(["", *files])
        yield f"http://127.0.0.1:{port}"
    finally:
        child.kill()
        child.communicate()


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--small", type=int, default=5000)
    parser.add_argument("--large", type=int, default=20)
    parser.add_argument("--only", choices=("listed", "small", "large"))
    args = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
    os.environ.pop("AWS_CA_BUNDLE", None)  # rclone 1.60 does not start with it, and nothing here is TLS
    sets: dict[str, tuple[Callable[[int], None], int]] = {
        "listed": (measure_listed, args.small),
        "small": (measure_small, args.small),
        "large": (measure_large, args.large),
    }
    for name, (run, count) in sets.items():
        if args.only in (None, name):
            print(f"{name}: {count:,} files", flush=True)
            run(count)


if __name__ == "__main__":
    main()
