"""Files of ``curl --config``: ``url``, ``output``, ``header``, ``user-agent``, ``referer`` and ``range``.

``next`` ends the options for the URLs before it. Options that a request needs, but cfetch does not have, are
refused; all others tune curl and are left out.
"""

import re
from collections.abc import Iterator, Sequence

from cfetch.base.schemes import FTP
from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

_OPTION = re.compile(
    r"[ \t]*(?:--?)?(?P<name>[A-Za-z][A-Za-z0-9.-]*)(?:[ \t]*[=:][ \t]*|[ \t]+|\Z)(?P<value>.*)\Z"
)
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"')
_ESCAPE = re.compile(r"\\(.)")
_ESCAPED = {"t": "\t", "n": "\n", "r": "\r", "v": "\v"}
_SHORT = {
    "o": "output", "H": "header", "A": "user-agent", "e": "referer", "g": "globoff", "r": "range",
    "u": "user", "b": "cookie", "d": "data", "E": "cert", "F": "form", "I": "head", "T": "upload-file",
    "X": "request",
}  # fmt: skip
_HEADERS = {"user-agent": "User-Agent", "referer": "Referer"}
_NEEDED = frozenset({
    "user", "cookie", "data", "data-ascii", "data-binary", "data-raw", "data-urlencode", "json", "form",
    "form-string", "head", "request", "upload-file", "url-query", "cert", "key", "oauth2-bearer",
    "output-dir",
})  # fmt: skip
_FIRST_WORDS = frozenset({
    "abstract", "alpn", "alt", "anyauth", "append", "aws", "basic", "buffer", "cacert", "capath", "cert",
    "ciphers", "clobber", "compressed", "config", "connect", "continue", "cookie", "create", "crlf",
    "crlfile", "curves", "data", "delegation", "digest", "disable", "disallow", "dns", "doh", "dump", "egd",
    "engine", "etag", "expect100", "fail", "false", "form", FTP, "get", "globoff", "happy", "haproxy",
    "head", "header", "help", "hostpubmd5", "hostpubsha256", "hsts", "http0.9", "http1.0", "http1.1",
    "http2", "http3", "ignore", "include", "insecure", "interface", "ip", "ipfs", "ipv4", "ipv6", "json",
    "junk", "keepalive", "key", "krb", "libcurl", "limit", "list", "local", "location", "login", "mail",
    "manual", "max", "metalink", "negotiate", "netrc", "next", "noproxy", "npn", "ntlm", "oauth2", "output",
    "parallel", "pass", "path", "pinnedpubkey", "post301", "post302", "post303", "preproxy", "progress",
    "proto", "proxy", "proxy1.0", "proxytunnel", "pubkey", "quote", "random", "range", "rate", "raw",
    "referer", "remote", "remove", "request", "resolve", "retry", "sasl", "service", "sessionid", "show",
    "silent", "skip", "socks4", "socks4a", "socks5", "speed", "ssl", "sslv2", "sslv3", "stderr", "styled",
    "suppress", "tcp", "telnet", "tftp", "time", "tls", "tls13", "tlsauthtype", "tlspassword", "tlsuser",
    "tlsv1", "tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3", "tr", "trace", "unix", "upload", "url", "use",
    "user", "variable", "verbose", "version", "vlan", "write", "xattr",
})  # fmt: skip
"""How the names of curl's options begin, up to a hyphen."""

_RANGE = re.compile(r"(\d{1,18})-(\d{1,18})\Z", re.ASCII)
_PATTERN = re.compile(r"\{[^{}]*\}|\[[0-9A-Za-z]{1,20}-[0-9A-Za-z]{1,20}(?::[0-9]{1,20})?\]")
_FIRST = re.compile(r"[ \t]*(?:--)?url[ \t]*(?:[=:][ \t]*|[ \t])\"?[^ \t]", re.IGNORECASE)


