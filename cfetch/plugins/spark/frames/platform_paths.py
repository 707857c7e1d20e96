"""Destinations as platforms write them: other names for directories and object stores."""

import re
from collections.abc import Mapping
from typing import NamedTuple

from cfetch.base.errors import ConfigError
from cfetch.base.schemes import ABFS, AZ, DBFS, FILE, HDFS, S3, S3A
from cfetch.base.secret import printable

_ACCOUNT = "AZURE_STORAGE_ACCOUNT_NAME"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/.*)", re.DOTALL)
_CONTAINER = re.compile(r"//(?P<container>[^/@]+)@(?P<account>[a-z0-9]+)\.[^/]+(?P<path>/.*)?\Z")


class Destination(NamedTuple):
    """``to`` as cfetch takes it; ``env``: what the name says of the login."""

    to: str
    env: dict[str, str]


def read_destination(to: str, env: Mapping[str, str]) -> Destination:
    """Translate ``s3a://``, ``abfss://``, ``dbfs:/`` and ``file:/``; leave all others as they are.

    Raises ConfigError: the name cannot be followed; the message says what can.
    """
    match = _SCHEME.match(to)
    if match is None:
        return Destination(to, {})
    scheme, rest = match[1].lower(), match[2]
    if scheme in S3A:
        return Destination(f"{S3}:{rest}", {})
    if scheme in ABFS:
        return _read_azure(to, rest, env)
    if scheme == HDFS:
        raise ConfigError(
            f"{printable(to.partition('?')[0])} is in HDFS, which cfetch cannot write; name an object store, "
            "or a directory where HDFS is mounted on all executors"
        )
    path = "/" + rest.lstrip("/")
    if scheme == DBFS:
        return Destination(f"/dbfs{path}", {})  # where Databricks mounts it on driver and executors
    return Destination(path, {}) if scheme == FILE else Destination(to, {})


def _read_azure(to: str, rest: str, env: Mapping[str, str]) -> Destination:
    match = _CONTAINER.match(rest)
    if match is None:
        raise ConfigError(f"{printable(to)} must be as abfss://container@account.dfs.core.windows.net/path")
    account = match["account"]
    if env.get(_ACCOUNT, account) != account:
        raise ConfigError(
            f"{printable(to)} names the account {account}, and {_ACCOUNT} another one; let them be the same"
        )
    return Destination(f"{AZ}://{match['container']}{match['path'] or ''}", {_ACCOUNT: account})
