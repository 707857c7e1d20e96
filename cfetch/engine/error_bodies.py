"""Recognises bodies that are something else than the file: errors, pages and pointers sent as 200. Pure.

Only what says so itself counts, at the start of a body that nothing proves: an error document in XML or JSON,
a web page under another type, a pointer of Git LFS or git-annex. A file that may by its name be such a
document is none of them.
"""

import re
from codecs import BOM_UTF8
from typing import Any, NamedTuple

import msgspec

MOST_BYTES = 4 << 10  # of a document that is looked at; longer JSON is data
_ENDING = re.compile(r"\.([A-Za-z0-9]{1,12})$")
_PAGE = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.{0,400}?-->\s*)*<(?:!doctype\s+html|html)\b", re.I | re.S
)
_XML_ERROR = re.compile(
    rb"\s*(?:<\?xml[^>]*>\s*)?(?:<!--.{0,400}?-->\s*|<!DOCTYPE[^>\[]*>\s*)*"
    rb"<(?:\w+:)?(?:Error|ErrorResponse|ServiceExceptionReport|ExceptionReport)[\s>]",
    re.IGNORECASE | re.DOTALL,
)
_LFS = re.compile(
    rb"version \S+/spec/v\d+\n(?:ext-\S+ \S+\n)*oid (\w+:[0-9a-f]{7})[0-9a-f]*\nsize (\d{1,19})\s*\Z"
)
_ANNEX = re.compile(rb"(?:\S*/)?annex/objects/\S+\s*\Z")
# Endings of files that may begin as such documents do. For pages: sources and templates of pages too.
_JSON_NAMES = frozenset({
    "avsc", "gltf", "har", "ipynb", "js", "jsonl", "ldj", "log", "map", "ndjson", "sarif", "stac",
    "webmanifest", "yaml", "yml",
})  # fmt: skip
_XML_NAMES = frozenset({
    "atom", "gml", "gpx", "htm", "html", "kml", "log", "owl", "plist", "rdf", "rss", "svg", "wml", "wsdl",
    "xhtml", "xml", "xsd", "xsl", "xslt",
})  # fmt: skip
_PAGE_NAMES = _XML_NAMES | {
    "astro", "cshtml", "ejs", "eml", "erb", "ftl", "hbs", "heex", "hta", "inc", "j2", "jinja", "jinja2",
    "liquid", "md", "mht", "mustache", "njk", "phtml", "razor", "rst", "svelte", "template", "tmpl", "tpl",
    "twig", "txt", "vm", "vue",
}  # fmt: skip
_ERROR_KEYS = ("error", "Error", "errors", "Errors", "fault", "exception")
_TEXT_KEYS = frozenset({"message", "Message", "msg", "detail", "errorMessage", "error_description"})
_STATE_KEYS = frozenset({
    "Code", "code", "documentation_url", "errorCode", "error_code", "status", "statusCode", "status_code",
    "type",
})  # fmt: skip


class OddDocument(NamedTuple):
    """``name`` is for a person. ``is_error``: it gives its reason itself. ``way``: the way to the file."""

    name: str
    is_page: bool = False
    is_error: bool = False
    way: str = ""


_POINTER_WAY = (
    "; ask for the file itself: GitHub has it at github.com/…/raw/…, and not at raw.githubusercontent.com; "
    "Hugging Face has it at …/resolve/…"
)


def may_be_document(start: bytes) -> bool:
    """Whether more of a body has to be seen to know."""
    first = start.removeprefix(BOM_UTF8).lstrip()[:1]
    return first in b"<{v/." or start in BOM_UTF8


def find_document(path: str, media_type: str, start: bytes) -> OddDocument | None:
    """What a body is that is not the file of this path; None: nothing says so."""
    ending = _ENDING.search(path.lower())
    kind = "" if ending is None else ending[1]
    text = start.removeprefix(BOM_UTF8)
    if _PAGE.match(text):
        # servers of source code send its pages as plain text
        is_meant = kind in _PAGE_NAMES or media_type == "text/plain"
        return None if is_meant else OddDocument("a web page", is_page=True)
    if _XML_ERROR.match(text):
        return None if kind in _XML_NAMES else OddDocument("an error document in XML", is_error=True)
    is_json = "json" in kind or kind in _JSON_NAMES
    if text.lstrip()[:1] == b"{" and not is_json and _is_json_error(text):
        return OddDocument("an error document in JSON", is_error=True)
    if pointer := _LFS.match(text):
        size = f"{int(pointer[2]):,}"
        return OddDocument(
            f"the pointer of Git LFS to a file of {size} bytes ({pointer[1].decode()}…)", way=_POINTER_WAY
        )
    if len(text) < MOST_BYTES and _ANNEX.match(text):
        return OddDocument("the pointer of git-annex", way="; git annex whereis names its file")
    return None


def _is_json_error(text: bytes) -> bool:
    """Whether a document is an object that tells of an error, in one of the usual forms."""
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    if not isinstance(document, dict):
        return False
    fields: dict[str, Any] = document
    if any(isinstance(fields.get(key), str | dict | list) and fields[key] for key in _ERROR_KEYS):
        return True
    if fields.get("success") is False or fields.get("ok") is False:
        return True
    says = any(isinstance(fields.get(key), str) for key in _TEXT_KEYS)
    return says and (len(fields) == 1 or not _STATE_KEYS.isdisjoint(fields))
