"""The server's own reason for a refusal, and what follows from it. Imported only when a reply has failed.

It is read from headers, and from a body of at most ``MAX_BYTES``: an error document in XML or JSON, a plain
text, or the title of a page. A reason is cut, printable, and free of secrets: of the request's own, of
queries of URLs, and of long words that look like a token.
"""

import asyncio
import codecs
import html
import re
import time
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from http import HTTPStatus
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import msgspec

from cfetch.base.errors import Refused, SourceError
from cfetch.base.refusals import Known, find_known
from cfetch.base.schemes import HTTP, WEB_PATTERN
from cfetch.base.secret import printable
from cfetch.wire.headers import Headers
from cfetch.wire.pauses import make_throttled, make_transient
from cfetch.wire.transport import Response
from cfetch.wire.verdict import ReplyAction, Verdict

MAX_BYTES = 4 << 10
MAX_SHOWN = 300  # characters of a message; the longest of the known ones has 240
MAX_CODE = 60
PATIENCE_S = 2.0  # for the body of a refusal, whose status is known already
LEAST_SECRET = 6  # characters; a shorter value of a query is no secret, and would hide common words
_NOTHING: list[str] = []
_ELEMENT = r"<(?:\w+:)?{0}>([^<]{{1,1000}})</(?:\w+:)?{0}>"
_CODE, _MESSAGE, _PLACE = (
    re.compile(_ELEMENT.format(name).encode(), re.IGNORECASE) for name in ("Code", "Message", "Region")
)
_BODY_START = re.compile(rb"^(?:\xef\xbb\xbf)?\s*[<{\[]")
_CODE_HEADERS = ("X-Error-Code", "x-ms-error-code", "x-amz-error-code", "X-Cos-Error-Code", "x-oss-ec")
_MESSAGE_HEADERS = ("X-Error-Message", "x-amz-error-message")
_CHALLENGE = re.compile(r'\b(error|error_description|realm)="([^"]{1,400})"', re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>([^<]{1,1000})</title", re.IGNORECASE)
_CHARSET = re.compile(r"charset=\"?([\w.:-]{1,40})", re.ASCII | re.IGNORECASE)
_LETTERS = re.compile(r"[a-z]+")
_OF_NO_NEWS = {"error", HTTP, "status", "code", "page"}
_OF_PHRASES = {"file", "object", "resource", "requested", "temporarily", "time", "out", "not", "is", "the"}
_WORD = re.compile(r"[\w.:-]{1,60}", re.ASCII)
_QUERY = re.compile(rf"({WEB_PATTERN}://[^\s?\"'<>]*\?)[^\s\"'<>]+")
_TOKEN = re.compile(r"(?=[A-Za-z+=_/-]*[0-9])(?=[0-9+=_/-]*[A-Za-z])[A-Za-z0-9+=_-]{24,}", re.ASCII)
_CODES = ("code", "Code", "error_code", "errorCode", "reason", "status")
_MESSAGES = ("message", "Message", "error_description", "detail", "msg", "errorMessage", "title")
_ACTIONS = {
    "refuse": ReplyAction.REFUSE,
    "refresh": ReplyAction.REFRESH,
    "retry": ReplyAction.RETRY,
    "throttle": ReplyAction.THROTTLE,
}


class Reason(NamedTuple):
    """What the server says: an error code, a message, a region to ask instead; each may be empty."""

    code: str = ""
    message: str = ""
    region: str = ""

    @property
    def known(self) -> Known | None:
        """The row of its code."""
        return find_known(self.code) if self.code else None


async def explain(verdict: Verdict, response: Response, secrets: Iterable[str] = ()) -> Verdict:
    """The verdict about a refusal with the server's own reason, and with what its code means.

    ``secrets``: values of the request that nobody may be shown. Reads the reply's body, if it is small.
    """
    return explain_by(await _read_small(response), verdict, response, secrets)


def explain_by(body: bytes, verdict: Verdict, response: Response, secrets: Iterable[str] = ()) -> Verdict:
    """The same, with a body that has been read."""
    reason = find_reason(response.headers, body)
    if not set(_LETTERS.findall(reason.message.lower())) - _list_plain_words(response.status):
        reason = reason._replace(message="")
    if phrase := _read_phrase(response, reason):
        reason = reason._replace(message=f"{phrase}: {reason.message}" if reason.message else phrase)
    if reason == Reason():
        return verdict
    known = reason.known
    action = verdict.action
    if known is not None and known.course and action not in (ReplyAction.WAIT, ReplyAction.UNCHANGED):
        action = _ACTIONS[known.course]
    hidden = [*secrets, *response.hidden, *_list_values(response)]
    return msgspec.structs.replace(verdict, action=action, reason=_describe(verdict.reason, reason, hidden))


async def refuse(response: Response, reason: str) -> SourceError:
    """The error of a reply that is refused for ``reason``, with the server's own reason."""
    verdict = await explain(Verdict(action=ReplyAction.REFUSE, reason=reason), response)
    return Refused(verdict.reason, http_status=response.status)


async def refuse_object(response: Response, why: str) -> SourceError:
    """The error of a store's refusal of a link that was signed just now.

    ``why`` is for codes that cfetch does not know.
    """
    said = await explain(Verdict(action=ReplyAction.REFUSE, reason=f"HTTP {response.status}"), response)
    if said.action in (ReplyAction.THROTTLE, ReplyAction.RETRY):
        wall_s = time.time()
        if said.action is ReplyAction.THROTTLE:
            return make_throttled(said.reason, response.status, response.headers, wall_s)
        return make_transient(said.reason, response.status, response.headers, wall_s, is_made=False)
    text = said.reason if ";" in said.reason else f"{said.reason}: {why}"
    return Refused(text, http_status=response.status)


def find_reason(headers: Headers, body: bytes) -> Reason:
    """Read the reason from headers and a body; empty if there is none."""
    code, message = _first(headers, _CODE_HEADERS), _first(headers, _MESSAGE_HEADERS)
    region = _first(headers, ("x-amz-bucket-region",))
    if _BODY_START.match(body):
        plain = body.removeprefix(codecs.BOM_UTF8).lstrip()
        said = _read_json(plain) if plain[:1] in b"{[" else _read_xml(plain)
        code, message, region = code or said.code, message or said.message, region or said.region
    if not message:
        challenge = {
            name.lower(): text
            for value in headers.getall("WWW-Authenticate", _NOTHING)
            for name, text in _CHALLENGE.findall(value)
        }
        code, message = code or challenge.get("error", ""), challenge.get("error_description", "")
        if not message and challenge.get("realm"):
            message = f"the login is for {challenge['realm']}"
    if not (code or message):
        message = _read_text(_first(headers, ("Content-Type",)), body)
    return Reason(code if _WORD.fullmatch(code) else "", message, region if _WORD.fullmatch(region) else "")


def _describe(status_text: str, reason: Reason, hidden: Iterable[str]) -> str:
    known = reason.known
    text = status_text
    if reason.code:
        text += f", {_clean(reason.code, hidden, MAX_CODE)}"
    if reason.message and reason.message != reason.code:
        text += f": {_clean(reason.message, hidden, MAX_SHOWN).rstrip('. ')}"
    step = "" if known is None else known.next_step
    if reason.region and (known is None or "AWS_REGION" in step):
        step = f"the bucket is in the region {_clean(reason.region, hidden, MAX_CODE)}; set AWS_REGION to it"
    return f"{text}; {step}" if step else text


def _clean(text: str, hidden: Iterable[str], limit: int) -> str:
    """Cut a text, and take secrets and controls out of it."""
    words = " ".join(text.split())
    for secret in sorted(hidden, key=len, reverse=True):
        words = words.replace(secret, "<redacted>")
    words = _QUERY.sub(r"\1<redacted>", words)
    return printable(_TOKEN.sub("<redacted>", words), limit)


def _list_values(response: Response) -> Iterator[str]:
    """The values in the query of the request, and the words of its own secrets."""
    query = urlsplit(response.source.reveal()).query
    for text in (
        query,
        *(value for _, value in parse_qsl(query)),
        *(p.partition("=")[2] for p in query.split("&")),
    ):
        if len(text) >= LEAST_SECRET:
            yield text


async def _read_small(response: Response) -> bytes:
    """The body of a small reply, read to its end; else what of it has come, and the reply is closed."""
    lengths = response.headers.getall("Content-Length", _NOTHING)
    if lengths and not (lengths[0].isdecimal() and int(lengths[0]) <= MAX_BYTES):
        return b""
    body = b""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while len(body) <= MAX_BYTES and (data := await response.read()):
                body += bytes(data)
    except (SourceError, TimeoutError):
        pass  # the reason is only for people
    if len(body) > MAX_BYTES:
        response.close()
        return b""
    if body.startswith(b"\x1f\x8b"):  # nobody asked for gzip, but some servers send pages in no other way
        with suppress(zlib.error):
            return zlib.decompressobj(31).decompress(body, 4 * MAX_BYTES)
    return body


def _first(headers: Headers, names: Iterable[str]) -> str:
    return next((value.strip() for name in names for value in headers.getall(name, _NOTHING)), "")


def _read_xml(body: bytes) -> Reason:
    matches = [pattern.search(body) for pattern in (_CODE, _MESSAGE, _PLACE)]
    texts = [html.unescape(match[1].decode("utf-8", "replace")).strip() if match else "" for match in matches]
    return Reason(*texts) if texts[0] else Reason()


def _read_text(content_type: str, body: bytes) -> str:
    """The title of a page, or all of a plain text; not a lone word, which may be a token."""
    kind = content_type.partition(";")[0].strip().lower()
    charset = _CHARSET.search(content_type)
    try:
        text = body.decode(charset[1] if charset else "utf-8")
    except (UnicodeDecodeError, LookupError):
        text = body.decode("latin-1")
    if title := _TITLE.search(text):
        return html.unescape(title[1]).strip()
    is_text = kind in ("", "text/plain") and all(char.isprintable() or char.isspace() for char in text)
    is_prose = len(text.split()) > 1 and text.lstrip()[:1] not in ("<", "{", "[")
    return text.strip() if is_text and is_prose else ""


def _read_phrase(response: Response, reason: Reason) -> str:
    """The words behind the status of a refusal, if they say more than the status and the reason do."""
    if response.status < 400:
        return ""
    stated: bytes = getattr(response, "phrase", b"")  # a transport of another distribution may have none
    text = stated.decode("utf-8", "replace")
    if not text.isprintable():  # no words for a person
        return ""
    words = _LETTERS.findall(text.lower())
    said = _LETTERS.findall(f"{reason.code} {reason.message}".lower())
    is_news = set(words) - _list_plain_words(response.status) - _OF_PHRASES - {*said} and len(words) > 1
    return text if is_news and "".join(words) != reason.code.lower() else ""


def _list_plain_words(status: int) -> set[str]:
    """Words that say no more than the status does."""
    try:
        return _OF_NO_NEWS | {*_LETTERS.findall(HTTPStatus(status).phrase.lower())}
    except ValueError:
        return _OF_NO_NEWS


def _find_text(fields: dict[str, Any], names: Iterable[str]) -> str:
    """The first of these fields that is a text; empty if none is."""
    return next((text for name in names if isinstance(text := fields.get(name), str)), "")


def _read_json(body: bytes) -> Reason:
    """The usual forms: of Google, Azure, OAuth (RFC 6749 5.2), problem details (RFC 9457), and plain ones."""
    try:
        document = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Reason()
    if isinstance(document, list) and document:  # of Salesforce
        document = document[0]
    if not isinstance(document, dict):
        return Reason()
    inner = document.get("error", document.get("Error"))
    fields: dict[str, Any] = inner if isinstance(inner, dict) else document
    details = fields.get("errors")
    if isinstance(details, list) and details and isinstance(details[0], dict):
        code = details[0].get("reason", fields.get("code") or details[0].get("code"))
        fields = {**details[0], **fields, "code": code}
    detail = fields.get("detail")
    if isinstance(detail, list) and detail and isinstance(detail[0], dict):  # of FastAPI
        fields = {**fields, **detail[0]}
    oauth: str = inner if isinstance(inner, str) else ""
    code, message = _find_text(fields, _CODES), _find_text(fields, _MESSAGES)
    if oauth and not code and (message or _WORD.fullmatch(oauth)):
        code = oauth
    return Reason(code, message or ("" if code == oauth else oauth))
