"""Command-line flags made from the settings table, so that a flag cannot drift from its config key.

``with_settings`` gives a Typer command one parameter per setting. The wrapper overlays the user's flags on
file and environment, and calls the command with the resolved settings.
"""

import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from cfetch.base.config.layers import Resolved, find_user_file, resolve
from cfetch.base.config.option_table import FORMULA
from cfetch.base.config.settings import KINDS, Settings

PANELS = {
    "Where": (
        "to",
        "base_url",
        "state",
        "mounted",
        "group",
        "metrics",
        "metrics_tables",
        "keep_metrics",
        "failures",
        "failed_from",
        "existing",
        "mtime",
        "durability",
    ),
    "Manifest": (
        "from_format",
        "query",
        "url_column",
        "url_template",
        "path_column",
        "size_column",
        "hash_column",
        "keep_columns",
        "name_by",
        "bad_rows",
        "clash",
        "include",
        "exclude",
        "allow_empty",
    ),
    "Where it runs": ("engine", "spark_master", "processes"),
    "How fast": (
        "preset",
        "concurrency",
        "max_concurrency",
        "per_host",
        "rate",
        "limit_rate",
        "limit_rate_per_host",
    ),
    "Volumes": ("placement", "batch_share", "keep_free", "write_timeout", "placement_deadline"),
    "Stragglers": (
        "mitigation",
        "policy",
        "multiplier",
        "quantile",
        "percentile",
        "padding",
        "max_stragglers",
        "sequential_fallback",
        "check_interval",
        "min_rate",
        "segments",
    ),
    "Errors": (
        "max_attempts",
        "max_failures",
        "max_file_size",
        "max_head_size",
        "doubtful",
        "accept_html",
        "accept_unframed",
        "encoded",
        "retry_budget",
        "deadline",
        "stall_timeout",
        "first_byte_timeout",
        "connect_timeout",
    ),
    "Network": (
        "proxy",
        "proxy_from_env",
        "netrc",
        "netrc_redirects",
        "http_redirects",
        "transport",
        "ca_file",
        "client_cert",
        "client_key",
        "resolve",
        "public_only",
    ),
    "Logins and headers": ("header", "header_host", "bearer_env", "cookies", "user_agent"),
    "Guard": ("heartbeat_interval", "heartbeat_misses", "wait"),
    "Fresh links": ("refresh_command", "statement_host"),
    "Standard output": ("ordered", "joined", "unpacked", "memory"),
    "Output": ("dry_run", "verbose", "explain", "json", "quiet", "progress", "log_format", "color"),
    "Watching": ("listener", "serve", "serve_token_env", "metrics_textfile"),
}
# As curl, wget and aria2 have them; -o is where the result goes.
_SHORT = {"to": "-o", "concurrency": "-j", "header": "-H", "quiet": "-q", "verbose": "-v", "dry_run": "-n"}
# Only one policy or a rare set-up reads them: no help shows them, the manual page and docs/settings.md do.
RARE = {
    *FORMULA, "heartbeat_interval", "heartbeat_misses", "placement", "placement_deadline", "batch_share",
    "group", "mounted", "spark_master", "statement_host", "metrics_tables", "keep_metrics",
    "serve_token_env", "metrics_textfile", "header_host", "log_format",
}  # fmt: skip

_DEFAULTS = Settings()
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}
_ONE_WAY = {
    "json",
    "quiet",
    "dry_run",
    "verbose",
    "explain",
    "allow_empty",
    "accept_html",
    "accept_unframed",
    "netrc_redirects",
    "http_redirects",
    "mounted",
    "group",
    "wait",
    "ordered",
    "joined",
    "unpacked",
}  # switches that nobody turns off on a command line


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Append flags for all settings, and --config, to ``command(…, resolved)``; answer --show-config here."""

    def call(given: dict[str, Any]) -> None:
        show_config: bool = given.pop("show_config")
        resolved = resolve_given(given, KINDS)
        if show_config:
            from cfetch.base.config.shown import show  # a run shows no options

            typer.echo(_config_document(resolved) if resolved.settings.json else show(resolved))
        else:
            command(resolved=resolved, **given)

    return extend(command, call, [*map(make_parameter, KINDS), *make_config_parameters()])


def extend(
    command: Callable[..., None], call: Callable[[dict[str, Any]], None], more: list[inspect.Parameter]
) -> Callable[..., None]:
    """Give Typer ``command`` with the flags ``more``; ``call`` makes the command's parameters of them."""
    made = ("resolved", "network", "settings")
    own = [p for p in inspect.signature(command).parameters.values() if p.name not in made]

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:  # noqa: ANN401 - whatever Typer parsed
        call(given)

    parameters = [*own, *more]
    wrapper.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return wrapper


