"""Lists in XML of repositories: ``repomd.xml`` and ``primary.xml`` of RPM, the index of NLTK, WebDAV."""

from collections.abc import Iterator
from urllib.parse import unquote, urlsplit

from cfetch.manifest.digests import find_algorithm
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.advice import MESSAGES
from cfetch.manifest.formats.link_text import advise_links
from cfetch.manifest.formats.whole_json import Hashes
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.strict_json import read_digits
from cfetch.plugins.formats.xml_elements import Element, read_elements

_NO_DIGITS = "a text that is not all digits"


def read_repomd(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of ``repodata/repomd.xml``: its addresses are relative to the directory above."""
    if source.own_url is not None and "/repodata/" in source.own_url:
        document.base_url = source.own_url.rpartition("/repodata/")[0] + "/"
    hashes = Hashes()
    for data in read_elements(source, ("data",)):
        location = data.find("location")
        path = location.attributes.get("href", "") if location else ""
        base = location.attributes.get("base", "") if location else ""
        fields: dict[str, object] = {"url": f"{base.rstrip('/')}/{path}" if base else path, "path": path}
        digest = _read_checksum(data)
        hashes.unknown += not digest and data.find("checksum") is not None
        yield Row(data.line, fields | _read_size(data.find_text("size")) | digest)
    document.notes += hashes.list_notes()


def read_primary(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of ``repodata/primary.xml``: packages, whose addresses are relative to the directory above."""
    if source.own_url is not None and "/repodata/" in source.own_url:
        document.base_url = source.own_url.rpartition("/repodata/")[0] + "/"
    rows, hashes = 0, Hashes()
    for package in read_elements(source, ("package",)):
        location, size = package.find("location"), package.find("size")
        path = location.attributes.get("href", "") if location else ""
        if not path:
            continue
        rows += 1
        digest = _read_checksum(package)
        hashes.unknown += not digest and package.find("checksum") is not None
        base = location.attributes.get("base", "") if location else ""
        fields: dict[str, object] = {"url": f"{base.rstrip('/')}/{path}" if base else path, "path": path}
        yield Row(
            package.line, fields | _read_size(size.attributes.get("package", "") if size else "") | digest
        )
    if not rows and "/metadata/common" not in source.head():
        raise BrokenDocumentError(0, f"{MESSAGES['xml']}{advise_links(source)}")
    document.notes += hashes.list_notes()


def read_nltk(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of the index of NLTK's data."""
    for package in read_elements(source, ("package",)):
        about = package.attributes
        fields: dict[str, object] = {"url": about.get("url")}
        if about.get("subdir") and about.get("url"):
            fields["path"] = f"{about['subdir']}/{about['url'].rpartition('/')[2]}"
        if "checksum" in about:
            fields["md5"] = about["checksum"]
        yield Row(package.line, fields | _read_size(about.get("size", "")))


def read_webdav(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of a reply to PROPFIND: files, with paths below the directory that was asked."""
    root: str | None = None
    for response in read_elements(source, ("response",)):
        href = response.find_text("href")
        path = unquote(urlsplit(href).path)
        is_directory = any(element.name == "collection" for element in response.walk())
        if root is None:
            root = path if is_directory else path.rpartition("/")[0] + "/"
        if is_directory:
            continue
        prop = next((element for element in response.walk() if element.name == "prop"), None)
        fields: dict[str, object] = {"url": href, "path": path.removeprefix(root).lstrip("/")}
        yield Row(response.line, fields | _read_size(prop.find_text("getcontentlength") if prop else ""))


def _read_size(text: str) -> dict[str, object]:
    return {"size": read_digits(text, _NO_DIGITS)} if text else {}


def _read_checksum(data: Element) -> dict[str, object]:
    checksum = data.find("checksum")
    name = checksum.attributes.get("type", "") if checksum else ""
    algorithm = "sha1" if name == "sha" else find_algorithm(name)  # so old repositories call it
    return {algorithm: checksum.text.strip()} if checksum and algorithm else {}
