"""Files that live in an object store: whole runs against a real one."""

import asyncio
import base64
import json
import os
import urllib.request
import zlib
from pathlib import Path

import pytest
import trustme

from tests.cli.verbs import cfetch
from tests.conditions.runner import secrets_in
from tests.engine.drive import tree
from tests.storage.s3_server import PREFIX
from tests.wire.raw_server import RawServer, reply

MIB = 1 << 20
GOOGLE_LOGIN = {
    "type": "service_account",
    "private_key_id": "1",
    "client_email": "a@b.test",
    "token_uri": "http://127.0.0.1:1/",
}


async def test_a_prefix_by_two_processes_and_again(bucket, tmp_path):
    """Links are signed in the processes that ask, stand in no file, and a second run asks for nothing."""
    bodies = {"a b.bin": b"1" * 1000, "x/ü?.bin": b"2" * 10, "x/large": os.urandom(3 * MIB)}
    for key, body in bodies.items():
        bucket.put(key, body)
    words = [
        "download",
        f"s3://{bucket.name}/{PREFIX}/",
        "--to",
        tmp_path / "to",
        "--processes",
        "2",
        "--json",
    ]
    first = await cfetch(*words)
    assert (first.code, first.document["files"]["done"]) == (0, 3)
    assert tree(tmp_path / "to") == bodies
    second = await cfetch(*words)
    assert (second.document["files"]["skipped"], second.document["bytes"]["fetched"]) == (3, 0)
    assert secrets_in(tmp_path, sealed=True) == []
    assert "CANARY" not in first.out + first.err


def test_objects_that_have_changed_in_their_store(bucket, run, tmp_path):
    """``check`` finds a change by the ETag, ``trust`` does not look, ``refetch`` fetches all."""
    bodies = {"a": b"1" * 1000, "x/b": b"2" * 1000}
    for key, body in bodies.items():
        bucket.put(key, body)
    run.urls.write_text("".join(f"{bucket.url}/{key}\n" for key in bodies))
    by_path = {"name_by": "url-path"}
    prefix = f"{PREFIX}/"
    assert set(run(**by_path).values()) == {"done"}
    bucket.put("a", b"3" * 1000)
    assert set(run(**by_path).values()) == {"skipped"}
    ended = run(**by_path, existing="check")
    assert {name.removeprefix(prefix): status for name, status in ended.items()} == {
        "a": "done",
        "x/b": "skipped",
    }
    assert tree(tmp_path / "to" / PREFIX) == {**bodies, "a": b"3" * 1000}
    assert set(run(**by_path, existing="refetch").values()) == {"done"}
    assert run.summary.bytes.fetched == 2000


async def test_a_list_of_objects_some_of_which_are_not_to_be_had(bucket, tmp_path):
    """A list in the bucket itself: a relative row is relative to it."""
    bucket.put("a", b"1")
    bucket.put("list.jsonl", b'{"url": "a"}\n{"url": "%s/nix"}\n' % bucket.url.encode())
    words = ["--to", tmp_path / "to", "--json", "--max-attempts", "1"]
    done = await cfetch("download", f"{bucket.url}/list.jsonl", *words)
    assert (done.code, tree(tmp_path / "to")) == (1, {"a": b"1"})
    assert [failure["message"] for failure in done.document["failures"]] == [
        "HTTP 404, NoSuchKey: The specified key does not exist"
    ]


async def test_public_objects_are_verified_by_what_their_store_states(bucket, tmp_path, monkeypatch):
    """Where it is asked without a signature; the store is asked for it by a header of its own."""
    body = os.urandom(3 * MIB)
    checksum = base64.b64encode(zlib.crc32(body).to_bytes(4)).decode()
    public = {"x-amz-acl": "public-read"}
    assert bucket.server.ask("PUT", f"/{bucket.name}?acl", **public)[0] == 200
    fields = {"x-amz-sdk-checksum-algorithm": "CRC32", "x-amz-checksum-crc32": checksum, **public}
    bucket.put("a", body, **fields)
    bucket.put("empty", b"", **{**fields, "x-amz-checksum-crc32": "AAAAAA=="})
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "true")
    done = await cfetch("download", f"s3://{bucket.name}/{PREFIX}/", "--to", tmp_path / "to", "--json")
    assert (done.code, tree(tmp_path / "to")) == (0, {"a": body, "empty": b""})
    assert verified(done) == {"a": "server-crc32", "empty": "size"}


async def test_an_object_of_google(tmp_path, monkeypatch):
    """From an emulator of its API, which states the checksum; it is asked over a link that is signed here."""
    emulator = pytest.importorskip("gcp_storage_emulator.server")
    store = emulator.create_server("127.0.0.1", 0, in_memory=True, default_bucket="bucket")
    store.start()
    try:
        url = f"http://127.0.0.1:{store._api._httpd.server_address[1]}"
        body = os.urandom(3 * MIB)
        put = urllib.request.Request(f"{url}/bucket/d/a%20b", body, method="PUT")
        await asyncio.to_thread(urllib.request.urlopen, put)
        key = trustme.CA(key_type=trustme.KeyType.RSA).private_key_pem.bytes().decode()
        login = {**GOOGLE_LOGIN, "gcs_base_url": url, "private_key": key}
        (tmp_path / "login.json").write_text(json.dumps(login))
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "login.json"))
        done = await cfetch("get", "gs://bucket/d/a b", "--to", tmp_path / "to", "--json", "--quiet")
        assert (done.code, tree(tmp_path / "to")) == (0, {"a b": body})
        assert verified(done) == {"a b": "server-crc32c"}
        put = urllib.request.Request(f"{url}/bucket/d/list.txt", b"a%20b\n", method="PUT")
        await asyncio.to_thread(urllib.request.urlopen, put)
        done = await cfetch("download", "gs://bucket/d/list.txt", "--to", tmp_path / "listed", "--quiet")
        assert (done.code, tree(tmp_path / "listed")) == (0, {"a b": body})
    finally:
        store.stop()


