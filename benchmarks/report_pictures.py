"""Draws the pictures of docs/report.md in headless Chromium: pages of real runs against a server on loopback.

The run to see ends with a large file over a single connection; four files are not there, and one is refused.
Names of this machine are replaced in the page. Measures nothing.

    python benchmarks/report_pictures.py --out docs/images       # apt-get install chromium; two minutes
"""

import argparse
import asyncio
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

import msgspec
from playwright.async_api import async_playwright

from cfetch.plugins.lab.bench.compare import CFETCH
from cfetch.plugins.lab.bench.content import Group
from cfetch.plugins.lab.bench.faults import Fault
from cfetch.plugins.lab.bench.process import OriginProcess
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
    async with async_playwright() as playwright:
        path = shutil.which("chromium") or shutil.which("google-chrome")
        browser = await playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for picture in PICTURES:
            size = {"width": picture.width, "height": picture.height}
            context = await browser.new_context(viewport=size, color_scheme=picture.scheme)  # type: ignore[arg-type]
            page = await context.new_page()
            await page.goto((folder / picture.page).as_uri())
            await page.screenshot(path=to / picture.name)
            await context.close()
        await browser.close()


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
