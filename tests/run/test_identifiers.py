"""A digital object identifier, or the page of a record, stands for the list of the record's files."""

import asyncio
import json

import pytest

from cfetch.base.errors import UsageError
from cfetch.base.schemes import find_doi
from cfetch.run import identifiers
from cfetch.run.open_manifest import open_manifest
from tests.wire.raw_server import RecordingServer, reply

FILE = {"dataFile": {"id": 7, "filename": "a.csv", "filesize": 5}, "label": "a.csv"}
DATASET = {"status": "OK", "data": {"latestVersion": {"files": [FILE]}}}


class Repository(RecordingServer):
    """Resolves ``10.1/x`` to its own page of a data set, which is HTML, and has the list of its files."""

    async def converse(self, reader, writer):
        while True:
            await self.read_head(reader)
            target = self.line(-1).split()[1]
            if target == "/handles/10.1234/x?type=URL":
                value = {"type": "URL", "data": {"format": "string", "value": f"{self.url}{self.page}"}}
                writer.write(reply(json.dumps({"responseCode": 1, "values": [value]}).encode()))
            elif target.startswith("/dataset.xhtml"):
                writer.write(reply(b"<!DOCTYPE html><html><body>A data set</body></html>"))
            elif target.startswith("/api/datasets/:persistentId/?persistentId=doi:10.1234/x"):
                writer.write(reply(json.dumps(DATASET).encode()))
            else:
                writer.write(reply(b"{}", status="404 Not Found"))

    page = "dataset.xhtml?persistentId=doi:10.1234/x"


def read(manifest):
    """The text of a manifest, and the notes about it."""
    with open_manifest(manifest) as opened:
        return json.load(opened.file), opened.notes


@pytest.mark.parametrize("manifest", ["doi:10.1234/x", "page"])
async def test_the_list_of_a_record_is_had(monkeypatch, manifest):
    """By its identifier, or by its page; a note says which list that is."""
    async with Repository() as server:
        monkeypatch.setattr(identifiers, "RESOLVER", f"{server.url}handles/")
        name = f"{server.url}{server.page}" if manifest == "page" else manifest
        document, notes = await asyncio.to_thread(read, name)
        asked = [server.line(n).split()[1] for n in range(len(server.heads))]
    assert document == DATASET
    assert [f"{server.url}api/datasets/:persistentId/" in note for note in notes] == [True]
    assert any("dataset.xhtml" in target for target in asked) is (manifest == "page")


@pytest.mark.parametrize(
    ("manifest", "page", "said"),
    [
        ("doi:10.1234/other", "", "there is no doi:10.1234/other"),
        ("doi:10.1234/x", "records/1", "whose list of files cfetch does not know"),
    ],
)
async def test_an_identifier_without_a_known_list_is_refused(monkeypatch, manifest, page, said):
    """One that nobody has, and one that leads to a repository which is not known; the page is named."""
    async with Repository() as server:
        monkeypatch.setattr(identifiers, "RESOLVER", f"{server.url}handles/")
        server.page = page
        with pytest.raises(UsageError, match=said):
            await asyncio.to_thread(read, manifest)


@pytest.mark.parametrize(
    ("text", "doi"),
    [
        ("doi:10.5281/zenodo.7", "10.5281/zenodo.7"),
        ("DOI:10.5281/zenodo.7", "10.5281/zenodo.7"),
        ("https://dx.doi.org/10.7910/DVN/X", "10.7910/DVN/X"),
        ("doi.org/10.7910/DVN/X", None),
        ("https://h.example/10.7910/DVN/X", None),
        ("doi:list.txt", None),
    ],
)
def test_what_is_an_identifier(text, doi):
    """The word doi and a colon, or a link of the resolver."""
    assert find_doi(text) == doi
