"""A static server for clean benches: nginx if it is installed, or else cfetch's own origin."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from cfetch.base.errors import LocalFault
from cfetch.base.schemes import HTTP, HTTPS
from cfetch.plugins.lab.bench.content import pieces
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.scenario import Scenario

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")
START_S = 10.0  # it listens within 50 ms; if it does not within this, it hangs
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
    {limit}
    server {{ listen 127.0.0.1:{port}{tls} root {folder}/files; }}
}}
"""
_TLS = " ssl; ssl_certificate {folder}/certificate.pem; ssl_certificate_key {folder}/key.pem;"
_CERTIFICATE = (
    "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=127.0.0.1"
    " -addext subjectAltName=IP:127.0.0.1 -addext basicConstraints=critical,CA:TRUE"
)


class StaticServer(NamedTuple):
    """A running server. ``ca_file``: the certificate that clients must trust; None: plain HTTP."""

    name: str
    url: str
    ca_file: Path | None


@contextmanager
def static_server(
    scenario: Scenario, folder: Path, *, tls: bool = False, connection_bps: int | None = None
) -> Iterator[StaticServer]:
    """Serve the scenario's files without faults. ``folder`` may be used for anything.

    ``connection_bps``: the most that a connection gets; None: no limit.

    Raises:
        LocalFault: nginx does not start; or it is needed, for ``tls`` or a limit, and is not installed; or
            ``tls``, and openssl is not installed.
    """
    if NGINX is None:
        if tls or connection_bps is not None:
            raise LocalFault("a bench over TLS, or with a limit, serves with nginx, which is not installed")
        with OriginProcess(scenario.spec(faulty=False)) as origin:
            yield StaticServer("cfetch's own origin", origin.url, None)
        return
    files = folder / "files"
    files.mkdir()
    for name in scenario.names:
        with (files / name).open("wb") as file:
            file.writelines(pieces(scenario.files[name]))
    if tls:
        _make_certificate(folder)
    port = _find_free_port()
    # without this line root's nginx reads as a user that may not read the files
    user = "user root;" if os.geteuid() == 0 else ""
    text = _CONFIGURATION.format(
        folder=folder,
        port=port,
        user=user,
        tls=_TLS.format(folder=folder) if tls else ";",
        limit="" if connection_bps is None else f"limit_rate {connection_bps};",
    )
    (folder / "nginx.conf").write_text(text)
    process = subprocess.Popen(  # noqa: S603 - the installed nginx
        [NGINX, "-p", str(folder), "-c", "nginx.conf", "-e", str(folder / "error.log")]
    )
    try:
        _wait_for(port, process)
        scheme, ca_file = (HTTPS, folder / "certificate.pem") if tls else (HTTP, None)
        yield StaticServer("nginx", f"{scheme}://127.0.0.1:{port}/", ca_file)
    finally:
        process.terminate()
        process.wait()


def _make_certificate(folder: Path) -> None:
    """Make a self-signed certificate for the loopback address."""
    words = [*_CERTIFICATE.split(), "-keyout", f"{folder}/key.pem", "-out", f"{folder}/certificate.pem"]
    try:
        subprocess.run(words, check=True, capture_output=True)  # noqa: S603 - the installed openssl
    except (OSError, subprocess.CalledProcessError) as error:
        raise LocalFault(f"openssl, which a bench over TLS needs, makes no certificate: {error}") from None


def _find_free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_for(port: int, process: "subprocess.Popen[bytes]") -> None:
    end_s = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < end_s:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.01)
    raise LocalFault(f"nginx does not listen; its exit code is {process.returncode}")
