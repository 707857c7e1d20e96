"""Logins that the vendors' own tools keep: profiles of AWS, ``gcloud`` and ``az login``.

obstore reads logins from variables of the environment, and asks the machine for its role. All else that AWS,
Google and Microsoft have (profiles, SSO, assumed roles, ``credential_process``, accounts that act for others)
is read by their own libraries, which the extra ``logins`` installs.

A role is asked for only where the machine's metadata service answers at all: elsewhere obstore would wait for
a minute, and then say only that the store cannot be reached.
"""

import http.client
import json
import os
import re
import threading
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime, timedelta
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from cfetch.base.errors import UsageError
from cfetch.base.schemes import AZ, GS, HTTP, HTTPS, S3, scheme_of
from cfetch.base.secret import printable
from cfetch.manifest.digests import missing_library

PROBE_S = 1.0  # to connect, and then for the answer: the service is on the machine or one hop away
REUSE = timedelta(minutes=15)  # the library is asked again after that; it knows itself when to renew
AHEAD_S = 300.0  # a token is not used in its last minutes, as a request may wait
OWN_REFUSAL = "cfetch has no login: "  # how a provider's error begins, so that it is known again in obstore's
_GOOGLE_SCOPE = f"{HTTPS}://www.googleapis.com/auth/cloud-platform"
_AZURE_SCOPE = f"{HTTPS}://storage.azure.com/.default"
_NO_METADATA = {"true", "1", "yes", "on"}
_STATED = {  # variables with which obstore itself has a login, or needs none
    S3: (
        *("AWS_ACCESS_KEY_ID", "AWS_SKIP_SIGNATURE", "AWS_WEB_IDENTITY_TOKEN_FILE"),
        *("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_CREDENTIALS_FULL_URI"),
    ),
    GS: (
        *("GOOGLE_SERVICE_ACCOUNT", "GOOGLE_SERVICE_ACCOUNT_PATH", "GOOGLE_SERVICE_ACCOUNT_KEY"),
        "GOOGLE_SKIP_SIGNATURE",
    ),
    AZ: (
        *("AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ACCESS_KEY", "AZURE_STORAGE_MASTER_KEY"),
        *("AZURE_STORAGE_SAS_TOKEN", "AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_TOKEN", "AZURE_CLIENT_SECRET"),
        *("AZURE_STORAGE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "AZURE_SKIP_SIGNATURE"),
        *(
            "AZURE_STORAGE_USE_EMULATOR",
            "AZURE_USE_AZURE_CLI",
            "AZURE_IDENTITY_ENDPOINT",
            "AZURE_MSI_ENDPOINT",
        ),
    ),
}
_OWN_KEYS = {"access_key_id", "account_key", "skip_signature"}  # the same in cfetch's own ``config``


class Login(NamedTuple):
    """What obstore gets: ``provider`` of credentials, and ``config``, which the profile has too.

    ``is_token``: requests carry a token, which cannot sign a link.
    """

    provider: Callable[[], dict[str, Any]]
    config: Mapping[str, str] = MappingProxyType({})
    is_token: bool = False


BY_OBSTORE = Login(dict)  # obstore finds this login where it is


def find_login(url: str, config: Mapping[str, Any] | None = None) -> Login | None:
    """The login of a tool for the store at ``url``; None: obstore needs none, or finds it itself.

    Raises:
        UsageError: a login is named or kept that cannot be used, or there is none at all.
    """
    scheme = scheme_of(url)
    given = {**os.environ, **(config or {})}
    if scheme not in _STATED or not _OWN_KEYS.isdisjoint(given) or any(map(given.get, _STATED[scheme])):
        return None
    login = {S3: _find_aws, GS: _find_google, AZ: _find_azure}[scheme](url, given)
    if login is None and not _has_metadata(scheme, given):
        raise UsageError(f"cannot use {printable(url)}: no login for it was found; {_ADVICE[scheme]}")
    return None if login is BY_OBSTORE else login


_ADVICE = {
    S3: "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE (with the extra logins of cfetch); "
    "AWS_SKIP_SIGNATURE=true is for public data",
    GS: "run gcloud auth application-default login (with the extra logins of cfetch), or set "
    "GOOGLE_APPLICATION_CREDENTIALS; GOOGLE_SKIP_SIGNATURE=true is for public data",
    AZ: "run az login (with the extra logins of cfetch), or set AZURE_STORAGE_ACCOUNT_KEY; "
    "AZURE_SKIP_SIGNATURE=true is for public data",
}


def _find_aws(url: str, given: Mapping[str, str]) -> Login | None:
    profile = given.get("AWS_PROFILE") or given.get("AWS_DEFAULT_PROFILE")
    files = (
        given.get("AWS_CONFIG_FILE") or "~/.aws/config",
        given.get("AWS_SHARED_CREDENTIALS_FILE") or "~/.aws/credentials",
    )
    if not profile and not any(map(_is_file, files)):
        return None
    if find_spec("botocore") is None:
        if profile:
            raise UsageError(missing_library("AWS_PROFILE", "botocore", "logins"))
        return None
    import botocore.exceptions
    import botocore.session

    shown = printable(f"the profile {profile}" if profile else "the default profile of ~/.aws")
    session = botocore.session.Session(profile=profile)

    def give_reason(error: Exception) -> str:
        name = type(error).__name__
        if isinstance(error, botocore.exceptions.ClientError):  # its message may quote the request
            name = printable(str(error.response.get("Error", {}).get("Code", name)), 60)
        if "SSO" in name or "Token" in name:
            option = f" --profile {profile}" if profile else ""
            return f"the login of {shown} has expired; run: aws sso login{printable(option)}"
        if isinstance(error, botocore.exceptions.ProfileNotFound):
            return f"{shown} is not in ~/.aws/config or ~/.aws/credentials; correct AWS_PROFILE"
        return f"{shown} gives none ({name}); try: aws sts get-caller-identity"

    try:
        session.get_component("credential_provider").remove("iam-role")  # obstore asks for it, if it is there
        credentials = session.get_credentials()
        region = session.get_config_variable("region")
        endpoint = session.get_scoped_config().get("endpoint_url") if profile else None
    except (botocore.exceptions.BotoCoreError, botocore.exceptions.ClientError) as error:
        raise UsageError(f"cannot use {printable(url)}: {OWN_REFUSAL}{give_reason(error)}") from None
    if credentials is None:
        if not profile:
            return None
        raise UsageError(f"cannot use {printable(url)}: {OWN_REFUSAL}{shown} has none")

    def provide() -> dict[str, Any]:
        try:
            frozen = credentials.get_frozen_credentials()
        except Exception as error:  # noqa: BLE001 - botocore's, urllib3's, and those of a credential_process
            raise UsageError(f"{OWN_REFUSAL}{give_reason(error)}") from None
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + REUSE,
        }

    _check(provide, url)
    own = {}
    if region and not (given.get("AWS_REGION") or given.get("AWS_DEFAULT_REGION")):
        own["region"] = str(region)
    if endpoint and not any(map(given.get, ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"))):
        own["endpoint"] = str(endpoint)
    return Login(provide, own)


def _is_file(name: str) -> bool:
    try:
        return Path(name).expanduser().is_file()
    except (OSError, RuntimeError):  # there is no such home
        return False


def _check(provide: Callable[[], dict[str, Any]], url: str) -> None:
    """Ask for the credentials once, before a request fails for want of them. Raises UsageError."""
    try:
        provide()
    except UsageError as error:
        raise UsageError(f"cannot use {printable(url)}: {error}") from None


def _find_google(url: str, given: Mapping[str, str]) -> Login | None:
    folder = given.get("CLOUDSDK_CONFIG") or "~/.config/gcloud"
    name = given.get("GOOGLE_APPLICATION_CREDENTIALS") or f"{folder}/application_default_credentials.json"
    try:
        path = Path(name).expanduser()
        kind = json.loads(path.read_bytes()).get("type")
    except (OSError, ValueError, AttributeError, RuntimeError):
        return None
    if kind == "service_account":  # obstore signs with its key
        return BY_OBSTORE
    if find_spec("google.auth") is None or find_spec("requests") is None:
        raise UsageError(missing_library("a login of gcloud", "google-auth", "logins"))
    import google.auth
    import google.auth.exceptions
    from google.auth.transport.requests import Request

    try:
        with warnings.catch_warnings():  # it warns of files of strangers; this one is the user's own
            warnings.simplefilter("ignore")
            load: Any = google.auth.load_credentials_from_file  # it has no types
            credentials, _ = load(str(path), scopes=[_GOOGLE_SCOPE])
    except google.auth.exceptions.GoogleAuthError:
        raise UsageError(
            f"cannot use {printable(url)}: {OWN_REFUSAL}{printable(str(path))} is no valid file of gcloud"
        ) from None

    def fetch() -> tuple[str, float]:
        try:
            credentials.refresh(Request())
        except google.auth.exceptions.GoogleAuthError:
            raise UsageError(
                f"{OWN_REFUSAL}gcloud's login has expired or is not accepted; run: gcloud auth "
                "application-default login"
            ) from None
        return credentials.token, credentials.expiry.replace(tzinfo=UTC).timestamp()

    return _make_token_login(fetch, url)


def _find_azure(url: str, given: Mapping[str, str]) -> Login | None:
    if not _is_file(f"{given.get('AZURE_CONFIG_DIR') or '~/.azure'}/azureProfile.json"):
        return None
    if find_spec("azure") is None or find_spec("azure.identity") is None:
        raise UsageError(missing_library("a login of az", "azure-identity", "logins"))
    from azure.core.exceptions import ClientAuthenticationError
    from azure.identity import AzureCliCredential, CredentialUnavailableError

    tool = AzureCliCredential()

    def fetch() -> tuple[str, float]:
        try:
            token = tool.get_token(_AZURE_SCOPE)
        except (ClientAuthenticationError, CredentialUnavailableError):
            raise UsageError(f"{OWN_REFUSAL}az gives no token; run: az login") from None
        return token.token, float(token.expires_on)

    return _make_token_login(fetch, url)


def _make_token_login(fetch: Callable[[], tuple[str, float]], url: str) -> Login:
    """A login by tokens, each of which is used until it ends; ``fetch`` gives one, and its end."""
    lock = threading.Lock()  # the engine's loop and obstore's threads ask
    kept = ("", 0.0)

    def provide() -> dict[str, Any]:
        nonlocal kept
        with lock:
            if kept[1] - AHEAD_S < time.time():
                kept = fetch()
            token, ends_s = kept
        return {"token": token, "expires_at": datetime.fromtimestamp(ends_s, UTC)}

    _check(provide, url)
    return Login(provide, is_token=True)


def find_own_refusal(text: str) -> str | None:
    """What a provider has said in the text of an error of obstore, which quotes it; None: nothing."""
    match = re.search(rf"{OWN_REFUSAL}[^\n\"']*", text)
    return None if match is None else printable(match[0])


def _has_metadata(scheme: str, given: Mapping[str, str]) -> bool:
    """Whether the machine's metadata service answers, so that it may have a role."""
    if scheme == GS:
        address = f"{HTTP}://{given.get('GCE_METADATA_HOST') or 'metadata.google.internal'}"
    elif given.get("AWS_EC2_METADATA_DISABLED", "").lower() in _NO_METADATA and scheme == S3:
        return False
    else:
        address = (scheme == S3 and given.get("AWS_METADATA_ENDPOINT")) or f"{HTTP}://169.254.169.254"
    parts = urlsplit(address)
    kind = http.client.HTTPSConnection if parts.scheme == HTTPS else http.client.HTTPConnection
    with closing(kind(parts.netloc, timeout=PROBE_S)) as line, suppress(OSError, http.client.HTTPException):
        line.request("GET", "/", headers={"Metadata-Flavor": "Google", "Metadata": "true"})
        line.getresponse()
        return True
    return False
