"""``repodata.json`` of a conda channel: the packages of one platform, read as a stream."""

from collections.abc import Iterator
from contextlib import suppress

from cfetch.base.schemes import is_web
from cfetch.manifest.faults import Faults, UrlError
from cfetch.manifest.formats.json_document import read_members
from cfetch.manifest.formats.whole_json import get_object
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import join_url, make_relative_url

_HASHES = ("sha256", "md5")


def read_repodata(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path``, ``size`` and a hash.

    The addresses are relative to the base that the document states, or else to its own.
    """
    others: dict[str, object] = {}
    own = document.base_url
    for line, name, about in read_members(source, ("packages", "packages.conda"), others):
        if document.base_url is None and (own := _find_base(source, others)) is not None:
            document.base_url = own
        if not isinstance(about, dict):
            faults.add(line, "a package must be an object")
            continue
        hashes = {key: about[key] for key in _HASHES if about.get(key)}
        yield Row(line, {"url": make_relative_url(name), "path": name, "size": about.get("size"), **hashes})
    if own is None and document.given_base_url is None and _find_base(source, others) is not None:
        document.is_faulty = True
        faults.add(0, "info stands behind the packages, and states their base_url: say it by --base-url")


def _find_base(source: Source, others: dict[str, object]) -> str | None:
    """The base that ``info`` states, which may be relative to the document's address; None: there is none."""
    stated = get_object(others, "info").get("base_url")
    if not isinstance(stated, str) or not stated:
        return None
    with suppress(UrlError):
        base = join_url(source.own_url, stated) if source.own_url else stated
        return f"{base.rstrip('/')}/" if is_web(base) else None
    return None
