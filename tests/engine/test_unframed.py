"""Bodies without a length that end with the connection: accepted on request, and over TLS by its own end."""

import pytest
import trustme

from cfetch.base.config.settings import Settings
from cfetch.base.events import RunNoted
from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Entry, safe_path
from cfetch.wire.http import HttpTransport
from cfetch.wire.network import make_network
from tests.engine.drive import drive, entries_for, entry_of
from tests.engine.fake import Reply
from tests.engine.test_pool_wire import fetched
from tests.wire.raw_server import RawServer
from tests.wire.wire import serving

BODY = b"0123456789" * 1000
UNFRAMED = Reply(body=BODY, framing="close", etag=None)


@pytest.mark.parametrize("accepts", [False, True])
def test_a_body_without_a_length_is_taken_if_the_user_says_so(tmp_path, accepts):
    """Nothing proves it, so its record says so; a refusal names the option."""
    scripts = {"a": UNFRAMED}
    outcome = drive(tmp_path, scripts, entries_for(scripts, size=False), accept_unframed=accepts)
    record = outcome.records["a"]
    assert (record.status, record.verified) == ("done" if accepts else "failed", "none")
    assert outcome.tree == ({"a": BODY} if accepts else {})
    assert accepts or "--accept-unframed" in record.error
    assert len(outcome.of(RunNoted)) == accepts


def test_a_stated_size_counts_as_before(tmp_path):
    """A body that is too short is a cut one, whatever the option says."""
    short = Reply(body=BODY[:-1], framing="close", etag=None)
    outcome = drive(tmp_path, {"a": short}, [entry_of(0, "a", BODY)], accept_unframed=True, max_attempts=2)
    assert outcome.statuses == ["failed"]


class CuttingServer(RawServer):
    """Ends TLS only by the end of the connection below."""

    async def converse(self, reader, writer):
        await super().converse(reader, writer)
        writer.transport.abort()


@pytest.mark.parametrize(("server_of", "status"), [(RawServer, "done"), (CuttingServer, "failed")])
async def test_tls_tells_whether_the_end_was_meant(tmp_path, server_of, status, monkeypatch):
    """Its close_notify is an end; the end of the connection alone may be a cut."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    network = make_network(Settings(ca_file=str(tmp_path / "ca.pem")).network, {})
    monkeypatch.setattr(
        "tests.engine.test_pool_wire.HttpTransport",
        lambda **how: HttpTransport(**how, network=network),
    )
    head = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
    async with server_of(head + BODY, then="close", ssl=serving(authority, "127.0.0.1")) as server:
        entry = Entry(id=0, path=safe_path("a"), url=SecretUrl(server.url + "a"))
        records, _ = await fetched(made(tmp_path), [entry], max_attempts=1)
    assert records["a"].status == status
    assert status == "done" or "TLS" in records["a"].error


def made(tmp_path):
    (tmp_path / "to").mkdir()
    return tmp_path / "to"


@pytest.mark.parametrize(
    ("head", "size", "status"),
    [
        (b"HTTP/1.0 200 OK\r\nServer: x\r\n", 0, "done"),
        (b"HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 200 OK\r\nSer", 0, "done"),
        (b"HTTP/1.0 200 OK\r\nServer: x\r\n", None, "failed"),
        (b"HTTP/1.0 200 OK\r\nServer: x\r\n", 1, "failed"),
        (b"HTTP/1.0 404 Gone\r\nServer: x\r\n", 0, "failed"),
        (b"HTTP/1.0 2", 0, "failed"),
    ],
)
async def test_a_head_that_is_cut_off_is_enough_for_an_empty_file_only(tmp_path, head, size, status):
    """What curl takes for an empty file may be a large one whose server died; a stated size proves it."""
    async with RawServer(head, then="close") as server:
        entry = Entry(id=0, path=safe_path("a"), url=SecretUrl(server.url), size_bytes=size)
        records, _ = await fetched(tmp_path, [entry], max_attempts=1)
    assert records["a"].status == status
    assert status == "done" or "state its size, 0" in records["a"].error
