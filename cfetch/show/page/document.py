"""The document that a page draws (``cfetch.page/1``): parts with a heading, and sections of a few kinds.

Python decides everything that is shown, in words; the page's scripts have one function for each kind of
section. Times are seconds since a run's start, rates bytes per second. Columns of numbers have equal lengths.
"""

from typing import Literal

import msgspec

Tone = Literal["", "good", "bad", "dim", "apart"]


class Card(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One figure of a run. A ``minor`` one stands in the line below the others."""

    label: str
    value: str
    note: str = ""
    tone: Tone = ""
    minor: bool = False


class Cell(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A cell of a table. ``bar`` is the length of a bar below the text, as a share of the column's width.

    ``line`` is a small curve beside the text. A ``path`` is shown on one line: the beginning of its
    directories gives way, and its name stays.
    """

    text: str
    path: bool = False
    tone: Tone = ""
    bar: float | None = None
    line: list[float] = []


class Section(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="kind"):
    """A section of a part. ``summary`` is a sentence about a chart, for people who cannot see it."""

    title: str
    note: str = ""
    summary: str = ""


class PageVerdict(Section, frozen=True, kw_only=True, omit_defaults=True, tag="verdict"):
    """The sentence that a reader needs if they read no other, and ``lines`` of explanation."""

    text: str
    tone: Tone = ""
    lines: list[str] = []


class Cards(Section, frozen=True, kw_only=True, tag="cards"):
    """Figures side by side."""

    cards: list[Card]


class Lines(Section, frozen=True, kw_only=True, tag="lines"):
    """Sentences."""

    lines: list[str]


class PageTable(Section, frozen=True, kw_only=True, tag="table"):
    """Rows of cells. A column whose name begins with ``>`` is aligned right. ``folded``: shown on demand.

    ``command`` stands above the rows and can be copied. On a narrow screen each row becomes a block of lines,
    unless the table is ``small``: then its columns stay.
    """

    columns: list[str]
    rows: list[list[Cell | str]]
    folded: bool = False
    command: str = ""
    small: bool = False


class Timeline(Section, frozen=True, kw_only=True, tag="timeline"):
    """The attempts of a run as bars in lanes; a lane holds one attempt at a time.

    ``outcome`` is an index of ``outcomes``, ``story`` an index of ``stories`` (-1: none); ``files`` is 1, or
    the number of attempts that were merged into the bar. A story is the lines about one file.
    """

    end_s: float
    lanes: int
    outcomes: list[str]
    lane: list[int]
    from_s: list[float]
    to_s: list[float]
    outcome: list[int]
    files: list[int]
    story: list[int]
    stories: list[list[str]]


class Moment(msgspec.Struct, frozen=True, kw_only=True):
    """An event of a run."""

    t_s: float
    text: str


class Layer(msgspec.Struct, frozen=True, kw_only=True):
    """The rates of one host, one for each bin."""

    name: str
    rates_bps: list[float]


class Throughput(Section, frozen=True, kw_only=True, tag="throughput"):
    """Bytes per second by host, and attempts under way, in bins of ``width_s``; and the events."""

    width_s: float
    end_s: float
    layers: list[Layer]
    active: list[float]
    moments: list[Moment]


class Curve(msgspec.Struct, frozen=True, kw_only=True):
    """A share of files for each time: ``shares[i]`` of them took up to ``times_s[i]``."""

    name: str
    times_s: list[float]
    shares: list[float]


class FileTimes(Section, frozen=True, kw_only=True, tag="file times"):
    """Empirical distribution functions of the time that files took."""

    curves: list[Curve]


class Dot(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A value above 0, with its interval; ``series`` is an index of the names of a chart."""

    value: float
    low: float | None = None
    high: float | None = None
    text: str = ""
    series: int = 0


class DotRow(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A line of a dot chart."""

    name: str
    dots: list[Dot]
    tone: Tone = ""


class Dots(Section, frozen=True, kw_only=True, tag="dots"):
    """Ratios on one logarithmic axis, a line for each name; ``mark`` is the value to compare them with.

    ``series`` are the names of dots, if a line has several.
    """

    rows: list[DotRow]
    mark: float
    mark_name: str
    series: list[str] = []


AnySection = PageVerdict | Cards | Lines | PageTable | Timeline | Throughput | FileTimes | Dots


class PagePart(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A part of the page: the overview, or one run."""

    title: str
    note: str = ""
    sections: list[AnySection]


class PageDocument(msgspec.Struct, frozen=True, kw_only=True):
    """The whole page."""

    schema: str = "cfetch.page/1"
    title: str
    note: str
    version: str
    parts: list[PagePart]