GOOGLE_LIST = b"""<?xml version="1.0" encoding="UTF-8"?>
<ListBucketResult xmlns="http://doc.s3.amazonaws.com/2006-03-01"><Name>b</Name><Prefix>d/</Prefix>
<IsTruncated>false</IsTruncated>
<Contents><Key>d/a</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>
<ETag>"1"</ETag><Size>3</Size></Contents>
<Contents><Key>d/e/f</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified>
<ETag>"2"</ETag><Size>4</Size></Contents>
</ListBucketResult>"""
AZURE_LIST = b"""<?xml version="1.0" encoding="UTF-8"?>
<EnumerationResults ServiceEndpoint="http://x/" ContainerName="b"><Prefix>d/</Prefix>
<Blobs>
<Blob><Name>d/a</Name>
<Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified><Etag>0x1</Etag>
<Content-Length>3</Content-Length><Content-Type>x/y</Content-Type></Properties></Blob>
<Blob><Name>d/e/f</Name>
<Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified><Etag>0x2</Etag>
<Content-Length>4</Content-Length><Content-Type>x/y</Content-Type></Properties></Blob></Blobs><NextMarker />
</EnumerationResults>"""


@pytest.mark.parametrize(("scheme", "listed"), [("gs", GOOGLE_LIST), ("az", AZURE_LIST)])
async def test_a_prefix_states_its_sizes(scheme, listed, tmp_path, monkeypatch):
    """Their lists state the sizes; a list is asked for by the prefix that its URL names."""
    async with RawServer(reply(listed, "Content-Type: application/xml")) as server:
        login = {
            **GOOGLE_LOGIN,
            "gcs_base_url": server.url.rstrip("/"),
            "disable_oauth": True,
            "private_key": "",
        }
        (tmp_path / "login.json").write_text(json.dumps(login))
        monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "login.json"))
        monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "account")
        monkeypatch.setenv("AZURE_STORAGE_ENDPOINT", server.url.rstrip("/"))
        monkeypatch.setenv("AZURE_ALLOW_HTTP", "true")
        monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
        words = ["--to", tmp_path / "to", "--dry-run", "--json"]
        done = await cfetch("download", f"{scheme}://b/d/", *words)
        assert (done.code, done.document["files"], done.document["bytes_known"]) == (0, 2, 7)
        assert "prefix=d%2F" in server.heads[0]


async def test_a_prefix_of_google(bucket, tmp_path, monkeypatch):
    """Google lists a bucket in XML as Amazon does, so the server of that answers the list and the links."""
    bucket.name, public = "google", {"x-amz-acl": "public-read"}  # obstore would encode a hyphen
    assert bucket.server.ask("PUT", f"/{bucket.name}", **public)[0] == 200
    bodies = {"a b": b"1", "x/ü.bin": b"22", "x/z.txt": b"333"}
    for key, body in bodies.items():
        bucket.put(key, body, **public)
    key = trustme.CA(key_type=trustme.KeyType.RSA).private_key_pem.bytes().decode()
    login = {**GOOGLE_LOGIN, "gcs_base_url": bucket.server.url, "private_key": key}
    (tmp_path / "login.json").write_text(json.dumps(login))
    monkeypatch.setenv("GOOGLE_SERVICE_ACCOUNT", str(tmp_path / "login.json"))
    store, to = f"gs://{bucket.name}/{PREFIX}", tmp_path / "to"
    done = await cfetch("download", f"{store}/", "--to", to, "--json", "--quiet")
    assert (done.code, tree(to)) == (0, bodies), done.err
    some = await cfetch("manifest", "build", f"{store}/**/*.bin", "-o", tmp_path / "m.json")
    assert some.code == 0, some.err
    [entry] = json.loads((tmp_path / "m.json").read_text())["files"]
    assert (entry["url"], entry["size"]) == (f"{store}/x/ü.bin", 2)


async def test_bytes_that_are_not_those_the_store_meant(tmp_path):
    """They are fetched again, and the file fails while it is so."""
    async with RawServer(reply(b"123456788", "x-goog-hash: crc32c=4waSgw==")) as server:
        words = ["--to", tmp_path / "to", "--json", "--max-attempts", "2", "--retry-budget", "5s"]
        done = await cfetch("get", f"{server.url}a", *words)
        assert (done.code, done.document["failures"][0]["kind"], len(server.heads)) == (1, "corrupt", 2)
        assert tree(tmp_path / "to") == {}
        server.replies = (reply(b"123456789", "x-goog-hash: crc32c=4waSgw=="),)
        assert verified(await cfetch("get", f"{server.url}a", *words)) == {"a": "server-crc32c"}


async def test_a_range_is_not_verified_by_the_hash_of_its_object(tmp_path):
    """That is of other bytes."""
    fields = ("x-goog-hash: crc32c=4waSgw==", "Content-Range: bytes 2-4/9")
    async with RawServer(reply(b"345", *fields, status="206 Partial Content")) as server:
        (tmp_path / "m.jsonl").write_text(json.dumps({"url": f"{server.url}a", "offset": 2, "length": 3}))
        done = await cfetch("download", tmp_path / "m.jsonl", "--to", tmp_path / "to", "--json")
    assert (done.code, list(verified(done).values())) == (0, ["size"])


def verified(done):
    records = [json.loads(line) for line in Path(done.document["metrics"]).read_text().splitlines()]
    return {record["path"]: record["verified"] for record in records if "path" in record}
