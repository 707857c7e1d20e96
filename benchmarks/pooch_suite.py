"""pooch's own tests with cfetch as their downloader: a plug-in of pytest.

``PYTHONPATH=POOCH:benchmarks python -m pytest -p pooch_suite POOCH/pooch/tests``, where POOCH is a
checked-out copy of its repository. The function is that of docs/python.md. The files that the tests ask
GitHub for come from the copy, over loopback; tests of services that need the internet (DOIs) have no
stand-in and fail.
"""

import functools
import re
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pooch  # type: ignore[import-untyped]
import pooch.core  # type: ignore[import-untyped]
import pooch.downloaders  # type: ignore[import-untyped]
import pytest

import cfetch

PAGE = Path(__file__).parents[1] / "docs/python.md"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


def pytest_configure(config: pytest.Config) -> None:
    """Serve the data of the copy, and put the page's function in the place of pooch's."""
    tests = Path(config.args[0]).resolve()
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=tests / "data"))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    section = PAGE.read_text().partition("\n## With pooch\n")[2]
    example = re.search(r"(def by_cfetch.*?)\n\n\n", section, re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {"Path": Path, "cfetch": cfetch}
    exec(example[1], names)
    original = pooch.downloaders.choose_downloader

    def choose(url: str, progressbar: bool = False) -> object:
        """Choose cfetch for the web, pooch's own for all else, and where a progress bar is asked for."""
        is_web = url.startswith("http") and not progressbar
        return names["by_cfetch"] if is_web else original(url, progressbar=progressbar)

    pooch.core.choose_downloader = choose
    from pooch.tests import utils  # type: ignore[import-untyped]  # it reads the address

    utils.pooch_test_url = lambda: f"http://127.0.0.1:{server.server_port}/"
