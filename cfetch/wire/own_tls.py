"""TLS by files of the user: CAs to trust, a certificate that servers ask for, and a log of keys."""

import errno
import os
import ssl
from collections.abc import Mapping
from pathlib import Path

from cfetch.base.config.wire import NetworkOptions
from cfetch.base.errors import ConfigError
from cfetch.base.secret import printable

KEY_LOG = "SSLKEYLOGFILE"  # curl, browsers and Python's own contexts write the keys of sessions there


def make_tls_context(options: NetworkOptions, env: Mapping[str, str]) -> ssl.SSLContext:
    """Make the TLS context for the files that the settings name. Raises ConfigError."""
    if options.client_key is not None and options.client_cert is None:
        raise ConfigError("client_key is set without client_cert; name the certificate too")
    for name in ("ca_file", "client_cert", "client_key"):
        path = getattr(options, name)
        if path is not None:
            _check_readable(name, path)
    if env.get(KEY_LOG):
        _check_key_log(env[KEY_LOG])
    try:
        context = ssl.create_default_context(cafile=options.ca_file)
    except ssl.SSLError:
        raise ConfigError(
            f"ca_file is {printable(options.ca_file or '')}, which holds no PEM certificate"
        ) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if options.client_cert is not None:
        _load_own_certificate(context, options.client_cert, options.client_key)
    return context


def _check_key_log(path: str) -> None:
    """Each library that speaks TLS would fail to load otherwise."""
    try:
        Path(path).open("ab").close()
    except OSError as error:
        raise ConfigError(
            f"environment variable {KEY_LOG} is {printable(path)}, which cannot be written: {error.strerror}"
            "; unset it, or name another file"
        ) from None


def _check_readable(name: str, path: str) -> None:
    try:
        with Path(path).open("rb") as file:
            file.read(1)
    except OSError as error:
        reason = os.strerror(error.errno or errno.EIO)
        raise ConfigError(f"{name} is {printable(path)}, which cannot be read: {reason}") from None


def _load_own_certificate(context: ssl.SSLContext, cert: str, key: str | None) -> None:
    asked = False

    def give_no_password() -> str:
        nonlocal asked
        asked = True
        return ""

    holder = f"client_key is {printable(key)}" if key else f"client_cert is {printable(cert)}"
    try:
        context.load_cert_chain(cert, key, give_no_password)
    except ssl.SSLError as error:
        if asked:
            raise ConfigError(
                f"{holder}, whose key is encrypted; cfetch asks for no password: decrypt it with openssl"
            ) from None
        if error.reason == "KEY_VALUES_MISMATCH":
            raise ConfigError(f"{holder}, which is not the key of client_cert {printable(cert)}") from None
        where = "them" if key else "it"
        both = f"client_cert is {printable(cert)}" + (f", client_key is {printable(key)}" if key else "")
        raise ConfigError(f"{both}: no PEM certificate and key can be read from {where}") from None
