"""Finds the row of a URL's scheme: of cfetch's own table, or of another installed distribution.

Other distributions are asked only for a scheme that the table lacks, as that takes 80 ms.
"""

from functools import cache
from typing import Any

from cfetch.base.errors import UsageError
from cfetch.base.registry import find, import_object, import_part, load, make_plugin_error
from cfetch.base.schemes import SCHEMES, Scheme, scheme_of


@cache
def find_source(name: str) -> Scheme | None:
    """The row of the scheme called ``name``, in lower case; None: neither cfetch nor a plug-in has it.

    Raises UsageError: the plug-in that has it is broken.
    """
    if name in SCHEMES or not name:
        return SCHEMES.get(name)
    if find("sources", name) is None:
        return None
    row = load("sources", name)
    if not isinstance(row, Scheme):
        raise make_plugin_error("sources", name, TypeError("its object is no cfetch.base.schemes.Scheme"))
    return row._replace(name=name)


def find_file_source(url: str) -> Scheme | None:
    """The row of a URL's scheme, if files of it can be had by cfetch. Raises UsageError."""
    row = find_source(scheme_of(url))
    return None if row is None or not row.opener else row


def load_opener(row: Scheme) -> Any:  # noqa: ANN401 - a function of the wire's types
    """The opener of a scheme, imported now. Raises UsageError: its library is not installed, or it fails."""
    if row.name not in SCHEMES:
        return import_part("sources", row.name, row.opener, extra=row.extra)
    try:
        return import_object(row.opener)
    except ModuleNotFoundError as error:
        if not row.extra:
            raise
        raise UsageError(
            f"{row.name}:// needs the library {error.name}, which is not installed: pip install "
            f"'cfetch[{row.extra}]'"
        ) from None
