"""Any text with links, by ``--from-format links``: scripts, Markdown, YAML, HTML, mail, quoted lists.

In a line with a command of wget, curl or aria2, the name that the command gives the file counts, and so do
its headers; a request that cfetch cannot make, such as one with a body, is a fault. Variables of the shell
that the script sets to a text are replaced; a link with another variable or a pattern is a fault. Comments
in scripts are passed over. Hashes that pip's requirements state behind a link, or below it, count. Of HTML
and XML, the links in ``href``, ``src`` and ``url`` count, relative ones too; names of namespaces do not.
"""

import re
import shlex
from collections.abc import Iterator, Sequence
from html import unescape

from cfetch.base.schemes import FILES_PATTERN
from cfetch.manifest.digests import find_algorithm
from cfetch.manifest.faults import Faults
from cfetch.manifest.formats.link_text import find_links
from cfetch.manifest.rows import Document, Row
from cfetch.manifest.source import Source

_COMMAND = re.compile(r"(?:\A|[\s;&|(`$])(wget2?|curl|aria2c)(?:\.exe)?\s")
_ASSIGNMENT = re.compile(r"\s*(?:export\s+|readonly\s+|local\s+)?([A-Za-z_]\w*)=(.*)\Z")
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_UNKNOWN = re.compile(r"\$[{(A-Za-z_0-9@*]|\{[^{}]*\}|`")
_TEMPLATE = re.compile(r"[A-Za-z0-9+.-]+://(?:[^/?#]*(?:[{}$*%]|\.\.)|[./]|.*\{[^{}]*\})")
_ATTRIBUTE = re.compile(
    r"""(?:\A|[\s"'])(?:href|src|url|xmlUrl)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'<>]+))""", re.IGNORECASE
)
_ELEMENT = re.compile(rf">\s*({FILES_PATTERN}://[^\s<>]+)\s*<", re.IGNORECASE)
_NO_FILE = re.compile(r"(?:#|mailto:|javascript:|data:|tel:|\?)|\Z", re.IGNORECASE)
_OUT = re.compile(r"\s+out=(.+)\Z")
_HASH = re.compile(r"\s--hash[= ]([a-z0-9]{3,8}):([0-9A-Fa-f]{32,128})(?![0-9A-Fa-f])")
_OUTPUTS = {
    "wget": ("-O", "--output-document"),
    "curl": ("-o", "--output"),
    "aria2c": ("-o", "--out"),
}
_DIRECTORIES = {
    "wget": ("-P", "--directory-prefix"),
    "curl": ("--output-dir",),
    "aria2c": ("-d", "--dir"),
}
_HEADERS = {"wget": ("--header",), "curl": ("-H", "--header"), "aria2c": ("--header",)}
_NEEDED = {
    "wget": (
        "--post-data", "--post-file", "--method", "--body-data", "--user", "--http-user", "--load-cookies",
    ),
    "curl": (
        "-d", "--data", "--data-raw", "--data-binary", "-F", "--form", "-X", "--request", "-u", "--user",
        "-b", "--cookie", "-T", "--upload-file", "--json",
    ),
    "aria2c": ("--http-user", "--load-cookies"),
}  # fmt: skip
_END_OF_COMMAND = frozenset({";", "&&", "||", "|", "&", "(", ")", "done", "then", "fi"})
MOST_CONTINUED = 200  # lines of one command


