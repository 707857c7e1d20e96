"""The manual page ``man/cfetch.1``, made from the parameters of the commands, as ``--help`` is.

``python -m cfetch.cli.manual`` prints it. A test compares the file with what the program has.
"""

import re
import sys
from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperOption

from cfetch.cli.app import EXIT_CODES, add_verbs, app
from cfetch.cli.short_help import examples_of, option_name

_HEAD = """\
.TH CFETCH 1 "" cfetch "User Commands"
.SH NAME
cfetch \\- download a very large set of files whole, verified and without stragglers
.SH SYNOPSIS
.B cfetch
.I COMMAND
.RI [ OPTIONS ]
.RI [ ARGUMENTS ]
.SH DESCRIPTION
Every option of
.B cfetch download
can also be set in a YAML file
.RB ( \\-\\-config )
or as an environment variable CFETCH_NAME; a flag counts more than a variable, and a variable more than the
file. An option that several commands share is described once, under the first of them."""


def manual_lines() -> Iterator[str]:
    """The manual page in the language of man(7)."""
    add_verbs()
    yield _HEAD
    seen: set[str] = set()
    yield ".SH COMMANDS"
    for name, command in _walk(typer.main.get_command(app), ""):
        yield from _describe_command(name, command, seen)
    yield ".SH EXIT STATUS"
    for code, text in re.findall(r"^ +(\d+)  (.*)$", EXIT_CODES, re.MULTILINE):
        yield from (".TP", f".B {code}", _escape(text))
    yield from (".SH FILES", ".TP", ".I DIR/.cfetch", "Below each destination: plans, parts and metrics.")


def _walk(group: Any, prefix: str) -> Iterator[tuple[str, Any]]:  # noqa: ANN401 - Typer keeps the class to itself
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _walk(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def _describe_command(name: str, command: Any, seen: set[str]) -> Iterator[str]:  # noqa: ANN401 - see _walk
    """A command's purpose, its options except those that were described before, and its examples."""
    context = command.context_class(command, info_name=f"cfetch {name}")
    usage = " ".join(command.collect_usage_pieces(context))
    yield f".SS {_escape(f'cfetch {name} {usage}')}"
    text = (command.help or "").partition("Examples:")[0]
    for number, paragraph in enumerate(text.strip().split("\n\n")):
        yield from ([".PP"] if number else [])
        yield _escape(" ".join(paragraph.split()))
    shared = []
    for param in command.params:
        if not isinstance(param, TyperOption):
            continue
        described = f"{option_name(param, context)} {param.help}"
        if described in seen:
            shared.append(max(param.opts, key=len))
            continue
        seen.add(described)
        yield from (".TP", f".B {_escape(option_name(param, context))}", _escape(param.help or ""))
    if shared:
        # troff fills lines; one name a line keeps changes of two options from meeting in one line when merged
        *earlier, last = map(_escape, shared)
        yield from (".PP", "Also, as above:", *(f"{name}," for name in earlier), f"{last}.")
    if examples := examples_of(command.help or ""):
        yield from (".PP", ".nf", *(f"    {_escape(example)}" for example in examples), ".fi")


def _escape(text: str) -> str:
    """``text`` on one line in which troff reads nothing as a command of its own."""
    escaped = " ".join(text.split()).replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


if __name__ == "__main__":
    sys.stdout.writelines(f"{line}\n" for line in manual_lines())
