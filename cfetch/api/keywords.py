"""The usual keywords of ``download`` and ``get``, as settings; all others stand in ``Settings``."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, TypeAlias

from cfetch.base.config.settings import Settings, cap_concurrency
from cfetch.base.errors import ConfigError

DestinationPaths: TypeAlias = str | os.PathLike[str] | Iterable[str | os.PathLike[str]]
"""A directory or a prefix of an object store; several of them share the files."""


class Usual(NamedTuple):
    """The usual keywords; None: as ``settings`` has it."""

    to: DestinationPaths | None = None
    headers: Mapping[str, str] | None = None
    concurrency: int | None = None
    per_host: int | None = None
    limit_rate: int | str | None = None
    retries: int | None = None
    timeout: float | str | None = None
    proxy: str | None = None
    existing: str | None = None
    max_failures: float | str | None = None

    def lay_over(self, settings: Settings | None) -> Settings:
        """The settings with the keywords that are given. Raises ConfigError."""
        settings = settings or Settings()
        if settings.dry_run:
            raise ConfigError(
                "dry_run is for the command line; from Python, see the entries by read_manifest"
            )
        given: dict[str, Any] = {
            "to": self.to,
            "header": self.headers or None,
            "concurrency": self.concurrency,
            "max_concurrency": settings.max_concurrency,
            "per_host": self.per_host,
            "limit_rate": self.limit_rate,
            "max_attempts": None if self.retries is None else _count_attempts(self.retries),
            "stall_timeout": self.timeout,
            "proxy": self.proxy,
            "existing": self.existing,
            "max_failures": self.max_failures,
        }
        cap_concurrency(given)
        given = {name: value for name, value in given.items() if value is not None}
        return replace(settings, **given) if given else settings


def _count_attempts(retries: object) -> int:
    if not isinstance(retries, int) or isinstance(retries, bool) or not 0 <= retries < 100:
        raise ConfigError(f"retries is {retries!r} but must be a whole number from 0 to 99")
    return retries + 1
