"""Freeze and read a manifest that is a file in memory."""

from contextlib import nullcontext

from cfetch.base.config.reading import ReadingOptions
from cfetch.manifest import freezing
from cfetch.manifest.freezing import ManifestPart, Opened


def freeze(source, *, name, directory, fetch_chunk=None, **options):
    """Freeze one manifest, whose format is ``format`` if that is given."""
    opened = Opened(source, fetch_chunk=fetch_chunk)
    parts = [ManifestPart(name, lambda: nullcontext(opened))]
    return freezing.freeze(parts, name=name, directory=directory, **with_format(**options))


def with_format(*, format=None, **options):  # noqa: A002 - the word of ``from_format``
    """The same options, with the format among those for reading."""
    return options if format is None else options | {"options": ReadingOptions(from_format=format)}
