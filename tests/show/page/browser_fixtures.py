"""A real headless Chromium for tests: fixtures of a browser and of a page that must stay silent.

Tests that use it run in the event loop of their module: ``pytestmark = in_browser``. (The synchronous
interface of Playwright switches greenlets, after which CPython 3.11 fails in ``ast.parse``.)
"""

import shutil

import pytest
import pytest_asyncio
from playwright.async_api import Error, async_playwright

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
in_browser = [
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium: apt-get install chromium"),
    pytest.mark.asyncio(loop_scope="module"),
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser():
    """One browser for the tests of a module; its sandbox needs rights that root in a container lacks."""
    async with async_playwright() as playwright:
        try:
            started = await playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        except Error as error:
            pytest.skip(f"Chromium does not start here: {error.message.splitlines()[0]}")
        yield started
        await started.close()


@pytest_asyncio.fixture(loop_scope="module")
async def open_page(browser):
    """Opens an address; at the end the page must have said nothing on its console.

    ``opened.requests`` are the addresses that it asked for, beside its own.
    """
    contexts = []
    said: list[str] = []  # what a test expects on the console, it takes out

    async def open_(address, width=1280, scheme="light"):
        context = await browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        opened = await context.new_page()
        opened.requests, opened.said = [], said
        opened.on("console", lambda message: said.append(message.text))
        opened.on("pageerror", lambda error: said.append(str(error)))
        opened.on("request", lambda request: opened.requests.append(request.url))
        await opened.goto(address)
        opened.requests.remove(address)
        return opened

    yield open_
    for context in contexts:
        await context.close()
    assert said == []
