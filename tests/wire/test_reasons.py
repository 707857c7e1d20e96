"""The server's own reason for a refusal: where it stands, what follows, and what is not shown of it."""

import asyncio
import gzip
import json
from typing import Any

import pytest
from multidict import CIMultiDict

from cfetch.base.errors import Transient
from cfetch.base.secret import SecretUrl
from cfetch.wire.judge import judge
from cfetch.wire.reasons import MAX_BYTES, Reason, explain, find_reason
from cfetch.wire.verdict import Asked
from cfetch.wire.verdict import ReplyAction as Action


class Refusal:
    """A reply with this body; ``body`` None: nothing of it ever comes."""

    def __init__(self, status, body, headers=(), url="http://h.test/a", hidden=(), phrase=b""):
        self.phrase = phrase
        self.status, self.headers, self.hidden = status, CIMultiDict(headers), hidden
        self.place = self.source = SecretUrl(url)
        self._pieces = None if body is None else [body[i : i + 1000] for i in range(0, len(body), 1000)]
        self.closed, self.tls_end = False, None

    async def read(self, most=-1):
        if self._pieces is None:
            raise Transient("the connection broke")
        return self._pieces.pop(0) if self._pieces else b""

    def close(self):
        self.closed = True


def tell(status, body=b"", headers=(), **more):
    reply: Any = Refusal(status, body, headers, **more)
    return asyncio.run(explain(judge(status, reply.headers, Asked()), reply))


def xml(code, message="Words of the store.", more=""):
    said = f"<Code>{code}</Code><Message>{message}</Message>{more}"
    return f"<?xml version='1.0'?>\n<Error>{said}</Error>".encode()


@pytest.mark.parametrize(("status", "code", "action", "words"), [
    (403, "InvalidObjectState", Action.REFUSE, "archived"), (409, "BlobArchived", Action.REFUSE, "archived"),
    (403, "RequestTimeTooSkewed", Action.REFUSE, "clock"), (400, "ExpiredToken", Action.REFRESH, "expired"),
    (301, "PermanentRedirect", Action.REFUSE, "another region"),
    (403, "AccessDenied", Action.REFRESH, "may not"),
    (400, "AuthorizationHeaderMalformed", Action.REFUSE, "AWS_REGION"),
    (400, "Throttling", Action.THROTTLE, ""),
    (403, "InvalidAccessKeyId", Action.REFRESH, "access key"), (404, "NoSuchBucket", Action.REFUSE, "bucket"),
    (400, "RequestTimeout", Action.RETRY, ""), (503, "SlowDown", Action.THROTTLE, ""),
    (400, "UserProjectMissing", Action.REFUSE, "reader pays"), (418, "NobodyKnows", Action.REFUSE, ""),
])  # fmt: skip
def test_a_known_code_says_what_follows(status, code, action, words):
    """Whose fault it is and the next step, whatever its status; an unknown one is shown with its words."""
    verdict = tell(status, xml(code))
    assert verdict.action is action
    assert verdict.reason.startswith(f"HTTP {status}, {code}: Words of the store")
    assert words in verdict.reason


@pytest.mark.parametrize(("headers", "body", "reason"), [
    ({"x-amz-bucket-region": "eu-central-1"}, b"", Reason("", "", "eu-central-1")),
    ({"x-ms-error-code": "BlobArchived"}, b"", Reason("BlobArchived")),
    ({"X-Error-Code": "GatedRepo", "X-Error-Message": "Ask."}, b"plain", Reason("GatedRepo", "Ask.")),
    ({"WWW-Authenticate": 'Bearer error="invalid_token", error_description="It ended"'}, b"",
     Reason("invalid_token", "It ended")),
    ({}, b"\xef\xbb\xbf" + xml("A", "a &amp; b", "<Region>eu-west-1</Region>"),
     Reason("A", "a & b", "eu-west-1")),
    ({}, {"error": {"code": 403, "message": "Slow.", "errors": [{"reason": "rateLimitExceeded"}]}},
     Reason("rateLimitExceeded", "Slow.")),
    ({}, {"error_code": "NOT_FOUND", "message": "No."}, Reason("NOT_FOUND", "No.")),
    ({}, {"error": "invalid_grant", "error_description": "Ended."}, Reason("invalid_grant", "Ended.")),
    ({}, {"error": "You shall not pass"}, Reason("", "You shall not pass")),
    ({}, {"title": "Gone", "detail": "Moved to tape", "status": 410}, Reason("", "Moved to tape")),
    ({}, {"message": "Not here"}, Reason("", "Not here")),
    ({}, b'\xef\xbb\xbf\r\n{"message": "Not here"}', Reason("", "Not here")),
    ({}, [{"message": "No.", "errorCode": "INVALID_SESSION_ID"}], Reason("INVALID_SESSION_ID", "No.")),
    ({}, {"errors": [{"code": "DENIED", "message": "Not yours."}]}, Reason("DENIED", "Not yours.")),
    ({}, {"detail": [{"loc": ["query"], "msg": "field required"}]}, Reason("", "field required")),
    ({"WWW-Authenticate": 'Basic realm="Earth data"'}, b"", Reason("", "the login is for Earth data")),
    ({}, b"<html><title>Sign in &amp; go</title><h1>x</h1>", Reason("", "Sign in & go")),
    ({}, b"<h1>x</h1>", Reason()),
    ({}, b"Your address is blocked\n", Reason("", "Your address is blocked")),
    ({"Content-Type": "text/plain; charset=iso-8859-1"}, b"f\xfcr alle", Reason("", "f\xfcr alle")),
    ({"Content-Type": "application/octet-stream"}, b"free text", Reason()),
    ({}, b"token", Reason()), ({}, b"\x00\x01 \x02", Reason()),
    ({}, [1], Reason()), ({}, b"{broken", Reason()), ({}, {"message": ["a"]}, Reason()),
    ({}, b"[" * 4000, Reason()),
])  # fmt: skip
def test_a_reason_is_read_from_headers_and_bodies(headers, body, reason):
    """XML and JSON in the usual forms, the title of a page, and a plain text."""
    body = body if isinstance(body, bytes) else json.dumps(body).encode()
    assert find_reason(CIMultiDict(headers), body) == reason


