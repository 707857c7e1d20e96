"""Two kinds of help for every command: ``--help`` has what most people need, ``--help-all`` everything.

The short help (``short_help.py``) is made from the same parameters as the long one and as the manual
(``manual.py``), so that none of them can drift.
"""

from typing import Any

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

OF_DOWNLOADS = ("download", "get", "sync")  # the verbs for which people know other programs
_HELP_ALL = "--help-all"


class _Helps:
    """What commands and groups share: the option ``--help-all``, and the short help."""

    _all: TyperOption | None = None

    def get_params(self, ctx: Any) -> list[Any]:  # noqa: ANN401 - Typer keeps the class to itself
        """Add ``--help-all`` after ``--help``."""
        if self._all is None:
            self._all = TyperOption(
                param_decls=[_HELP_ALL],
                is_flag=True,
                is_eager=True,
                expose_value=False,
                callback=self._print_all,
                help="Show the options in full, more of them, and exit.",
            )
        return [*super().get_params(ctx), self._all]  # type: ignore[misc]

    def _print_all(self, ctx: Any, _param: object, is_asked: bool) -> None:  # noqa: ANN401 - see get_params
        if is_asked:
            ctx.meta[_HELP_ALL] = True
            typer.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:  # noqa: ANN401 - see get_params
        """Parse the words; of an option that there is not, say what to write in its place.

        The verbs that download accept flags of other programs that change nothing, and name the own flag for
        the others. Raises UsageError.
        """
        options = [param for param in self.get_params(ctx) if isinstance(param, TyperOption)]
        known = [flag for option in options for flag in (*option.opts, *option.secondary_opts)]
        words = args
        if ctx.info_name in OF_DOWNLOADS and any(
            word.startswith("-") and word.partition("=")[0] not in known for word in args
        ):
            from cfetch.cli.foreign_flags import in_own_words  # most commands have only own flags

            words = in_own_words(args, known, [f for o in options if not o.is_flag for f in o.opts])
        try:
            return super().parse_args(ctx, list(words))  # type: ignore[misc, no-any-return]
        except Exception as error:
            from cfetch.cli.hints import add_hint, refuse_words  # most words are right

            add_hint(error, self.get_params(ctx), ctx, words)
            refuse_words(error, ctx)
            raise

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - see get_params
        """Write the long help if it is asked for, else the short one."""
        from cfetch.cli.short_help import join_switches, list_short_help  # only who asks for help needs it

        if ctx.meta.get(_HELP_ALL):
            join_switches(self.get_params(ctx))
            super().format_help(ctx, formatter)  # type: ignore[misc]
        else:
            # printed, as Typer does: an error shows no other help
            typer.echo("\n".join(list_short_help(self, ctx, _HELP_ALL)))


class Command(_Helps, TyperCommand):
    """A verb."""

    def collect_usage_pieces(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]
        """Write ``[OPTIONS] MANIFEST`` as manuals do; Typer alone writes ``{MANIFEST}``."""
        arguments = [param for param in self.get_params(ctx) if isinstance(param, TyperArgument)]
        return ["[OPTIONS]", *(argument.make_metavar(ctx) for argument in arguments)]


class HelpGroup(_Helps, TyperGroup):
    """A group of verbs, such as ``cfetch plan``, or all of them."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:  # noqa: ANN401 - see get_params
        """Find the verb; of one that there is not, say what was meant, or where the verbs are listed."""
        try:
            return super().resolve_command(ctx, args)
        except Exception as error:
            from cfetch.cli.hints import name_commands, refuse_words  # most words are right

            message = getattr(error, "message", "")
            if message.startswith("No such command") and "Did you mean" not in message:
                error.message += f" {name_commands(self, ctx)}"  # type: ignore[attr-defined]
            refuse_words(error, ctx)
            raise
