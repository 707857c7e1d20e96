"""The proxies that the options name, or the environment if they say so."""

from collections.abc import Mapping
from importlib.util import find_spec

from cfetch.base.config.kinds import read_proxy
from cfetch.base.config.wire import NetworkOptions
from cfetch.base.errors import ConfigError, UsageError
from cfetch.base.schemes import HTTP, WEB
from cfetch.base.secret import SecretUrl
from cfetch.manifest.digests import missing_library


def find_proxies(options: NetworkOptions, env: Mapping[str, str]) -> tuple[dict[str, SecretUrl], str, bool]:
    """The proxies by scheme, the hosts without proxy, and whether a proxy speaks SOCKS.

    With both settings, NO_PROXY of the environment names hosts that are asked without the stated proxy.

    Raises:
        UsageError: a variable is no proxy's URL, or the library for SOCKS is not installed.
    """
    if options.proxy:
        proxies = dict.fromkeys(WEB, SecretUrl(options.proxy))
        no_proxy = _read_exceptions(env) if options.proxy_from_env else ""
    else:
        proxies, no_proxy = _read_variables(env)
    is_socks = any(proxy.reveal().lower().startswith("socks") for proxy in proxies.values())
    if is_socks and find_spec("aiohttp_socks") is None:
        raise UsageError(missing_library("a SOCKS proxy", "aiohttp-socks", "socks"))
    return proxies, no_proxy, is_socks


def _read_variables(env: Mapping[str, str]) -> tuple[dict[str, SecretUrl], str]:
    """Read the environment. A lower-case variable wins, as with curl, also one that is empty: none."""
    proxies: dict[str, SecretUrl] = {}
    for scheme in WEB:
        # In a CGI program HTTP_PROXY is a header of the request (CVE-2016-5385).
        upper = () if scheme == HTTP and "REQUEST_METHOD" in env else (f"{scheme}_proxy".upper(),)
        names = (f"{scheme}_proxy", *upper, "all_proxy", "ALL_PROXY")
        name = next((name for name in names if name in env), None)
        if name is None or not env[name]:
            continue
        text = env[name] if "://" in env[name] else f"{HTTP}://{env[name]}"
        try:
            proxies[scheme] = SecretUrl(read_proxy(text))
        except ValueError as error:
            raise ConfigError(f"environment variable {name}, which proxy_from_env reads: {error}") from None
    return proxies, _read_exceptions(env)


def _read_exceptions(env: Mapping[str, str]) -> str:
    return env.get("no_proxy", env.get("NO_PROXY", ""))