def read_links(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, and ``path`` and ``headers`` where a command states them."""
    head = source.head()
    if head.startswith("<"):
        yield from _read_markup(source, faults, is_html="<html" in head.lower() or "href" in head.lower())
        return
    is_script = head.startswith("#!") or _COMMAND.search(head) is not None
    variables: dict[str, str] = {}
    unused: dict[str, list[tuple[int, str]]] = {}  # links that a variable holds, until a command takes it
    templates, hashes = 0, _StatedHashes()
    waiting: Row | None = None  # aria2 names a file in the line below its URL
    for line, text in _join_lines(source, faults) if is_script else source.lines(faults):
        if waiting is not None:
            waiting, is_more = hashes.complete(waiting, text)
            if is_more:
                continue
            yield waiting
            waiting = None
        if is_script and text.lstrip().startswith("#"):
            continue
        if is_script and (assigned := _ASSIGNMENT.match(text)) is not None:
            _note_use(assigned[2], variables, unused)
            value = variables[assigned[1]] = _replace(_unquote(assigned[2]), variables)
            if not _COMMAND.search(text):
                held = [link for _, link in find_links(value) if not _UNKNOWN.search(link)]
                unused.setdefault(assigned[1], []).extend((line, link) for link in held)
                continue
        if is_script and _COMMAND.search(text):
            _note_use(text, variables, unused)
            yield from _read_command(line, _replace(text, variables), faults)
            continue
        links = [link for _, link in find_links(text)]
        rows = [Row(line, {"url": _undo_entities(link)}) for link in links if not _TEMPLATE.match(link)]
        templates += len(links) - len(rows)
        rows = hashes.add(rows, text)
        if len(rows) == 1 and not is_script:
            waiting = rows[0]
        else:
            yield from rows
    if waiting is not None:
        yield waiting
    # what a script assigns in one branch after the other, or gives to a command in a way of its own
    yield from (Row(line, {"url": link}) for held in unused.values() for line, link in held)
    if templates:
        document.notes.append(f"links with a place-holder, which are left out: {templates}")
    document.notes.extend(hashes.notes())


class _StatedHashes:
    """Adds the hashes of requirements to rows, and counts those that say nothing sure of one file."""

    def __init__(self) -> None:
        self._lost = 0

    def add(self, rows: list[Row], text: str) -> list[Row]:
        """Add the hashes in the line of the rows."""
        stated = _HASH.findall(text)
        if len(rows) == 1 and stated:
            return [self._add(rows[0], stated)]
        self._lost += len(stated)
        return rows

    def complete(self, row: Row, text: str) -> tuple[Row, bool]:
        """Add what the line below states of the row, and tell whether that was a line of hashes."""
        stated = _HASH.findall(text) if text[:1].isspace() else []
        if (named := _OUT.match(text)) is not None and isinstance(row.fields, dict):
            row = row._replace(fields=row.fields | {"path": named[1].strip()})
        return self._add(row, stated), bool(stated)

    def _add(self, row: Row, stated: Sequence[tuple[str, str]]) -> Row:
        """Add hashes; pip takes either of two of one sort, so none of these is used."""
        fields: dict[str, object] = dict(row.fields) if isinstance(row.fields, dict) else {}
        for name, digits in stated:
            algorithm = find_algorithm(name)
            if algorithm is None or fields.setdefault(algorithm, digits) != digits:
                self._lost += 1 if algorithm is None or fields[algorithm] is None else 2
                fields |= {} if algorithm is None else {algorithm: None}
        return row._replace(fields=fields)

    def notes(self) -> list[str]:
        """The note for the user, if there is one."""
        what = "hashes that are not surely those of one link, and that are left out"
        return [f"{what}: {self._lost}"] if self._lost else []


def _note_use(text: str, variables: dict[str, str], unused: dict[str, list[tuple[int, str]]]) -> None:
    """Drop the links that a text takes from variables: they are those of the last values."""
    for match in _VARIABLE.finditer(text):
        name = match[1] or match[2]
        links = unused.get(name)
        if links:
            unused[name] = [(line, link) for line, link in links if link not in variables[name]]


def _join_lines(source: Source, faults: Faults) -> Iterator[tuple[int, str]]:
    """Yield the lines of a script; a backslash at the end joins a line to the next."""
    begin, held = 0, ""
    joined = 0
    for line, text in source.lines(faults):
        begin = begin or line
        if text.endswith("\\") and joined < MOST_CONTINUED:
            held += text[:-1] + " "
            joined += 1
            continue
        yield begin, held + text
        begin, held, joined = 0, "", 0
    if held:
        yield begin, held


def _unquote(text: str) -> str:
    try:
        return (shlex.split(text, comments=True) or [""])[0]
    except ValueError:  # a quote without an end
        return text.strip()


def _replace(text: str, variables: dict[str, str]) -> str:
    return _VARIABLE.sub(lambda match: variables.get(match[1] or match[2], match[0]), text)


def _undo_entities(link: str) -> str:
    return link.replace("&amp;", "&") if "&amp;" in link else link


def _read_command(line: int, text: str, faults: Faults) -> Iterator[Row]:
    """Yield a row for each URL of the commands of a line."""
    try:
        lexer = shlex.shlex(text, posix=True, punctuation_chars=";&|()<>")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        yield from (Row(line, {"url": link}) for _, link in find_links(text))
        return
    begin = 0
    for place in range(len(words) + 1):
        if place == len(words) or words[place] in _END_OF_COMMAND:
            yield from _read_words(line, words[begin:place], faults)
            begin = place + 1


def _read_words(line: int, words: Sequence[str], faults: Faults) -> Iterator[Row]:
    program = next((name for word in words if (name := _name_program(word))), "")
    if not program:
        yield from (Row(line, {"url": link}) for word in words for _, link in find_links(word))
        return
    urls: list[str] = []
    names: list[str] = []
    directory, headers = "", {}
    rest = iter(words)
    for word in rest:
        option, value = _take_option(word, rest, program)
        if option in _OUTPUTS[program] or word in (">", "1>"):
            names.append(value if option else next(rest, "-"))
        elif option in _DIRECTORIES[program]:
            directory = value.rstrip("/")
        elif option in _HEADERS[program]:
            name, _, content = value.partition(":")
            headers[name.strip()] = content.strip()
        elif option in _NEEDED[program]:
            faults.add(line, f"{option}: cfetch has no such option; state what the request needs as a header")
            return
        else:
            urls += [link for _, link in find_links(word)]
    for place, url in enumerate(urls):
        if _UNKNOWN.search(url):
            faults.add(
                line,
                "url: it has a variable or a pattern of the shell; write each URL out, or leave such lines "
                "out by --bad-rows skip",
            )
            continue
        fields: dict[str, object] = {"url": url}
        name = names[place] if place < len(names) and (program == "curl" or len(urls) == 1) else "-"
        if name not in ("-", "/dev/null", "/dev/stdout"):
            fields["path"] = (f"{directory}/{name}" if directory else name).removeprefix("./")
        elif directory not in ("", "."):
            fields["path"] = f"{directory.removeprefix('./')}/{url.partition('?')[0].rpartition('/')[2]}"
        yield Row(line, fields | ({"headers": headers} if headers else {}))


def _name_program(word: str) -> str:
    name = word.rpartition("/")[2].removesuffix(".exe")
    return {"wget": "wget", "wget2": "wget", "curl": "curl", "aria2c": "aria2c"}.get(name, "")


def _take_option(word: str, rest: Iterator[str], program: str) -> tuple[str, str]:
    """The option that a word is, and its value: ``-Oa``, ``-O a``, ``-qO a``, ``--out=a`` and ``--out a``."""
    known = (*_OUTPUTS[program], *_DIRECTORIES[program], *_HEADERS[program], *_NEEDED[program])
    name, equals, value = word.partition("=")
    if word.startswith("--"):
        return (name, value if equals else next(rest, "")) if name in known else ("", "")
    if word[:1] == "-" and len(word) > 1:
        for place, letter in enumerate(word[1:], 1):
            if f"-{letter}" in known:
                return f"-{letter}", word[place + 1 :] or next(rest, "")
            if not letter.isalnum():
                break
    return "", ""


def _read_markup(source: Source, faults: Faults, *, is_html: bool) -> Iterator[Row]:
    """Yield the links of attributes, and of elements whose text is a link."""
    for line, text in source.lines(faults):
        links = [
            (match.start(), match[1] or match[2] or match[3] or "") for match in _ATTRIBUTE.finditer(text)
        ]
        links += [(match.start(), match[1]) for match in _ELEMENT.finditer(text)]
        for _, written in sorted(links):
            link = unescape(written).strip()
            if not _NO_FILE.match(link) and not _TEMPLATE.match(link) and (is_html or "://" in link):
                yield Row(line, {"url": link})
