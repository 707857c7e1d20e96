"""A STAC item, or the items of a search: every asset, in a directory with the item's name.

Assets of one item that have the same file name, such as a band at several resolutions, are in directories
with their own names.

Sizes and hashes come from the file extension (``file:size``, and ``file:checksum`` as a multihash).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from cfetch.base.schemes import is_web
from cfetch.manifest.faults import BrokenDocumentError, Faults, UrlError, kind_of
from cfetch.manifest.formats.json_document import read_array
from cfetch.manifest.formats.json_links import advise_queries
from cfetch.manifest.formats.whole_json import get_object, list_objects
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import join_url
from cfetch.manifest.urls import decode_last_segment

_MULTIHASHES = {"d50110": "md5", "1114": "sha1", "1220": "sha256", "1340": "sha512"}


def read_stac(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, and ``size`` and a hash where they are stated."""
    stac: dict[str, Any] = {}
    left_out: list[str] = []
    rows = without = 0
    for item in read_array(source, "features", stac):  # an answer may be of any length
        if not isinstance(item.fields, dict):
            raise BrokenDocumentError(item.line, f"features must be objects, not {kind_of(item.fields)}")
        listed = list(
            list_assets(item.fields, left_out, has_base=document.given_base_url is not None)
        ) or _read_properties(item.fields)
        without += not listed
        rows += len(listed)
        yield from (Row(item.line, fields, "assets") for fields in listed)
    if stac.get("type") != "FeatureCollection" and not rows and not without:
        yield from _read_item(stac, left_out, has_base=document.base() is not None)
    elif without and not rows:
        what = "it is GeoJSON whose features have no assets, and no file in their properties"
        raise BrokenDocumentError(0, f"{what}{advise_queries(source)}")
    if (goes_on := describe_rest(stac)) is not None:
        document.note_partial(goes_on)
    if left_out:
        document.note_partial(describe_left_out(left_out))
    if without:
        document.notes.append(f"features without a file, which are left out: {without}")


def _read_item(stac: dict[str, Any], left_out: list[str], *, has_base: bool) -> Iterator[Row]:
    kind = stac.get("type")
    own = get_object(stac, "assets")
    has_files = any("href" in get_object(own, name) for name in own)
    if kind == "Feature" and not has_files:
        raise BrokenDocumentError(0, "this STAC item has no assets, so there is nothing to download")
    if not has_files:
        raise BrokenDocumentError(
            0,
            f"this STAC {'catalog' if kind == 'Catalog' else 'collection'} has no assets of its own, only "
            "links to items; give the answer of …/items or of a search",
        )
    for fields in list_assets(stac, left_out, has_base=has_base):
        yield Row(0, fields, "assets")


def _read_properties(item: dict[str, Any]) -> list[dict[str, object]]:
    """The file in the properties of a feature, as the search of the Alaska Satellite Facility states it."""
    about = get_object(item, "properties")
    if not isinstance(about.get("url"), str) or not isinstance(about.get("fileName"), str):
        return []
    fields: dict[str, object] = {"url": about["url"], "path": about["fileName"]}
    if isinstance(about.get("bytes"), int):
        fields["size"] = about["bytes"]
    return [fields | ({"md5": about["md5sum"]} if about.get("md5sum") else {})]


def describe_left_out(directories: Sequence[str]) -> str:
    """The note about assets that are directories."""
    return f"assets that are left out, because they are directories: {len(directories)}"


def describe_rest(stac: dict[str, Any]) -> str | None:
    """The note about further pages of an answer; None: it is whole."""
    if any(link.get("rel") == "next" for link in list_objects(stac, "links")):
        return "the answer goes on: its link next leads to further items, which are left out"
    return None


def find_next_page(stac: dict[str, Any], own_url: str) -> str | None:
    """The address of the next page of an answer; None: there is none, or it cannot be had as this page was.

    A search that was asked by POST goes on by POST, and a login is for one host.
    """
    for link in list_objects(stac, "links"):
        href = link.get("href")
        if link.get("rel") != "next" or link.get("method", "GET") != "GET" or not isinstance(href, str):
            continue
        with suppress(ValueError):  # a port or an IPv6 address that is none
            url = join_url(own_url, href)
            if urlsplit(url)[:2] == urlsplit(own_url)[:2]:
                return url
    return None


def list_assets(
    stac: dict[str, Any], left_out: list[str], *, has_base: bool = False
) -> Iterator[dict[str, object]]:
    """The rows of an item, or of the items of an answer; ``left_out`` gets the names of directories.

    A relative address is joined to the item's own (its link ``self``), unless ``has_base``: the
    user states a base, or the item was had from its address.
    """
    is_answer = stac.get("type") == "FeatureCollection"
    for item in list_objects(stac, "features") if is_answer else [stac]:
        assets = get_object(item, "assets")
        names = {key: _find_name(get_object(assets, key).get("href")) for key in assets}
        counts = Counter(name.casefold() for name in names.values() if name)
        for key, name in names.items():
            asset = get_object(assets, key)
            fields: dict[str, object] = {"url": asset.get("href"), "size": asset.get("file:size")}
            if not has_base:
                fields["url"] = _join_to_item(item, fields["url"])
            if str(fields["url"]).endswith("/"):
                left_out.append(key)
                continue
            if name:  # else ``check_row`` reports a row without a path
                is_shared = counts[name.casefold()] > 1
                fields["path"] = f"{item.get('id')}/{f'{key}/' if is_shared else ''}{name}"
            yield fields | _hash(asset.get("file:checksum") or asset.get("checksum:multihash"))


def _join_to_item(item: dict[str, Any], href: object) -> object:
    own = next((link.get("href") for link in list_objects(item, "links") if link.get("rel") == "self"), None)
    if isinstance(own, str) and is_web(own) and isinstance(href, str):
        with suppress(UrlError):
            return join_url(own, href)
    return href


def _find_name(href: object) -> str | None:
    """The name of the file in an asset's address; None: there is none."""
    with suppress(UrlError):
        return decode_last_segment(href) if isinstance(href, str) else None
    return None


def _hash(multihash: object) -> dict[str, object]:
    if isinstance(multihash, str):
        for prefix, algorithm in _MULTIHASHES.items():
            if multihash.lower().startswith(prefix):
                return {algorithm: multihash[len(prefix) :]}
    return {}