def test_a_reason_in_gzip_is_read():
    """Some servers pack their pages whether or not that was asked for."""
    assert tell(400, gzip.compress(b'{"message": "No more today"}')).reason == "HTTP 400: No more today"


def test_words_that_only_repeat_the_status_are_left_out():
    """As on the pages of nginx."""
    assert tell(502, b"<title>502 Bad Gateway</title>").reason == "HTTP 502"
    assert tell(502, b"<title>Bad Gateway of Example</title>").reason == "HTTP 502: Bad Gateway of Example"


def test_a_region_is_named():
    """The next step has the very value."""
    verdict = tell(301, b"", {"x-amz-bucket-region": "eu-central-1"})
    assert verdict.reason.endswith("the bucket is in the region eu-central-1; set AWS_REGION to it")


SIGNED = "http://h.test/a?X-Amz-Signature=CANARYONE%3D&x=ab&token=CANARYTWO"


def test_no_secret_stands_in_a_reason():
    """Neither the request's own values, nor queries of URLs, nor what looks like a token; and no control."""
    message = (
        "CANARYONE= CANARYTWO CANARYHEAD at https://x.test/p?k=CANARYQUERY and "
        "AKCANARY0123456789abcdefghij \x1b[31m\u202ered"
    )
    verdict = tell(400, json.dumps({"message": message}).encode(), url=SIGNED, hidden=("CANARYHEAD",))
    assert "CANARY" not in verdict.reason
    assert verdict.reason.isprintable()
    assert "at https://x.test/p?<redacted> and <redacted>" in verdict.reason


@pytest.mark.parametrize("body", [None, b"<" + b"x" * MAX_BYTES, b""])
def test_what_is_too_long_or_does_not_come_is_no_reason(body):
    """The status is known already; a large body is not read to its end."""
    reply: Any = Refusal(404, body)
    verdict = judge(404, reply.headers, Asked())
    assert asyncio.run(explain(verdict, reply)) is verdict
    assert reply.closed is bool(body)


def test_a_long_message_is_cut():
    """In the middle, and on one line."""
    assert len(tell(400, xml("Long", "word \n" * 150)).reason) < 350


@pytest.mark.parametrize(("status", "phrase", "body", "said"), [
    (403, b"Embargoed until 2027", b"", "HTTP 403: Embargoed until 2027"),
    (403, b"Embargoed until 2027", b"<title>403 Forbidden</title>", "HTTP 403: Embargoed until 2027"),
    (403, b"Embargoed until 2027", b'{"message": "Ask them."}', "HTTP 403: Embargoed until 2027: Ask them"),
    (404, b"Key sig=SECRET1 unknown", b"", "HTTP 404: Key sig=<redacted> unknown"),
    (404, b"Not Found", b"", "HTTP 404"), (404, b"File not found", b"", "HTTP 404"),
    (404, b"x", b"", "HTTP 404"),
    (503, b"Service Temporarily Unavailable", b"", "HTTP 503"), (503, b"", b"", "HTTP 503"),
    (503, b"Slow Down", xml("SlowDown", "Slow down!"), "HTTP 503, SlowDown: Slow down!"),
    (302, b"Gone to the moon", b"", "HTTP 302"),
    (599, b"Meteor \x1b[1m strike", b"", "HTTP 599"),
])  # fmt: skip
def test_words_behind_the_status_are_shown_if_they_tell(status, phrase, body, said):
    """Not what the status says already, and no lone word; without secrets and controls."""
    assert tell(status, body, phrase=phrase, hidden=("SECRET1",)).reason == said
