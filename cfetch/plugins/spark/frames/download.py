"""``cfetch.spark.download``: a data frame with a column of URLs -> the same frame with the results.

The frame stays lazy: its evaluation downloads (``pieces.py``).
"""

import os
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import msgspec
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructField, StructType
from pyspark.sql.utils import is_remote

from cfetch.base.config.reading import ASKING
from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, UsageError
from cfetch.manifest.reading import check_base_url
from cfetch.plugins.spark.frames.frame import make_run_spec, name_frame_directory, sweep_frames
from cfetch.plugins.spark.frames.frame_hub import FrameHub, LinkAddress, open_frame_hub
from cfetch.plugins.spark.frames.options import (
    CONTENT_LIMIT,
    NOT_HERE,
    Options,
    make_options,
    parse_content_limit,
)
from cfetch.plugins.spark.frames.pieces import (
    SCRATCH,
    PieceWork,
    list_results,
    make_task,
    open_row_directory,
    refuse_taken_names,
    refuse_unfit_columns,
)
from cfetch.plugins.spark.frames.platform_paths import read_destination
from cfetch.plugins.spark.frames.renewing import LinkSource, Renew
from cfetch.plugins.spark.frames.spread import Spread, choose_spread, spread_rows
from cfetch.plugins.spark.frames.task_log import make_accumulator
from cfetch.plugins.spark.job import find_context, sends_encrypted
from cfetch.plugins.spark.preflight import check_task_python
from cfetch.plugins.spark.session import refuse_older_spark, spark_session

if TYPE_CHECKING:
    from pyspark.resource import ResourceProfile


def download(
    df: DataFrame,
    url: str = "url",
    *,
    to: str | os.PathLike[str] | None = None,
    path: str | None = None,
    size: str | None = None,
    sha256: str | None = None,
    headers: str | None = None,
    content: bool = False,
    content_limit: str = CONTENT_LIMIT,
    settings: Settings | None = None,
    tasks: int | None = None,
    renew: Renew | str | os.PathLike[str] | None = None,
    prefix: str = "",
    profile: "ResourceProfile | None" = None,
) -> DataFrame:
    """Add the results of a download to a data frame with a column of URLs.

    The result has all columns and rows of ``df``, and after them ``status`` (``done``, ``skipped``: it was in
    place, ``failed``), ``path`` (below ``to``), ``bytes``, ``hash`` (by which the file was verified),
    ``error``, ``attempts``, ``executor``, ``error_kind``, ``http_status`` and ``content_type``. A file that
    fails is a row. Nothing is downloaded before an action evaluates the result.

    A row is fetched once, however often the result is used: each task leaves a receipt of its rows in
    ``to/.cfetch/frames``, takes a lock before it begins, and finds the files in place. With an object store
    the objects themselves answer, and their rows are ``skipped`` then. What is not guaranteed: if ``df``
    gives other rows when it is evaluated again, these are other files; and a failed row may be asked for
    again if its partition has other rows then, or at an object store. A new call tries failed rows again.
    With ``content`` and without ``to`` each evaluation fetches anew: use ``.persist()``.

    Args:
        df: Its rows are spread over the slots of the cluster; see ``tasks``.
        url: The column of URLs.
        to: A directory that the driver and all executors see under the same name; or the URL of an object
            store (``s3://bucket/prefix``, ``gs://``, ``az://``), to which the driver's login goes along.
            ``s3a://``, ``abfss://``, ``dbfs:/`` and ``file:/`` are read as platforms mean them.
        path: The column of paths below ``to``; they must differ. Default: hashes of the URLs.
        size: The column of sizes in bytes.
        sha256: The column of hashes; of other algorithms as ``md5:…``.
        headers: The column of headers of each request, a map.
        content: Add the column ``content`` with the bytes of each file. Without ``to``, no file is kept.
        content_limit: Larger files have no content; without ``to`` they fail.
        settings: As for ``cfetch.download``. ``concurrency`` is each task's; ``per_host`` and the rates are
            the whole query's, in equal parts for all tasks that may run at a time.
        tasks: How many tasks there are. Default: two for each slot, unless the last step of ``df`` is
            ``repartition(n)`` or ``coalesce(n)``. 0: the partitions of ``df``, whatever they are.
        renew: What renews links that expire: a function that gets a link and the file's path and returns a
            link, or a mapping with ``url`` and, if wanted, ``expires_at`` (seconds since 1970) and
            ``headers``; or a manifest, by its path or URL, whose publisher signs anew, with the paths of the
            rows. ``settings.refresh_command`` names a command instead. The driver runs it, once for
            each link, and must live as long as the query; with Spark Connect, or where Spark encrypts what it
            sends, the tasks run it.
        prefix: Goes before the names of the result's columns, for frames that have such names.
        profile: The resources of the stage that downloads, from Spark 4.0 on. A download waits more than it
            works: ``ResourceProfileBuilder().require(TaskResourceRequests().cpus(0.25)).build`` lets four
            tasks share a core where Spark has such parts, from 4.3 on, and ``spark.task.cpus`` is 1.

    Raises:
        UsageError: an argument is none; a column is not there, or a result has its name; a setting means
            nothing here.
        LocalFault: ``to`` cannot be written.
    """
    _check_arguments(locals())
    with spark_session(None, df.sparkSession) as spark:
        check_task_python(spark)
        columns = _choose_columns(df, url, path=path, size=size, sha256=sha256, headers=headers)
        schema = _make_schema(df, columns, prefix, content=content)
        options = _choose_options(to, settings, content=content, content_limit=content_limit)
        spread = choose_spread(df, tasks, options.settings, profile)
        hub = open_frame_hub(spark)
        work = _prepare(options, columns, spread, is_scratch=to is None)
        if hub is not None:
            work = work._replace(spec=msgspec.structs.replace(work.spec, hub=hub.address))
        names = df.columns
        work = work._replace(
            links=_choose_links(spark, renew, options, hub),
            totals=make_accumulator(find_context(spark), spread.tasks),
            prefix=prefix,
            names=tuple(names),
        )
        # By places, as PySpark looks columns up by name: it takes a dot or a backtick for its syntax there.
        places = [f"c{place}" for place in range(len(names))]
        chosen = {key: places[names.index(name)] for key, name in columns.items()}
        rows = spread_rows(df.toDF(*places), spread, chosen, options.settings)
        if profile is None:
            return rows.mapInArrow(make_task(work), schema)
        refuse_older_spark((4, 0), "profile")
        return rows.mapInArrow(make_task(work), schema, profile=profile)


