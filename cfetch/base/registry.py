"""Finds plug-ins by their names: a table for what ships, entry points for other distributions.

A plug-in is an optional part: nothing in the core imports it. The table says where it is, as
``module:object`` or ``module``, so that to know its name costs no import; it is imported when it is used.
A distribution of somebody else adds one by an entry point of the group ``cfetch.<kind>``, with the same form.
A name of cfetch's own cannot be taken by another distribution.

    verbs        a function or a group of typer: ``cfetch NAME``
    engines      a ``cfetch.app.engine_plan.EnginePlugin``: --engine NAME
    listeners    a function without arguments that gives a listener of a run's events, or None: --listener
                 NAME; those that ship with cfetch are asked by each run
    formats      a ``cfetch.manifest.formats.table.Format`` (cfetch's own have their table there)
    feeds        a ``cfetch.plugins.follow.backends.feed_kind.FeedKind``: ``cfetch follow NAME+URL``
    sources      a ``cfetch.base.schemes.Scheme`` (cfetch's own have their table there)
    policies     a function that makes a ``cfetch.straggler.policy.Policy``: --policy NAME
    frames       the public functions of ``cfetch.spark``
    parts        what one option asks for

Adding one touches its own file, its test and one row here.
"""

import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cfetch.base.errors import UsageError
from cfetch.base.schemes import HTTP, HTTPS, SCHEMES, Scheme, scheme_of
from cfetch.base.secret import printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

_PLUGINS = "cfetch.plugins."

SHIPPED: Mapping[str, Mapping[str, str]] = {
    "verbs": {
        "download": "cfetch.cli.download:download",
        "get": "cfetch.cli.get:get",
        "sync": "cfetch.cli.sync:sync",
        "follow": "cfetch.plugins.follow.verb_follow:follow",
        "bench": "cfetch.plugins.lab.verb_bench:bench",
        "report": "cfetch.cli.report:report",
        "tune": "cfetch.plugins.lab.verb_tune:tune",
        "verify": "cfetch.cli.verify:verify",
        "manifest": "cfetch.cli.manifest:app",
        "plan": "cfetch.cli.plan:app",
        "volume": "cfetch.cli.volume:app",
        "doctor": "cfetch.cli.doctor:doctor",
        "feed": "cfetch.plugins.follow.verb_feed:app",
        "metrics": "cfetch.plugins.spark.verb_metrics:app",
        "spark": "cfetch.plugins.spark.verb_spark:app",
    },
    "engines": {"spark": "cfetch.plugins.spark.engine:SparkPlugin"},
    "listeners": {"telemetry": "cfetch.plugins.monitors.telemetry:telemetry_listener"},
    "feeds": {
        HTTP: f"{_PLUGINS}follow.backends.http:FEED",
        HTTPS: f"{_PLUGINS}follow.backends.http:FEED",
        "segments": f"{_PLUGINS}follow.server.segments.source:FEED",
        "pypi": f"{_PLUGINS}follow.backends.package_index:FEED",
        "couchdb": f"{_PLUGINS}follow.backends.couchdb:FEED",
        "osm": f"{_PLUGINS}follow.backends.osm:FEED",
        "cosmos": f"{_PLUGINS}follow.backends.cosmos:FEED",
        "delta": f"{_PLUGINS}follow.backends.delta:FEED",
        "iceberg": f"{_PLUGINS}follow.backends.iceberg:FEED",
        "sqs": f"{_PLUGINS}follow.backends.bucket_events:FEED",
        "dynamodb": f"{_PLUGINS}follow.backends.dynamodb:FEED",
        "kinesis": f"{_PLUGINS}follow.backends.kinesis:FEED",
    },
    "formats": {},  # the core's own are rows of manifest/formats/table.py
    "sources": {},  # the core's own are rows of base/schemes.py
    "policies": {},  # the core's own are chosen in straggler/policy.py
    "frames": {
        "download": "cfetch.plugins.spark:download",
        "find_manifests": "cfetch.plugins.spark.prepare.manifests:find_manifests",
        "prepare": "cfetch.plugins.spark.prepare.manifests:prepare",
        "register": "cfetch.plugins.spark:register",
        "spark_session": "cfetch.plugins.spark.session:spark_session",
        "tables": "cfetch.plugins.spark.tables.tables",
    },
    "parts": {
        "metrics-tables": "cfetch.plugins.spark.tables.load:load_here",
        "metrics-tables-place": "cfetch.plugins.spark.tables.store:refuse_foreign_directory",
        "page": "cfetch.plugins.monitors.serving:open_serving",
        "page-descriptors": "cfetch.plugins.monitors.page_server:PAGE_DESCRIPTORS",
        "telemetry": "cfetch.plugins.monitors.telemetry:send_telemetry",
    },
}
"""Kind -> name -> ``module:object``. The order of verbs is that of ``cfetch --help``."""

