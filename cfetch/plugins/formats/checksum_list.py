"""Lists of ``sha256sum`` and similar tools: a hash and a file's name on each line; URLs need ``base_url``.

GNU lines are ``HASH  NAME`` (``HASH *NAME`` in binary mode; other tools write one space or a tab); BSD lines
are ``SHA256 (NAME) = HASH``, those of ``openssl dgst`` ``SHA256(NAME)= HASH``. Buildroot writes
``sha256 HASH NAME``, Gentoo's Manifest ``DIST NAME SIZE BLAKE2B HASH SHA512 HASH``. If a line begins with a
backslash, its name is escaped. ``./`` before a name is removed, as ``find`` writes it. Blank lines and lines
that begin with ``#`` are left out, as by ``sha256sum --check``. A name may be a URL.

The algorithm is that of the line's tag, or of a heading (``# BLAKE2B HASH``), or of the list's own name
(``b2sums.txt``): SHA-512 and BLAKE2b, or SHA-256 and BLAKE3, have as many digits as each other. Without a
word, 32, 40, 64 and 128 digits are MD5, SHA-1, SHA-256 and SHA-512, as nearly all lists mean them.
"""

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from cfetch.base.schemes import FILES_PATTERN
from cfetch.manifest.digests import HEX_DIGITS, find_algorithm
from cfetch.manifest.faults import Faults
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source
from cfetch.manifest.url_completion import make_relative_url

_GNU = re.compile(
    r"(?P<escaped>\\?)(?P<hex>[0-9A-Fa-f]{32,128})(?: [ *]|[ \t]+(?=[^ \t]))(?P<name>\s*[^\s*].*|\*.+)\Z"
)
_TAGGED = re.compile(
    r"(?P<escaped>\\?)(?P<tag>[A-Z][A-Za-z0-9-]{2,11}) ?\((?P<name>.+)\) ?= (?P<hex>[0-9A-Fa-f]+)[ \t]*\Z"
)
_REVERSED = re.compile(r"(?P<escaped>)(?P<name>[^\s:][^:]*): +(?P<hex>[0-9A-Fa-f]{32,128})[ \t]*\Z")
_NAME_FIRST = re.compile(
    r"(?P<escaped>)(?P<name>[^\s:]++)[ \t]++"
    r"(?P<hex>[0-9A-Fa-f]{32}|[0-9A-Fa-f]{40}|[0-9A-Fa-f]{128})[ \t]*\Z"  # with 64, it is a list of pooch
)
_WORD_FIRST = re.compile(
    r"(?P<escaped>)(?P<tag>[A-Za-z][A-Za-z0-9-]{2,11})[ \t]+(?P<hex>[0-9A-Fa-f]{32,128})[ \t]+"
    r"(?P<name>\S.*)\Z"
)
_PORTAGE = re.compile(
    r"DIST (?P<name>\S+) (?P<size>[0-9]{1,18})(?P<hashes>(?: [A-Z0-9]{2,12} [0-9A-Fa-f]{8,128})+)\Z"
)
_HASH_FIRST = (_TAGGED, _GNU, _WORD_FIRST)
_HASH_LAST = (_REVERSED, _NAME_FIRST)
_BY_LENGTH = {HEX_DIGITS[name]: name for name in ("md5", "sha1", "sha256", "sha512")}
_UNCLEAR = {96: "SHA-384 or SHA3-384", 56: "SHA-224 or SHA3-224"}
_ESCAPE = re.compile(r"\\([\\nr])")
_ESCAPED = {"\\": "\\", "n": "\n", "r": "\r"}
_HEADING = re.compile(r"#+ *([A-Z][A-Z0-9-]{2,11}) (?:HASH|hash|checksums?|sums?)\b")
_WORD = re.compile(
    r"(?<![a-z0-9])(md5|sha-?1|(?:sha-?|sha2-)?(?:224|256|384|512)|sha3[_-](?:224|256|384|512)|blake2b?|blake3"
    r"|b[23](?=sum))(?:sums?)?(?![a-z0-9])"
)
_ENDINGS = {".b2": "blake2b", ".b3": "blake3"}
_POWERSHELL = re.compile(r"(?:Algorithm +Hash +Path|--+ +--+ +--+) *\Z")  # what Get-FileHash writes above
_ABSOLUTE = re.compile(r"/|[A-Za-z]:/(?!/)")
_URL = re.compile(rf"{FILES_PATTERN}://", re.IGNORECASE)


