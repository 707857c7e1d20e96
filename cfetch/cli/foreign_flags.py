"""Flags of curl, wget, aria2, rclone and rsync: what they are called here. Pure.

A letter may mean two things in two programs; then the answer names both. ``HARMLESS`` flags ask for what
cfetch does anyway, and are accepted.
"""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cfetch.base.errors import UsageError

HARMLESS = frozenset(
    {"-c", "--continue", "--continue=true", "--resume", "-nc", "--no-clobber"}
    | {"--skip-existing", "--ignore-existing"}
)
MOST_OWNERS = 2  # named; the help of each names its own options
_INSECURE = "cfetch always checks certificates; name a server's own CA with --ca-file"
_OUTPUT = "with `cfetch get` -o FILE names the file; a list's files go to --to DIR"
_PARALLEL = "--concurrency (-j) says how many downloads run at a time"
_BACKGROUND = "nohup cfetch ... & runs it in the background"
_QUIET = "--quiet (-q) leaves only errors"
_LOG = "cfetch writes its progress to stderr: 2> FILE keeps it"
_SHOWN = "a terminal shows a bar, a pipe gets lines; --progress says which, and --quiet (-q) shows none"
_TRIES = "--max-attempts says how many tries a file has"
_AGENT = "--user-agent TEXT sets it"
_RATE = "write --limit-rate, or --limit-rate-per-host for each host"
_COOKIES = "--cookies FILE sends a file of cookies in Netscape's format"
_KEPT = "cookies that servers set are kept for the run; --cookies FILE sends those of a file"
_NETRC = "--netrc takes logins from ~/.netrc"
_LOGIN = "put the login into ~/.netrc and give --netrc, or send a token with --bearer-env"
_LIST = "the list is the argument itself: cfetch download LIST"
_CHECK = "--existing check asks servers whether files in place have changed"
FLAGS: Mapping[str, str] = {
    "-O": f"for curl it keeps the name in the URL: leave it out, as cfetch does so; for wget: {_OUTPUT}",
    "-P": "for wget it is the directory: --to DIR",
    "-x": "for curl it is the proxy: --proxy URL; for aria2 it is connections to one server: --per-host, and "
    "--segments for one file",
    "-i": f"for wget and aria2 it is the list: {_LIST}; for curl it shows headers, which the metrics keep",
    "-k": f"for curl: leave it out, as {_INSECURE}; for aria2: leave it out, as cfetch chooses the pieces",
    "-s": f"for curl it is quiet: {_QUIET}; for aria2 it is connections of one file: --segments",
    "-d": "for aria2 it is the directory: --to DIR; for curl it sends data, which cfetch does not",
    "-L": "cfetch follows redirects by itself, without secrets where they lead to another host",
    "-J": "the server's name for a file: --name-by header",
    "-C": "cfetch continues files by itself: run the same command again",
    "-T": "for wget it is a time-out: --stall-timeout, --first-byte-timeout or --connect-timeout",
    "-t": f"for wget it is the tries: {_TRIES}",
    "-w": "for wget it is the pause between requests: --rate, such as 30/m",
    "-A": f"for curl it is the user agent: {_AGENT}; for wget it is a pattern of names: --include GLOB",
    "-U": f"for wget it is the user agent: {_AGENT}",
    "-u": f"for curl it is the login: {_LOGIN}",
    "-b": f"for curl it is cookies: {_COOKIES}; for wget it is the background: {_BACKGROUND}",
    "-m": "for curl it is the longest time: --deadline; for wget it mirrors a site: cfetch sync",
    "-Z": f"{_PARALLEL}; many files are always brought at once",
    "-N": f"for wget it fetches what is newer: {_CHECK}",
    "-r": "for wget it follows links: cfetch sync URL/ keeps a directory like an index page's",
    "-f": "for curl it fails on errors of servers, as cfetch always does",
    "-nv": f"for wget it is quiet: {_QUIET}",
    "-a": f"for wget it is the log: {_LOG}",
    "-e": "for curl it is the referer: -H 'Referer: URL' sends it",
    "-E": "for curl it is the client's certificate: --client-cert FILE",
    "-R": "for wget it is a pattern of names to leave out: --exclude GLOB",
    "-#": _SHOWN,
    "--output-document": _OUTPUT,
    "--directory-prefix": "the directory is --to DIR",
    "--dir": "the directory is --to DIR",
    "--out": _OUTPUT,
    "--input-file": _LIST,
    "--files-from": _LIST,
    "--transfers": _PARALLEL,
    "--checkers": _PARALLEL,
    "--parallel": f"{_PARALLEL}; many files are always brought at once",
    "--parallel-max": _PARALLEL,
    "--max-concurrent-downloads": _PARALLEL,
    "--max-connection-per-server": "--per-host, and --segments for one file",
    "--multi-thread-streams": "--segments says how many connections one large file may have",
    "--split": "--segments says how many connections one large file may have",
    "--min-split-size": "cfetch chooses the size of pieces itself; --segments says how many there may be",
    "--retries": _TRIES,
    "--low-level-retries": _TRIES,
    "--retry": _TRIES,
    "--tries": _TRIES,
    "--max-tries": _TRIES,
    "--retry-max-time": "--retry-budget says for how long a file is tried again",
    "--retry-wait": "the wait follows from what a server asks for; --retry-budget limits it",
    "--timeout": "--stall-timeout, --first-byte-timeout or --connect-timeout",
    "--max-time": "--deadline ends the whole run",
    "--contimeout": "--connect-timeout",
    "--speed-limit": "--min-rate",
    "--lowest-speed-limit": "--min-rate",
    "--bwlimit": _RATE,
    "--max-download-limit": _RATE,
    "--max-overall-download-limit": "--limit-rate",
    "--tpslimit": "--rate, such as 5/s",
    "--max-filesize": "--max-file-size",
    "--max-size": "--max-file-size",
    "--insecure": _INSECURE,
    "--no-check-certificate": _INSECURE,
    "--check-certificate": _INSECURE,
    "--cacert": "--ca-file FILE",
    "--ca-certificate": "--ca-file FILE",
    "--ca-cert": "--ca-file FILE",
    "--cert": "--client-cert FILE",
    "--certificate": "--client-cert FILE",
    "--key": "--client-key FILE",
    "--private-key": "--client-key FILE",
    "--location": "cfetch follows redirects by itself",
    "--remote-name": "a file is named by its URL already; --name-by has other ways",
    "--remote-header-name": "--name-by header",
    "--content-disposition": "--name-by header",
    "--trust-server-names": "--name-by final-url",
    "--compressed": "--encoded decode unpacks what comes encoded",
    "--user": _LOGIN,
    "--http-user": _LOGIN,
    "--oauth2-bearer": "--bearer-env NAME sends the token in an environment variable",
    "--cookie": _COOKIES,
    "--load-cookies": _COOKIES,
    "--agent": _AGENT,
    "--referer": "-H 'Referer: URL' sends it",
    "--all-proxy": "--proxy URL, or --proxy-from-env",
    "--socks5": "--proxy socks5://HOST:PORT",
    "--socks5-hostname": "--proxy socks5h://HOST:PORT",
    "--preproxy": "one proxy at a time: --proxy URL",
    "--proxy-user": "the login of a proxy stands in its URL, in CFETCH_PROXY",
    "--noproxy": "NO_PROXY names the hosts, with --proxy-from-env",
    "--digest": f"servers that ask for Digest get it by themselves; {_LOGIN}",
    "--netrc-file": f"{_NETRC}, or from the file that the variable NETRC names",
    "--netrc-optional": _NETRC,
    "--cookie-jar": _KEPT,
    "--save-cookies": _KEPT,
    "--location-trusted": "--header-host '*' gives headers to all hosts; --netrc-redirects is for netrc",
    "--silent": _QUIET,
    "--debug": "--verbose (-v) has a line for each file and each retry",
    "--log": _LOG,
    "--log-file": _LOG,
    "--output-file": _LOG,
    "--timestamping": _CHECK,
    "--size-only": "a stated size is enough for a file in place; --existing check asks its server too",
    "--checksum": "state hashes in the manifest, or cfetch get --sha256",
    "--recursive": "cfetch sync URL/ keeps a directory like an index page's",
    "--mirror": "cfetch sync URL/ keeps a directory like an index page's",
    "--delete-excluded": "cfetch sync --delete",
    "--allow-overwrite": "--existing refetch fetches everything anew",
    "--output-dir": "the directory is --to DIR",
    "--from-file": _LIST,
    "--max-connections": f"{_PARALLEL}; --segments is for one file",
    "--connections": f"{_PARALLEL}; --segments is for one file",
    "--jobs": _PARALLEL,
    "--threads": _PARALLEL,
    "--retry-delay": "the wait follows from what a server asks for; --retry-budget limits it",
    "--waitretry": "the wait follows from what a server asks for; --retry-budget limits it",
    "--read-timeout": "--stall-timeout",
    "--speed-time": "--stall-timeout",
    "--stop": "--deadline ends the whole run",
    "--rate-limit": _RATE,
    "--password": _LOGIN,
    "--http-password": _LOGIN,
    "--http-proxy": "--proxy URL, or --proxy-from-env",
    "--https-proxy": "--proxy URL, or --proxy-from-env",
    "--update": _CHECK,
    "--conditional-get": _CHECK,
    "--overwrite": "--existing refetch fetches everything anew",
    "--force": "--existing refetch fetches everything anew",
    "--clobber": "--existing refetch fetches everything anew",
    "--check-integrity": "state hashes in the manifest; cfetch verify LIST --to DIR checks files in place",
    "--filter": "--include GLOB and --exclude GLOB",
    "--accept": "--include GLOB",
    "--accept-regex": "--include GLOB, which is a pattern as the shell's",
    "--reject": "--exclude GLOB",
    "--reject-regex": "--exclude GLOB, which is a pattern as the shell's",
    "--no-verbose": _QUIET,
    "--trace": "--verbose (-v) has a line for each file and each retry",
    "--continue-at": "cfetch continues files by itself: run the same command again",
    "--create-dirs": "cfetch makes directories by itself",
    "--progress-bar": _SHOWN,
    "--background": _BACKGROUND,
    "--daemon": _BACKGROUND,
}


