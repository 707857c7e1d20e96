"""Flags of curl, wget, aria2, rclone and rsync: those that are accepted, and what to write for the others.

Typer would guess from letters, which leads astray: ``--out`` is near ``--mounted`` and means ``-o``.
"""

import difflib
import re
from collections.abc import Iterable, Sequence

ACCEPTED = ("--continue", "-c", "--resume", "--no-clobber", "--skip-existing", "--ignore-existing")
"""They ask for what cfetch does anyway."""

_ALWAYS = "leave it out: cfetch always does that"
_WORDS = (  # the flags of others, and what cfetch has in their place
    ("-O --out --output --output-dir --output-document --directory-prefix --dir -d -P", "-o, or --to DIR"),
    ("-i --input-file --files-from --from-file", "give the list itself: cfetch download LIST"),
    (
        "-x --split --max-connection-per-server --multi-thread-streams",
        "--segments N: connections for one file",
    ),
    ("--transfers --parallel -Z --parallel-max --max-concurrent-downloads --jobs --threads -J", "-j N"),
    ("--connections --max-connections", "-j N for all files, --segments N for one file"),
    ("--retries --retry --tries --max-tries -t", "--max-attempts N: tries per file"),
    (
        "--retry-delay --retry-wait --waitretry --retry-max-time",
        "--retry-budget DURATION: time for a file's tries",
    ),
    ("--timeout -T --read-timeout --speed-time", "--stall-timeout DURATION without a byte"),
    ("--max-time -m --stop", "--deadline DURATION for the whole run"),
    ("--bwlimit --rate-limit --max-download-limit --max-overall-download-limit", "--limit-rate RATE"),
    ("--speed-limit --lowest-speed-limit", "--min-rate RATE"),
    (
        "-k --insecure --no-check-certificate",
        "--ca-file FILE trusts a CA of your own; certificates are verified",
    ),
    ("--cacert --ca-certificate", "--ca-file FILE"),
    ("--cert -E --certificate", "--client-cert FILE"),
    ("--key --private-key", "--client-key FILE"),
    ("-u --user --http-user --password --http-password", "--netrc, or a token by --bearer-env NAME"),
    ("-A --agent", "--user-agent TEXT"),
    ("-e --referer", "-H 'Referer: URL'"),
    ("-b --cookie --load-cookies --cookie-jar", "--cookies FILE"),
    ("--all-proxy --http-proxy --https-proxy", "--proxy URL"),
    ("-r --recursive -m --mirror", "cfetch sync SOURCE --to DIR"),
    ("-N --timestamping -u --update --conditional-get", "--existing check"),
    (
        "--overwrite --force -f --allow-overwrite --clobber",
        "--existing refetch; a failure is always an error",
    ),
    ("--checksum --check-integrity", "cfetch verify LIST --to DIR, or hashes in the list"),
    ("--filter --accept --accept-regex", "--include GLOB"),
    ("--reject --reject-regex", "--exclude GLOB"),
    ("-s --silent --no-verbose -nv", "-q"),
    ("--log --log-file -a", "2> FILE: the log goes to stderr"),
    ("--debug --trace", "-v"),
    ("-L --location --remote-name -C --continue-at --create-dirs --compressed", _ALWAYS),
    ("--progress --progress-bar -#", "leave it out: a terminal shows a picture, a pipe gets lines"),
    ("--background -b --daemon", "nohup cfetch … &"),
)
_REMEDIES: dict[str, str] = {}
for _flags, _words in _WORDS:
    for _flag in _flags.split():
        _REMEDIES.setdefault(_flag, _words)


def accept(words: Sequence[str]) -> list[str]:
    """The command line with wget's ``-nc`` as one flag; letter by letter it would be ``-n -c``."""
    end = words.index("--") if "--" in words else len(words)
    return [*("--no-clobber" if word == "-nc" else word for word in words[:end]), *words[end:]]


def explain_unknown(name: str, words: Iterable[str], own: Sequence[str]) -> str:
    """What to write in place of an option that there is not; ``words`` are the command line's."""
    typed = next((word for word in words if _is_cut(word, name)), name)
    if f"-{typed}" in own:
        return f"write -{typed}"
    if remedy := _REMEDIES.get(typed) or _REMEDIES.get(name):
        return f"use {remedy}" if remedy[0] == "-" else remedy
    if re.fullmatch("--[a-z-]+", typed):
        near = difflib.get_close_matches(typed, own, n=2, cutoff=0.8)
        return f"did you mean {' or '.join(near)}?" if near else ""
    return ""


def _is_cut(word: str, name: str) -> bool:
    """Whether ``name`` is the first letter of a long word with a single hyphen, as in ``-to``."""
    return len(name) == 2 and word[:2] == name and re.fullmatch("-[a-z]{2,}", word) is not None
