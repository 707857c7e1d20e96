"""Objects as sources: lists the objects below a prefix, and signs links just before their request.

A link is signed for one request, so that no link expires on the way, however long a run takes. Logins,
region, endpoint and similar settings come from the environment, as for destinations.
"""

import asyncio
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from itertools import zip_longest
from typing import Any, Literal
from urllib.parse import quote

from cfetch.base.errors import LocalFault, Refused, SourceError, Transient, UsageError
from cfetch.base.schemes import AZ, GS, S3, scheme_of
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.object_urls import Listing, ObjectUrl, find_key_fault, split_object_url
from cfetch.storage.buckets.logins import Login, find_login, find_own_refusal
from cfetch.storage.buckets.object_store import NO_LOGIN, find_status, make_store, open_store
from cfetch.storage.buckets.stores import STORES, find_address

VALID_S = 3600.0  # for a reply that is slow to begin; the request follows at once
LIST_TIMEOUT_S = 60.0  # for one page of a listing
MOST_IDLE_S = 600.0  # for the next names of a listing
PAGE_KEYS = 1000  # as many as a store puts on a page
_ODD_KEY = "invalid path"  # as obstore says
_WHY_ODD = "a key has an empty, '.' or '..' component, which cannot be the path of a file"
LOOKS_AT_A_TIME = 32  # at empty objects, which may be marks of directories
_YES = {"1", "true", "on", "yes", "y"}  # values that the library takes for true


class ObjectLinks:
    """Makes links to objects; use it in one event loop."""

    def __init__(self) -> None:
        self._stores: dict[str, Any] = {}
        self._logins: dict[str, Login | None] = {}
        self._faults: dict[str, SourceError] = {}
        self._opening = asyncio.Lock()

    async def make_request(
        self, url: SecretUrl, method: Literal["GET", "HEAD"]
    ) -> tuple[SecretUrl, Mapping[str, str]]:
        """Make the link for one request, and the secret headers that go with it. Raises as ``sign``."""
        parts = _split(url)
        await self._open(parts.store)
        login = self._logins[parts.store]
        if login is None or not login.is_token:
            return await self.sign(url, method), {}
        try:
            token = (await asyncio.to_thread(login.provider))["token"]
            address = f"{find_address(parts.store, os.environ)}/{quote(parts.key, safe='/~')}"
        except UsageError as error:
            raise explain_fault(parts.store, error, "take a request") from None
        kind = STORES[scheme_of(parts.store)]
        return SecretUrl(address), {"Authorization": f"Bearer {token}", **kind.token_headers}

    async def sign(self, url: SecretUrl, method: Literal["GET", "HEAD"]) -> SecretUrl:
        """Make the link for one request; without a signature if the environment says so.

        Raises:
            SourceError: there is no login, or the store's own service refuses to sign.
        """
        import obstore

        parts = _split(url)
        scheme = scheme_of(parts.store)
        is_plain = _is_public(scheme)
        if is_plain and scheme == GS:
            return SecretUrl(f"{find_address(parts.store, os.environ)}/{quote(parts.key, safe='/~')}")
        is_known = parts.store in self._stores
        await self._open(parts.store)
        store = self._stores[parts.store]
        try:
            life = timedelta(seconds=VALID_S)
            if is_known and scheme == S3:  # 40 us if the login is known; other stores may ask a service
                link = obstore.sign(store, method, parts.key, life)
            else:
                link = await obstore.sign_async(store, method, parts.key, life)
        except Exception as error:  # noqa: BLE001 - of many types; their texts may hold a link
            raise explain_fault(parts.store, error, "sign a link") from None
        address = link.partition("?")[0]
        if scheme == AZ and not is_plain and "%" in address:  # obstore 0.12 signs over the encoded key
            raise Refused(
                "its key has characters for which no valid link to Azure can be signed; give its https URL "
                "with a shared access signature, or set AZURE_SKIP_SIGNATURE=true for public data"
            )
        return SecretUrl(address if is_plain else link)

    async def _open(self, url: str) -> None:
        """Find the login for a store, and prepare it; once, as a vendor's tool may take seconds.

        Raises SourceError.
        """
        if url in self._stores:
            return
        async with self._opening:
            if url in self._faults:
                raise self._faults[url]
            if url in self._stores:
                return
            scheme = scheme_of(url)
            config = STORES[scheme].nobody if _is_public(scheme) else None
            try:
                login = await asyncio.to_thread(find_login, url, config)
                store = make_store(url, login, timeout_s=LIST_TIMEOUT_S, config=config)
            except Exception as error:  # noqa: BLE001 - of many types; their texts may hold a secret
                self._faults[url] = explain_fault(url, error, "sign a link")
                raise self._faults[url] from None
            self._logins[url], self._stores[url] = login, store


