"""Turns the errors of aiohttp and of the system into cfetch's errors.

Their texts may hold the whole URL, headers or a proxy's password. Only the parser's plain words are used.
"""

import errno
import os
import re
import socket
import ssl
from collections.abc import Mapping

import aiohttp
from aiohttp.http import HttpProcessingError
from httptools import HttpParserCallbackError, HttpParserError

from cfetch.base.errors import CfetchError, Refused, SourceError, Transient
from cfetch.base.secret import printable
from cfetch.storage.files import local_fault
from cfetch.wire.network import NETWORK_ENV
from cfetch.wire.reply_parser import BytesBehind, HeadFault, NoHttp
from cfetch.wire.transport import CutHead, LostCount

_WITHOUT = " (with --proxy-from-env, hosts that NO_PROXY names are asked without it)"
_MEANINGS: tuple[tuple[type[BaseException], type[SourceError], str], ...] = (  # the first match counts
    (
        aiohttp.ClientConnectorCertificateError,
        Refused,
        "the server's TLS certificate is not accepted: {cause}",
    ),
    (aiohttp.ClientConnectorSSLError, Transient, "the TLS handshake failed{plain}"),
    (aiohttp.ClientConnectorDNSError, Transient, "{name} could not be resolved{without}"),
    (aiohttp.ConnectionTimeoutError, Transient, "connecting{through} took too long{unused}"),
    (aiohttp.ClientProxyConnectionError, Transient, f"cannot connect to the proxy{_WITHOUT}: {{cause}}"),
    (aiohttp.ClientConnectorError, Transient, "cannot connect: {cause}{unused}"),
    (aiohttp.ServerDisconnectedError, Transient, "the {peer} closed the connection"),
    (aiohttp.ClientPayloadError, Transient, "the body was cut off or is malformed"),
    (aiohttp.ClientResponseError, Transient, "the reply is not proper HTTP"),
    (HttpProcessingError, Transient, "the body is not proper HTTP"),
    (HttpParserError, Transient, "the {part} is not proper HTTP{fault}"),
    (ConnectionRefusedError, Transient, "cannot connect: {cause}"),  # by what is not aiohttp, as for FTP
    (OSError, Transient, "the connection broke: {cause}"),
    (ValueError, Refused, "the URL or a header cannot be sent"),
    (Exception, Transient, "the transfer failed ({cause})"),
)

_CERTIFICATE_FAULTS: dict[int | None, str] = {  # OpenSSL's X509_V_ERR_… numbers
    9: "it is not valid yet",
    10: "it has expired",
    18: "it is self-signed; if you trust it, name its CA with --ca-file",
    19: "its CA is not known; if you trust it, name it with --ca-file",
    20: "its CA is not known; if you trust it, name it with --ca-file",
    62: "it is for another host name",
    64: "it is for another address",
}

_TLS_RECORDS = (b"\x15\x03", b"\x16\x03")  # an alert and a handshake of TLS
_PLAIN_WORDS = re.compile(r"[A-Za-z ,/-]{4,60}", re.ASCII)
MAX_QUOTED = 60
_NO_TLS = {"WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG"}
_TLS_WORD = re.compile(r"[A-Z][A-Z0-9_]{1,60}", re.ASCII)
_STATUS_LINE = re.compile(rb"^HTTP/\d\.\d (\d{3})(?=[ \r\n])", re.MULTILINE)
_UNKNOWN_NAME = {socket.EAI_NONAME, socket.EAI_NODATA}
# The text of aiohappyeyeballs for several failures; only numbers and the kind of address are taken from it.
_ONE_OF_SEVERAL = re.compile(r"\[Errno (\d{1,4})\](?: Connect call failed \('([0-9A-Fa-f.:]*))?", re.ASCII)


class NotPublic(OSError):
    """The address is not public. It is an OSError, as aiohttp passes only these on unchanged."""

    def __init__(self) -> None:
        super().__init__("not public")  # one text for all, so that several addresses make one error


class HeadLost(aiohttp.ServerDisconnectedError):
    """The connection ended within a head; ``head`` of it has come."""

    def __init__(self, head: bytes) -> None:
        super().__init__()
        self.head = head


def map_error(error: Exception, *, proxied: bool = False, reading: bool = False) -> CfetchError:
    """Make an error of cfetch from any exception that a library of the wire raises.

    ``proxied``: the request went through a proxy. ``reading``: the request has been sent, so that a
    ``ValueError`` is not about its URL.
    """
    if isinstance(error, OSError) and error.errno in (errno.EMFILE, errno.ENFILE):
        return local_fault(error, "cannot open a connection")
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return make_proxy_refusal(error.status)
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else None
    if isinstance(inner, NotPublic):
        return Refused("the address is not public, and public_only is set")
    if isinstance(error, BytesBehind):
        return LostCount(
            "the server sends bytes behind the body whose length it states; state the size or the hash in "
            "the manifest, or by cfetch get --sha256"
        )
    if isinstance(error, HeadFault):
        return Refused(str(error))
    if isinstance(error, HeadLost):
        stated = _STATUS_LINE.findall(error.head)
        return CutHead(int(stated[-1]) if stated else None)
    if is_unknown_name(error):
        whose = "the proxy's" if proxied else "the host's"
        more = _WITHOUT if proxied else _name_unused_proxy(os.environ)
        return Refused(f"{whose} name does not exist (asked for twice); check how it is spelled{more}")
    if isinstance(error, NoHttp) and error.args[0].startswith(_TLS_RECORDS):
        return Refused("the port speaks TLS: write https:// in place of http://")
    if (weak := _find_tls_fault(error)) is not None:
        return Refused(f"the TLS handshake failed: {weak}")
    if isinstance(inner, socket.gaierror) and not isinstance(error, aiohttp.ClientConnectorDNSError):
        return Refused("the URL's host is not an address that can be connected to")  # such as a zone
    kind, text = next(
        (kind, text)
        for type_, kind, text in _MEANINGS
        if isinstance(error, type_) and not (reading and type_ is ValueError)
    )
    words = {
        "name": "the proxy's name" if proxied else "the host's name",
        "without": _WITHOUT if proxied else _name_unused_proxy(os.environ),
        "unused": "" if proxied else _name_unused_proxy(os.environ),
        "through": " through the proxy" if proxied else "",
        "plain": _explain_handshake(error),
        "part": "body" if reading else "reply",
        "peer": "proxy or the server" if proxied else "server",
        "fault": f": {fault}" if (fault := _find_fault(error)) else "",
    }
    return kind(text.format(cause=_find_cause(error), **words))


