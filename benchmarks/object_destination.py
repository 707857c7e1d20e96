"""What a second run to an object store costs: its requests to the store, and its wall time.

A run puts ``--files`` files with stated hashes into a bucket of a real S3 server (moto, which sets the pace).
Then the same command runs again, and again after one object in a hundred was deleted. With ``--plans`` the
timeline is in the bucket too, and holds so many plans of ``--entries`` entries each: half of them pending, a
quarter removable, a quarter completed::

    python benchmarks/object_destination.py [--files 5000] [--size 4096] [--plans 200 [--entries 500]]
"""

import argparse
import http.client
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from cfetch.app.download import prepare
from cfetch.base.config.settings import Settings
from cfetch.plugins.lab.bench.child import run_child
from cfetch.plugins.lab.bench.content import Group, SyntheticSet
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.spec import OriginSpec
from cfetch.run.directories import find_timeline
from cfetch.timeline.execution import Execution, start
from cfetch.timeline.frozen_plans import remove_frozen
from cfetch.timeline.opening import open_existing

BUCKET = "bench"
PREFIX = "some/prefix"
LIMIT_S = 900.0
LOGIN = "AWS4-HMAC-SHA256 Credential=x/20260101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"
SERVER = """
import json
import sys
from collections import Counter
from moto.moto_server import threaded_moto_server as moto

class Counting(moto.DomainDispatcherApplication):
    asked = Counter()

    def __call__(self, environ, start_response):
        if environ["PATH_INFO"] == "/-/asked":
            body = json.dumps(self.asked).encode()
            self.asked.clear()
            start_response("200 OK", [("Content-Length", str(len(body)))])
            return [body]
        method, query = environ["REQUEST_METHOD"], environ["QUERY_STRING"]
        self.asked["LIST" if "list-type" in query else method] += 1
        return super().__call__(environ, start_response)

moto.DomainDispatcherApplication = Counting
server = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
server.start()
print(server.get_host_and_port()[1], flush=True)
sys.stdin.read()
"""


class Store:
    """The S3 server on this port."""

    def __init__(self, port: int) -> None:
        self._port = port

    @property
    def url(self) -> str:
        """Its endpoint."""
        return f"http://127.0.0.1:{self._port}"

    def ask(self, method: str, target: str) -> bytes:
        """The body of one reply; moto looks at no signature."""
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
        connection.request(method, target, headers={"Authorization": LOGIN})
        reply = connection.getresponse()
        body = reply.read()
        connection.close()
        assert reply.status < 300, (method, target, reply.status)
        return body

    def take_asked(self) -> Counter[str]:
        """The requests since the last call, by kind."""
        return Counter(json.loads(self.ask("GET", "/-/asked")))


@contextmanager
def _store() -> Iterator[Store]:
    child = subprocess.Popen(
        [sys.executable, "-c", SERVER],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert child.stdout is not None
        store = Store(int(child.stdout.readline()))
        store.ask("PUT", f"/{BUCKET}")
        yield store
    finally:
        child.kill()
        child.communicate()


def _measure(store: Store, name: str, command: list[str], files: int) -> None:
    store.take_asked()
    begun_s = time.monotonic()
    done = run_child(command, limit_s=LIMIT_S)
    wall_s = time.monotonic() - begun_s
    asked = store.take_asked()
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(asked.items()))
    print(
        f"  {name:22} {wall_s:7.2f} s  {done.cpu_s:6.2f} s of processor time  exit {done.exit_code}  "
        f"{asked.total() / files:.3f} requests for each: {kinds}",
        flush=True,
    )


def _fill_timeline(settings: Settings, folder: Path, plans: int, entries: int) -> None:
    """Schedule plans in the bucket, and complete every fourth of them, which has nothing to fetch."""
    for number in range(plans):
        rows = [{"url": f"http://127.0.0.1:1/{number}/{i}", "path": f"{number}/{i}"} for i in range(entries)]
        manifest = folder / "plan.jsonl"
        manifest.write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
        with prepare(str(manifest), settings, env={}) as prepared:
            instant = prepared.schedule(removable=number % 4 == 1).instant
        if number % 4 == 0:
            with open_existing(*find_timeline(settings)) as table:
                execution = start(table, instant, on_lost=lambda _: None)
                assert isinstance(execution, Execution)
                execution.commit(files=entries, size_bytes=0)
                assert table.bucket is not None
                remove_frozen(table.bucket, instant)


def _measure_plans(store: Store, folder: Path, download: list[str], args: argparse.Namespace) -> None:
    """Measure what reads and changes a timeline in the bucket, before and after it is filled."""
    url = f"s3://{BUCKET}/{PREFIX}"
    os.environ["XDG_STATE_HOME"] = str(folder / "own")
    at = ["--to", url, "--state", url]
    run = [*download, "--state", url]
    plan = [sys.executable, "-m", "cfetch", "plan"]
    _measure(store, "alone: download", run, args.files)
    _measure(store, "alone: again", run, args.files)
    begun_s = time.monotonic()
    _fill_timeline(Settings(to=(url,), state=url, quiet=True), folder, args.plans, args.entries)
    index = store.ask("GET", f"/{BUCKET}/{PREFIX}/.cfetch/timeline.json")
    print(f"  {args.plans} plans scheduled in {time.monotonic() - begun_s:.0f} s; index {len(index):,} bytes")
    _measure(store, "plan list", [*plan, "list", *at], args.plans)
    _measure(store, "plan clean, all stay", [*plan, "clean", *at], args.plans)
    _measure(store, "run, nothing to do", run, args.files)
    (folder / "m.jsonl").write_bytes(
        (folder / "m.jsonl").read_bytes().replace(b'"path":"', b'"path":"again/')
    )
    _measure(store, "download", run, args.files)
    rid = ["--rollback-delay", "0s", "--keep", "0s"]
    _measure(store, "plan clean, half goes", [*plan, "clean", *at, *rid], args.plans)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--plans", type=int, default=0)
    parser.add_argument("--entries", type=int, default=500)
    args = parser.parse_args()
    os.environ |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
    group = Group(prefix="small-", count=args.files, size_bytes=args.size)
    files = SyntheticSet((group,), 1)
    spec = OriginSpec(groups=(group,), seed=1)
    with tempfile.TemporaryDirectory(prefix="cfetch-destination-") as name, _store() as store:
        os.environ["AWS_ENDPOINT_URL"] = store.url
        folder = Path(name)
        with OriginProcess(spec) as origin:
            rows = [
                {
                    "url": f"{origin.url}{path}",
                    "path": path,
                    "size": args.size,
                    "sha256": files[path].sha256(),
                }
                for path in files
            ]
            (folder / "m.jsonl").write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))
            command = [sys.executable, "-m", "cfetch", "download", str(folder / "m.jsonl"), "--quiet"]
            command += ["--to", f"s3://{BUCKET}/{PREFIX}"]
            if args.plans:
                _measure_plans(store, folder, command, args)
                return
            command += ["--state", str(folder / "state")]
            _measure(store, "first run", command, args.files)
            _measure(store, "second run", command, args.files)
            for number, path in enumerate(files):
                if number % 100 == 0:
                    store.ask("DELETE", f"/{BUCKET}/{PREFIX}/{path}")
            _measure(store, "one in 100 is missing", command, args.files)


if __name__ == "__main__":
    main()
