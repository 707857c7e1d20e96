"""Reads a trace of system calls and says where a power cut could have made the run a liar: pure.

The rule of DESIGN, on disk: last write of a part < flush of it < its final name < flush of that name < the
record that vouches for it. Traces are those of ``strace -f -y -s 200000``.
"""

import re
from collections.abc import Iterable
from typing import NamedTuple

__all__ = ["violations"]

_LINE = re.compile(r"(\d+) +(.*)")
_CALL = re.compile(r"(\w+)\((.*)", re.DOTALL)
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
_RENAME = re.compile(r'\d+<([^>]*)>, "([^"]*)", \d+<([^>]*)>, "([^"]*)"')
_OPENED = re.compile(r'\w+<([^>]*)>, "([^"]*)", \S*O_CREAT')
_HELD = re.compile(r"\d+<([^>]*)>")
_DONE = re.compile(r'\\"path\\":\\"([^"\\]*)\\".*?\\"status\\":\\"(\w+)\\"')


class Call(NamedTuple):
    """One call that succeeded: between which lines, its name and the text of its arguments."""

    begun: int
    ended: int
    name: str
    text: str


def violations(lines: Iterable[str], root: str) -> list[str]:
    """What is out of order for the destination ``root``; empty if nothing is."""
    written: dict[str, int] = {}  # by path of a part: the line where its last change ended
    named: dict[str, int] = {}  # by final path, relative: the line where its rename ended
    flushes: list[tuple[int, int, str]] = []  # begun, ended, path or "" for all
    wrong: list[str] = []

    def flushed(path: str, after: int, before: int) -> bool:
        return any(begun > after and ended < before and of in ("", path) for begun, ended, of in flushes)

    for call in sorted(_calls(lines), key=lambda one: one.ended):
        held = _HELD.match(call.text)
        path = held[1] if held else ""
        if call.name in ("fsync", "fdatasync", "syncfs", "sync"):
            flushes.append((call.begun, call.ended, path if call.name.startswith("f") else ""))
        elif call.name == "openat" and (match := _OPENED.match(call.text)):
            written[f"{match[1]}/{match[2]}"] = call.ended
        elif call.name in ("write", "pwrite64", "ftruncate") and path.startswith(f"{root}/.cfetch/attempts/"):
            written[path] = call.ended
        elif call.name.startswith("rename") and (match := _RENAME.match(call.text)):
            final = f"{match[3]}/{match[4]}"
            part = f"{match[1]}/{match[2]}"
            if "/.cfetch/" in final:
                written[final] = written.pop(part, call.ended)
                continue
            if not flushed(part, written.get(part, call.ended), call.begun):
                wrong.append(f"{final} got its name before its bytes were flushed")
            named[final.removeprefix(f"{root}/")] = call.ended
        elif call.name == "write":
            told = [name for name, status in _DONE.findall(call.text) if status == "done"]
            if '\\"schema\\":\\"cfetch.summary/' in call.text:
                told += named
            for name in told:
                parent = f"{root}/{name}".rpartition("/")[0]
                if name not in named:
                    wrong.append(f"{name} is vouched for and has no name")
                elif not flushed(parent, named[name], call.begun):
                    wrong.append(f"{name} was vouched for before its name was flushed")
    return wrong


def _calls(lines: Iterable[str]) -> Iterable[Call]:
    """Calls that returned and did not fail; one of a thread may lie around others' lines."""
    open_calls: dict[str, tuple[int, str, str]] = {}
    for number, line in enumerate(lines):
        match = _LINE.match(line)
        if match is None:
            continue
        thread, rest = match.groups()
        if resumed := _RESUMED.match(rest):
            begun, name, text = open_calls.pop(thread, (number, resumed[1], ""))
            text += resumed[2]
        elif (called := _CALL.match(rest)) is None:
            continue
        elif rest.endswith("<unfinished ...>"):
            open_calls[thread] = number, called[1], called[2].removesuffix("<unfinished ...>")
            continue
        else:
            begun, name, text = number, *called.groups()
        if not text.rpartition(") = ")[2].startswith("-1 "):
            yield Call(begun, number, name, text)
