"""Command-line flags made from the settings table, so that a flag cannot drift from its config key.

``with_settings`` gives a Typer command one parameter per setting. The wrapper overlays the user's flags on
file and environment, and calls the command with the resolved settings.
"""

import difflib
import functools
import inspect
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cfetch.base.config.kinds import Kind, count_or_share
from cfetch.base.config.layers import Resolved, resolve, show
from cfetch.base.config.option_table import FORMULA
from cfetch.base.config.settings import KINDS, Settings
from cfetch.base.errors import CfetchError, ConfigError
from cfetch.base.secret import printable
from cfetch.cli.foreign import ACCEPTED
from cfetch.cli.output import print_message

if TYPE_CHECKING:
    from cfetch.run.open_manifest import ManifestReader

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
HtmlOption = Annotated[
    Path | None,
    typer.Option(
        "--html",
        help="Write one HTML file with charts, which needs no network.",
        metavar="FILE",
        show_default=False,
    ),
]
ManifestsArgument = Annotated[
    list[str],
    typer.Argument(
        help="A path, a directory of manifests, an http(s) URL, or - for standard input; or several.",
        metavar="MANIFEST...",
        show_default=False,
    ),
]

_PANELS = {
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
        "url_column",
        "path_column",
        "size_column",
        "hash_column",
        "keep_columns",
        "name_by",
        "bad_rows",
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
    "Volumes": ("placement", "batch_share", "write_timeout", "placement_deadline"),
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
        "accept_html",
        "retry_budget",
        "deadline",
        "stall_timeout",
        "connect_timeout",
    ),
    "Network": (
        "proxy",
        "proxy_from_env",
        "netrc",
        "ca_file",
        "client_cert",
        "client_key",
        "public_only",
    ),
    "Who asks": ("header", "header_host", "bearer_env", "cookies", "user_agent"),
    "Guard": ("heartbeat_interval", "heartbeat_misses", "wait"),
    "Fresh links": ("refresh_command", "statement_host"),
    "Output": ("dry_run", "verbose", "explain", "json", "quiet", "log_format", "color"),
    "Watching": ("serve", "serve_token_env", "metrics_textfile"),
}
# As curl, wget and aria2 have them; -o is where the result goes.
_SHORT = {"to": "-o", "concurrency": "-j", "header": "-H", "quiet": "-q", "verbose": "-v", "dry_run": "-n"}
# Only one policy or a rare set-up reads them: no help shows them, the manual page and docs/settings.md do.
RARE = {
    *FORMULA,
    "heartbeat_interval",
    "heartbeat_misses",
    "placement",
    "placement_deadline",
    "batch_share",
    "group",
    "mounted",
    "spark_master",
    "statement_host",
    "metrics_tables",
    "keep_metrics",
    "serve_token_env",
    "metrics_textfile",
    "header_host",
}
MAX_DELETE = count_or_share(0, 1_000_000_000, "")
READING = _PANELS["Manifest"]
"""The options that have an effect only where a manifest is read."""

_DEFAULTS = Settings()
_PANEL_OF = {name: panel for panel, names in _PANELS.items() for name in names}
_OF_ONE_PLAN = {"mounted", "wait"}  # followers and syncs have guards of their own
_NOT_FOR_FOLLOW = {
    *_OF_ONE_PLAN,
    *_PANELS["Manifest"],
    "metrics",
    "failures",
    "failed_from",
    "dry_run",
    "engine",
    "spark_master",
    "base_url",
    "statement_host",
    "deadline",
}
_NOT_FOR_GET = {
    *(name for name in _PANELS["Manifest"] if name != "name_by"),
    *_PANELS["Where it runs"],
    *_PANELS["Volumes"],
    *_PANELS["Guard"],
    *FORMULA,
    "policy",
    "multiplier",
    "base_url",
    "failed_from",
    "statement_host",
    "explain",
    "mounted",
}
_NOT_FOR_SYNC = {*_OF_ONE_PLAN, "existing", "failed_from", "engine", "spark_master", "statement_host"}
_ONE_WAY = {
    "json",
    "quiet",
    "dry_run",
    "verbose",
    "explain",
    "allow_empty",
    "accept_html",
    "mounted",
    "group",
    "wait",
}  # switches that nobody turns off on a command line