_NAME = ((str, NoneType), "the name of a column")
_TAKES: dict[str, tuple[tuple[Any, ...], str]] = {
    **dict.fromkeys(("path", "size", "sha256", "headers"), _NAME),
    "url": ((str,), _NAME[1]),
    "to": ((str, os.PathLike, NoneType), "a directory, or the URL of an object store"),
    "content_limit": ((str,), 'a size like "1MiB"'),
    "settings": ((Settings, NoneType), "settings like cfetch.Settings(max_attempts=3)"),
    "tasks": ((int, NoneType), "a whole number"),
    "renew": ((Callable, str, os.PathLike, NoneType), "a function, or the path or URL of a manifest"),
    "prefix": ((str,), 'a text like "file_"'),
}


def _check_arguments(given: Mapping[str, object]) -> None:
    """Raise UsageError for an argument of another type than ``download`` takes."""
    df = given["df"]
    if not hasattr(df, "mapInArrow"):  # with Spark Connect before 4.0 it is another class
        kind = f"{type(df).__module__}.{type(df).__qualname__}".removeprefix("builtins.")
        raise UsageError(f"df is {kind}, and must be a data frame of Spark: spark.createDataFrame makes one")
    for name, (kinds, what) in _TAKES.items():
        if not isinstance(given[name], kinds):
            raise UsageError(f"{name} is of type {type(given[name]).__name__}, and must be {what}")


def _choose_columns(df: DataFrame, url: str, **others: str | None) -> dict[str, str]:
    columns = {"url": url} | {key: name for key, name in others.items() if name is not None}
    fields = [(field.name, field.dataType.simpleString()) for field in df.schema]
    refuse_unfit_columns(columns, fields, 'download(df, {0}="…")')
    name, times = Counter(df.columns).most_common(1)[0]
    if times > 1:  # Spark takes no such rows from Python
        raise UsageError(f"the frame has {times} columns {name!r}; drop or rename the others before")
    return columns