NEEDED_LIBRARIES: Mapping[str, str] = {"telemetry": "opentelemetry.sdk"}
"""A listener that ships -> the library whose use by this process it serves; without it, it is not loaded."""


def list_names(kind: str) -> list[str]:
    """The names of a kind: cfetch's own in their order, then those of other distributions, sorted."""
    return [*SHIPPED[kind], *list_foreign_names(kind)]


def list_installed(kind: str) -> list[str]:
    """The names of a kind without those that this installation has no plug-ins for."""
    shipped = SHIPPED[kind]
    here = [name for name in shipped if not shipped[name].startswith(_PLUGINS) or has_plugins()]
    return [*here, *list_foreign_names(kind)]


def list_foreign_names(kind: str) -> tuple[str, ...]:
    """The names of a kind that other distributions have, sorted; without those that are cfetch's own."""
    from cfetch.base.entry_points import list_points  # the other names can be loaded without it

    return tuple(sorted({point.name for point in list_points(kind)} - {*SHIPPED[kind]}))


def find(kind: str, name: str) -> "EntryPoint | None":
    """The entry point of another distribution's plug-in; None: it is cfetch's own, or there is none."""
    if name in SHIPPED[kind]:
        return None
    from cfetch.base.entry_points import find_point  # as above

    return find_point(kind, name)


def load(kind: str, name: str) -> Any:  # noqa: ANN401 - the kind says what it is
    """The object of this kind and name, imported now.

    Raises:
        UsageError: there is none, its distribution is broken, or this installation lacks it.
    """
    place = SHIPPED[kind].get(name)
    if place is None:
        point = find(kind, name)
        if point is None:
            raise UsageError(f"no plug-in of the kind {kind} is called {printable(name)}")
        from cfetch.base.entry_points import load_point  # as above

        return load_point(kind, point)
    return import_object(place)


def import_part(kind: str, name: str, place: str, *, extra: str = "") -> Any:  # noqa: ANN401 - as above
    """The object at ``place``, which a plug-in of the name states. Raises UsageError: it does not load."""
    if find(kind, name) is None:
        return import_object(place)
    try:
        return import_object(place)
    except Exception as error:
        from cfetch.base.entry_points import make_plugin_error  # as above

        raise make_plugin_error(kind, name, error, extra=extra) from error


def import_object(place: str) -> Any:  # noqa: ANN401 - as the place says
    """The object at ``module:object``, imported now. Raises UsageError: the plug-in is not installed."""
    module, _, member = place.partition(":")
    try:
        home = import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{error.name}.".startswith(_PLUGINS):
            raise
        raise UsageError(f"this installation of cfetch lacks {module}: install cfetch as a whole") from None
    return getattr(home, member) if member else home


def list_foreign(kind: str) -> Iterator[tuple[str, Any]]:
    """The names and objects of other distributions. Raises UsageError: one is broken."""
    from cfetch.base.entry_points import list_points, load_point  # as above

    return ((point.name, load_point(kind, point)) for point in list_points(kind))


@cache
def find_source(name: str) -> Scheme | None:
    """The row of the scheme called ``name``, in lower case; None: neither cfetch nor a plug-in has it.

    Raises UsageError: the plug-in that has it is broken.
    """
    if name in SCHEMES or not name:
        return SCHEMES.get(name)
    if find("sources", name) is None:
        return None
    row = load("sources", name)
    if not isinstance(row, Scheme):
        from cfetch.base.entry_points import make_plugin_error  # as above

        raise make_plugin_error("sources", name, TypeError("its object is no cfetch.base.schemes.Scheme"))
    return row._replace(name=name)


def find_file_source(url: str) -> Scheme | None:
    """The row of a URL's scheme, if files of it can be had by cfetch. Raises UsageError."""
    row = find_source(scheme_of(url))
    return None if row is None or not row.opener else row


def load_opener(row: Scheme) -> Any:  # noqa: ANN401 - a function of the wire's types
    """The opener of a scheme, imported now. Raises UsageError: its library is not installed, or it fails."""
    if row.name not in SCHEMES:
        return import_part("sources", row.name, row.opener, extra=row.extra)
    try:
        return import_object(row.opener)
    except ModuleNotFoundError as error:
        if not row.extra:
            raise
        raise UsageError(
            f"{row.name}:// needs the library {error.name}, which is not installed: pip install "
            f"'cfetch[{row.extra}]'"
        ) from None


def load_shipped(kind: str) -> Iterator[Any]:
    """The objects of all names of a kind that ship with cfetch, if this installation has plug-ins.

    A name for which ``NEEDED_LIBRARIES`` has a library that this process has not imported is left out.
    """
    for name in SHIPPED[kind]:
        if NEEDED_LIBRARIES.get(name, "sys") in sys.modules and has_plugins():
            yield load(kind, name)


@cache
def has_plugins() -> bool:
    """Whether this installation has the plug-ins that ship with cfetch."""
    try:
        import_module("cfetch.plugins")
    except ModuleNotFoundError:
        return False
    return True