def with_settings(command: Callable[..., None]) -> Callable[..., None]:
    """Append flags for all settings, and --config, to ``command(…, resolved)``; answer --show-config here."""

    def call(given: dict[str, Any]) -> None:
        show_config: bool = given.pop("show_config")
        del given["accepted"]
        resolved = _resolve_given(given, KINDS)
        if show_config:
            typer.echo(_config_document(resolved) if resolved.settings.json else show(resolved))
        else:
            command(resolved=resolved, **given)

    return _extend(command, call, [*map(_parameter, KINDS), *_config_parameters(), _accepted_parameter()])


def with_network(command: Callable[..., None]) -> Callable[..., None]:
    """Append the network flags, and --config, to ``command(…, network)``."""
    names = _PANELS["Network"]

    def call(given: dict[str, Any]) -> None:
        settings = _resolve_given(given, names).settings
        from cfetch.wire.network import make_network

        command(network=make_network(settings.network, os.environ), **given)

    return _extend(command, call, [*map(_parameter, names), *_config_parameters()[:2]])


def with_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Append the flags for reading a manifest, and --config, to ``command(…, settings)``."""
    return _with_settings_of(command, (*_PANELS["Manifest"], *_PANELS["Network"], *_PANELS["Who asks"]))


def make_reader(
    settings: Settings, manifests: Sequence[str], *, base_url: str | None = None, prints_notes: bool = True
) -> "ManifestReader":
    """Make the reader of a command that has the flags of ``with_reading``, and reads only its manifests."""
    from cfetch.run.header_hosts import make_list_network
    from cfetch.run.open_manifest import ManifestReader
    from cfetch.show.live.open import reading_lines

    network = make_list_network(settings, manifests, os.environ)
    progress = reading_lines(manifests[0].partition("?")[0])
    reader = ManifestReader(settings.reading, base_url, settings.allow_empty, network, progress)
    return reader._replace(emit_line=print_message) if prints_notes else reader


def with_timeline(command: Callable[..., None]) -> Callable[..., None]:
    """Append the flags of a timeline's place and heartbeats, and --config, to ``command(…, settings)``."""
    return _with_settings_of(command, ("to", "state", "heartbeat_interval", "heartbeat_misses"))


def with_volumes(command: Callable[..., None]) -> Callable[..., None]:
    """Append the flags of volumes and their state, and --config, to ``command(…, settings)``."""
    return _with_settings_of(command, ("to", "state", "write_timeout"))


def with_moves(command: Callable[..., None]) -> Callable[..., None]:
    """Append the flags for moving batches between volumes, and --config, to ``command(…, settings)``."""
    names = ("to", "state", "write_timeout", "placement", "heartbeat_interval", "heartbeat_misses", "wait")
    return _with_settings_of(command, names)


def with_manifest(command: Callable[..., None]) -> Callable[..., None]:
    """Append the flags of a manifest and its destination, and --config, to ``command(…, settings)``."""
    more = ("statement_host", "dry_run", "json", "quiet")
    panels = (*_PANELS["Manifest"], *_PANELS["Where it runs"], *_PANELS["Network"], *_PANELS["Who asks"])
    return _with_settings_of(command, ("to", "base_url", "state", *panels, *more))


def with_follow(command: Callable[..., None]) -> Callable[..., None]:
    """Append the flags for downloading a feed's files, and --config, to ``command(…, resolved)``."""
    return _with_resolved(command, _NOT_FOR_FOLLOW)


def with_get(command: Callable[..., None]) -> Callable[..., None]:
    """Append the flags for downloading a few files, and --config, to ``command(…, resolved)``."""
    return _with_resolved(command, _NOT_FOR_GET, without_short=("to",))  # -o is the file, as for curl


def with_sync(command: Callable[..., None]) -> Callable[..., None]:
    """Append the flags for keeping directories like a list, and --config, to ``command(…, resolved)``."""
    return _with_resolved(command, _NOT_FOR_SYNC)


def parse_option(name: str, text: str, kind: Kind) -> float:
    """Parse the number, such as a duration, of an option that is not in the settings. Raises ConfigError."""
    try:
        number: float = kind.parse(text)
    except ValueError as error:
        raise ConfigError(f"{name} is {text!r} but {error}") from None
    return number


