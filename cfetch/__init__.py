"""cfetch downloads a very large set of files, whole, verified and without stragglers.

``import cfetch`` offers the names of ``__all__``; docs/python.md shows them at work. Each is imported when it
is used first. They are stable: a later version may add to them, and other modules may change at any time.

The package is a house of rooms, a folder each. The docstring of a room's ``__init__.py`` says what the room
is for, in which order to read its files, what holds when it fails, and where to change what.
docs/architecture.md shows how the rooms fit together and which way an entry takes through them.

What all rooms share lies beside them:

    errors.py     every error in one tree: whose fault, whether trying again can help, the exit code
    events.py     facts that the engine emits              records.py   the documents made of them
    clock.py      the port for time; virtual time for tests
    secret.py     URLs and tokens that cannot be printed by accident
    breaker.py    keeps work away from a failing host or volume (a value)
"""

TYPE_CHECKING = False  # type checkers take it for the name of typing, whose import takes 10 ms
if TYPE_CHECKING:
    from cfetch.api.downloads import download, download_async, get, get_async, read_manifest
    from cfetch.api.entry import Entry
    from cfetch.api.notebook import NotebookBar
    from cfetch.api.recorded import read_metrics, read_settings
    from cfetch.api.stream import Item, Stream, stream
    from cfetch.base.config.settings import Settings
    from cfetch.base.errors import (
        CfetchError,
        ConfigError,
        Held,
        Incomplete,
        LocalFault,
        ManifestError,
        UsageError,
    )
    from cfetch.base.events import EntryFinished, Event, Progress, RunFinished, RunStarted, StragglerCancelled
    from cfetch.base.records import FileRecord, Summary
    from cfetch.base.version import __version__

__all__ = [
    "CfetchError",
    "ConfigError",
    "Entry",
    "EntryFinished",
    "Event",
    "FileRecord",
    "Held",
    "Incomplete",
    "Item",
    "LocalFault",
    "ManifestError",
    "NotebookBar",
    "Progress",
    "RunFinished",
    "RunStarted",
    "Settings",
    "StragglerCancelled",
    "Stream",
    "Summary",
    "UsageError",
    "__version__",
    "download",
    "download_async",
    "get",
    "get_async",
    "read_manifest",
    "read_metrics",
    "read_settings",
    "stream",
]

_HOMES = {
    "api.downloads": ("download", "download_async", "get", "get_async", "read_manifest"),
    "api.entry": ("Entry",),
    "api.notebook": ("NotebookBar",),
    "api.recorded": ("read_metrics", "read_settings"),
    "api.readable_settings": ("Settings",),
    "api.stream": ("Item", "Stream", "stream"),
    "base.errors": (
        "CfetchError", "ConfigError", "Held", "Incomplete", "LocalFault", "ManifestError", "UsageError",
    ),
    "base.events": ("EntryFinished", "Event", "Progress", "RunFinished", "RunStarted", "StragglerCancelled"),
    "base.records": ("FileRecord", "Summary"),
    "base.version": ("__version__",),
}  # fmt: skip
"""Module below ``cfetch`` -> the public names that are imported from it."""


def __getattr__(name: str) -> object:
    """Import a public name when it is used first (PEP 562)."""
    from importlib import import_module

    for module, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(import_module(f"cfetch.{module}"), name)
            return value
    raise AttributeError(f"module 'cfetch' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
