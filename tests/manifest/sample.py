"""A list as people have it, as a small sample of its real shape."""

from typing import NamedTuple

SHA = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
MD5 = "098f6bcd4621d373cade4e832627b4f6"
MD5_BASE64 = "CY9rzUYh03PK3k6DJie09g=="  # the same
H = "https://h.example/"
BASE = "https://h.example/d/"


class Sample(NamedTuple):
    """``paths``: those of the entries that it gives; ``refusal``: words of the message if it is refused."""

    name: str
    file: str
    content: bytes
    paths: tuple[str, ...] = ()
    refusal: str = ""
    flags: str = ""
    own_url: str | None = None
