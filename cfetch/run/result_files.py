"""Decides where a run writes its metrics and the manifest of failed entries, and where it must not."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError, UsageError
from cfetch.run.volumes import Volumes
from cfetch.show.metrics import PACKED
from cfetch.storage.files import STATE_NAME, local_fault, make_private

if TYPE_CHECKING:
    from cfetch.manifest.entries import Frozen


def check_metrics_library(settings: Settings) -> None:
    """Raise UsageError if metrics are to be compressed, or put into tables, and the library is not there."""
    if settings.metrics and settings.metrics.endswith(PACKED):
        from cfetch.manifest.decompression import import_zstd  # most are neither

        import_zstd()
    if settings.metrics_tables and find_spec("pyarrow") is None:
        raise UsageError("--metrics-tables needs pyarrow; install it: pip install 'cfetch[parquet]'")


def find_metrics_path(settings: Settings, state: Path, instant: str, epoch: int) -> Path:
    """Return the path of this execution's metrics, and make the directory for it.

    Raises:
        ConfigError: something else is there.
        LocalFault: the directory cannot be made.
    """
    again = f".{epoch}" if epoch > 1 else ""
    path = state / "metrics" / f"{instant}{again}.jsonl"
    if settings.metrics:
        path = Path(settings.metrics).absolute()
    try:
        if settings.metrics:
            path.parent.mkdir(parents=True, exist_ok=True)
        else:
            make_private(path.parent, state=state)
        if path.is_fifo():  # opening it would wait for a reader, perhaps for ever
            raise ConfigError(f"metrics is {path}, a named pipe; name a file")
        if path.is_file() and not _may_replace(path):
            raise ConfigError(f"metrics is {path}, which holds something else; name another file")
    except OSError as error:
        raise local_fault(error, f"cannot write metrics to {path}") from None
    return path


def _may_replace(path: Path) -> bool:
    from cfetch.show.metrics_reading import is_metrics  # most runs write a file of their own

    return is_metrics(path)


def refuse_wanted_place(option: str, path: Path, volumes: Volumes, plan: "Frozen") -> None:
    """Raise ConfigError if the manifest wants a file where ``option`` would write one."""
    target = volumes.find_wanted_name(path)
    if target is None or target.partition("/")[0] == STATE_NAME:
        return
    if plan.find(target) is not None:
        raise ConfigError(f"{option} is {path}, where the manifest wants a file; name another file")
