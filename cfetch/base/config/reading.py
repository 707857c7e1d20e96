"""The options for reading a manifest: the room of manifests never sees other rooms' options.

``Settings.reading`` makes it; a caller without settings takes the default.
"""

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from cfetch.base.config.path_filter import PathFilter

NAMES = ("last", "url-path", "url-query", "row", "hash", "header", "final-url")
ASKING = ("header", "final-url")  # those that ask a server
"""The ways to name a file if the manifest does not state its path: see ``manifest/names.py``."""

BAD_ROWS = ("fail", "skip")
CLASH = ("fail", "rename", "skip")


class ReadingOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The columns of a table, the way to name files, and whether a faulty row ends everything.

    ``clash``: what happens with an entry that is one file with an earlier one at the destination.
    Each row has a file for each of ``more_url_columns`` too; ``url_template`` makes URLs of other columns.
    A column named ``none`` means that the table has no such column. ``hash_column`` is ALGORITHM=COLUMN.
    ``keep_columns`` are for the metrics. ``query`` is an expression of JMESPath that makes rows of any JSON.
    ``include`` and ``exclude`` are patterns of paths: which entries are taken.
    """

    from_format: str | None = None
    query: str | None = None
    url_column: str | None = None
    more_url_columns: tuple[str, ...] = ()
    url_template: str | None = None
    path_column: str | None = None
    size_column: str | None = None
    hash_column: str | None = None
    keep_columns: tuple[str, ...] = ()
    name_by: str = "last"
    bad_rows: str = "fail"
    clash: str = "fail"
    include: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()

    @property
    def names_urls(self) -> bool:
        """Whether the user says which columns of a table have the URLs."""
        return self.url_column is not None or self.url_template is not None

    @property
    def paths(self) -> "PathFilter | None":
        """Which paths are taken; None: all."""
        if not self.include and not self.exclude:
            return None
        from cfetch.base.config.path_filter import PathFilter  # few runs choose paths

        return PathFilter(self.include, self.exclude)

    @property
    def names_columns(self) -> bool:
        """Whether the user has named a column."""
        named = (self.url_column, self.url_template, self.path_column, self.size_column, self.hash_column)
        return any(named) or bool(self.keep_columns)


STANDARD = ReadingOptions()
