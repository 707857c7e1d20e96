"""Objects as sources: listings of a real store, and links that it takes."""

import asyncio
import urllib.request
from urllib.parse import parse_qs, urlsplit

import pytest

from cfetch.base.errors import Refused, SourceError, UsageError
from cfetch.base.secret import SecretUrl
from cfetch.manifest.object_urls import make_listing, split_object_url
from cfetch.storage.buckets import object_source, s3_client
from cfetch.storage.buckets.object_source import ObjectLinks, list_objects
from cfetch.wire.network import DIRECT
from cfetch.wire.transport import RunTransport
from tests.storage.buckets.test_object_store import ODD
from tests.storage.s3_server import PREFIX, point_at
from tests.wire.raw_server import RawServer, reply


def listed(bucket, rest):
    listing = make_listing(split_object_url(f"s3://{bucket.name}/{rest}"))
    assert listing is not None
    return [(row["path"], row["size"]) for row, _ in list_objects(listing)]


def test_a_listing_has_names_below_the_prefix_and_sizes(bucket):
    """The mark of a directory is no file, also of one without files, and an empty file is one."""
    for key, body in {
        "bare/": b"",
        "d/": b"",
        "d/a": b"1",
        "z/": b"",
        "d/e/x.bin": b"22",
        "d-x": b"",
        "e": b"4444",
    }.items():
        bucket.put(key, body)
    assert listed(bucket, f"{PREFIX}/") == [("d-x", 0), ("d/a", 1), ("d/e/x.bin", 2), ("e", 4)]
    assert listed(bucket, f"{PREFIX}/d/") == [("a", 1), ("e/x.bin", 2)]
    assert listed(bucket, f"{PREFIX}/**/*.bin") == [("d/e/x.bin", 2)]
    assert listed(bucket, "nix/") == []


@pytest.mark.parametrize("odd", ["b//x", "./b", "b/../c", "/b"])
def test_a_key_that_is_no_path_hides_no_other(bucket, odd, monkeypatch):
    """Its row is there too, so that it is told; marks of directories are still no files."""
    keys = {"a": b"1", "d/": b"", "e": b"", "z/y": b"22"}
    for key, body in keys.items():
        bucket.put(key, body)
    assert bucket.server.ask("PUT", f"/{bucket.name}/{PREFIX}/{odd}", b"odd")[0] == 200
    assert sorted(listed(bucket, f"{PREFIX}/")) == sorted([("a", 1), (odd, 3), ("e", 0), ("z/y", 2)])
    monkeypatch.setattr(s3_client, "has_botocore", lambda: False)
    with pytest.raises(UsageError, match="install botocore, which lists the others too"):
        listed(bucket, f"{PREFIX}/")


def test_the_list_goes_on_behind_the_pages_that_were_good(bucket, monkeypatch):
    """No key comes twice, and what cannot be asked further is an error, not an end."""
    for key in ("a", "b", "c"):
        bucket.put(key, b"1")
    listing = make_listing(split_object_url(f"s3://{bucket.name}/{PREFIX}/"))
    assert listing is not None
    keys = [key for key, _, _ in object_source._walk_on(listing, f"{PREFIX}/a")]
    assert keys == [f"{PREFIX}/b", f"{PREFIX}/c"]
    monkeypatch.setattr(s3_client, "list_pages", lambda *_, **how: iter([{"IsTruncated": True}]))
    with pytest.raises(UsageError, match="ends in the middle"):
        list(object_source._walk_on(listing, ""))


async def test_a_list_that_is_cut_without_a_token_is_no_list(monkeypatch):
    """The store says that there is more; the library takes it for the end."""
    page = (
        "<ListBucketResult><Name>bucket</Name><IsTruncated>{}</IsTruncated><Contents><Key>{}</Key><Size>1</Size>"
        "<LastModified>2020-01-01T00:00:00.000Z</LastModified></Contents></ListBucketResult>"
    )
    listing = make_listing(split_object_url("s3://bucket/d/"))
    assert listing is not None
    async with RawServer(
        reply(page.format("true", "d/a").encode()), reply(page.format("false", "d/b").encode())
    ) as server:
        point_at(monkeypatch, server.url)
        with pytest.raises(UsageError, match="ends in the middle"):
            await asyncio.to_thread(lambda: list(list_objects(listing)))
        assert "start-after=d%2Fa" in server.line(1)


@pytest.mark.parametrize("key", ODD)
async def test_a_link_leads_to_its_object(bucket, key):
    """Whatever signs the key holds; each link is made anew."""
    bucket.put(key, b"1234")
    link = await ObjectLinks().sign(SecretUrl(f"s3://{bucket.name}/{PREFIX}/{key}"), "GET")
    assert urllib.request.urlopen(link.reveal()).read() == b"1234"
    assert "CANARY-KEY" in link.reveal()
    assert "CANARY" not in str(link)


