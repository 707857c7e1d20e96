"""Decides which hosts get the user's own headers and token: hosts that the user names, or the only host.

The list of a Hugging Face repository may need the token itself, so its hub is named before the list is read.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.base.schemes import find_doi, is_repository_url, is_web
from cfetch.base.secret import SecretUrl, printable
from cfetch.wire.network import Network, make_network

if TYPE_CHECKING:
    from cfetch.manifest.entries import Frozen

_NAMED = 3  # hosts that an error quotes


def aim_headers(settings: Settings, hosts: Collection[str], *, more: int = 0) -> Settings:
    """Name the files' only host, if headers are given and no host for them.

    Args:
        settings: the settings of a run.
        hosts: the hosts of its files, without hosts of mirrors.
        more: how many further hosts there are.

    Raises:
        ConfigError: there are several hosts, and a login for one of them must not be sent to the others.
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


def note_unmet_hosts(settings: Settings, hosts: Collection[str]) -> Sequence[str]:
    """Return a note if the user names hosts for a login, and none of them has a file.

    That is no error: a redirect may lead to such a host.
    """
    named = settings.header_host if settings.header or settings.bearer_env else None
    if not named:
        return ()
    from cfetch.wire.credentials import ALL_HOSTS  # many runs need no login

    if ALL_HOSTS in named or any(host in hosts for host in named):
        return ()
    shown, there = (", ".join(map(printable, list(some)[:_NAMED])) for some in (named, hosts))
    note = (
        f"no file is at {shown}, so only a redirect to it gets the login; the files are at {there} "
        "(--header-host names a port with the host unless it is the usual one)"
    )
    return (note,)


def aim_repository_token(settings: Settings, sources: Collection[str], env: Mapping[str, str]) -> Settings:
    """Name the hub of ``hf://`` sources as the host for the login: the given login, else the HF_TOKEN.

    If hosts are named, only they get a login. Raises UsageError: the endpoint is wrong.
    """
    if settings.header_host or not any(map(is_repository_url, sources)):
        return settings
    from cfetch.manifest.repository_hub import find_endpoint  # few runs have files of repositories

    hub = (SecretUrl(find_endpoint()).host(),)
    if settings.header or settings.bearer_env:
        return replace(settings, header_host=hub) if all(map(is_repository_url, sources)) else settings
    return replace(settings, bearer_env="HF_TOKEN", header_host=hub) if env.get("HF_TOKEN") else settings


def make_list_network(settings: Settings, lists: Collection[str], env: Mapping[str, str]) -> Network:
    """The network for commands that ask for nothing but ``lists``: their only host gets the login.

    Raises UsageError: they are on several hosts, and none is named.
    """
    settings = aim_repository_token(settings, lists, env)
    hosts = dict.fromkeys(SecretUrl(name).host() for name in lists if is_web(name) and find_doi(name) is None)
    return make_network(aim_headers(settings, hosts).network, env)


def make_file_network(settings: Settings, plan: "Frozen", env: Mapping[str, str]) -> Network:
    """The network for the files of ``plan``: their only host gets the login. Raises ConfigError."""
    return make_network(aim_headers(settings, plan.host_files, more=plan.more_hosts).network, env)
