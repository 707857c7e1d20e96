"""Names out of ``Content-Disposition``."""

import pytest
from multidict import CIMultiDict

from cfetch.base.errors import Refused
from cfetch.base.secret import SecretUrl
from cfetch.base.virtual_clock import VirtualClock, run_virtual
from cfetch.manifest.names import choose_path
from cfetch.wire.stated_name import ask_name, read_stated_name
from tests.engine.fake import FakeTransport, Reply


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ('attachment; filename="a b.bin"', "a b.bin"),
        ("attachment; filename=a.bin", "a.bin"),
        ("inline; filename=\"x.bin\"; filename*=UTF-8''Z%C3%BCrich%20%E2%82%AC.bin", "Zürich €.bin"),
        ("attachment; filename*=iso-8859-1'en'%A3.bin", "£.bin"),
        ('attachment; filename="../../etc/passwd"', "passwd"),
        ('attachment; filename="C:\\\\dir\\\\a.bin"', "a.bin"),
        ('attachment; filename="a;b.bin"', "a;b.bin"),
        ('attachment; filename="caf\udce9.bin"', "café.bin"),
        ("attachment; filename*=rot-nothing''%41.bin", None),
        ("attachment; filename*=UTF-8''%FF.bin", None),
        ('attachment; filename="dir/"', None),
        ("attachment", None),
        ("form data; name=x", None),
        ("attachment; filename=annual report (1)[2], a.pdf", "annual report (1)[2], a.pdf"),
        ('attachment; filename="x.pdf"; filename="y.pdf"', "x.pdf"),
        ("attachment; filename=bericht-ä.pdf", "bericht-ä.pdf"),
        ("filename=x.pdf", "x.pdf"),
        ("attachment; filename = x.pdf ;", "x.pdf"),
        ("attachment; filename='x.pdf'", "x.pdf"),
        ("attachment; filename='x.pdf", "x.pdf"),
        ('attachment; filename="x.pdf', "x.pdf"),
        ("attachment filename=x.pdf", None),
        ('attachment; filename=""', None),
        ("attachment; filename=a/b.pdf", "b.pdf"),
        ("attachment; filename*=UTF-8''John's%20Resume(1).pdf; filename=y", "John's Resume(1).pdf"),
        ("attachment; filename*=utf-8''naïve.pdf", "naïve.pdf"),
        ("attachment; filename*=UTF-8''%FF.bin; filename=plain.bin", "plain.bin"),
        (
            "attachment; filename*0*=UTF-8''%E2%82%AC; filename*1=\" rates\"; filename*2*=%2Etxt",
            "€ rates.txt",
        ),
        ('inline; filename="=?UTF-8?B?5Lit5paHLnR4dA==?="', "中文.txt"),
        ('inline; filename="=?nothing?B?5Lit?="', "=?nothing?B?5Lit?="),
    ],
)
def test_the_name_that_a_server_states(header, name):
    """Sloppy headers are read as curl -J and wget read them; directories are dropped."""
    assert read_stated_name(CIMultiDict({"content-disposition": header})) == name


def test_no_header_states_no_name():
    """Then the URL names the file."""
    assert read_stated_name(CIMultiDict()) is None


@pytest.mark.parametrize(
    ("place", "name"), [("http://cdn.test/x/a%20b.zip?k=1", "a b.zip"), ("http://h.test/", None)]
)
def test_the_name_in_the_url_after_redirects(place, name):
    """``--name-by final-url``: links of portals name nothing, and their targets do."""
    transport = FakeTransport({"get": Reply(b"x", place=place)})

    async def ask():
        return await ask_name(
            SecretUrl("http://h.test/get"), {}, transport=transport, clock=VirtualClock(), jitter=float,
            by_final_url=True,
        )  # fmt: skip

    assert run_virtual(ask()) == name


@pytest.mark.parametrize("status", [203, 301, 404])
@pytest.mark.parametrize("has_hash", [False, True])
def test_a_name_is_taken_of_every_reply_that_brings_the_file(status, has_hash):
    """As of a redirect to nowhere whose body a hash will prove; else the refusal names that way."""
    headers = {"Content-Disposition": "attachment; filename=x.bin"}
    transport = FakeTransport({"get": Reply(b"x", status=status, headers=headers)})

    async def ask():
        try:
            return await ask_name(
                SecretUrl("http://h.test/get"), {}, transport=transport, clock=VirtualClock(), jitter=float,
                has_hash=has_hash,
            )  # fmt: skip
        except Refused as error:
            return str(error)

    said = run_virtual(ask())
    if status == 404:
        assert said == "HTTP 404"
    elif status == 203 or has_hash:
        assert said == "x.bin"
    else:
        assert "state the hash" in said


@pytest.mark.parametrize(("url", "path"), [
    ("http://h.test/uc?id=3&export=download", "uc?id=3&export=download"), ("http://h.test/a.zip", "a.zip"),
    ("http://h.test/a?x=/b&X-Amz-Algorithm=A&X-Amz-Credential=B&X-Amz-Date=C&X-Amz-Signature=D", "a?x=%2Fb"),
    ("s3://bucket/d/k?1", "k?1"),
])  # fmt: skip
def test_a_name_that_keeps_the_query(url, path):
    """``--name-by url-query``: as wget names files; a signature is no part of it."""
    assert choose_path(url, 0, "url-query") == path