def is_checksum_line(line: str) -> bool:
    """Whether a line is of this format; no line of another format looks so."""
    if _PORTAGE.match(line) or _POWERSHELL.match(line):
        return True
    match = _match(line)
    return match is not None and (
        _algorithm(match, None) is not None or ("tag" not in match.re.groupindex and _is_unclear(match))
    )


def read_checksum_list(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``path`` and the hash."""
    meant = _find_named_algorithm(source.name)
    for line, text in source.lines(faults, "leave out"):
        if not text or text.isspace() or _POWERSHELL.match(text):
            continue
        if text[0] == "#":
            heading = _HEADING.match(text)
            meant = (find_algorithm(heading[1]) or meant) if heading else meant
            continue
        if (distributed := _PORTAGE.match(text)) is not None:
            yield Row(line, _read_portage(distributed))
            continue
        match = _match(text)
        algorithm = _algorithm(match, meant) if match else None
        if match is None or algorithm is None:
            faults.add(line, _describe(match))
            continue
        name = match["name"]
        if match["escaped"]:
            name = _ESCAPE.sub(lambda escape: _ESCAPED[escape[1]], name)
        else:
            name = name.replace("\\", "/")  # it is Windows that writes it: a backslash in a name is escaped
        name = name.lstrip(" \t").removeprefix("./")
        if _ABSOLUTE.match(name):
            way = "make the list in its directory, or leave the directory out of it, as sed does"
            faults.add(line, f"path: {name[:200]!r} is absolute; {way}")
        elif _URL.match(name):
            yield Row(line, {"url": name, algorithm: match["hex"]})
        else:
            yield Row(line, {"url": make_relative_url(name), "path": name, algorithm: match["hex"]})


def _read_portage(match: re.Match[str]) -> dict[str, object]:
    """The keys of a row of Gentoo's Manifest."""
    words = match["hashes"].split()
    hashes = {find_algorithm(name): digits for name, digits in zip(words[::2], words[1::2], strict=True)}
    hashes.pop(None, None)  # such as Whirlpool
    name = match["name"]
    return {"url": make_relative_url(name), "path": name, "size": int(match["size"]), **hashes}  # type: ignore[dict-item]


def _find_named_algorithm(file_name: str) -> str | None:
    """The only hash that the name of a list states; None: it states none, or several."""
    name = PurePosixPath(file_name.partition("?")[0].lower()).name
    stated = {find_algorithm(f"sha{word}" if word.isdigit() else word) for word in _WORD.findall(name)}
    stated |= {algorithm for ending, algorithm in _ENDINGS.items() if name.endswith(ending)}
    return stated.pop() if len(stated) == 1 else None


def _match(line: str) -> re.Match[str] | None:
    match = next(filter(None, (form.match(line) for form in (*_HASH_FIRST, *_HASH_LAST))), None)
    # other texts have a word before a hash too, such as ``sha256: …``
    return None if match is not None and match.re in _HASH_LAST and "." not in match["name"] else match


def _algorithm(match: re.Match[str], meant: str | None) -> str | None:
    tag, digits = match.groupdict().get("tag"), len(match["hex"])
    if tag is not None:
        return find_algorithm(tag)  # ``check_row`` refuses a wrong number of digits
    if meant is not None and HEX_DIGITS[meant] == digits:
        return meant
    return _BY_LENGTH.get(digits)


def _is_unclear(match: re.Match[str]) -> bool:
    return len(match["hex"]) in _UNCLEAR


def _describe(match: re.Match[str] | None) -> str:
    what = "it is not a line of a checksum list"
    if match is None:
        return f"{what}: a hash, two spaces and a name, or SHA256 (name) = hash"
    if "tag" in match.re.groupindex:
        return f"{what} that cfetch can verify, as it has no hash {match['tag']}; remove the line"
    digits = len(match["hex"])
    if digits in _UNCLEAR:
        may_be = _UNCLEAR[digits]
        return (
            f"{what} without its hash's name: {digits} digits may be {may_be}; name the list like SHA384SUMS"
        )
    return f"{what}: no hash that cfetch knows has {digits} digits"
