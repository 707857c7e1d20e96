"""pooch's own tests with cfetch as their downloader: a plug-in of pytest.

``PYTHONPATH=POOCH:benchmarks python -m pytest -p pooch_suite POOCH/pooch/tests``, where POOCH is a
checked-out copy of its repository; pytest-localftpserver, pyopenssl, pytest-httpserver, tqdm and xxhash are
installed. Whole files are downloaded by the function of docs/python.md; progress bars, checks of whether a
file is there, and objects in place of files are left to pooch's own class. Nothing asks the internet: GitHub,
doi.org, Zenodo, figshare and a Dataverse have stand-ins on loopback (``pooch_stand_ins.py``), to which
pooch's requests and cfetch's downloads are led.
"""

import contextlib
import re
import socket
import time
from pathlib import Path
from typing import Any

import pooch  # type: ignore[import-untyped]
import pooch.downloaders  # type: ignore[import-untyped]
import pytest
import requests
from pooch_stand_ins import StandIns

import cfetch

PAGE = Path(__file__).parents[1] / "docs/python.md"
brought: list[str] = []


def pytest_configure(config: pytest.Config) -> None:
    """Serve the stand-ins, and put the page's function in the place of pooch's for whole files."""
    stand_ins = StandIns(Path(config.args[0]).resolve() / "data")
    section = PAGE.read_text().partition("\n## With pooch\n")[2]
    example = re.search(r"(def by_cfetch.*?)\n\n\n", section, re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {"Path": Path, "cfetch": cfetch}
    exec(example[1], names)

    class ByCfetch(pooch.downloaders.HTTPDownloader):  # type: ignore[misc]
        """pooch's class, where a whole file is downloaded by cfetch."""

        def __call__(self, url: str, output_file: Any, pooch: object, check_only: bool = False) -> Any:  # noqa: ANN401
            """Download a file, or do what pooch does."""
            if self.progressbar or check_only or hasattr(output_file, "write"):
                return super().__call__(url, output_file, pooch, check_only=check_only)
            brought.append(url)
            return names["by_cfetch"](stand_ins.route(url), output_file, pooch)

    pooch.downloaders.HTTPDownloader = ByCfetch
    for name in ("get", "head"):
        setattr(requests, name, stand_ins.lead(getattr(requests, name)))


@pytest.fixture(autouse=True)
def _serve_ftp(request: pytest.FixtureRequest) -> None:
    """Wait until the server of FTP, which is a process, takes connections."""
    if "ftpserver" in request.fixturenames:
        port = request.getfixturevalue("ftpserver").server_port
        for _ in range(200):
            with contextlib.suppress(OSError), socket.create_connection(("localhost", port), 1):
                return
            time.sleep(0.05)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many files cfetch has brought, or tried to bring."""
    terminalreporter.write_line(f"{len(brought)} downloads by cfetch")