def _make_schema(df: DataFrame, columns: Mapping[str, str], prefix: str, *, content: bool) -> StructType:
    """The frame's own columns, then the results; ``path`` stays in its place if it is the column of paths."""
    fields, added = list(df.schema.fields), list_results(content=content)
    if columns.get("path") == "path" and not prefix:
        fields[df.columns.index("path")] = StructField("path", StringType())
        del added["path"]
    added = {prefix + name: word for name, word in added.items()}
    refuse_taken_names([field.name for field in fields], added, ", or give a prefix for the results")
    types = {"string": StringType, "bigint": LongType, "int": IntegerType, "binary": BinaryType}
    return StructType([*fields, *(StructField(name, types[word]()) for name, word in added.items())])


def _choose_options(
    to: str | os.PathLike[str] | None, settings: Settings | None, *, content: bool, content_limit: str
) -> Options:
    if to is None and not content:
        raise ConfigError(
            "to is missing: a directory that all executors see, or an object store, or content=True for the "
            "bytes"
        )
    chosen, standard = settings or Settings(), Settings()
    for name in sorted(NOT_HERE - {"bad_rows"}):
        if getattr(chosen, name) != getattr(standard, name):
            raise ConfigError(f"setting {name} means nothing to a data frame; leave it out")
    for name in ("hash_column", "path_column", "size_column", "to", "url_column"):
        if getattr(chosen, name) != getattr(standard, name):  # a hash that nobody compares is worse than none
            raise ConfigError(f"setting {name} means nothing here; download has an argument for it")
    if chosen.name_by in ("row", *ASKING):
        raise ConfigError(f"name_by {chosen.name_by} is not for a data frame; state a column of paths")
    if chosen.base_url is not None:
        check_base_url(chosen.base_url)
    given, named = read_destination(SCRATCH if to is None else os.fspath(to), os.environ)
    place = given.rstrip("/") or "/"
    limit = parse_content_limit(content_limit, "")
    options = make_options(
        replace(chosen, to=(place,)), content_bytes=limit if content else None, takes_store=True, word=""
    )
    options = options._replace(env=options.env | named)
    if options.is_store and content:
        raise ConfigError(
            "content=True is not for an object store; leave `to` out, or read the objects afterwards: "
            "spark.read.format('binaryFile')"
        )
    if options.is_store and chosen.state:
        raise ConfigError(
            "setting state means nothing here, as an object store keeps no receipts; leave it out"
        )
    return options


def _choose_links(
    spark: SparkSession,
    renew: Renew | str | os.PathLike[str] | None,
    options: Options,
    hub: FrameHub | None,
) -> LinkAddress | LinkSource | None:
    """The driver's hub, or the source itself for tasks that cannot ask the driver. Raises ConfigError."""
    command = options.settings.refresh_command
    if renew is not None and command:
        raise ConfigError("renew and setting refresh_command both renew links; give one of them")
    if renew is None and not command:
        return None
    function = renew if callable(renew) else None
    manifest = None if renew is None or callable(renew) else os.fspath(renew)
    source = LinkSource(function, command or None, manifest, options.settings, options.env)
    return source if hub is None or sends_encrypted(spark) else hub.add(source)


def _prepare(options: Options, columns: dict[str, str], spread: Spread, *, is_scratch: bool) -> PieceWork:
    """Make the directory of this frame, unless tasks have to do it."""
    has_receipts = not is_scratch and not options.is_store
    makes = is_remote() and has_receipts  # the server's machines may have other disks than this one
    work = _make_work(options, columns, spread, is_scratch=is_scratch, makes=makes)
    if has_receipts and not makes:
        open_row_directory(options, work.spec)
        sweep_frames(Path(work.spec.receipts).parents[1], options.root)
    return work


def _make_work(
    options: Options, columns: dict[str, str], spread: Spread, *, is_scratch: bool, makes: bool
) -> PieceWork:
    identity = uuid.uuid4().hex  # a new call tries failed rows again
    is_kept = not options.is_store
    directory = name_frame_directory(options, identity) if is_kept else Path(SCRATCH, identity)
    spec = make_run_spec(options, directory, "a data frame", slots=spread.at_a_time)
    return PieceWork(options, spec, columns, is_scratch, makes, spread.sharers)
