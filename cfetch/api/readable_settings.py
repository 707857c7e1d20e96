"""``Settings`` with a docstring that explains each option; ``cfetch.Settings`` is taken from here."""

import inspect
import textwrap
from dataclasses import fields
from typing import get_type_hints

from cfetch.base.config.option_table import OptionTable
from cfetch.base.config.python_words import put_into_python
from cfetch.base.config.settings import KINDS, Settings


def _describe_options() -> str:
    """A line or two for each option, with its type and its default."""
    lines = []
    for field in fields(OptionTable):
        kind = KINDS[field.name]
        allowed = "True or False" if kind.is_flag else kind.range_text()
        text = textwrap.fill(
            put_into_python(kind.help, KINDS), 100, initial_indent=" " * 8, subsequent_indent=" " * 8
        )
        lines.append(f"    {field.name} = {field.default!r}: {allowed}\n{text}")
    return "\n".join(lines)


def _make_readable() -> None:
    """Let ``help(Settings)`` show plain types and one line for each option, not the objects of the table."""
    plain = get_type_hints(OptionTable)
    OptionTable.__annotations__ = plain
    Settings.__init__.__annotations__ = {**plain, "return": None}
    Settings.__doc__ = f"{inspect.cleandoc(Settings.__doc__ or '')}\n\nOptions:\n{_describe_options()}\n"


_make_readable()
