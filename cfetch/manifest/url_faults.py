"""Why a URL cannot be used. A list with a fault loads this; few have one."""

import re

from cfetch.base.errors import UsageError
from cfetch.base.registry import find_file_source
from cfetch.base.schemes import KNOWN, SCHEMES, WEB_PATTERN, is_web

BAD_PORT = "its port is not between 1 and 65535"
ODD_HOST = "its host holds characters that no host name has"
_ANY_LOGIN = re.compile(r"\A([^:]+://)[^/?#\\]*@")
_NOT_KNOWN = f"its scheme is not {KNOWN}"
_REASONS = (
    (r"\Z", "it is empty"),
    (
        r".*[^\0-\x7f]",
        "it holds characters outside ASCII; percent-encode them (and write the host as xn--…)",
    ),
    (r".*[^!-~]", "it holds whitespace or a control character; percent-encode it"),
    (r"magnet:", "it is a link of BitTorrent; aria2 downloads such files"),
    (
        r"doi:",
        "a DOI names a record and no file; give it as a list by itself: cfetch download doi:10.…",
    ),
    *((f"{row.name}:", f"its scheme is {row.refusal}") for row in SCHEMES.values() if row.refusal),
    (rf"(?!{WEB_PATTERN}:)", _NOT_KNOWN),
    (rf"(?!{WEB_PATTERN}:)[^:]+://[^/?#]*@", "it holds userinfo; put the credential into headers"),
    (r"[^:]+://[^/?#\\]*\\[^/?#]*@", r"its login holds a \; percent-encode it as %5C"),
    (r"[^:]+:(?!//[^/?#:])", "it has no host"),
    (r"[^:]+://(?:\[[^]]*]|[^/?#:[]+):", BAD_PORT),
    (r"[^:]+://[^/?#:]*\.\.?(?=[/?#:]|\Z)", "its host is nothing but a dot, or ends with two"),
    (r"", ODD_HOST),
)
"""The first that matches is reported. They are not compiled: there are few faults, each with few patterns."""


def find_url_fault(text: str) -> str:
    """The first reason in ``_REASONS`` that holds; those about the host are sought behind a login."""
    try:
        is_known = find_file_source(text) is not None
    except UsageError as error:  # of the plug-in that has the scheme
        return str(error)
    if is_web(text):
        text = _ANY_LOGIN.sub(r"\1", text)
    return next(
        reason
        for pattern, reason in _REASONS
        if re.match(pattern, text, re.DOTALL | re.IGNORECASE) and not (is_known and reason is _NOT_KNOWN)
    )
