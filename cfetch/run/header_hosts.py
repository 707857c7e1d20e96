"""Who gets the user's own headers and token: hosts that the user names, else the only host of the files."""

from collections.abc import Collection
from dataclasses import replace

from cfetch.config.settings import Settings
from cfetch.errors import ConfigError
from cfetch.secret import printable

_NAMED = 3  # hosts that an error quotes


def aim_headers(settings: Settings, hosts: Collection[str], *, more: int = 0) -> Settings:
    """Name the files' only host where headers are given, and no host for them.

    Args:
        settings: a run's.
        hosts: those of its files; a mirror's is none of them.
        more: how many further hosts there are.

    Raises:
        ConfigError: there are several, and a login for one of them is nothing that the others may see.
    """
    option = "header" if settings.header else "bearer_env" if settings.bearer_env else None
    if option is None or settings.header_host or not hosts:
        return settings
    if len(hosts) + more > 1:
        names = ", ".join(printable(host) for host in list(hosts)[:_NAMED])
        raise ConfigError(
            f"{option} is given, and the files are on {len(hosts) + more:,} hosts ({names}"
            f"{', …' if len(hosts) + more > _NAMED else ''}); say which of them may have it: --header-host "
            "HOST, once for each, or '*' for all. Nothing was downloaded"
        )
    return replace(settings, header_host=tuple(hosts))
