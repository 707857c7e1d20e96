"""Errors in Python's words: they name keywords, not flags."""

from cfetch.base.config.python_words import put_into_python
from cfetch.base.config.settings import KINDS
from cfetch.base.errors import UsageError


def explain_in_python(error: UsageError) -> UsageError:
    """Put the error's message into Python's words."""
    error.args = tuple(put_into_python(part, KINDS) if isinstance(part, str) else part for part in error.args)
    return error
