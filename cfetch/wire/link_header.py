"""Reads the header ``Link`` (RFC 8288), which names the next page of a list. Pure.

aiohttp reads it too, but splits parameters within quotes, and leaves relation types in one string.
"""

import re
from collections.abc import Iterable

from cfetch.base.errors import Refused

_SPACE = re.compile(r"[ \t]*")
_TARGET = re.compile(r"<([^<>]*)>")
_NAME = re.compile(r"[^\s=;,<>\"']+")
_VALUE = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|((?:[^\s;,\"'<>][^\s;,\"<>]*)?)")
_ESCAPED = re.compile(r"\\(.)")


def find_next_link(values: Iterable[str]) -> str | None:
    """The target with the relation type ``next``; None: the list ends here.

    Raises Refused: a value cannot be read, so it is unknown whether the list goes on.
    """
    for value in values:
        scan = _Scan(value)
        while not scan.is_at_end():
            target, relations = scan.take_link()
            if "next" in relations:
                return target
    return None


class _Scan:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def is_at_end(self) -> bool:
        """Skip commas, as a list may have empty elements; tell whether the text ends."""
        self._pass_space()
        while self._take(","):
            self._pass_space()
        return self._at == len(self._text)

    def take_link(self) -> tuple[str, list[str]]:
        """The target of a link and its relation types, in lower case."""
        target = self._match(_TARGET)[1].strip()
        relations: list[str] = []
        self._pass_space()
        while self._take(";"):
            self._pass_space()
            if self._at < len(self._text) and self._text[self._at] not in ";,":
                name, value = self._take_parameter()
                relations += value.lower().split() if name.lower() == "rel" else []
            self._pass_space()
        if self._at < len(self._text) and self._text[self._at] != ",":
            raise self._refuse()
        return target, relations

    def _take_parameter(self) -> tuple[str, str]:
        name = self._match(_NAME)[0]
        self._pass_space()
        if not self._take("="):
            return name, ""
        self._pass_space()
        match = self._match(_VALUE)
        return name, _ESCAPED.sub(r"\1", match[1]) if match[1] is not None else match[2] or match[3] or ""

    def _take(self, character: str) -> bool:
        is_there = self._text.startswith(character, self._at)
        self._at += is_there
        return is_there

    def _pass_space(self) -> None:
        self._match(_SPACE)

    def _match(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._text, self._at)
        if match is None:
            raise self._refuse()
        self._at = match.end()
        return match

    def _refuse(self) -> Refused:
        return Refused("its header Link cannot be read, so nobody can tell whether the list goes on")
