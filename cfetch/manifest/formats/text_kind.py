"""Tells the format of a text that is no plain list of URLs and no JSON: of markup, or of lines. Pure.

A format's own signs come first; then what may be a table; then what its words look like.
"""

import re
from collections.abc import Mapping, Sequence

from cfetch.base.config.reading import ReadingOptions
from cfetch.base.schemes import WEB_PATTERN
from cfetch.manifest.formats.csv_table import DELIMITERS, find_url_cell, has_url_column, split_line
from cfetch.manifest.formats.link_text import has_links_within
from cfetch.manifest.formats.table import FORMATS, INDEX, Format, ask_sign, list_foreign_formats

_NO_LINES_OF_URLS = frozenset({"json", "jsonl", "metalink", "parquet"})
_MAY_BE_CODE = frozenset({"", "urls", "json", "jsonl"})  # JSON with comments is none
_PROJECT = "cfetch.plugins.formats.package_index:is_project_page"
_DIRECTORY = "cfetch.plugins.formats.html_index:is_directory_index"
_LINK = re.compile(f"{WEB_PATTERN}://")
_CKSUM = re.compile(r"[0-9]{5,10} [0-9]{1,20} \S")  # a CRC, a size and a name; ``rclone ls`` pads its sizes
_HTML = re.compile(
    r"(?:<\?xml[^>]{0,200}>|<!--[^>]{0,1000}-->|\s){0,4}<(?:!doctype\s+html|html|head|body|h1|pre)\b",
    re.IGNORECASE,
)
_BUCKET = re.compile(r"<(?:ListBucketResult|EnumerationResults)\b")
_SITEMAP = re.compile(r"<(?:urlset|sitemapindex)\b")
_ROOT = re.compile(
    r"(?:\s|<\?[^>]{0,1000}>|<!--.{0,4000}?-->|<!doctype[^>]{0,1000}>)*+<([A-Za-z][\w:.-]*)",
    re.DOTALL | re.IGNORECASE,
)
_STATEMENT = re.compile(
    r".*(?:[:{}(\[,;\\]|\b(?:then|do|else|fi|done))\s*\Z"  # it goes on, or closes a bracket
    r"|\s*(?:[$!]\w|[\w.-]{1,60}[:+?]=)"
    r"|.*\S\s*(?:[ \t](?:[:+?]?=|==|[=-]>|&&)[ \t]|==|~=|>=)"
    r"|\s*(?:import|from|def|class|if|for|while|function|echo|export|set|source|include|return|inherit|require"
    r"|FROM|RUN|COPY|ADD|ENV|ARG|WORKDIR|CMD)\s"
    r"|\s*(?:[\w.-]{1,40}:|[-*+]|//|/\*|--|@@?|%|\+\+\+|---)\s"  # a key, an item, a comment, a change
    r"|.*(?:\(['\"]|\$[({]|,(?:md5|sha[0-9]{1,3})=)"
    r"|\s*[A-Za-z_]\w*\(.*\);?\s*\Z"
    r"|(?:\S+\s+){5,}(?:[^\s.]+|\S+\.)\s*\Z"  # six words, of which the last has no ending of a file
    r"|\s+\S+\s.*\.\s*\Z",
    re.DOTALL,
)
"""A line of a program, of a configuration, of YAML or of a change; no name of a file looks so."""

_COMMENT = re.compile(r"\A(\s*[a-z0-9]+://\S+)[ \t]+#.*")
"""A comment behind a URL; a plain list may have them."""

_SECTION = re.compile(r"\[[\w .\"'/-]{1,60}\]\s*\Z")  # of a configuration

_HTML_TAGS = frozenset({
    "a", "b", "br", "center", "div", "dl", "font", "form", "h2", "h3", "header", "hr", "i", "img", "li",
    "link", "main", "meta", "nav", "ol", "p", "script", "section", "span", "strong", "style", "table",
    "tbody", "td", "th", "title", "tr", "tt", "ul",
})  # fmt: skip
_MARKUP = {root: name for name, format_ in FORMATS.items() for root in format_.roots.split()}
"""Formats by the name of an XML document's root."""

AMBIGUOUS = "url-and-more"
URL_AND_MORE = re.compile(r"(?P<url>[A-Za-z][A-Za-z0-9+.-]*://[^ ]+) (?P<path>[^ ].*)\Z")
"""A line of a URL, a space and more text; it may also be a URL with a space in it."""


