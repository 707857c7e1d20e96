"""Manifests: what to download. Readers find rows, one place checks them, ``freeze`` makes a plan of them.

Nothing is repaired: a path or a number that is not as it has to be is a fault, and so is a URL, but for
spaces and letters outside ASCII in one that is not signed. All faults of a
manifest are named at once, with their lines, and then nothing is downloaded. No message holds a value,
which may be a secret.

Read in this order::

    source.py  compressed.py     the bytes as strict UTF-8, a window at a time; gzip and zstd undone
    formats/                     one reader for each format: bytes to rows
    rows.py                      a row to an entry: the one place where rows become trusted
    columns.py  kept.py  names.py    which column of a table is what, or is kept; paths that no row states
    fields.py  strict_json.py    one check for each key; JSON without traps
    urls.py  object_urls.py      URLs as a manifest may state them; objects of a store
    repository_urls.py  repository_hub.py    hf://: files of repositories, and where those are
    digests.py                   hashes as a manifest may state them
    entry.py                     ``Entry`` and ``SafePath``, as types that only a check can make
    faults.py  reading.py        the faults, collected; all of this as one walk
    freezing.py                  ``freeze``: the checks that need all entries
    collisions.py  assembly.py   which entries want one place; pieces that make one file
    plan.py                      the frozen manifest
    entries.py                   two ports: what an engine and what a use case ask of a frozen manifest
    plan_file.py                 the entries sealed in a file; 7 bytes an entry stay in memory
    writing.py                   manifests written, in our formats and in other tools'

::

    freeze: for row in reader(source):      memory does not grow with the manifest
                entry = check_row(row)      or faults
                plan_file.append(entry); path_index.add(entry.path)
            compare candidates of collisions, seal the file

When it fails: a ``ManifestError`` before the first request. A plan file without its seal was left by a
crash and is refused. It is readable by its owner alone, since it holds signed URLs.

Where to change: a key is a check in ``fields.py`` and a field of ``Entry``; a format is a file in
``formats/``.
"""

from cfetch.manifest.entry import Digest, Entry, SafePath, UnsafePathError, collision_key, safe_path
from cfetch.manifest.formats.sql_statement import parse_chunk_links
from cfetch.manifest.freezing import freeze
from cfetch.manifest.plan import Plan
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