def resolve_given(given: dict[str, Any], names: Iterable[str]) -> Resolved:
    """Take flags and --config out of ``given``, and lay them over file and environment."""
    config: Path | None = given.pop("config")
    flags = {name: _as_text(value) for name in names if (value := given.pop(name)) is not None}
    if pairs := given.pop("pairs"):
        from cfetch.cli.pairs import read_pairs  # few commands have --set

        flags = {**read_pairs(pairs, names), **flags}
    file = config or (Path(os.environ["CFETCH_CONFIG"]) if os.environ.get("CFETCH_CONFIG") else None)
    return resolve(flags=flags, env=os.environ, file=file, user_file=find_user_file(os.environ))


def _config_document(resolved: Resolved) -> bytes:
    """``--show-config --json``: every value and its origin (``cfetch.config/1``), secrets redacted."""
    import msgspec

    values = resolved.settings.public()
    settings = {name: {"value": values[name], "origin": resolved.origins[name]} for name in KINDS}
    return msgspec.json.encode({"schema": "cfetch.config/1", "settings": settings})


def make_completer(words: Collection[str]) -> Callable[[str], list[str]]:
    """A function that the shell's completion calls with the beginning of a word."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def _as_text(value: object) -> str | list[str]:
    if isinstance(value, list):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def make_parameter(name: str, *, without_short: Collection[str] = ()) -> inspect.Parameter:
    """The flag of a setting, as a parameter of the command."""
    kind = KINDS[name]
    word = "--" + name.replace("_", "-")
    default = getattr(_DEFAULTS, name)
    shown = "" if default is None or kind.is_flag else f" (default: {kind.show(default)})"
    declaration = word if not kind.is_flag or name in _ONE_WAY else f"{word}/--no-{word[2:]}"
    short = _SHORT.get(name) if name not in without_short else None
    option = typer.Option(
        *((declaration,) if short is None else (declaration, short)),
        autocompletion=make_completer(kind.choices) if kind.choices else None,
        help=f"{kind.help}{shown}",
        metavar=None if kind.is_flag else kind.metavar,
        rich_help_panel=_PANEL_OF[name],
        show_default=False,
        hidden=name in RARE,
    )
    value_type: Any = bool if kind.is_flag else list[str] if kind.is_list else str
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[value_type | None, option]
    )


def make_config_parameters() -> list[inspect.Parameter]:
    """The flags --config, --set and --show-config, as parameters of the command."""
    config = typer.Option(
        "--config",
        help="YAML file with any of these options (or CFETCH_CONFIG), over ~/.config/cfetch/config.yaml.",
        metavar="FILE",
        rich_help_panel="Configuration",
        show_default=False,
    )
    pairs = typer.Option(
        "--set",
        help="Any setting, as in --set padding=3s; docs/settings.md lists all. Repeat it for more.",
        metavar="KEY=VALUE",
        rich_help_panel="Configuration",
        show_default=False,
    )
    show_config = typer.Option(
        "--show-config",
        help="Print every value and where it came from, then exit.",
        rich_help_panel="Configuration",
    )
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter("config", kind, default=None, annotation=Annotated[Path | None, config]),
        inspect.Parameter("pairs", kind, default=None, annotation=Annotated[list[str] | None, pairs]),
        inspect.Parameter("show_config", kind, default=False, annotation=Annotated[bool, show_config]),
    ]
