"""Columns of a foreign table that are kept for the metrics (``--keep-columns``): short, and redacted.

People who must not see the manifest may read metrics. So a link in a value loses its query and its login, as
everywhere; text that looks like a signature or a password is removed too, and a long value is cut. A secret
that looks like any other text cannot be recognised.
"""

import re

import msgspec

from cfetch.base.secret import SecretUrl, printable

KEPT = "keep "  # prefix of the keys of such values in a row; no other key has a space
MOST_COLUMNS = 20
MAX_CHARS = 200  # of a value: enough for a caption or a path, and lines of the metrics stay short
LOOKED_AT = 1000  # characters of a value

_LINK = re.compile(r"""(?<![A-Za-z0-9+.-])([A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+)(\S*)""")
_ENCODED_LINK = re.compile(r"\S*%(?:25)*3A%(?:25)*2F\S*", re.IGNORECASE)
_LOGIN = re.compile(r"//\S*@")
_BARE_LOGIN = re.compile(r"(?<![\w.+-])[\w.+-]+:[^\s:@]+@(?=\w)")
# Tokens of GitHub, Hugging Face, GitLab and Slack.
_TOKEN = re.compile(r"\b(?:gh[a-z]|github_pat|hf|glpat|xox[a-z])[_-][\w-]{16,}")
_BEARER = re.compile(r"\b(Bearer|Basic)\s+\S{4,}", re.IGNORECASE)
_QUERY = re.compile(r"\?[^\s?=]+=\S*")
_WORDS = "sig|token|credential|policy|hmac|secret|passw|pwd|key|session|authorization|cookie"
_SECRET = re.compile(
    rf"""(?<![\w-])([\w-]*(?:{_WORDS})[\w-]*\\?["']?\s*(?:[:=]|%3[AD])\s*|--[\w-]*(?:{_WORDS})[\w-]*\s+)"""
    r"""(?:\\?"[^"]*"?|'[^']*'?|[^\s"'<>]+)""",
    re.IGNORECASE,
)
_CLOSING = re.compile(r"""["'<>)\]},.;]*""")


def take_kept(fields: object) -> tuple[tuple[str, str], ...]:
    """Take the kept values out of a row, in the form for metrics; values that are not given are left out."""
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
    text = _LINK.sub(_show_link, text[:LOOKED_AT])
    text = _LOGIN.sub("//<redacted>@", _ENCODED_LINK.sub("<redacted>", text))
    text = _TOKEN.sub("<redacted>", _BARE_LOGIN.sub("<redacted>@", text))
    text = _QUERY.sub("?<redacted>", _BEARER.sub(r"\1 <redacted>", text))
    return printable(_SECRET.sub(r"\1<redacted>", text), MAX_CHARS)


def _show_link(link: re.Match[str]) -> str:
    """Redact a link, and the text after a quotation mark in it, which may be the rest of its query."""
    url, rest = link.groups()
    return str(SecretUrl(url)) + (rest if _CLOSING.fullmatch(rest) else "<redacted>")
