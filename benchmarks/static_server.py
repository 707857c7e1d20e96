"""A static server for clean benches: nginx where it is installed, else cfetch's own origin."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cfetch.bench.content import pieces
from cfetch.bench.process import OriginProcess
from cfetch.bench.scenario import Scenario

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
_CONFIGURATION = """
{user}
daemon off;
worker_processes 1;
pid {folder}/pid;
error_log {folder}/error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off;
    sendfile on;
    tcp_nopush on;
    keepalive_requests 1000000;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{ listen 127.0.0.1:{port}; root {folder}/files; }}
}}
"""


@contextmanager
def static_server(scenario: Scenario, folder: Path) -> Iterator[tuple[str, str]]:
    """Serve the scenario's files without faults: (what serves, URL). ``folder`` may be used for anything."""
    if NGINX is None:
        with OriginProcess(scenario.spec(faulty=False)) as origin:
            yield "cfetch's own origin", origin.url
        return
    files = folder / "files"
    files.mkdir()
    for name in scenario.names:
        with (files / name).open("wb") as file:
            file.writelines(pieces(scenario.files[name]))
    port = _free_port()
    user = (
        "user root;" if os.geteuid() == 0 else ""
    )  # else it would drop to a user who may not read the files
    (folder / "nginx.conf").write_text(_CONFIGURATION.format(folder=folder, port=port, user=user))
    process = subprocess.Popen(
        [NGINX, "-p", str(folder), "-c", "nginx.conf", "-e", str(folder / "error.log")]
    )
    try:
        _wait_for(port, process)
        yield "nginx", f"http://127.0.0.1:{port}/"
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    while process.poll() is None:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise SystemExit(f"nginx ended with code {process.returncode} before it was ready")
