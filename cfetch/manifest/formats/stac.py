"""A STAC item, or the items of a search: every asset, in a directory with the item's name.

Sizes and hashes come from the file extension (``file:size``, and ``file:checksum`` as a multihash).
"""

from collections.abc import Iterator
from contextlib import suppress

from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import get_object, list_objects, load_object
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.urls import UrlError, decode_last_segment

_MULTIHASHES = {"d50110": "md5", "1114": "sha1", "1220": "sha256", "1340": "sha512"}


def read_stac(source: Source, document: Document, faults: Faults) -> Iterator[Row]:  # noqa: ARG001 - a reader
    """The rows: ``url``, ``path``, and ``size`` and a hash where they are stated."""
    stac = load_object(source, "the item")
    kind = stac.get("type")
    if kind != "FeatureCollection" and not stac.get("assets"):
        raise BrokenDocumentError(
            0,
            f"this STAC {'catalog' if kind == 'Catalog' else 'collection'} has no assets of its own, only "
            "links to items; give the answer of …/items or of a search",
        )
    if any(link.get("rel") == "next" for link in list_objects(stac, "links")):
        document.note_partial("the answer goes on: its link next leads to further items, which are left out")
    for item in list_objects(stac, "features") if kind == "FeatureCollection" else [stac]:
        assets = get_object(item, "assets")
        for asset in (get_object(assets, name) for name in assets):
            href = asset.get("href")
            fields: dict[str, object] = {"url": href, "size": asset.get("file:size")}
            if isinstance(href, str):
                with suppress(UrlError):  # ``check_row`` reports a row without a path
                    fields["path"] = f"{item.get('id')}/{decode_last_segment(href)}"
            yield Row(0, fields | _hash(asset.get("file:checksum")), "assets")


def _hash(multihash: object) -> dict[str, object]:
    if isinstance(multihash, str):
        for prefix, algorithm in _MULTIHASHES.items():
            if multihash.lower().startswith(prefix):
                return {algorithm: multihash[len(prefix) :]}
    return {}
