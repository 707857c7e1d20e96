"""``.`` and ``..`` in the paths of absolute URLs. Pure."""

import re

_PATH = re.compile(r"(?P<start>[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*)(?P<path>/[^?#]*)(?P<rest>.*)\Z", re.DOTALL)


def remove_dots(url: str) -> str:
    """The URL without ``.`` and ``..`` in it (RFC 3986, 5.2.4); urljoin leaves them in absolute ones."""
    match = _PATH.match(url)
    if match is None:
        return url
    kept: list[str] = []
    segments = match["path"][1:].split("/")
    for segment in segments:
        if segment == "..":
            del kept[-1:]
        elif segment != ".":
            kept.append(segment)
    if segments[-1] in (".", ".."):
        kept.append("")
    return f"{match['start']}/{'/'.join(kept)}{match['rest']}"
