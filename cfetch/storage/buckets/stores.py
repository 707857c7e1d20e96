"""What each kind of object store has of its own: the variables of its login, its address and its refusals."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from cfetch.base.errors import UsageError
from cfetch.base.schemes import AZ, GS, HTTPS, S3, scheme_of


class Store(NamedTuple):
    """A kind of store.

    ``login``: variables that mean the same on all machines: no files, no addresses of the machine's own.
    ``addresses``: variables that state the server to which the names of buckets belong. ``anonymous``: the
    variable for public data. ``nobody``: a login that signs without a request, so that the signature can be
    cut off again. ``needs``: the end of a message about a missing variable.
    ``token_headers`` go with a token that stands for a signature.
    """

    login: tuple[str, ...]
    addresses: tuple[str, ...]
    anonymous: str
    nobody: dict[str, Any] | None = None
    needs: str = ""
    token_headers: Mapping[str, str] = {}


STORES = {
    S3: Store(
        login=(
            *("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_SKIP_SIGNATURE"),
            *("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
            *("AWS_VIRTUAL_HOSTED_STYLE_REQUEST", "AWS_REQUEST_PAYER"),
        ),
        addresses=("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT"),
        anonymous="AWS_SKIP_SIGNATURE",
        nobody={"access_key_id": "nobody", "secret_access_key": "nobody", "skip_signature": False},
    ),
    GS: Store(
        login=("GOOGLE_SERVICE_ACCOUNT_KEY", "GOOGLE_SKIP_SIGNATURE", "GOOGLE_BASE_URL"),
        addresses=("GOOGLE_BASE_URL",),
        anonymous="GOOGLE_SKIP_SIGNATURE",
    ),
    AZ: Store(
        login=(
            *("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_SAS_TOKEN"),
            *("AZURE_STORAGE_SAS_KEY", "AZURE_STORAGE_TOKEN", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET"),
            *("AZURE_TENANT_ID", "AZURE_STORAGE_CLIENT_ID", "AZURE_STORAGE_CLIENT_SECRET"),
            *("AZURE_STORAGE_TENANT_ID", "AZURE_STORAGE_ENDPOINT", "AZURE_SKIP_SIGNATURE"),
        ),
        addresses=(
            *("AZURE_STORAGE_ACCOUNT_NAME", "AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT"),
            *("AZURE_STORAGE_USE_EMULATOR", "AZURITE_BLOB_STORAGE_URL"),
        ),
        anonymous="AZURE_SKIP_SIGNATURE",
        nobody={"account_key": "bm9ib2R5", "skip_signature": False},
        needs=": AZURE_STORAGE_ACCOUNT_NAME, and AZURE_STORAGE_ACCOUNT_KEY or another login",
        token_headers={"x-ms-version": "2021-08-06"},  # tokens are taken since 2017-11-09
    ),
}
"""By scheme."""


def find_store(url: str) -> Store | None:
    """The kind of the store at ``url``; None: it is no object store's."""
    return STORES.get(scheme_of(url))


def find_address(url: str, env: Mapping[str, str]) -> str:
    """The address over HTTP of a bucket at Google or a container at Azure. Raises UsageError."""
    bucket = url.partition("//")[2]
    if scheme_of(url) == GS:
        base = env.get("GOOGLE_BASE_URL") or f"{HTTPS}://storage.googleapis.com"
    else:
        base = env.get("AZURE_STORAGE_ENDPOINT") or env.get("AZURE_ENDPOINT") or ""
        account = env.get("AZURE_STORAGE_ACCOUNT_NAME")
        if not base and not account:
            raise UsageError(f"{url} needs the name of its account; set AZURE_STORAGE_ACCOUNT_NAME")
        base = base or f"{HTTPS}://{account}.blob.core.windows.net"
    return f"{base.rstrip('/')}/{bucket}"