def _with_resolved(
    command: Callable[..., None], but: Collection[str], *, without_short: Collection[str] = ()
) -> Callable[..., None]:
    """Append the flags for all settings but some."""
    names = tuple(name for name in KINDS if name not in but)

    def call(given: dict[str, Any]) -> None:
        del given["accepted"]
        command(resolved=_resolve_given(given, names), **given)

    flags = [_parameter(name, without_short=without_short) for name in names]
    return _extend(command, call, [*flags, *_config_parameters()[:2], _accepted_parameter()])


def _with_settings_of(command: Callable[..., None], names: tuple[str, ...]) -> Callable[..., None]:

    def call(given: dict[str, Any]) -> None:
        command(settings=_resolve_given(given, names).settings, **given)

    return _extend(command, call, [*map(_parameter, names), *_config_parameters()[:2]])


def _extend(
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


def _resolve_given(given: dict[str, Any], names: Iterable[str]) -> Resolved:
    """Take flags and --config out of ``given``, and lay them over file and environment."""
    config: Path | None = given.pop("config")
    flags = {name: _as_text(value) for name in names if (value := given.pop(name)) is not None}
    flags = {**_read_pairs(given.pop("pairs"), names), **flags}
    file = config or (Path(os.environ["CFETCH_CONFIG"]) if os.environ.get("CFETCH_CONFIG") else None)
    return resolve(flags=flags, env=os.environ, file=file)


def _read_pairs(pairs: list[str] | None, names: Iterable[str]) -> dict[str, str]:
    """The values of ``--set KEY=VALUE``, by key. Raises ConfigError."""
    values = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        name = key.strip().removeprefix("--").replace("-", "_")
        if not equals:
            raise ConfigError(f"--set is {printable(pair)!r} but must be KEY=VALUE")
        if name not in names:
            near = difflib.get_close_matches(name, names, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; docs/settings.md lists all"
            raise ConfigError(f"--set: there is no setting {printable(key)!r} here{hint}")
        values[name] = value.strip()
    return values


def _config_document(resolved: Resolved) -> bytes:
    """``--show-config --json``: every value and its origin (``cfetch.config/1``), secrets redacted."""
    import msgspec

    values = resolved.settings.public()
    settings = {name: {"value": values[name], "origin": resolved.origins[name]} for name in KINDS}
    return msgspec.json.encode({"schema": "cfetch.config/1", "settings": settings})


def _completer(words: Collection[str]) -> Callable[[str], list[str]]:
    """A function that the shell's completion calls with the beginning of a word."""

    def complete(incomplete: str) -> list[str]:
        return [word for word in words if word.startswith(incomplete)]

    return complete


def complete_instant(ctx: typer.Context, incomplete: str) -> list[str]:
    """The instants of the timeline of ``--to``, or of the working directory; none without a timeline."""
    from cfetch.app.plans import list_plans

    flags: dict[str, str | list[str]] = {"to": [*(ctx.params.get("to") or ["."])]}
    if state := ctx.params.get("state"):
        flags["state"] = state
    with suppress(CfetchError):
        plans = list_plans(resolve(flags=flags, env=os.environ, file=None).settings).plans
        return _completer([plan.instant for plan in plans])(incomplete)
    return []


def _as_text(value: object) -> str | list[str]:
    if isinstance(value, list):
        return value
    return str(value).lower() if isinstance(value, bool) else str(value)


def _parameter(name: str, *, without_short: Collection[str] = ()) -> inspect.Parameter:
    kind = KINDS[name]
    word = "--" + name.replace("_", "-")
    default = getattr(_DEFAULTS, name)
    shown = "" if default is None or kind.is_flag else f" (default: {kind.show(default)})"
    declaration = word if not kind.is_flag or name in _ONE_WAY else f"{word}/--no-{word[2:]}"
    short = _SHORT.get(name) if name not in without_short else None
    option = typer.Option(
        *((declaration,) if short is None else (declaration, short)),
        autocompletion=_completer(kind.choices) if kind.choices else None,
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


def _accepted_parameter() -> inspect.Parameter:
    """The flags of other programs for what cfetch does anyway."""
    option = typer.Option(*ACCEPTED, help="Accepted and not needed: files in place are kept.", hidden=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter("accepted", kind, default=False, annotation=Annotated[bool, option])


def _config_parameters() -> list[inspect.Parameter]:
    config = typer.Option(
        "--config",
        help="YAML file with any of these options (or CFETCH_CONFIG).",
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
