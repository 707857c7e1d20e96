"""Columns of somebody else's table that are kept for the metrics (``--keep-columns``): short, and redacted.

Metrics are read by others than the manifest. So a link in a value loses its query and its login, as
everywhere, what looks like a signature without a link goes too, and a long value is cut.
"""

import re

import msgspec

from cfetch.secret import SecretUrl, printable

KEPT = "keep "  # how the keys of such values begin in a row; no other key has a space
MOST_COLUMNS = 20
MAX_CHARS = 200  # of a value: a caption or a path, and a line of the metrics is still a line
LOOKED_AT = 1000  # characters of a value

_LINK = re.compile(r"(?<![A-Za-z0-9+.-])[A-Za-z][A-Za-z0-9+.-]*://[^\s\"'<>]+")
_QUERY = re.compile(r"\?[^\s\"'<>?=]+=[^\s\"'<>]*")
_SECRET = re.compile(
    r"(?<![\w-])([\w-]*(?:sig|token|credential|policy|hmac|secret|passw|key)[\w-]*)=[^\s\"'<>]+",
    re.IGNORECASE,
)


def take_kept(fields: object) -> tuple[tuple[str, str], ...]:
    """Take the kept values out of a row, as the metrics show them; those that are not given are left out."""
    if not isinstance(fields, dict):  # a fault of the row
        return ()
    kept = []
    for key in [key for key in fields if key.startswith(KEPT)]:
        value = fields.pop(key)
        if value is not None:
            kept.append((key.removeprefix(KEPT), _show(value)))
    return tuple(kept)


def _show(value: object) -> str:
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    text = _LINK.sub(lambda link: str(SecretUrl(link[0])), text[:LOOKED_AT])
    text = _SECRET.sub(r"\1=<redacted>", _QUERY.sub("?<redacted>", text))
    return printable(text, MAX_CHARS)