def in_own_words(words: Sequence[str], known: Sequence[str], valued: Sequence[str]) -> list[str]:
    """The words that the verb knows. Raises UsageError, which names the own flag for another program's.

    ``known``: cfetch's own flags; ``valued``: those of them that are followed by a value.
    """
    kept = drop_harmless(words, known, valued)
    if (said := find_foreign(kept, known, valued)) is not None:
        raise UsageError(said)
    return kept


def drop_harmless(words: Sequence[str], known: Iterable[str], valued: Iterable[str]) -> list[str]:
    """The words without the flags that ask for what cfetch does anyway, unless they are its own."""
    harmless = HARMLESS - set(known)
    dropped = {n for n, word in _list_flags(words, set(valued)) if word in harmless}
    return [word for n, word in enumerate(words) if n not in dropped]


def find_foreign(words: Sequence[str], known: Iterable[str], valued: Iterable[str]) -> str | None:
    """What to say of the first flag that is another program's; None: there is none."""
    own = set(known)
    for _, word in _list_flags(words, set(valued)):
        name = word.partition("=")[0]
        if name in own or f"-{name}" in own:
            continue
        if name not in FLAGS and any(word.startswith(flag) for flag in own if len(flag) == 2):
            continue
        flag = name if name in FLAGS else name[:2] if not name.startswith("--") else ""
        if flag in FLAGS:
            return f"{flag} is a flag of another program: {FLAGS[flag]}"
    return None