def find_kind_of_lines(content: Sequence[str], head: str, ending: str, options: ReadingOptions | None) -> str:
    """The kind of a text that begins with ``head``; ``content``: its first lines that are no comments."""
    content = [_COMMENT.sub(r"\1", line) for line in content]
    first = content[0] if content else ""
    return (
        _find_kind_of_checksums(content)
        or _kind_by_signs(FORMATS, first, head, content)
        or _kind_of_table(first, content, ending, options)
        or (AMBIGUOUS if content and ending != "csv" and all(map(URL_AND_MORE.match, content)) else "")
        or ("urls" if ending in _NO_LINES_OF_URLS and _LINK.match(first) else "")
        or _kind_by_signs(list_foreign_formats(), first, head, content)
        or ("within" if ending in ("", "urls") and has_links_within(content) else "")
        or (_find_kind_of_code(content, head) if ending in _MAY_BE_CODE else "")
        or ("text" if ending == "urls" and _is_only_words(content) else "")
        or ending
        or ("text" if _is_prose(content) else "urls")
    )


def find_kind_of_markup(head: str, ending: str) -> str:
    """The kind of an HTML page or an XML document that begins with ``head``."""
    if _HTML.match(head):
        return (
            "package-index" if ask_sign(_PROJECT, head) else INDEX if ask_sign(_DIRECTORY, head) else "html"
        )
    if bucket := _BUCKET.search(head):
        return "bucket-xml" if bucket[0] == "<ListBucketResult" else "container-xml"
    root = _ROOT.match(head)
    if root is None or ending == "metalink":
        return "metalink"
    if _SITEMAP.search(head):
        return "xml" if "{{" in head else "sitemap"  # a template of one
    name = root[1].rpartition(":")[2].lower()
    return _MARKUP.get(name) or ("html" if name in _HTML_TAGS else "xml")


def _find_kind_of_checksums(lines: Sequence[str]) -> str:
    """The kind of a text with these first lines that is no list; empty if it may be one."""
    return "cksum" if lines and all(map(_CKSUM.match, lines)) else ""


def _kind_by_signs(formats: Mapping[str, Format], first: str, head: str, content: Sequence[str]) -> str:
    """The first of the formats that a sign in the text tells; empty if there is none."""
    asked = (("first_line", first), ("head", head), ("content", content))
    for name, format_ in formats.items():
        for kind, text in asked:
            place = getattr(format_, kind)
            if place and text and ask_sign(place, text):
                return name
    return ""


def _find_kind_of_code(lines: Sequence[str], head: str) -> str:
    """The kind of a text of which many lines are statements; empty if it may be a list of relative links."""
    links = sum("://" in line and not set(line.strip()) & set(" \t\"'") for line in lines)
    statements = sum(len(line) < 2000 and _STATEMENT.match(line) is not None for line in lines)
    is_known = lines and _SECTION.match(lines[0]) is not None
    if not is_known and (statements <= links or 3 * statements < len(lines)):
        return ""
    return "within" if "://" in head else "text"


def _is_only_words(lines: Sequence[str]) -> bool:
    """Whether lines with spaces have no full stop and no slash in them, as a path nearly always has."""
    return any(" " in line.strip() for line in lines) and not any(set(line) & set("./") for line in lines)


def _is_prose(lines: Sequence[str]) -> bool:
    """Whether no line is an absolute link, and one line has a space or none has a dot or a slash."""
    if not lines or any("://" in line for line in lines):
        return False
    return any(" " in line.strip() for line in lines) or not any(set(line) & set("./") for line in lines)


def _kind_of_table(first: str, content: Sequence[str], ending: str, options: ReadingOptions | None) -> str:
    """``csv`` if the first line names a column of URLs, or has tabs and one URL as a cell; else empty."""
    if ending == "csv" or (options is not None and options.names_urls):
        return "csv"
    for delimiter in DELIMITERS:
        cells = split_line(first, delimiter)
        if has_url_column(cells) and "://" not in first:
            return "csv"
        if "url" in [cell.strip() for cell in cells] and delimiter == "," and ending != "urls":
            return "csv"
        if delimiter == "\t" and len(cells) > 1 and find_url_cell(cells) is not None:
            return "csv"
    return "csv" if ending in ("", "urls") and _is_table(content) else ""


def _is_table(content: Sequence[str]) -> bool:
    """Whether lines have at least three cells each, as many as the first, which are names and no links."""
    if len(content) < 2 or "://" in content[0]:
        return False
    for delimiter in "\t,;":
        counts = {len(split_line(line, delimiter)) for line in content}
        if len(counts) == 1 and min(counts) > 2 and (delimiter == "\t" or "://" in content[1]):
            return True
    return False
