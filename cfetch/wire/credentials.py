"""The user's own headers, token and cookies: read once, and given only to hosts that may have them.

Headers and the token go to the hosts that are named, and never to the target of a redirect on another origin.
A cookie is sent by its own domain, path and ``Secure`` (``cookies.py``), also to the target of a redirect.
"""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from cfetch.base.config.wire import NetworkOptions
from cfetch.base.errors import ConfigError
from cfetch.base.secret import SecretText, SecretUrl, printable
from cfetch.manifest.fields import FieldError, Headers, check_headers

if TYPE_CHECKING:
    from cfetch.wire.cookies import Cookies

ALL_HOSTS = "*"
_VISIBLE = re.compile(r"[!-~]+\Z")


class Credentials(msgspec.Struct, frozen=True, kw_only=True):
    """``headers`` are for ``hosts``, each ``host`` or ``host:port`` as in URLs; ``ALL_HOSTS`` means all."""

    headers: Headers = ()
    hosts: frozenset[str] = frozenset()
    cookies: "Cookies | None" = None

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user about the file of cookies."""
        return () if self.cookies is None else self.cookies.notes

    def add_headers(self, url: SecretUrl, secrets: Mapping[str, str]) -> Mapping[str, str]:
        """Add the headers for the host of ``url`` to ``secrets``, which win if both have a header."""
        if not self.headers or not (ALL_HOSTS in self.hosts or url.host() in self.hosts):
            return secrets
        stated = {name.lower() for name in secrets}
        own = {name: value.reveal() for name, value in self.headers if name.lower() not in stated}
        return {**secrets, **own}


def read_credentials(options: NetworkOptions, env: Mapping[str, str]) -> Credentials:
    """Read the headers, the token and the cookies that the options name.

    Raises:
        ConfigError: a header is not valid, the variable is not set, or the file cannot be read.
    """
    stated = [text.partition(":") for text in options.header]
    headers: Headers = ()
    for name, _, value in stated:
        headers += _check_header(name.strip(), value.strip())
    if options.bearer_env:
        token = (env.get(options.bearer_env) or "").strip()
        shown = printable(options.bearer_env)
        if not token:
            raise ConfigError(
                f"bearer_env is {shown}, and no environment variable of that name has a value; "
                f"set it: export {shown}=TOKEN"
            )
        if not _VISIBLE.match(token):
            raise ConfigError(f"bearer_env is {shown}, whose value is no token: it holds spaces or controls")
        headers += (("Authorization", SecretText(f"Bearer {token}")),)
    names = [name.lower() for name, _ in headers]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"the header {twice} is given twice, by header or by bearer_env; leave one out")
    cookies = None
    if options.cookies:
        from cfetch.wire.cookies import read_cookies  # few runs have a file of cookies

        cookies = read_cookies(options.cookies)
    return Credentials(headers=headers, hosts=frozenset(options.header_host), cookies=cookies)


def _check_header(name: str, value: str) -> Headers:
    try:
        return check_headers({name: value})
    except FieldError as error:
        raise ConfigError(f"header: {error}") from None
