"""Lock files of uv (``pylock.toml`` too), Cargo, npm, deno, Yarn 1 and Bundler (``Gemfile.lock``)."""

import base64
import binascii
import re
import tomllib
from collections.abc import Iterator
from typing import Any

from cfetch.base.schemes import is_web
from cfetch.manifest.digests import HEX_DIGITS, find_stated
from cfetch.manifest.faults import BrokenDocumentError, Faults
from cfetch.manifest.formats.whole_json import Hashes, get_object, load_object, load_text
from cfetch.manifest.rows import MAX_MIRRORS, Document, Row
from cfetch.manifest.source import Source

_CRATES_INDEX = ("registry+https://github.com/rust-lang/crates.io-index", "sparse+https://index.crates.io/")
_CRATES = "https://static.crates.io/crates"
_YARN = "# yarn lockfile v1"
_RESOLVED = re.compile(r'  resolved "?([^"\s]+?)(?:#([0-9a-f]{40}))?"?\Z')
_INTEGRITY = re.compile(r'  integrity "?(\S[^"]*?)"?\Z')
_GEMS_HEAD = re.compile(r"(?:GEM|GIT|PATH|PLUGIN SOURCE)\r?\n  remote: \S")
_REMOTE = "  remote: "
_GEM = re.compile(r"    ([A-Za-z0-9._-]{1,200}) \(([A-Za-z0-9._-]{1,200})\)\Z")
_GEM_HASHES = re.compile(r"  (\S+) \((\S+)\) (\S+)\Z")
_FILES = ("sdist", "archive", "wheels", "files")  # the last is PDM's, if it is told to state URLs


def is_lock(head: str) -> bool:
    """Whether a text is a lock file in TOML: it has packages as tables."""
    return "\n[[package]]" in f"\n{head}" or "\n[[packages]]" in f"\n{head}"


