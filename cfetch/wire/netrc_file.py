r"""Reads a netrc file as curl does: comments, escapes within quotes, macros left out.

Python's ``netrc`` takes a backslash for an escape outside of quotes too (``DOMAIN\user``), takes a ``#`` at
the beginning of a password for a comment, and knows no words of other programs, such as ``port``.
"""

import base64
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from cfetch.base.errors import ConfigError
from cfetch.base.home import find_home
from cfetch.base.secret import SecretText, printable

_ESCAPED = {"n": "\n", "r": "\r", "t": "\t"}
_FIELDS = ("login", "password", "account", "port", "protocol")  # the last ones are of other programs


class NetrcFault(ValueError):
    """The file cannot be read from line ``line`` on."""

    def __init__(self, line: int) -> None:
        super().__init__(f"line {line}")
        self.line = line


class NetrcLogin(NamedTuple):
    """User and password of a machine."""

    user: str
    password: str


def read_logins(env: Mapping[str, str]) -> dict[str, SecretText]:
    """Read ``Authorization`` by host, and by ``user@host``. ``default`` is left out, as it is for every host.

    A file that others can read is refused, as by ftp(1) (curl does not check this).
    """
    home = find_home(env)
    if home is None and not env.get("NETRC"):
        raise ConfigError("netrc is on, and this user has no home directory; name the file in NETRC")
    path = Path(env.get("NETRC") or (home or Path()) / ".netrc")
    shown = printable(str(path))
    try:
        with path.open("rb") as file:
            open_to_others = os.fstat(file.fileno()).st_mode & 0o077
            data = file.read()
    except OSError as error:
        raise ConfigError(f"netrc is on, but {shown} cannot be read: {error.strerror}") from None
    if open_to_others:
        raise ConfigError(f"netrc is on, but others may read or change {shown}; chmod 600 it")
    try:
        hosts = _parse(data.decode())
    except NetrcFault as fault:
        raise ConfigError(f"{shown}:{fault.line}: this line is not valid in a netrc file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"netrc is on, but {shown} is not text") from None
    return {
        host: SecretText("Basic " + base64.b64encode(":".join(login).encode()).decode("ascii"))
        for host, login in hosts.items()
    }


def _parse(text: str) -> dict[str, NetrcLogin]:
    """The logins by host and by ``user@host``; of several, the first counts, as for curl. Raises NetrcFault.

    ``default`` is left out: it would give a password to every host.
    """
    logins: dict[str, NetrcLogin] = {}
    host: str | None = None
    fields: dict[str, str] = {}

    def keep() -> None:
        if host is not None and "password" in fields:
            login = NetrcLogin(fields.get("login", ""), fields["password"])
            name = host.lower().rstrip(".")
            for key in (name, f"{login.user}@{name}"):
                logins.setdefault(key, login)

    words = _split(text)
    for word, number in words:
        if word in ("machine", "default"):
            keep()
            fields = {}
            host = None if word == "default" else _take(words, number)
        elif word in _FIELDS:
            fields.setdefault(word, _take(words, number))
        else:
            raise NetrcFault(number)  # a keyword that is misspelled, or a password that has a space
    keep()
    return logins


def _take(words: Iterator[tuple[str, int]], number: int) -> str:
    """The word behind a keyword."""
    word = next(words, None)
    if word is None:
        raise NetrcFault(number)
    return word[0]


def _split(text: str) -> Iterator[tuple[str, int]]:
    """The words with the numbers of their lines; a macro ends at an empty line."""
    is_macro = False
    for number, line in enumerate(text.split("\n"), 1):
        line = line.removesuffix("\r")  # noqa: PLW2901
        if is_macro:
            is_macro = bool(line.strip())
            continue
        position = 0
        is_value = False  # a word behind a keyword may begin with "#"
        while position < len(line):
            if line[position] in " \t":
                position += 1
                continue
            if line[position] == "#" and not is_value:
                break
            word, position = _read_word(line, position, number)
            if word == "macdef" and not is_value:
                is_macro = True
                break
            yield word, number
            is_value = not is_value and word in ("machine", *_FIELDS)


def _read_word(line: str, position: int, number: int) -> tuple[str, int]:
    """The word at ``position``, and where it ends: at a blank, or in quotes, where a backslash escapes."""
    is_quoted = line[position] == '"'
    position += is_quoted
    letters = []
    while position < len(line):
        letter = line[position]
        position += 1
        if is_quoted and letter == "\\" and position < len(line):  # else it is one, as in DOMAIN\\user
            escaped = line[position]
            letters.append(_ESCAPED.get(escaped, escaped))
            position += 1
        elif letter in ('"' if is_quoted else " \t"):
            return "".join(letters), position
        else:
            letters.append(letter)
    if is_quoted:
        raise NetrcFault(number)
    return "".join(letters), position
