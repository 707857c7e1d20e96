"""One reader for each manifest format. A reader finds rows; ``manifest/rows.py`` checks them.

A reader is a function ``(source, document, faults) -> rows``. It yields a ``Row`` (keys, line), and sets in
``document`` the values for all entries (base URL, headers). For a row that it cannot read, it adds a fault
and goes on; if it cannot go on, it raises ``BrokenDocumentError``.

    detection.py        names and readers; recognises a format, first by content, then by ending
    json_document.py  json_lines.py     the native format: one document, or one object a line
    csv_table.py  parquet_table.py      tables with the native keys as columns, or with foreign ones
    parquet_pages.py                    measures a Parquet table's memory, before it is read
    url_list.py  checksum_list.py       a URL a line; ``sha256sum`` lists
    aria2_input.py  metalink.py         ``aria2c -i``; Metalink 4
    bagit_fetch.py  tsv_http_data.py    BagIt ``fetch.txt``; TsvHttpData-1.0
    annex_batch.py  annex_whereis.py    ``git annex addurl``; ``git annex whereis --json``
    curl_config.py  lfs_files.py        ``curl --config``; ``git lfs ls-files --json``
    pooch_registry.py  ena_report.py    pooch; file reports of the European Nucleotide Archive
    s3_listing.py  rclone_lsjson.py     ``aws s3 ls``, S3 inventories; ``rclone lsjson``
    bucket_ls.py  bucket_json.py        listings by other tools of object stores
    whole_json.py                       functions that the readers in the next six lines share
    zenodo.py  figshare.py  dataverse.py
    github_release.py  package_index.py
    stac.py  croissant.py
    datapackage.py  ro_crate.py
    huggingface_tree.py                 the tree of a repository
    html_index.py  html_links.py        a web server's listing of a directory; the links of a page
    sitemap.py                          sitemaps
    not_lists.py  landing_pages.py      files that are no lists, and advice for each
    sql_statement.py                    a Databricks SQL statement's reply; follows its chunks

When it fails: faults carry line numbers and no values. Readers see a seekable window and keep memory
constant, so a hostile manifest costs time in proportion to its size, not memory. A row's bytes are limited
before it becomes Python objects, and no pattern reads a character more than a few times.

To add a format: write ``read_<name>`` in a file of its own, add it to ``READERS`` in ``detection.py``, and
say there how it is recognised (``detect_format`` for content, ``_ENDINGS`` for the file's ending). If cfetch
is to write it too, add a ``Target`` to ``manifest/writing.py``. docs/manifests.md lists the formats;
tests/manifest/formats tests each.
"""
