"""What a refusal says of a file that is no list: its kind, and what to do. Loaded for a refusal only.

The message names the kind, so that the user learns more than the place of the first bad byte.
"""

from collections.abc import Iterator

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.table import Reader, find_reader
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

MESSAGES = {
    "torrent": (
        "it is a torrent, and cfetch speaks http only; if it has web seeds, give their URLs as a list, and "
        "otherwise use a BitTorrent client"
    ),
    "zip": "it is an archive; unpack it, and give the list that is in it",
    "xz": "it is compressed by xz; give it as xz -dc FILE | cfetch … -",
    "bzip2": "it is compressed by bzip2; give it as bzip2 -dc FILE | cfetch … -",
    "compressed": "it is compressed twice; undo one of the two yourself",
    "utf-16": "it is UTF-16; save it as UTF-8, for example by iconv -f UTF-16 -t UTF-8 FILE",
    "html": (
        "it is an HTML page and no list: perhaps a login, an error, or the page about a file; if it is a "
        "list of a directory or of packages, say --from-format html-index or package-index"
    ),
    "foreign-json": (
        "it is JSON, and no list that cfetch knows: the key 'files' is missing, which holds the entries"
    ),
    "xml": "it is XML, and no list that cfetch knows",
    "within": (
        "its lines hold links within other text, such as quotes, YAML, Markdown or the commands of a script"
    ),
    "bucket-xml": (
        "it is a bucket's own list in XML; give the bucket as s3://NAME/, or s3://NAME/PREFIX/ (public data: "
        "AWS_SKIP_SIGNATURE=true)"
    ),
    "container-xml": (
        "it is the list of a container of Azure in XML; give the container as az://NAME/, or "
        "az://NAME/PREFIX/, or the list that az storage blob list writes"
    ),
    "image-index": (
        "it is the index or the manifest of a container image (OCI), whose blobs a registry gives to clients "
        "such as skopeo, crane and oras"
    ),
    "inventory-manifest": (
        "it is the manifest of an S3 inventory; give the files under its key files, which are the list, in "
        "one command"
    ),
    "text": (
        "it is text, not a list of links; to download one file, run `cfetch get URL`. If its lines are "
        "relative links, add --from-format urls"
    ),
    "cksum": (
        "it is a list of checksums by cksum, a CRC that cfetch cannot verify; `cut -d' ' -f3- LIST` prints "
        "its names, which --from-format urls reads, and sha256sum writes hashes. If it is a listing of sizes "
        "and names, say --from-format bucket-ls"
    ),
    "binary": "it is a file such as an image or an archive, not a list of files; to download one file, run "
    "`cfetch get URL`",
    "url-and-more": (
        "its lines are a URL, a space and more, which may be a path or belong to the URL; say which by "
        "--from-format annex or --from-format urls"
    ),
}

_LINKED = frozenset({"html", "xml", "text", "within"})
"""Kinds of texts that may hold links, of which a refusal tells the number."""


def make_refusal(name: str) -> Reader:
    """A reader that refuses the list with the message of its kind, and with a way to read it all the same."""

    def refuse(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
        # a table of patterns that only a page of a browser needs
        from cfetch.manifest.formats.landing_pages import find_list_address

        address = find_list_address(source.own_url) if name == "html" and source.own_url else None
        way, what = f"; its list of files is {address}: give that" if address else "", name
        if name == "foreign-json":
            from cfetch.manifest.formats.json_links import advise_queries  # only a refusal advises

            if not (way := advise_queries(source)):
                yield from find_reader("json")(source, document, faults)
                return
        if name in _LINKED and not address:
            from cfetch.manifest.formats.link_text import advise_links  # the same

            way += _advise_queries(source) if name in ("text", "within") else ""
            way += advise_links(source)
        what = "text" if name == "within" and not way else name  # its links are in comments
        raise BrokenDocumentError(0, f"{MESSAGES[what]}{way}")

    return refuse


def _advise_queries(source: Source) -> str:
    """The words about expressions for YAML and TOML; empty if it is neither, or has no link by itself."""
    from cfetch.manifest.formats.config_text import convert_to_json
    from cfetch.manifest.formats.json_links import advise_queries

    converted = convert_to_json(source)
    return "" if converted is None else advise_queries(converted, is_json=False)
