"""What earlier commands have written: the records of metrics files, and settings as YAML."""

import os
from collections.abc import Iterator
from pathlib import Path

from cfetch.base.config.layers import resolve
from cfetch.base.config.settings import Settings
from cfetch.base.records import FileRecord
from cfetch.show import metrics_reading


def read_metrics(path: str | os.PathLike[str]) -> Iterator[FileRecord]:
    """The records of all files in a metrics file, or in the metrics below a destination; oldest run first.

    A file has one record for each run that brought it to an end: done, skipped, failed or cancelled.

    Raises:
        UsageError: a file cannot be read, or is no metrics file.
    """
    for run in metrics_reading.read_metrics(metrics_reading.expand_metrics([Path(path)])):
        yield from run.files


def read_settings(path: str | os.PathLike[str]) -> Settings:
    """The settings of a YAML file, as ``--config`` reads it and ``cfetch tune`` writes it.

    Raises:
        ConfigError: a key is unknown, or a value is out of its range.
    """
    return resolve(flags={}, env={}, file=Path(path)).settings
