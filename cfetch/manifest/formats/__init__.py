"""One reader for each manifest format. A reader finds rows; ``manifest/rows.py`` checks them.

A reader is a function ``(source, document, faults) -> rows``. It yields a ``Row`` (keys, line), and sets in
``document`` the values for all entries (base URL, headers). For a row that it cannot read, it adds a fault
and goes on; if it cannot go on, it raises ``BrokenDocumentError``.

    table.py            the table of formats: for each its reader and its signs, as names
    detection.py  json_kind.py  text_kind.py   recognises a format, first by content, then by ending
    json_document.py  json_lines.py     the native format: one document, or one object a line
    csv_table.py                        tables with the native keys as columns, or with foreign ones
    url_list.py                         a URL a line
    whole_json.py                       functions that the readers of JSON documents share
    not_lists.py  landing_pages.py  advice.py   files that are no lists, and advice for each
    config_text.py                      YAML and TOML as JSON, for ``--query``
    link_text.py  json_links.py         links within other text, and within JSON that is no list, for advice
    sql_statement.py                    a Databricks SQL statement's reply; follows its chunks

When it fails: faults carry line numbers and no values. Readers see a seekable window and keep memory
constant, so a hostile manifest costs time in proportion to its size, not memory. A row's bytes are limited
before it becomes Python objects, and no pattern reads a character more than a few times.

All other formats are plug-ins (``plugins/formats``). To add one: write ``read_<name>`` in a file there, and
add its row to ``table.py``. If cfetch is to write it too, add a ``Target`` to ``manifest/writing.py``.
docs/manifests.md lists the formats; tests/manifest/formats and tests/plugins/formats test each.
"""
