"""Manifests: lists of files to download. Readers find rows, ``rows.py`` checks them, ``freeze`` makes a plan.

Nothing is repaired: a wrong path, number or URL is a fault. The only exception are spaces and characters
outside ASCII in a URL that is not signed: they are encoded. All faults of a manifest are named at once, with
their lines, and then nothing is downloaded. No message quotes a value, as it may be a secret.

Read in this order::

    source.py                    the bytes as strict UTF-8, a window at a time
    compressed.py  decompression.py    gzip and zstd: recognised, decompressed
    odd_bytes.py                 bytes that no text has, each a fault of its row alone
    unpacking.py                 one file's bytes from LZ4 frames, zstd or gzip, within a bound
    formats/                     one reader for each format: bytes to rows
    rows.py                      a row to an entry: the one place where rows become trusted
    plain_rows.py                the plain rows of a long list, many at once
    columns.py  kept_columns.py  names.py    the meaning of columns, kept columns; paths that no row states
    url_template.py              URLs made of a table's columns
    fields.py  strict_json.py    one check for each key; JSON without traps
    urls.py  object_urls.py      the URLs that a manifest may state; objects of a store
    url_faults.py                why a URL cannot be used
    url_completion.py            links that are relative or not encoded
    signatures.py                the keys of a query that change when a link is signed anew
    dot_segments.py              ``.`` and ``..`` in the paths of links
    repository_urls.py  repository_hub.py    hf://: files of repositories; the address of their hub
    digests.py  hashing.py       the hashes that a manifest may state; how they are computed
    folding.py                   names that are one file where names are not kept as they are
    entry.py                     ``Entry`` and ``SafePath``, types that only a check can make
    faults.py  reading.py        collects the faults; reads a manifest in one walk
    freezing.py                  ``freeze``: the checks that need all entries
    checked_entries.py           the same for entries of a feed, or of a plan with other names
    spool.py                     a nameless file for a list that comes as a stream
    clashes.py                   what entries mean to each other that want one path (pure)
    settled_clashes.py           which of them fail, get another name or are left out, by ``--clash``
    collisions.py  assembly.py   entries that want the same path; pieces that make one file
    path_buckets.py              the paths of a list that is too long to compare them at once
    plan.py                      the frozen manifest
    entries.py                   two ports of a frozen manifest: for an engine and for a use case
    plan_file.py                 the entries sealed in a file; 7 bytes an entry stay in memory
    writing.py                   writes manifests, in cfetch's own formats and in other tools' formats

::

    freeze: for row in reader(source):      memory does not grow with the manifest
                entry = check_row(row)      or faults; many plain rows at once
            in blocks: plan_file.extend(entries); path_index.add(paths)
            compare candidates of collisions, seal the file

When it fails: a ``ManifestError`` before the first request. A plan file without its end was left by a
crash and is refused. Only its owner can read a plan file, since it holds signed URLs.

Where to change: a new key needs a check in ``fields.py`` and a field of ``Entry``; a new format needs a file
in ``formats/``.
"""