def suggest(name: str, words: Iterable[str], known: Sequence[str], owners: Sequence[str] = ()) -> str:
    """What to write in place of an option that there is not, if that can be known.

    ``owners``: the commands that have it. Typer would guess from letters, which leads astray: ``--out`` is
    near ``--mounted``.
    """
    typed = next((word for word in words if _is_cut(word, name)), name)
    if f"-{typed}" in known:
        return f"write -{typed}"
    near = difflib.get_close_matches(typed, known, n=2, cutoff=0.8) if typed.startswith("--") else []
    if near:
        return f"did you mean {' or '.join(near)}?"
    if name == "--sha256":  # of one file; the hashes of many stand in their list
        return "write each file's hash into the list: a column sha256, or a list such as SHA256SUMS"
    own = "--help-all lists all options of this command"
    if not owners or name in ("-h", "--help"):
        return own
    more = f" and {len(owners) - MOST_OWNERS} more" if len(owners) > MOST_OWNERS else ""
    return f"leave it out, as only {', '.join(owners[:MOST_OWNERS])}{more} have it; {own}"


def list_owners(command: Any, flag: str, name: str = "cfetch") -> list[str]:  # noqa: ANN401 - Typer's class
    """The commands below ``command`` that have an option ``flag``, as they are called."""
    owners = [name] if any(flag in (*p.opts, *p.secondary_opts) for p in command.params) else []
    for word, each in getattr(command, "commands", {}).items():
        if not each.hidden:
            owners += list_owners(each, flag, f"{name} {word}")
    return owners


def _is_cut(word: str, name: str) -> bool:
    """Whether ``name`` is the first letter of a long word with a single hyphen, as in ``-to``."""
    return len(name) == 2 and word[:2] == name and re.fullmatch("-[a-z]{2,}", word) is not None


def _list_flags(words: Sequence[str], valued: set[str]) -> Iterator[tuple[int, str]]:
    """The flags among the words, with their positions; the value of a flag is none."""
    is_value = False
    for n, word in enumerate(words):
        if word == "--":
            return
        if is_value:
            is_value = False
        elif word.startswith("-") and len(word) > 1:
            is_value = word in valued
            yield n, word
