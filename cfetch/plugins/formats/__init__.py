"""Readers for the lists of other programs. Each is one file, one test, and one row in the table of formats.

    parquet_table.py  parquet_pages.py  tables in Parquet; their memory, before they are read
    checksum_list.py                    ``sha256sum`` lists
    aria2_input.py  metalink.py         ``aria2c -i``; Metalink 4
    bagit_fetch.py  tsv_http_data.py    BagIt ``fetch.txt``; TsvHttpData-1.0
    annex_batch.py  annex_whereis.py    ``git annex addurl``; ``git annex whereis --json``
    curl_config.py  lfs_files.py        ``curl --config``; ``git lfs ls-files --json``
    pooch_registry.py  ena_report.py    pooch; file reports of the European Nucleotide Archive
    apt_uris.py                         ``apt-get --print-uris``
    s3_listing.py  rclone_lsjson.py     ``aws s3 ls``, S3 inventories; ``rclone lsjson``, nginx's and Caddy's
    bucket_ls.py  bucket_json.py        listings by other tools of object stores
    zenodo.py  figshare.py  dataverse.py
    github_release.py  package_index.py
    page_walk.py                        the pages of a list, each of which names the next
    stac.py  stac_pages.py              the answer of a STAC search; its further pages
    croissant.py  datapackage.py  ro_crate.py
    huggingface_tree.py                 the tree of a repository
    html_index.py  html_links.py        a web server's listing of a directory; the links of a page
    page_names.py                       names in such a listing that are not UTF-8
    index_tree.py                       the directories below such a listing
    sitemap.py                          sitemaps, lists of ResourceSync
    links.py                            the links of any text, by ``--from-format links``
    json_query.py                       rows of any JSON, by ``--query``
    workbook.py                         workbooks of spreadsheets
    hashdeep.py  crc_list.py            hashdeep; SFV
    hls_playlist.py                     playlists of HTTP Live Streaming
    xml_elements.py                     XML as a stream of elements, for the readers of the next line
    feed.py  repository_xml.py          RSS and Atom; RPM, NLTK, WebDAV
    internet_archive.py                 items of the Internet Archive
    debian_index.py  package_lock.py    Debian's indexes; lock files: uv, Cargo, npm, deno, Yarn, Bundler
    conda_repodata.py                   the packages of a conda channel
    catalogue_json.py                   DCAT, CKAN, NASA's CMR, OSF, Mendeley Data, DSpace 5 and 6, Modrinth
    hal_files.py                        Dryad, and DSpace from version 7 on

A reader is a function ``(source, document, faults) -> rows``, as ``manifest/formats/`` says. A sign is a
function in the reader's file that tells its format from the first lines, or a set of keys in the table.

When it fails: faults carry line numbers and no values, and a hostile list costs time in proportion to its
size, not memory.

To add a format: the recipe in CONTRIBUTING.md. docs/manifests.md lists the formats.
"""