def read_toml_lock(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows: ``url``, ``size`` and a hash."""
    try:
        lock = tomllib.loads(load_text(source, "the lock file"))
    except tomllib.TOMLDecodeError as error:
        raise BrokenDocumentError(0, f"it is not TOML: {' '.join(str(error).split())[:200]}") from None
    except RecursionError:
        raise BrokenDocumentError(0, "it is not TOML that cfetch reads: it is nested too deeply") from None
    rows, others, hashes = 0, 0, Hashes()
    packages = lock.get("packages", lock.get("package"))
    for package in packages if isinstance(packages, list) else []:
        files = list(_list_files(package, hashes)) if isinstance(package, dict) else []
        others += not files
        for fields in files:
            rows += 1
            yield Row(0, fields, "packages")
    if not rows:
        raise BrokenDocumentError(
            0,
            "it is a lock file that states no URLs of its packages, such as Poetry's; `poetry export` or "
            "`uv export --format pylock.toml` writes a list for pip or one with URLs",
        )
    document.notes += hashes.list_notes()
    if others:
        document.notes.append(f"packages without files of their own, which are left out: {others}")


def _list_files(package: dict[str, Any], hashes: Hashes) -> Iterator[dict[str, object]]:
    if package.get("source") in _CRATES_INDEX and "checksum" in package:
        crate = f"{package.get('name')}-{package.get('version')}.crate"
        url = f"{_CRATES}/{package.get('name')}/{crate}"
        yield {"url": url, "path": crate, "sha256": package["checksum"]}
        return
    for key in _FILES:
        stated = package.get(key)
        for file in stated if isinstance(stated, list) else [stated]:
            if isinstance(file, dict) and "url" in file:
                yield {"url": file["url"], "size": file.get("size"), **_read_hashes(file, hashes)}


def _read_hashes(file: dict[str, Any], counted: Hashes) -> dict[str, object]:
    stated = find_stated(str(file.get("hash")))
    named = get_object(file, "hashes")
    hashes: dict[str, object] = {name: named[name] for name in HEX_DIGITS if name in named}
    counted.unknown += bool(file.get("hash") or named) and stated is None and not hashes
    return hashes if stated is None else hashes | {stated[0]: stated[1]}


def read_npm_lock(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of ``package-lock.json``: ``url``, ``path`` and a hash."""
    lock = load_object(source, "the lock file")
    packages = get_object(lock, "packages") or get_object(lock, "dependencies")
    others, hashes = 0, Hashes()
    for package in _walk_packages(packages):
        url = package.get("resolved") if isinstance(package, dict) else None
        if not isinstance(url, str) or not is_web(url):
            others += 1
            continue
        yield Row(0, _name_package(url) | _read_integrity(package.get("integrity"), hashes), "packages")
    document.notes += hashes.list_notes()
    if others:
        document.notes.append(f"packages without a file of a server, which are left out: {others}")


def _walk_packages(packages: dict[str, Any]) -> Iterator[Any]:
    """Yield all packages; in the first version of the format, a package holds those of its own."""
    waiting = list(packages.values())[::-1]
    while waiting:
        package = waiting.pop()
        yield package
        # from the second version on, the same key has only texts: the wanted versions
        held = get_object(package, "dependencies").values()
        waiting += [inner for inner in held if isinstance(inner, dict)][::-1]


def _name_package(url: str) -> dict[str, object]:
    """The URL, and a path with the package's scope: packages of two scopes may have one name."""
    scope, _, rest = url.partition("/@")[2].partition("/")
    if rest and "/-/" in rest:
        return {"url": url, "path": f"@{scope}/{url.partition('?')[0].rpartition('/')[2]}"}
    return {"url": url}


def _read_integrity(text: object, counted: Hashes) -> dict[str, object]:
    """The hashes of Subresource Integrity: ``sha512-BASE64``, several separated by blanks."""
    hashes: dict[str, object] = {}
    for part in text.split() if isinstance(text, str) else ():
        name, _, digits = part.partition("-")
        try:
            hex_digits = base64.b64decode(digits.partition("?")[0], validate=True).hex()
        except (binascii.Error, ValueError):
            continue
        if name in HEX_DIGITS and len(hex_digits) == HEX_DIGITS[name]:
            hashes[name] = hex_digits
    counted.unknown += bool(text) and not hashes
    return hashes


def read_deno_lock(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of ``deno.lock``: ``url``, ``path`` (the host, and the path there) and ``sha256``."""
    lock = load_object(source, "the lock file")
    for url, digits in get_object(lock, "remote").items():
        yield Row(0, {"url": url, "path": url.partition("?")[0].partition("://")[2], "sha256": digits})
    if others := sum(len(get_object(lock, key)) for key in ("npm", "jsr")):
        document.notes.append(f"packages without a file of a server, which are left out: {others}")


def is_yarn_lock(head: str) -> bool:
    """Whether a text is a lock file of Yarn 1; newer ones are YAML and state no URLs."""
    return _YARN in head[:1000]


def read_yarn_lock(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of ``yarn.lock``: ``url``, ``path`` and a hash."""
    waiting: Row | None = None  # the line below a URL states its strongest hash
    hashes = Hashes()
    for line, text in source.lines(faults):
        integrity = _INTEGRITY.match(text)
        if waiting is not None:
            more = _read_integrity(integrity[1], hashes) if integrity else {}
            yield waiting._replace(fields=waiting.fields | more)  # type: ignore[operator]
            waiting = None
        resolved = _RESOLVED.match(text)
        if resolved is not None and is_web(resolved[1]):
            waiting = Row(line, _name_package(resolved[1]) | ({"sha1": resolved[2]} if resolved[2] else {}))
    if waiting is not None:
        yield waiting
    document.notes += hashes.list_notes()


def is_gem_lock(head: str) -> bool:
    """Whether a text is ``Gemfile.lock``: it begins with a source of gems."""
    return _GEMS_HEAD.match(head) is not None


def read_gem_lock(source: Source, document: Document, faults: Faults) -> Iterator[Row]:
    """The rows of ``Gemfile.lock``: ``url``, ``path``, ``mirrors`` and a hash."""
    gems: list[tuple[int, str, list[str]]] = []
    stated: dict[str, str] = {}  # the hashes stand behind all gems
    remotes: list[str] = []
    section, others, hashes = "", 0, Hashes()
    for line, text in enumerate(load_text(source, "the lock file").splitlines(), 1):
        if text.startswith("<" * 7):
            raise BrokenDocumentError(line, "a merge has left a conflict; settle it, and run `bundle lock`")
        if text and text[0] != " ":
            section, remotes = text.rstrip(), []
        elif text.startswith(_REMOTE):
            if len(remotes) > MAX_MIRRORS:  # each gem has all of them
                raise BrokenDocumentError(line, f"a source of gems names more than {MAX_MIRRORS + 1} servers")
            remotes.append(text.removeprefix(_REMOTE).strip().removesuffix("/"))
        elif section == "CHECKSUMS":
            if (hashed := _GEM_HASHES.match(text)) is not None:
                stated[f"{hashed[1]}-{hashed[2]}"] = hashed[3]
        elif text.startswith("    ") and text[4:5].strip():  # what a gem needs stands further in
            gem = _GEM.match(text)
            if section != "GEM":
                others += 1
            elif gem is None or not remotes:
                faults.add(line, "it is not a gem of a server: its name and its version in parentheses")
            else:
                gems.append((line, f"{gem[1]}-{gem[2]}", remotes))
    for line, name, servers in gems:
        url, *mirrors = (f"{server}/gems/{name}.gem" for server in servers)
        row: dict[str, object] = {"url": url, "path": f"{name}.gem", "mirrors": mirrors}
        for part in stated.get(name, "").split(","):
            algorithm, _, digits = part.partition("=")
            row |= hashes.read_named(algorithm, digits)
        yield Row(line, row)
    document.notes += hashes.list_notes()
    if unhashed := sum(name not in stated for _, name, _ in gems):
        document.notes.append(f"gems without a hash: {unhashed}; `bundle lock --add-checksums` states them")
    if others:
        document.notes.append(f"gems without a file of a server, which are left out: {others}")