async def test_links_of_public_data_are_plain(bucket, monkeypatch):
    """Also where there is a login: the store is asked as anybody may ask."""
    monkeypatch.setenv("AWS_SKIP_SIGNATURE", "True")
    monkeypatch.setenv("GOOGLE_SKIP_SIGNATURE", "1")
    bucket.put("a b", b"1")
    links = ObjectLinks()
    for _ in range(2):
        link = await links.sign(SecretUrl(f"{bucket.url}/a b"), "GET")
        assert link.reveal() == f"{bucket.server.url}/{bucket.name}/{PREFIX}/a%20b"
    link = await links.sign(SecretUrl("gs://public/a b/ü"), "GET")
    assert link.reveal() == "https://storage.googleapis.com/public/a%20b/%C3%BC"


async def test_who_asks_pays_where_the_environment_says_so(bucket, monkeypatch):
    """The signature is over it, as the store demands."""
    monkeypatch.setenv("AWS_REQUEST_PAYER", "true")
    link = await ObjectLinks().sign(SecretUrl(f"{bucket.url}/a"), "HEAD")
    assert parse_qs(urlsplit(link.reveal()).query)["x-amz-request-payer"] == ["requester"]


async def test_a_link_to_azure(monkeypatch):
    """Another form of the same; nothing is asked."""
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acc")
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_KEY", "a2V5")
    link = (await ObjectLinks().sign(SecretUrl("az://box/d/a.b"), "GET")).reveal()
    assert link.startswith("https://acc.blob.core.windows.net/box/d/a.b?")
    assert "sig" in parse_qs(urlsplit(link).query)
    with pytest.raises(Refused, match="no valid link to Azure can be signed"):
        await ObjectLinks().sign(SecretUrl("az://box/a b"), "GET")
    monkeypatch.setenv("AZURE_SKIP_SIGNATURE", "true")
    plain = await ObjectLinks().sign(SecretUrl("az://box/a b"), "GET")
    assert plain.reveal() == "https://acc.blob.core.windows.net/box/a%20b"


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (
            "403 x",
            b"<Error><Code>AccessDenied</Code></Error>",
            "denies access; the login needs to list and read",
        ),
        ("404 x", b"<Error><Code>NoSuchBucket</Code></Error>", "no such bucket"),
        ("301 x", b"<Error><Code>PermanentRedirect</Code></Error>", "another region; set AWS_REGION"),
        ("418 x", b"CANARY", "reports an error"),
    ],
)
async def test_why_a_listing_failed(monkeypatch, status, body, message):
    """In our own words, which hold nothing of the store's."""
    async with RawServer(reply(body, status=status)) as server:
        point_at(monkeypatch, server.url)
        listing = make_listing(split_object_url("s3://bucket/d/"))
        assert listing is not None
        with pytest.raises(UsageError, match=f"^s3://bucket did not list its objects: .*{message}") as caught:
            await asyncio.to_thread(lambda: list(list_objects(listing)))
    assert "CANARY" not in str(caught.value)


KEY = (
    "<Contents><Key>d/a</Key><Size>1</Size><ETag>&quot;1&quot;</ETag>"
    "<LastModified>2020-01-01T00:00:00.000Z</LastModified></Contents>"
)


@pytest.mark.parametrize(
    ("keys", "patience_s", "message"),
    [(KEY, 60.0, "lead back to earlier ones"), ("", 0.3, "no name for 0.3 s")],
)
async def test_a_listing_without_an_end(monkeypatch, keys, patience_s, message):
    """Pages that repeat one token, with keys or without any."""
    body = (
        "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken>"
        f"{keys}</ListBucketResult>"
    )
    monkeypatch.setattr(object_source, "MOST_IDLE_S", patience_s)
    monkeypatch.setattr(object_source, "PAGE_KEYS", 3)
    async with RawServer(reply(body.encode())) as server:
        point_at(monkeypatch, server.url)
        listing = make_listing(split_object_url("s3://bucket/d/"))
        assert listing is not None
        with pytest.raises(UsageError, match=message):
            await asyncio.to_thread(lambda: list(list_objects(listing)))


@pytest.mark.parametrize(
    ("status", "message"),
    [("403 x", "denies access; the login"), ("400 x", "set AWS_REGION")],
)
async def test_why_an_object_is_refused(monkeypatch, status, message):
    """Its link is new, so nobody looks for another one: the login is at fault, or the region."""
    async with RawServer(reply(b"CANARY", status=status)) as server:
        point_at(monkeypatch, server.url)
        transport = RunTransport(connect_timeout_s=5, network=DIRECT)
        try:
            with pytest.raises(Refused, match=message) as caught:
                await transport.open(SecretUrl("s3://bucket/a"), {}, {}, fresh=False)
        finally:
            await transport.close()
    assert (caught.value.http_status, "CANARY" in str(caught.value)) == (int(status[:3]), False)


async def test_a_store_without_a_login(monkeypatch):
    """The remedy for public data is named."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    async with RawServer(reply(b"", status="404 x")) as metadata:
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", metadata.url.rstrip("/"))
        with pytest.raises(SourceError, match="s3://bucket did not sign a link"):
            await ObjectLinks().sign(SecretUrl("s3://bucket/a"), "GET")
