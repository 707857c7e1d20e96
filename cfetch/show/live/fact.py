"""One line of the log."""

from typing import Literal, NamedTuple

Level = Literal["info", "warning", "error"]


class Fact(NamedTuple):
    """One line of the log: ``text`` for people, ``data`` for machines; both printable."""

    t_s: float
    name: str
    level: Level
    text: str
    data: dict[str, object]
