"""A data set of Dryad that is given by its address: its version is found, and all pages of its files."""

import json

import pytest

from tests.cli.verbs import cfetch
from tests.engine.drive import tree
from tests.wire.raw_server import RecordingServer, reply


def page(*numbers, **links):
    """A page of the list of files, with links to others."""
    files = [
        {"path": f"d/{n}.csv", "_links": {"stash:download": {"href": f"/files/{n}/download"}}}
        for n in numbers
    ]
    links = {name: {"href": href} for name, href in links.items()}
    return {"_links": links, "count": len(files), "_embedded": {"stash:files": files}}


DATASET = {
    "_links": {"stash:version": {"href": "/versions/7"}},
    "identifier": "doi:10.1/x",
    "versionNumber": 1,
}


class Repository(RecordingServer):
    """``pages`` by path and query."""

    def __init__(self, pages):
        super().__init__()
        self.pages = pages

    async def converse(self, reader, writer):
        while True:
            await self.read_head(reader)
            target = self.line(-1).split()[1]
            if target in self.pages:
                writer.write(reply(json.dumps(self.pages[target]).encode()))
            elif target.endswith("/download"):
                writer.write(reply(target.encode()))
            else:
                writer.write(reply(b"", status="404 Not Found"))


async def test_all_files_of_a_data_set(tmp_path):
    """From the data set to its version, and from each page of the files to the next one."""
    pages = {
        "/datasets/x": DATASET,
        "/versions/7/files": page(1, next="/versions/7/files?page=2"),
        "/versions/7/files?page=2": page(2),
    }
    async with Repository(pages) as server:
        done = await cfetch("download", f"{server.url}datasets/x", "--to", tmp_path / "to", "--json")
    assert done.code == 0, done.err
    assert tree(tmp_path / "to") == {f"d/{n}.csv": f"/files/{n}/download".encode() for n in (1, 2)}


@pytest.mark.parametrize(
    ("second", "said"),
    [
        ({}, "cannot list page 2 of"),
        ({"/versions/7/files": page(1, next="/versions/7/files")}, "have no end"),
        ({"/versions/7/files": page(1, next="http://127.0.0.1:1/files")}, "not of its host"),
        ({"/versions/7/files": {"error": "busy"}}, "is no list of files; try again later"),
    ],
)
async def test_a_list_that_is_not_whole_is_refused(second, said):
    """A page that cannot be had, pages without an end, another host, another document."""
    async with Repository({"/datasets/x": DATASET, **second}) as server:
        done = await cfetch("manifest", "check", f"{server.url}datasets/x")
    assert done.code == 2
    assert said in done.err
