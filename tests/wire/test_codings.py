"""What a Content-Encoding means for a file, and how an encoded body is unpacked."""

import asyncio
import gzip
import zlib

import pytest
from multidict import CIMultiDict

from cfetch.base.config.wire import ReplyOptions
from cfetch.base.errors import Refused, SourceError, Transient
from cfetch.wire.decoding import STEP_BYTES, Decoder
from cfetch.wire.judge import judge
from cfetch.wire.verdict import Asked, ReplyAction

LEN = ("Content-Length", "1000")
GZIP = ("Content-Encoding", "gzip")
KNOWN, HASHED = {"size_bytes": 1000}, {"has_hash": True}


@pytest.mark.parametrize(("why", "asked", "headers", "mode", "outcome"), [
    ("no coding in it", {}, [("Content-Encoding", "")], "refuse", "plain"),
    ("an unknown word", {}, [("Content-Encoding", "binary")], "refuse", "plain"),
    ("what an upload said", {}, [("Content-Encoding", "aws-chunked")], "refuse", "plain"),
    ("a charset", {}, [("Content-Encoding", "UTF-8")], "refuse", "plain"),
    ("the stated size", KNOWN, [GZIP], "refuse", "plain"),
    ("a stated hash", HASHED, [GZIP], "refuse", "plain"),
    ("an object store", {}, [GZIP, ("x-amz-request-id", "1")], "refuse", "plain"),
    ("the name is the coding's", {"path": "a.tgz"}, [("Content-Encoding", "x-gzip")], "refuse", "plain"),
    ("so is the type", {"path": "a"}, [GZIP, ("Content-Type", "application/gzip; x=y")], "decode", "plain"),
    ("the name is another coding's", {"path": "a.zst"}, [GZIP], "refuse", "refused"),
    ("nothing", {"path": "a.csv"}, [GZIP], "keep", "noted"),
    ("nothing, in two headers", {}, [("Content-Encoding", "aws-chunked"), GZIP], "keep", "noted"),
    ("nothing, to decode", {"path": "a.csv"}, [GZIP], "decode", "gzip"),
    ("an object store, to decode", {}, [GZIP, ("x-ms-blob-type", "BlockBlob")], "decode", "gzip"),
    ("two codings, to decode", {}, [("Content-Encoding", "gzip, br")], "decode", "gzip, br"),
    ("six codings, to decode", {}, [("Content-Encoding", ", ".join(["gzip"] * 6))], "decode", "refused"),
    ("another size", {"size_bytes": 5}, [GZIP], "keep", "refused"),
    ("another size, to decode", {"size_bytes": 5}, [GZIP], "decode", "gzip"),
])  # fmt: skip
def test_a_coding_that_nothing_explains_is_the_users_choice(why, asked, headers, mode, outcome):
    """Size, hash, store, name and type explain a label; else --encoded decides."""
    known = Asked(**asked, options=ReplyOptions(encoded=mode))
    verdict = judge(200, CIMultiDict([LEN, ("ETag", '"a"'), *headers]), known)
    accepted = verdict.action is ReplyAction.ACCEPT
    found = verdict.coding or ("noted" if verdict.note else "plain" if accepted else "refused")
    assert found == outcome, why
    assert (verdict.validator is not None) is (outcome == "plain")
    assert accepted or "--encoded" in verdict.reason or outcome != "refused" or mode == "decode"


@pytest.mark.parametrize(
    ("path", "action"), [("a.gz", ReplyAction.ACCEPT), ("a.csv", ReplyAction.REFUSE_RANGE)]
)
def test_encoded_bytes_are_joined_to_others_only_if_the_file_itself_is_so(path, action):
    """A server may give the plain file one time and an encoded one the next, under one ETag."""
    asked = Asked(from_byte=400, validator='"a"', path=path)
    headers = CIMultiDict([("Content-Range", "bytes 400-999/1000"), ("ETag", '"a"'), GZIP])
    assert judge(206, headers, asked).action is action


def reader(data, share):
    pieces = [data[i : i + share] for i in range(0, len(data), share)]

    async def read():
        return pieces.pop(0) if pieces else b""

    return read


async def unpack(coding, data, share=7):
    decoder = Decoder(coding, reader(data, share))
    out = []
    while piece := await decoder.read():
        assert len(piece) <= STEP_BYTES
        out.append(piece)
    return b"".join(out)


PLAIN = bytes(range(256)) * 50


def zstd(data):
    return pytest.importorskip("backports.zstd").compress(data)


def raw_deflate(data):
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


@pytest.mark.parametrize(("coding", "pack"), [
    ("gzip", gzip.compress), ("deflate", zlib.compress), ("deflate", raw_deflate), ("zstd", zstd),
    ("gzip", lambda data: gzip.compress(data[:99]) + gzip.compress(b"") + gzip.compress(data[99:])),
    ("gzip", lambda data: gzip.compress(data) + b"\0" * 20),
])  # fmt: skip
@pytest.mark.parametrize("share", [1, 1 << 20])
def test_a_body_is_unpacked_as_it_comes(coding, pack, share):
    """Whatever its pieces are; members may follow each other, and padding the last one."""
    assert asyncio.run(unpack(coding, pack(PLAIN), share)) == PLAIN


@pytest.mark.parametrize(("coding", "pack", "kind"), [
    ("gzip", lambda: gzip.compress(PLAIN)[:-9], Transient), ("gzip", lambda: b"plain text", Refused),
    ("compress", lambda: b"x", Refused),
    ("gzip", lambda: gzip.compress(b"\0" * (65 << 20)), Refused),
    ("gzip", lambda: gzip.compress(b"") * 20_000, Refused),
])  # fmt: skip
def test_what_cannot_be_unpacked_is_this_files_failure(coding, pack, kind):
    """Cut, not encoded at all, unknown, or made to expand without end."""
    with pytest.raises(SourceError) as caught:
        asyncio.run(unpack(coding, pack(), 1 << 16))
    assert type(caught.value) is kind
