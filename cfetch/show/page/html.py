"""A page as one HTML file: template, styles, scripts and the document, all inline.

The policy in its head forbids every request, and every script and style but these, by their hashes. The
document is JSON in an element of its own, in which no character can end the element.
"""

import hashlib
from base64 import b64encode
from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from cfetch.show.page.document import PageDocument
from cfetch.storage.outputs import open_output

_SCRIPTS = (
    "vendor/uPlot.iife.min.js",
    "dom.js",
    "charts.js",
    "timeline.js",
    "sections.js",
    "page.js",
    "live.js",
)
_STYLES = ("vendor/uPlot.min.css", "page.css")
_ESCAPES = {ord(char): f"\\u{ord(char):04x}" for char in "<>&\u2028\u2029\x7f"}


def render_html(page: PageDocument) -> str:
    """The file's text. It makes no request of any kind."""
    return _fill_template(_encode_document(page), connect="")


def write_html(page: PageDocument, path: Path) -> None:
    """Write the file, in one step. Raises as ``open_output``."""
    with open_output(path, private=False) as file:
        file.write(render_html(page))


def render_live_html() -> str:
    """The same page for a run under way: the document comes from its own server."""
    return _fill_template("null", connect=" connect-src 'self';")


def _encode_document(page: PageDocument) -> str:
    """JSON in which no character ends a script element or a line of script."""
    return msgspec.json.encode(page).decode().translate(_ESCAPES)


def _fill_template(document: str, *, connect: str) -> str:
    script, style = _read_assets(_SCRIPTS), _read_assets(_STYLES)
    policy = (
        f"default-src 'none'; script-src {_hash_source(script)}; style-src {_hash_source(style)};{connect} "
        "base-uri 'none'; form-action 'none'"
    )
    filled = _read_assets(("page.html",))
    # the document comes last, as it may contain text that looks like a name
    for name, text in {"policy": policy, "style": style, "script": script, "document": document}.items():
        filled = filled.replace(f"{{{{{name}}}}}", text, 1)
    return filled


def _hash_source(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


@cache
def _read_assets(names: tuple[str, ...]) -> str:
    folder = files("cfetch.show.page") / "assets"
    return "\n".join(_without_margins(folder.joinpath(name).read_text(encoding="utf-8")) for name in names)


def _without_margins(text: str) -> str:
    """The lines without their indents and without those that are comments: a tenth of a page without data."""
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("// ")) + "\n"
