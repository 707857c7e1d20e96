"""fsspec's own tests of HTTP with cfetch as the one who downloads files: a plug-in of pytest.

``PYTHONPATH=FSSPEC:benchmarks python -m pytest -p fsspec_suite
FSSPEC/fsspec/implementations/tests/test_http.py -k "download or put_file"``, where FSSPEC is a
checked-out copy of its repository. The class is that of docs/python.md, for http and https.
"""

import re
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest

import cfetch

PAGE = Path(__file__).parents[1] / "docs/python.md"
brought: list[str] = []


def pytest_configure(config: pytest.Config) -> None:  # noqa: ARG001
    """Put the page's class in the place of fsspec's."""
    section = PAGE.read_text().partition("\n## With fsspec\n")[2]
    example = re.search(r"```python\n(.*?)\nfsspec\.register_implementation", section, re.DOTALL)
    assert example is not None
    names: dict[str, Any] = {"cfetch": cfetch}
    exec(example[1], names)
    get = cfetch.get_async

    async def get_and_note(*args: Any, **options: Any) -> object:  # noqa: ANN401 - passed on
        brought.append(str(args[0]))
        return await get(*args, **options)

    cfetch.get_async = get_and_note  # type: ignore[assignment]
    for scheme in ("http", "https"):
        fsspec.register_implementation(scheme, names["CfetchFileSystem"], clobber=True)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say how many files cfetch has brought."""
    terminalreporter.write_line(f"{len(brought)} files by cfetch")
