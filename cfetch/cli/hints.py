"""What to write in place of words that a command does not take."""

import re
from contextlib import suppress
from typing import Any

import typer
from typer.core import TyperArgument, TyperOption

from cfetch.base.errors import UsageError
from cfetch.base.registry import list_installed, load
from cfetch.base.secret import printable
from cfetch.cli.foreign_flags import list_owners, suggest

MOST_NAMED = 8  # commands of a group that an error names; more would hide what is wrong


def refuse_words(error: Exception, ctx: Any) -> None:  # noqa: ANN401 - see add_hint
    """Raise an error about words in the form of all others, a line with the next step. Help is no error."""
    if type(error).__name__ == "NoArgsIsHelpError" or not hasattr(error, "format_message"):
        return
    message = error.format_message().rstrip(".").replace(". Did you", "; did you").replace(". ", "; ")
    if not message.startswith("-"):
        message = message[:1].lower() + message[1:]
    if "; " not in message:
        message += f"; {ctx.command_path} -h shows how it is used"
    raise UsageError(printable(message, 1000)) from None


def name_commands(group: Any, ctx: Any) -> str:  # noqa: ANN401 - see add_hint
    """What may stand after a group: its commands; of many, where they are listed."""
    names = group.list_commands(ctx)
    if ctx.parent is None or len(names) > MOST_NAMED:  # the command itself has only the verb that was typed
        return f"{ctx.command_path} -h lists the commands."
    return f"{ctx.command_path} has {', '.join(names)}."


def add_hint(error: Any, params: list[Any], ctx: Any, words: list[str]) -> None:  # noqa: ANN401 - Typer keeps the classes to itself
    """Say with an error about ``words`` what to write in their place, to a command with ``params``."""
    options = [param for param in params if isinstance(param, TyperOption)]
    known = [flag for option in options for flag in (*option.opts, *option.secondary_opts)]
    name, message = getattr(error, "option_name", ""), getattr(error, "message", "")
    owner = next((option for option in options if name in option.opts), None)
    if hasattr(error, "possibilities"):  # of NoSuchOption, whose module is Typer's own
        error.possibilities = []
        place = _find_place(params, ctx, name)
        owners = [] if place else list_owners(_make_all_commands(), name)
        hint = f"write the {place} without it" if place else suggest(name, words, known, owners)
        error.message += f"; {hint}" if hint else ""
    elif "requires an argument" in message and owner is not None:
        error.message = f"{name} needs a value: {name} {owner.make_metavar(ctx)}"
    elif "unexpected extra argument" in message and "--to" in known:
        error.message += "; to say where the files go, write --to DIR"


def _find_place(params: list[Any], ctx: Any, flag: str) -> str | None:  # noqa: ANN401 - see add_hint
    """The argument that has the name of ``flag``."""
    arguments = [param for param in params if isinstance(param, TyperArgument)]
    words = {re.sub("[^A-Z]", "", each.make_metavar(ctx)) for each in arguments}
    word = flag.lstrip("-").upper().removesuffix("S")
    return word if word in words else None


def _make_all_commands() -> Any:  # noqa: ANN401 - see add_hint
    """All verbs, where a run has only its own; half a second, which only a wrong option costs."""
    every = typer.Typer()
    for name in list_installed("verbs"):
        with suppress(UsageError):  # a plug-in that does not load owns no option
            verb = load("verbs", name)
            if isinstance(verb, typer.Typer):
                every.add_typer(verb, name=name)
            else:
                every.command(name)(verb)
    return typer.main.get_command(every)
