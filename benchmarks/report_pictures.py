"""Draws the pictures of the docs' pages in headless Chromium: real runs against a server on loopback.

The run to see ends with a large file over a single connection; four files are not there, and one is refused.
The run under way writes to two directories, and some of its connections are slow. Names of this machine are
replaced in the pages. Measures nothing.

    python benchmarks/report_pictures.py --out docs/images       # apt-get install chromium; two minutes
"""

import argparse
import asyncio
import re
import shutil
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
from playwright.async_api import Browser, Page, async_playwright

from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.faults import Fault, FaultRule
from cfetch.plugins.lab.bench.process import OriginProcess
from cfetch.plugins.lab.bench.scenario import Scenario
from cfetch.plugins.lab.bench.spec import OriginSpec

LARGE, SMALL = 24 << 20, 1280 << 10
FILES, AT_ONCE = 64, 6
ABSENT, REFUSED = (5, 11, 37, 52), 23


class Picture(NamedTuple):
    """One picture: of which page, how wide and high, in which scheme."""

    name: str
    page: str
    width: int
    height: int
    scheme: str


PICTURES = (
    Picture("report-run.png", "run.html", 1120, 1360, "light"),
    Picture("report-phone.png", "run.html", 390, 1000, "dark"),
    Picture("report-bench.png", "bench.html", 1120, 1285, "dark"),
)
LIVE = Picture("live.png", "", 1120, 1085, "light")
SHOWN_PART = 0.7  # of the files are in place when the run under way is drawn
LIVE_FILES = 150
SLOW = FaultRule(fraction=0.04, fault=Fault(kind="slow", rate_bps=20.0 * 1024))
BUSY = FaultRule(fraction=0.03, fault=Fault(kind="status", status=503, first=1))
RENAME = """([from, to]) => {
    const rename = () => {
        const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
        while (texts.nextNode())
            if (texts.currentNode.nodeValue.includes(from))
                texts.currentNode.nodeValue = texts.currentNode.nodeValue.replaceAll(from, to);
    };
    const changes = {childList: true, characterData: true, subtree: true};
    new MutationObserver(rename).observe(document.body, changes);
}"""  # an open page is made anew again and again


def make_run_page(folder: Path) -> None:
    """Download the files, and make the page of the run."""
    groups = (
        Group(count=1, size_bytes=LARGE, prefix="large-"),
        Group(count=FILES - 1, size_bytes=SMALL, prefix="part-"),
    )
    names = list(OriginSpec(groups=groups).contents())
    faults: dict[str, tuple[Fault, ...]] = {
        names[n]: (Fault(kind="status", status=404, first=0),) for n in ABSENT
    }
    faults[names[REFUSED]] = (Fault(kind="status", status=403, first=0),)
    spec = OriginSpec(groups=groups, faults=faults, pace_bps=3.0 * (1 << 20))
    order = [*names[1:40], names[0], *names[40:]]
    with OriginProcess(spec) as origin:
        rows = [
            {
                "url": origin.url + name,
                "path": f"part-{number}.parquet",
                "size": LARGE if name == names[0] else SMALL,
            }
            for number, name in enumerate(order)
        ]
        (folder / "lake.json").write_bytes(msgspec.json.encode({"version": 1, "files": rows}))
        words = ["lake.json", "--to", "lake", "--no-mitigation", "-j", str(AT_ONCE)]
        subprocess.run([*CFETCH, "download", *words, "--quiet"], cwd=folder, check=False)
    (metrics,) = (folder / "lake/.cfetch/metrics").iterdir()
    metrics.write_text(metrics.read_text().replace(f'"{socket.gethostname()}"', '"worker-1"'))
    subprocess.run([*CFETCH, "report", "lake", "--html", "run.html"], cwd=folder, check=True)
    page = folder / "run.html"
    page.write_text(page.read_text(encoding="utf-8").replace(f"{folder}/", "/data/"), encoding="utf-8")


def make_bench_page(folder: Path) -> None:
    """Run the bench, and make its page."""
    words = ["bench", "--scenario", "stragglers", "--html", "bench.html"]
    subprocess.run([*CFETCH, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)


async def draw(folder: Path, to: Path) -> None:
    """Draw all pictures."""
    async with open_browser() as browser:
        for picture in PICTURES:
            async with open_page(browser, picture, (folder / picture.page).as_uri()) as page:
                await page.screenshot(path=to / picture.name)
        with begin_live_run(folder) as address:
            async with open_page(browser, LIVE, address) as page:
                await page.evaluate(RENAME, [f"{folder}/", "/mnt/"])
                await asyncio.to_thread(wait_for_files, address)
                await page.screenshot(path=to / LIVE.name)


@contextmanager
def begin_live_run(folder: Path) -> Iterator[str]:
    """Begin the run under way; the address of its page."""
    group = Group(count=LIVE_FILES, size_bytes=SMALL, prefix="part-")
    scenario = Scenario(name="live", groups=(group,), rules=(SLOW, BUSY))
    spec = msgspec.structs.replace(scenario.spec(faulty=True), pace_bps=0.5 * (1 << 20))
    with OriginProcess(spec) as origin:
        (folder / "lake.txt").write_text("".join(f"{origin.url}{name}\n" for name in scenario.names))
        words = ["lake.txt", "--to", "disk1/lake", "--to", "disk2/lake", "--serve", "0", "--quiet"]
        with subprocess.Popen(
            [*CFETCH, "download", *words], cwd=folder, stderr=subprocess.PIPE, text=True
        ) as run:
            assert run.stderr is not None
            yield next(match[0] for line in run.stderr if (match := re.search(r"http://\S+", line)))
            run.terminate()


def wait_for_files(address: str) -> None:
    """Wait until so many files of the run under way are in place that the page has something to show."""
    in_place = 0
    while in_place < SHOWN_PART * LIVE_FILES:
        time.sleep(0.2)
        with urllib.request.urlopen(address + "summary") as reply:
            in_place = msgspec.json.decode(reply.read())["done"]


@asynccontextmanager
async def open_browser() -> AsyncIterator[Browser]:
    """Chromium without a window."""
    async with async_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        await browser.close()


@asynccontextmanager
async def open_page(browser: Browser, picture: Picture, address: str) -> AsyncIterator[Page]:
    """A page in the size and the colours of a picture."""
    size = {"width": picture.width, "height": picture.height}
    context = await browser.new_context(viewport=size, color_scheme=picture.scheme)  # type: ignore[arg-type]
    page = await context.new_page()
    await page.goto(address)
    yield page
    await context.close()


def main() -> None:
    """Make the pages, and draw them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/images"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        make_run_page(folder)
        make_bench_page(folder)
        asyncio.run(draw(folder, given.out))


if __name__ == "__main__":
    main()
