"""The table of URL schemes: one row for each, and the only module that spells one.

A row says how files of the scheme are had. ``opener`` is ``module:function``, imported for the first request:
it takes a ``cfetch.wire.transport.SourceContext`` and gives a ``cfetch.wire.transport.Transport``. Another
distribution adds a scheme by an entry point of the group ``cfetch.sources`` whose object is a ``Scheme``
(``registry.py`` finds it). This module imports nothing, so that each module can ask it.
"""

import re
from typing import NamedTuple


class Scheme(NamedTuple):
    """How URLs of one scheme are used.

    ``port``: the usual one, which a URL may leave out. ``extra``: what has to be installed for its library.
    ``gets_headers``: requests may carry the user's own headers (``--header``, ``--bearer-env``).
    ``may_be_list``: a URL may be the name of a manifest. ``takes_login``: a URL may hold ``user:password@``.
    ``refusal``: why cfetch gets no file of this scheme, as the end of a sentence that begins with «its scheme
    is …»; such a row, and one whose URLs become others (``hf``), has no opener.
    """

    name: str
    opener: str = ""
    port: int | None = None
    extra: str = ""
    gets_headers: bool = False
    may_be_list: bool = False
    takes_login: bool = False
    refusal: str = ""


HTTP, HTTPS, FTP, FTPS, FILE = "http", "https", "ftp", "ftps", "file"
S3, GS, AZ, HF = "s3", "gs", "az", "hf"
S3A, ABFS, DBFS, HDFS = ("s3a", "s3n"), ("abfs", "abfss"), "dbfs", "hdfs"  # as platforms of Spark write them
SOCKS = ("socks4", "socks4a", "socks5", "socks5h")  # proxies; with a letter at the end, they look names up
SPARK_CONNECT = "sc"  # a session of Spark on a server, which is no source

WEB = (HTTP, HTTPS)
OBJECT_STORES = (S3, GS, AZ)
_OBJECTS = "cfetch.wire.object_transport:open_objects"
_OVER_HTTPS = "many such servers have the same path under https:// too: write that"
_ABFS = "write az://container/path"

SCHEMES: dict[str, Scheme] = {
    row.name: row
    for row in (
        Scheme(HTTP, "cfetch.wire.http_opener:open_http", port=80, gets_headers=True, may_be_list=True),
        Scheme(HTTPS, "cfetch.wire.http_opener:open_http", port=443, gets_headers=True, may_be_list=True),
        Scheme(S3, _OBJECTS, extra="cloud", may_be_list=True),
        Scheme(GS, _OBJECTS, extra="cloud", may_be_list=True),
        Scheme(AZ, _OBJECTS, extra="cloud", may_be_list=True),
        Scheme(
            FTP,
            "cfetch.plugins.sources.ftp:open_ftp",
            port=21,
            extra="ftp",
            may_be_list=True,
            takes_login=True,
        ),
        Scheme(HF, gets_headers=True, may_be_list=True),  # becomes a link of https when a list is read
        Scheme(FILE, refusal="file; cp and rsync copy such files"),
        Scheme("abfs", refusal=f"not one that cfetch knows; {_ABFS}"),
        Scheme("abfss", refusal=f"not one that cfetch knows; {_ABFS}"),
        Scheme(FTPS, refusal=f"ftps; {_OVER_HTTPS}"),
        Scheme("sftp", refusal="sftp; scp and rsync copy such files"),
    )
}
"""Name -> row. The order is that of messages."""

KNOWN = " or ".join(", ".join(row.name for row in SCHEMES.values() if not row.refusal).rsplit(", ", 1))
"""The schemes of files that cfetch gets, for messages."""

DEFAULT_PORTS = {row.name: row.port for row in SCHEMES.values() if row.port is not None}

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_WEB_STARTS = tuple(f"{name}://" for name in WEB)
OBJECT_STARTS = tuple(f"{name}://" for name in OBJECT_STORES)
HF_START = f"{HF}://"
HUGGING_FACE = "https://huggingface.co"
FILES_PATTERN = f"(?:{'|'.join(row.name for row in SCHEMES.values() if not row.refusal)})"
WEB_PATTERN = "[Hh][Tt][Tt][Pp][Ss]?"  # in any case, without a flag for the pattern around it
_DOI = re.compile(
    rf"(?:doi:(?://)?|{WEB_PATTERN}://(?:dx\.)?doi\.org/)(10\.[0-9.]{{4,20}}/[^\s?#]+)\Z", re.IGNORECASE
)


def scheme_of(text: str) -> str:
    """The scheme of a text that begins as a URL with a host does, in lower case; else empty."""
    match = _SCHEME.match(text)
    return match[1].lower() if match else ""


def is_object_url(text: str) -> bool:
    """Whether the text has the scheme of an object store; nothing else is checked."""
    return text.startswith(OBJECT_STARTS)


def is_repository_url(text: str) -> bool:
    """Whether the text has the scheme of repositories of files; nothing else is checked."""
    return text.startswith(HF_START)


def is_web(text: str) -> bool:
    """Whether the text has the scheme of http or https; nothing else is checked."""
    return text.lower().startswith(_WEB_STARTS)


def find_doi(text: str) -> str | None:
    """The digital object identifier (ISO 26324) in ``doi:10.…`` or in a link of doi.org; None: it is none.

    >>> find_doi("doi:10.5281/zenodo.7"), find_doi("https://doi.org/10.5281/zenodo.7"), find_doi("doi.txt")
    ('10.5281/zenodo.7', '10.5281/zenodo.7', None)
    """
    match = _DOI.match(text)
    return match[1] if match else None