def _is_public(scheme: str) -> bool:
    return os.environ.get(STORES[scheme].anonymous, "").lower() in _YES


def _split(url: SecretUrl) -> ObjectUrl:
    """Raises Refused."""
    parts = split_object_url(url.reveal())
    fault = "is no object's URL" if parts is None else find_key_fault(parts.key)
    if parts is None or fault is not None:
        raise Refused(f"the URL {fault}")
    return parts


def list_objects(listing: Listing, *, look: bool = True) -> Iterator[tuple[dict[str, object], str]]:
    """Yield objects as rows of a manifest (``url``, ``size``, ``path`` below the prefix), with their ETags.

    The mark of a directory, an empty object whose key ends in a slash, is left out: if the directory has no
    objects, only a ``look`` at it tells.

    Raises:
        UsageError: obstore is not installed, or the store says no.
    """
    base = f"{listing.store}/{listing.prefix}"
    for key, size_bytes, version in _walk(listing, look=look):
        rest = key.removeprefix(listing.prefix)
        yield {"url": base + rest, "path": rest, "size": size_bytes}, version


def _walk(listing: Listing, *, look: bool) -> Iterator[tuple[str, int, str]]:
    url, prefix = listing.store, listing.prefix
    last, marked, marks_at, keys = "", "", 1, 0
    try:
        store = open_store(url, timeout_s=LIST_TIMEOUT_S)
        pages = store.list(prefix or None, chunk_size=PAGE_KEYS)
        with asyncio.Runner() as runner:
            while (page := runner.run(_ask_page(pages))) is not None:
                for about in page:
                    keys += 1
                    if about["path"] == marked:  # a circle of any length returns to the mark
                        raise Refused("the pages of its list lead back to earlier ones")
                    if keys == marks_at:
                        marked, marks_at = about["path"], 2 * marks_at
                    last = max(last, about["path"])
                objects = [about for about in page if _is_meant(listing, about["path"])]
                marks = runner.run(_find_marks(store, objects, look=look))
                for about in objects:
                    if about["path"] not in marks:
                        yield about["path"], about["size"], name_version(about)
        if last and _goes_on(store, url, prefix, last):
            raise Refused("the store's list ends in the middle: it has more keys, and no token for them")
    except (UsageError, LocalFault) as error:
        raise UsageError(str(error)) from None
    except Refused as error:
        raise UsageError(f"{printable(url)} did not list its objects: {error}") from None
    except Exception as error:  # noqa: BLE001 - of many types; what they have in common is the store
        if _ODD_KEY not in str(error) or not _has_key_order(url):
            raise UsageError(str(explain_fault(url, error, "list its objects"))) from None
    else:
        return
    yield from _walk_on(listing, last)


def _has_key_order(url: str) -> bool:
    """Whether the store lists keys in their order, and may be asked for those behind one of them."""
    return scheme_of(url) == S3 and not url.endswith("--x-s3")


def _walk_on(listing: Listing, behind: str) -> Iterator[tuple[str, int, str]]:
    """Walk on behind a key, on a page that has a key which is no path for obstore.

    It refuses the whole page for it; botocore gives all keys as they are. The row of the odd key has a fault,
    like any row whose path cannot be had.
    """
    from cfetch.storage.buckets.s3_client import connect_s3, has_botocore, list_pages

    url = listing.store
    if not has_botocore():
        raise UsageError(
            f"{printable(url)} did not list its objects: {_WHY_ODD}; install botocore, which lists the "
            "others too: pip install botocore"
        )
    page: Mapping[str, Any] = {}
    try:
        client = connect_s3(os.environ, read_s=LIST_TIMEOUT_S)
        for page in list_pages(client, url.partition("//")[2], listing.prefix, behind=behind):
            for about in page.get("Contents", ()):
                key, size_bytes = about["Key"], about["Size"]
                is_mark = not size_bytes and key.endswith("/")
                if key > behind and not is_mark and _is_meant(listing, key):
                    yield key, size_bytes, about.get("ETag") or about["LastModified"].isoformat()
    except Exception as error:  # noqa: BLE001 - of many types; their texts may hold a login
        why = type(error).__name__
        raise UsageError(f"{printable(url)} did not list its objects: botocore reports {why}") from None
    if page.get("IsTruncated") and not page.get("NextContinuationToken"):
        raise UsageError(f"{printable(url)} did not list its objects: its list ends in the middle")