def _name_unused_proxy(env: Mapping[str, str]) -> str:
    """The variable that names a proxy, while a host is asked without one; empty if none is set."""
    names = (name for name in NETWORK_ENV if name.lower().endswith("_proxy") and name.lower() != "no_proxy")
    name = next((name for name in names if env.get(name)), None)
    return f" (asked without the proxy of {name}; see --proxy-from-env and NO_PROXY)" if name else ""


def _find_fault(error: Exception) -> str:
    """What there is in place of HTTP, else the parser's words, if plain: a header may hold secrets."""
    if isinstance(error, NoHttp):
        begin = error.args[0].partition(b"\n")[0].decode("latin-1").strip()
        return f"it begins with {printable(begin, MAX_QUOTED)}" if begin.isprintable() else ""
    if isinstance(error, HttpParserCallbackError):  # its own text says nothing, and the cause is our own
        error = HttpParserError(str(error.__context__ or ""))
    words = error.args[0] if error.args and isinstance(error.args[0], str) else ""
    return words.lower() if isinstance(error, HttpParserError) and _PLAIN_WORDS.fullmatch(words) else ""


def _explain_handshake(error: Exception) -> str:
    word = _find_tls_word(error)
    if word in _NO_TLS:
        return ": the server's port speaks no TLS; if it speaks plain HTTP, write http://"
    return f": {_spell(word)}" if word else ""


def _find_tls_word(error: Exception) -> str:
    """OpenSSL's own word for a failure, such as DH_KEY_TOO_SMALL; empty if it has none."""
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    reason = getattr(inner, "reason", None) if isinstance(inner, ssl.SSLError) else None
    return reason if isinstance(reason, str) and _TLS_WORD.fullmatch(reason) else ""


def _find_tls_fault(error: Exception) -> str | None:
    """Why a handshake fails for good, and what to do; None: another try may help."""
    word = _find_tls_word(error)
    if not word:
        return None
    from cfetch.base.refusals import TLS  # few runs meet one

    return f"{_spell(word)}; {TLS[word]}" if word in TLS else None


def _spell(word: str) -> str:
    return word.replace("_", " ").lower()


def is_unknown_name(error: Exception) -> bool:
    """Whether the resolver says that there is no such name, or that it has no address."""
    return isinstance(error, aiohttp.ClientConnectorDNSError) and error.os_error.errno in _UNKNOWN_NAME


def make_proxy_refusal(status: int) -> SourceError:
    """Make the error of a proxy's own refusal: a 5xx may be temporary, every other status is permanent."""
    if status == 407:
        return Refused("the proxy asks for a user and a password (HTTP 407); put them into its URL")
    if status >= 500 or status in (408, 429):
        return Transient(f"the proxy cannot reach the server (HTTP {status})")
    return Refused(f"the proxy does not let us through to the server (HTTP {status})")


def _find_cause(error: Exception) -> str:
    """Describe a cause: the system's text for an error number, cfetch's for a certificate, or the type."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        code = getattr(error.certificate_error, "verify_code", None)
        return _CERTIFICATE_FAULTS.get(code, "it cannot be verified")
    if isinstance(error, aiohttp.ClientConnectorError) and (several := _group_by_family(str(error.os_error))):
        return several
    number = error.errno if isinstance(error, OSError) and not isinstance(error, ssl.SSLError) else None
    inner = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    if number is None and isinstance(inner, ConnectionResetError):  # asyncio gives no number if TLS is cut
        number = errno.ECONNRESET
    if number and number in errno.errorcode:
        return os.strerror(number)
    return _spell(_find_tls_word(error)) or type(error).__name__


def _group_by_family(text: str) -> str | None:
    """``IPv6: Network is unreachable; IPv4: Connection refused``; None unless several addresses failed.

    The text does not name an address without a route: its family is the one that no other failure has.
    """
    failures = _ONE_OF_SEVERAL.findall(text.partition("Multiple exceptions:")[2])
    if not failures:
        return None
    families = ["IPv6" if ":" in address else "IPv4" if address else None for _, address in failures]
    named = {family for family in families if family}
    other = "IPv6" if named == {"IPv4"} else "IPv4" if named == {"IPv6"} else "another address"
    causes: dict[str, dict[str, None]] = {}
    for family, (number, _) in zip(families, failures, strict=True):
        causes.setdefault(family or other, {})[os.strerror(int(number))] = None
    return "; ".join(f"{family}: {', '.join(words)}" for family, words in causes.items())
