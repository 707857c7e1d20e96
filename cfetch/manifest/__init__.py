"""Manifests: what to download. Readers find rows, one place checks them, ``freeze`` makes a plan of them.

The way in: ``source`` (bytes) -> a reader of ``formats`` (rows) -> ``rows``, ``fields`` (entries) ->
``plan``.
"""

from cfetch.manifest.entry import Digest, Entry, SafePath, UnsafePathError, collision_key, safe_path
from cfetch.manifest.formats.sql_statement import parse_chunk_links
from cfetch.manifest.plan import Plan, freeze
from cfetch.manifest.reading import read_entries
from cfetch.manifest.source import FetchChunk

__all__ = [
    "Digest",
    "Entry",
    "FetchChunk",
    "Plan",
    "SafePath",
    "UnsafePathError",
    "collision_key",
    "freeze",
    "parse_chunk_links",
    "read_entries",
    "safe_path",
]