def _is_meant(listing: Listing, key: str) -> bool:
    return key.startswith(listing.prefix) and bool(listing.pattern.match(key.removeprefix(listing.prefix)))


async def _find_marks(store: Any, objects: Sequence[Any], *, look: bool) -> set[str]:  # noqa: ANN401 - of the library
    """The keys of the marks of directories among the objects, which are neighbours in the list.

    The library takes the slash off a key's end. So an empty object is looked at, unless the next one stands
    below it: if there is none without the slash, it is a mark. One that cannot be looked at is no mark.
    """
    marks: set[str] = set()
    doubts: list[str] = []
    for about, behind in zip_longest(objects, objects[1:]):
        if not about["size"]:
            has_more = behind is not None and behind["path"].startswith(f"{about['path']}/")
            (marks.add if has_more else doubts.append)(about["path"])

    async def ask(keys: Iterator[str]) -> None:
        for key in keys:
            try:
                await store.head_async(key)
            except FileNotFoundError:
                marks.add(key)
            except Exception:  # noqa: BLE001, S112 - of many types; the request for the object tells more
                continue

    waiting = iter(doubts)
    if look:
        await asyncio.gather(*(ask(waiting) for _ in range(LOOKS_AT_A_TIME)))
    return marks


def name_version(about: Any) -> str:  # noqa: ANN401 - of the library
    """A text that differs from version to version of an object: its ETag, or else its time."""
    version: str = about["e_tag"] or about["last_modified"].isoformat()
    return version


async def _ask_page(pages: Any) -> Any:  # noqa: ANN401 - of the library
    """The next keys; None: there are no more. Raises Refused.

    The library itself follows pages without keys, for ever, so that only a time-out can detect them.
    """
    try:
        async with asyncio.timeout(MOST_IDLE_S):
            return await anext(pages, None)
    except TimeoutError:
        raise Refused(f"it has sent no name for {MOST_IDLE_S:g} s, only pages without any") from None


def _goes_on(store: Any, url: str, prefix: str, last: str) -> bool:  # noqa: ANN401 - of the library
    """Whether the store has keys after the last key of its list.

    A broken S3 store says that its list is truncated, but gives no token to continue; the library takes that
    for the end. Directory buckets have no order of keys; the other services always send a token.
    """
    if not _has_key_order(url):
        return False
    behind: list[Any] = next(iter(store.list(prefix or None, offset=last)), [])
    return any(about["path"] > last for about in behind)


def _find_known(text: str) -> str | None:
    """What to do about a code that the store has sent, if cfetch knows it."""
    from cfetch.base.refusals import find_known  # only a refusal needs it

    for code in find_status(text):
        known = find_known(code)
        if known is not None and known.course and known.next_step:
            return f"{code}: {known.next_step}"
    return None


def explain_fault(url: str, error: Exception, what: str) -> SourceError:
    """Make an error in cfetch's own words; the text of ``error`` may hold a key or a signed URL."""
    if isinstance(error, (UsageError, LocalFault)):
        return Refused(str(error))
    text, shown = str(error), printable(url)
    said = find_status(text)
    if (own := find_own_refusal(text)) is not None:  # a login that could not be renewed
        return Refused(f"{shown} did not {what}: {own}")
    if NO_LOGIN.search(text):
        why = (
            "no login for it was found; set the store's variables in the environment, or "
            f"{STORES[scheme_of(url)].anonymous}=true for public data"
        )
    elif isinstance(error, FileNotFoundError) or "404" in said:
        why = "there is no such bucket or container; correct the URL, or the endpoint in the environment"
    elif (known := _find_known(text)) is not None:
        why = known
    elif "configured region" in text or said & {"PermanentRedirect", "AuthorizationHeaderMalformed"}:
        why = "it is in another region; set AWS_REGION"
    elif said & {"401", "403"}:
        why = "it denies access; the login needs to list and read there"
    elif _ODD_KEY in text:
        why = _WHY_ODD
    elif "error sending request" in text or isinstance(error, TimeoutError):
        unreachable = "it cannot be reached; check the network, and the endpoint in the environment"
        return Transient(f"{shown} did not {what}: {unreachable}")
    else:
        why = "it reports an error; check its variables in the environment, or try again later"
    return Refused(f"{shown} did not {what}: {why}")
