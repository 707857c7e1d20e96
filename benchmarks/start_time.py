"""How long ``cfetch download`` takes to its first request, in turn with ``python -c "import aiohttp"``.

The clock starts before the process does, and stops when its first request has come to a server here.
"""

import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from cfetch.plugins.lab.bench.child import clean_environment, run_child
from cfetch.plugins.lab.bench.compare import CFETCH

ROUNDS = 15
BODY = b"0123456789"
REPLY = b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\nConnection: close\r\n\r\n" + BODY


def time_first_request(folder: Path, cfetch: Sequence[str] = CFETCH) -> float:
    """Seconds until the first request of a download into ``folder``."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        manifest = folder / "manifest.json"
        url = f"http://127.0.0.1:{server.getsockname()[1]}/a"
        manifest.write_text(f'{{"version": 1, "files": [{{"url": "{url}", "size": {len(BODY)}}}]}}')
        began_s = time.monotonic()
        command = [*cfetch, "download", str(manifest), "--to", str(folder / "to"), "--quiet"]
        process = subprocess.Popen(command, env=clean_environment())
        connection, _ = server.accept()
        with connection:
            connection.recv(4096)
            took_s = time.monotonic() - began_s
            connection.sendall(REPLY)
        if process.wait() != 0 or (folder / "to" / "a").read_bytes() != BODY:
            raise SystemExit("the download failed")
    return took_s


def main() -> None:
    """Measure and print."""
    imports: list[float] = []
    requests: list[float] = []
    for _ in range(ROUNDS):
        imports.append(run_child([sys.executable, "-c", "import aiohttp"], limit_s=30.0).wall_s)
        with tempfile.TemporaryDirectory() as folder:
            requests.append(time_first_request(Path(folder)))
    import_s, request_s = statistics.median(imports), statistics.median(requests)
    print(f"import aiohttp  median {import_s:.3f} s, best {min(imports):.3f} s")
    print(f"first request   median {request_s:.3f} s, best {min(requests):.3f} s")
    print(f"ratio           {request_s / import_s:.2f}")


if __name__ == "__main__":
    main()