def _is_url_option(line: str) -> bool:
    """Whether a line is curl's ``url = …``."""
    return _FIRST.match(line) is not None and "://" in line


def has_url_option(lines: Sequence[str]) -> bool:
    """Whether a line is one of curl's ``url = …``, and no line is of another format with names and values."""
    return any(map(_is_url_option, lines)) and all(map(_is_option, lines))


def _is_option(line: str) -> bool:
    """Whether a line is an option of curl: YAML, TOML and many others have names and values too."""
    match = _OPTION.match(line)
    if not line.strip() or line.lstrip().startswith("#"):
        return True
    if match is None or (not match["value"] and line.rstrip().endswith(":")):
        return False
    name = match["name"].lower().removeprefix("no-")
    return name in _SHORT or len(name) == 1 or name.partition("-")[0] in _FIRST_WORDS


class _Section:
    """The options between two ``next``."""

    def __init__(self) -> None:
        self.line = 0
        self.urls = 0
        self.url: str | None = None
        self.output: str | None = None
        self.headers: dict[str, object] = {}
        self.range: dict[str, object] = {}
        self.takes_patterns = True

    def take_row(self, faults: Faults) -> Iterator[Row]:
        if self.url is not None and self.takes_patterns and _PATTERN.search(self.url):
            faults.add(
                self.line,
                "url: curl makes several URLs of a pattern such as [1-9] or {a,b}; write each of them out, "
                "or say globoff if the URL is meant as it stands",
            )
        elif self.url is not None:
            headers = dict(self.headers) or None
            yield Row(self.line, {"url": self.url, "path": self.output, "headers": headers, **self.range})
        self.url = self.output = None


def read_curl_config(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """Yield the rows, each with the line number of its URL."""
    section = _Section()
    for line, text in source.lines(faults):
        if not text or text.isspace() or text.lstrip(" \t")[0] == "#":
            continue
        match = _OPTION.match(text)
        if match is None:
            faults.add(line, "it is not an option of curl: a name and its value")
            continue
        name = _SHORT.get(match["name"], match["name"])
        if name == "next":
            yield from section.take_row(faults)
            section = _Section()
        elif name == "url":
            yield from section.take_row(faults)
            section.line, section.url, section.urls = line, _value(match["value"]), section.urls + 1
        else:
            _take_option(section, name, _value(match["value"]), line, faults)
    yield from section.take_row(faults)


def _take_option(section: _Section, name: str, value: str, line: int, faults: Faults) -> None:
    if name in _NEEDED:
        faults.add(line, f"{name}: cfetch has no such option; state what the request needs as a header")
    elif name == "globoff":
        section.takes_patterns = False
    elif name == "range":
        match = _RANGE.match(value)
        if match is None or int(match[1]) > int(match[2]) or section.urls > 1:
            faults.add(line, "range: it must be FIRST-LAST, of one URL; put next between URLs")
        else:
            section.range = {"offset": int(match[1]), "length": int(match[2]) - int(match[1]) + 1}
    elif name == "output":
        if section.url is None or section.output is not None:
            faults.add(line, "output: it must follow the URL that it belongs to")
        section.output = value.removeprefix("./")
    elif name == "header" or name in _HEADERS:
        if section.urls > 1:
            faults.add(line, f"{name}: it follows several URLs; put it before them, or next between them")
        key, _, content = (_HEADERS[name], "", value) if name in _HEADERS else value.partition(":")
        if name == "header" and not content and key.endswith(";"):  # curl's way to send an empty one
            key = key[:-1]
        if len(section.headers) < 100 and key not in section.headers:
            section.headers[key.strip()] = content.strip(" \t")
        else:
            faults.add(line, f"{name}: it is given twice, or too often")


def _value(text: str) -> str:
    match = _QUOTED.match(text)
    if match is None:
        return text.partition(" ")[0].rstrip("\t")
    return _ESCAPE.sub(lambda escape: _ESCAPED.get(escape[1], escape[1]), match[1])
