"""A STAC search that is given by its address goes on to its last page, and never silently ends before it."""

import json

import pytest

from tests.cli.verbs import cfetch
from tests.engine.drive import tree
from tests.wire.raw_server import RecordingServer, reply


class Catalogue(RecordingServer):
    """``pages`` by path and query, each a number of the item that it has and its link to the next page."""

    def __init__(self, pages):
        super().__init__()
        self.pages = pages

    async def converse(self, reader, writer):
        while True:
            await self.read_head(reader)
            target = self.line(-1).split()[1]
            if target == "/old":
                writer.write(reply(b"", "Location: /search", status="301 Moved Permanently"))
            elif target.startswith("/f/"):
                writer.write(reply(target.encode()))
            elif target in self.pages:
                number, link = self.pages[target]
                item = {"type": "Feature", "id": f"i{number}", "assets": {"a": {"href": f"f/{number}.tif"}}}
                links = [{"rel": "next", "href": link} if isinstance(link, str) else link] if link else []
                page = {"type": "FeatureCollection", "features": [item], "links": links}
                writer.write(reply(json.dumps(page).encode()))
            else:
                writer.write(reply(b"", status="404 Not Found"))


async def test_all_pages_of_a_search(tmp_path):
    """Also after a redirect; links and assets are relative to the page that states them."""
    pages = {
        "/search": (1, "search?token=2"),
        "/search?token=2": (2, "/search?token=3"),
        "/search?token=3": (3, ""),
    }
    async with Catalogue(pages) as server:
        done = await cfetch("download", f"{server.url}old", "--to", tmp_path / "to", "--json")
    assert done.code == 0, done.err
    assert tree(tmp_path / "to") == {f"i{n}/{n}.tif": f"/f/{n}.tif".encode() for n in (1, 2, 3)}


@pytest.mark.parametrize(
    "link",
    [
        "http://127.0.0.1:1/search?token=2",
        {"rel": "next", "href": "/search", "method": "POST", "body": {"token": 2}},
    ],
)
async def test_a_page_that_cannot_be_had_in_the_same_way_is_told(tmp_path, link):
    """Of another host, which must not get the login, or one that has to be asked by POST."""
    async with Catalogue({"/search": (1, link)}) as server:
        done = await cfetch("download", f"{server.url}search", "--to", tmp_path / "to", "--json")
    assert (done.code, tree(tmp_path / "to")) == (0, {"i1/1.tif": b"/f/1.tif"})
    assert "its link next leads to further items, which are left out" in done.err


async def test_the_last_page_that_was_had_leads_to_another_host(tmp_path):
    """Then the list is not whole either."""
    pages = {"/search": (1, "/search?token=2"), "/search?token=2": (2, "http://127.0.0.1:1/search")}
    async with Catalogue(pages) as server:
        checked = await cfetch("manifest", "check", f"{server.url}search")
    assert checked.code == 0, checked.err
    assert "which are left out" in checked.out + checked.err


@pytest.mark.parametrize(
    ("pages", "said"),
    [
        ({"/search": (1, "/search?token=2")}, "page 2 of"),
        ({"/search": (1, "/search?token=2"), "/search?token=2": (2, "/search")}, "have no end"),
    ],
)
async def test_pages_that_are_missing_or_have_no_end(tmp_path, pages, said):
    """Nothing is downloaded, for the list would look complete."""
    async with Catalogue(pages) as server:
        done = await cfetch("download", f"{server.url}search", "--to", tmp_path / "to", "--json")
    assert (done.code, tree(tmp_path / "to")) == (2, {})
    assert said in done.err
