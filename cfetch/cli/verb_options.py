"""The flags of verbs other than ``download``: some of the settings, and values of their own."""

import os
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from cfetch.base.config.kinds import OptionKind, count_or_share
from cfetch.base.config.layers import resolve
from cfetch.base.config.option_table import FORMULA
from cfetch.base.config.settings import KINDS, Settings
from cfetch.base.errors import CfetchError, ConfigError, ManifestError, UsageError
from cfetch.cli.options import (
    PANELS,
    extend,
    make_completer,
    make_config_parameters,
    make_parameter,
    resolve_given,
)
from cfetch.cli.output import print_message

if TYPE_CHECKING:
    from cfetch.run.manifest_reader import ManifestReader

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

MAX_DELETE = count_or_share(0, 1_000_000_000, "")
READING = PANELS["Manifest"]
"""The options that have an effect only where a manifest is read."""

_OF_ONE_PLAN = {"mounted", "wait"}  # followers and syncs have guards of their own
_STILL_VOLUMES = ("to", "state", "write_timeout", "heartbeat_interval", "heartbeat_misses", "wait")
_NOT_FOR_FOLLOW = {
    *_OF_ONE_PLAN,
    *PANELS["Manifest"],
    "metrics",
    "failures",
    "failed_from",
    "dry_run",
    "engine",
    "spark_master",
    "base_url",
    "statement_host",
    "deadline",
    *PANELS["Standard output"],
}
_NOT_FOR_GET = {
    *(name for name in PANELS["Manifest"] if name not in {"name_by", "clash"}),
    *PANELS["Where it runs"],
    *PANELS["Volumes"],
    *PANELS["Guard"],
    *FORMULA,
    "policy",
    "multiplier",
    "base_url",
    "failed_from",
    "statement_host",
    "explain",
    "mounted",
    *PANELS["Standard output"],
}
_NOT_FOR_SYNC = {
    *_OF_ONE_PLAN,
    *PANELS["Standard output"],
    "existing",
    "failed_from",
    "engine",
    "spark_master",
    "statement_host",
}


def with_network(command: Callable[..., None]) -> Callable[..., None]:
    """Append the network flags, and --config, to ``command(…, network)``."""
    names = PANELS["Network"]

    def call(given: dict[str, Any]) -> None:
        settings = resolve_given(given, names).settings
        from cfetch.wire.network import make_network

        command(network=make_network(settings.network, os.environ), **given)

    return extend(command, call, [*map(make_parameter, names), *make_config_parameters()[:2]])


def with_reading(effect: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Append the flags for reading a manifest, and --config, to ``command(…, settings)``.

    ``effect``: what faults of the manifest keep the command from, as it downloads nothing anyway.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def read(**values: Any) -> None:  # noqa: ANN401 - the values of the command's own flags
            try:
                command(**values)
            except ManifestError as error:
                raise error.with_effect(effect) from None

        return _with_settings_of(
            read, (*PANELS["Manifest"], *PANELS["Network"], *PANELS["Logins and headers"])
        )

    return decorate


def make_reader(
    settings: Settings, manifests: Sequence[str], *, base_url: str | None = None, prints_notes: bool = True
) -> "ManifestReader":
    """Make the reader of a command that has the flags of ``with_reading``, and reads only its manifests."""
    from cfetch.run.header_hosts import make_list_network
    from cfetch.run.manifest_reader import ManifestReader
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
    return _with_settings_of(command, (*_STILL_VOLUMES, "placement", "keep_free"), needs_volumes=True)


def with_still_volumes(command: Callable[..., None]) -> Callable[..., None]:
    """Append the flags of volumes on which no run may work, and --config, to ``command(…, settings)``."""
    return _with_settings_of(command, _STILL_VOLUMES)


def with_manifest(command: Callable[..., None]) -> Callable[..., None]:
    """Append the flags of a manifest and its destination, and --config, to ``command(…, settings)``."""
    more = ("statement_host", "dry_run", "json", "quiet")
    panels = (
        *PANELS["Manifest"],
        *PANELS["Where it runs"],
        *PANELS["Network"],
        *PANELS["Logins and headers"],
    )
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


def parse_option(name: str, text: str, kind: OptionKind) -> float:
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
        command(resolved=resolve_given(given, names), **given)

    flags = [make_parameter(name, without_short=without_short) for name in names]
    return extend(command, call, [*flags, *make_config_parameters()[:2]])


def _with_settings_of(
    command: Callable[..., None], names: tuple[str, ...], *, needs_volumes: bool = False
) -> Callable[..., None]:

    def call(given: dict[str, Any]) -> None:
        resolved = resolve_given(given, names)
        if needs_volumes and resolved.origins["to"] == "default":  # which is the working directory
            raise UsageError("name the volumes, each with --to")
        command(settings=resolved.settings, **given)

    return extend(command, call, [*map(make_parameter, names), *make_config_parameters()[:2]])


def complete_instant(ctx: typer.Context, incomplete: str) -> list[str]:
    """The instants of the timeline of ``--to``, or of the working directory; none without a timeline."""
    from cfetch.app.plans import list_plans

    flags: dict[str, str | list[str]] = {"to": [*(ctx.params.get("to") or ["."])]}
    if state := ctx.params.get("state"):
        flags["state"] = state
    with suppress(CfetchError):
        plans = list_plans(resolve(flags=flags, env=os.environ, file=None).settings).plans
        return make_completer([plan.instant for plan in plans])(incomplete)
    return []
