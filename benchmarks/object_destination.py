"""What a second run to an object store costs: its requests to the store, and its wall time.

A run puts ``--files`` files with stated hashes into a bucket of a real S3 server (moto, which sets the pace).
Then the same command runs again, and again after one object in a hundred was deleted::

    python benchmarks/object_destination.py [--files 5000] [--size 4096]
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

from cfetch.bench.child import run_child
from cfetch.bench.content import Group, SyntheticSet
from cfetch.bench.process import OriginProcess
from cfetch.bench.spec import OriginSpec

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
        f"{asked.total() / files:.3f} requests a file: {kinds}",
        flush=True,
    )


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--files", type=int, default=5000)
    parser.add_argument("--size", type=int, default=4096)
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
            command += ["--to", f"s3://{BUCKET}/{PREFIX}", "--state", str(folder / "state")]
            _measure(store, "first run", command, args.files)
            _measure(store, "second run", command, args.files)
            for number, path in enumerate(files):
                if number % 100 == 0:
                    store.ask("DELETE", f"/{BUCKET}/{PREFIX}/{path}")
            _measure(store, "one in 100 is missing", command, args.files)


if __name__ == "__main__":
    main()
