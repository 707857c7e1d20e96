"""A bucket of an object store: uses obstore, which is installed only with an extra.

``ObjectStoreVolume`` makes a volume of it.

An object becomes visible when it is complete, never before: an upload corresponds to a part file. Every call
has a time limit. The text of obstore's errors holds URLs, so it is only read to choose cfetch's own words.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec

from cfetch.base.errors import UsageError, VolumeFault
from cfetch.base.records import NOT_DECODED
from cfetch.base.secret import printable
from cfetch.manifest.digests import missing_library
from cfetch.storage.buckets.logins import Login, find_login
from cfetch.storage.buckets.stores import find_store
from cfetch.storage.files import STATE_NAME

if TYPE_CHECKING:
    from obstore import AsyncWritableFile


T = TypeVar("T")
PIECE_BYTES = 5 << 20  # S3 takes no smaller piece of an upload, except for the last
MOST_PIECES = 10_000  # of one upload, at S3 and Google; Azure takes more
PIECES_UNDER_WAY = 2  # of one upload: the next piece is read while one is sent, which hides the round trip
ATTRIBUTE = "cfetch"  # Azure takes no name with a hyphen, and some proxies drop one with an underscore
ATTRIBUTE_BYTES = 1024  # S3 takes 2 KiB of all attributes together
PAGE_KEYS = 1000  # as many as a store puts on a page of a listing
RUNS = f"{STATE_NAME}/runs"  # the marks of runs, which are no files of anybody's
MAX_KEY_BYTES = 1024  # UTF-8, with the prefix: the limit of all three
MAX_RETRIES = 4  # some 8 s: enough for a store that asks to slow down, and short for a dead one
MANY_RETRIES = 10_000  # for a store without which a run ends: the time-out ends them
BACKOFF_S = (0.2, 3.0)  # between retries: at first, and at most
DENIED = {"401", "403"}
NO_ROOM = {"507", "QuotaExceeded", "XMinioStorageFull", "AccountLimitExceeded"}
BAD_NAME = "invalid path"  # how obstore's error begins about a key with an empty or relative component
NO_LOGIN = re.compile(r"//169\.254\.|//metadata\.google|Account must be specified|Missing\w*KeyId")
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")


class About(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The attribute of an object: ``digest`` (``sha256:…``) was verified, ``source`` is its link's identity.

    ``run`` names the execution that put the object and may delete it; ``etag`` is the source's strong ETag.
    """

    digest: str | None
    source: str | None
    run: str
    etag: str | None = None


class FoundObject(NamedTuple):
    """An object that exists, put at ``changed_s``; ``about`` is None if another tool has put it."""

    size_bytes: int
    about: About | None
    changed_s: float = 0.0
    etag: str | None = None


class Small(NamedTuple):
    """A small object as it was read, put at ``changed_s``."""

    data: bytes
    changed_s: float


class Listed(NamedTuple):
    """An object in a listing, changed last at ``changed_s``."""

    key: str
    size_bytes: int
    etag: str | None
    changed_s: float


def piece_bytes_for(size_bytes: int | None) -> int:
    """The size of an upload's pieces: as small as possible, and whole MiB for a very large object."""
    least = -(-(size_bytes or 0) // MOST_PIECES)
    return max(PIECE_BYTES, -(-least // (1 << 20)) << 20)


def open_store(
    url: str, *, timeout_s: float, retries: int | None = None, config: Mapping[str, Any] | None = None
) -> Any:  # noqa: ANN401 - of the library
    """Prepare a store without a request. ``config`` takes precedence over the environment.

    A call may be repeated ``retries`` times (None: ``MAX_RETRIES``), and for ``timeout_s`` at most.

    Raises:
        UsageError: obstore is not installed, or there is no login.
        VolumeFault: the URL or the settings in the environment are wrong.
    """
    if find_spec("obstore") is None:
        raise UsageError(missing_library(printable(url), "obstore", "cloud"))
    return make_store(url, find_login(url, config), timeout_s=timeout_s, retries=retries, config=config)


def make_store(
    url: str,
    login: Login | None,
    *,
    timeout_s: float,
    retries: int | None = None,
    config: Mapping[str, Any] | None = None,
) -> Any:  # noqa: ANN401 - of the library
    """Prepare a store with a login that was found, as ``open_store``."""
    from obstore.store import from_url

    if login is not None:
        config = {**login.config, **(config or {})}
    make: Callable[..., Any] = from_url  # its types tell a store by its options, which are not known here
    try:
        return make(
            url,
            config=config,
            credential_provider=None if login is None else login.provider,
            client_options={
                "allow_http": True,  # only if the user has written the endpoint as http://
                "timeout": timedelta(seconds=timeout_s),
            },
            retry_config={
                "max_retries": MAX_RETRIES if retries is None else retries,
                "retry_timeout": timedelta(seconds=timeout_s),
                "backoff": {
                    "init_backoff": timedelta(seconds=BACKOFF_S[0]),
                    "max_backoff": timedelta(seconds=BACKOFF_S[1]),
                },
            },
        )
    except Exception as error:  # noqa: BLE001 - of many types, and any of them means the same
        text = str(error)
        why = "no login for it was found" if NO_LOGIN.search(text) else "the URL or a setting is wrong"
        store = find_store(url)
        names = "" if store is None else store.needs
        raise VolumeFault(
            f"cannot use {printable(url)}: {why}; check the store's variables in the environment{names}"
        ) from None


def pick_login(url: str, env: Mapping[str, str]) -> dict[str, str]:
    """The variables of ``env`` with which another machine can use the store at ``url``, as its ``config``."""
    store = find_store(url)
    return {} if store is None else {name: env[name] for name in store.login if name in env}


def find_status(text: str) -> set[str]:
    """The status and the code in the text of an error of the library."""
    return {match.group(1) for match in (_STATUS.search(text), _CODE.search(text)) if match}


class ObjectStore:
    """A store at ``url``: ``s3://bucket/prefix``, ``gs://`` or ``az://``, with logins from the environment.

    Keys are paths below the prefix. Raises VolumeFault if the store refuses, or is silent for ``timeout_s``.
    """

    def __init__(
        self,
        url: str,
        *,
        timeout_s: float,
        is_only: bool = False,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare the store without a request. ``config`` is as for ``open_store``.

        ``is_only``: there is no other volume, so a store that asks to slow down is asked until ``timeout_s``.

        Raises:
            UsageError: obstore is not installed.
            VolumeFault: the URL or the settings in the environment are wrong.
        """
        self.url = url
        retries = MANY_RETRIES if is_only else None
        self._store = open_store(url, timeout_s=timeout_s, retries=retries, config=config)
        import obstore

        self._obstore = obstore
        self._timeout_s = timeout_s

    def key_bytes(self, key: str) -> int:
        """The length of the whole key, in UTF-8."""
        prefix = getattr(self._store, "prefix", None)
        return len(f"{prefix}/{key}".encode() if prefix else key.encode())

    async def find_object(self, key: str) -> FoundObject | None:
        """Look up the object under ``key``; None if there is none."""
        with suppress(FileNotFoundError):
            reply = await self._ask(
                f"look at {printable(key)}",
                lambda: self._obstore.get_async(self._store, key, options={"head": True}),
                may_lack=True,
            )
            about = _read_about(reply.attributes.get(ATTRIBUTE))
            changed_s = reply.meta["last_modified"].timestamp()
            return FoundObject(reply.meta["size"], about, changed_s, reply.meta["e_tag"])
        return None

    async def names(self, prefix: str) -> list[str]:
        """The last parts of the keys directly below ``prefix``, in no order."""

        async def list_names() -> list[str]:
            listing = self._obstore.list_with_delimiter_async(self._store, prefix)
            return [object_["path"].rpartition("/")[2] for object_ in (await listing)["objects"]]

        return await self._ask(f"list {prefix}", list_names)

    def list_pages(self) -> Callable[[], Awaitable[list[Listed] | None]]:
        """A function that reads the next page of all objects below the prefix; None: there is no more.

        An empty page: it has a name that obstore does not take, and nothing can be read behind it.
        """
        listing = self._obstore.list(self._store, chunk_size=PAGE_KEYS)

        async def read() -> list[Listed] | None:
            try:
                async for page in listing:
                    return [
                        Listed(
                            object_["path"],
                            object_["size"],
                            object_["e_tag"],
                            object_["last_modified"].timestamp(),
                        )
                        for object_ in page
                    ]
            except Exception as error:
                if BAD_NAME not in str(error):
                    raise
                return []
            return None

        return lambda: self._ask("list its objects", read)

    async def read_first(self) -> None:
        """Read the first page of the objects. Raises VolumeFault if the store cannot be used."""
        await self.list_pages()()

    async def put(self, key: str, data: bytes) -> None:
        """Put a small object, in one request."""
        await self._ask(
            f"put {printable(key)}",
            lambda: self._obstore.put_async(self._store, key, data, use_multipart=False),
        )

    async def create(self, key: str, data: bytes) -> bool:
        """Put a small object unless there is one; False: there is."""
        with suppress(FileExistsError):
            await self._ask(
                f"put {printable(key)}",
                lambda: self._obstore.put_async(self._store, key, data, mode="create", use_multipart=False),
                passes=(FileExistsError,),
            )
            return True
        return False

    async def put_pieces(self, key: str, path: Path, size_bytes: int) -> None:
        """Put a file of any size, in pieces, each within the time limit of the store's client."""
        try:
            await self._obstore.put_async(self._store, key, path, chunk_size=piece_bytes_for(size_bytes))
        except Exception as error:  # noqa: BLE001 - of many types; what they have in common is the store
            raise self._fault(error, f"put {printable(key)}") from None

    async def copy(self, source: str, target: str) -> None:
        """Copy an object within the store, which does it by itself."""
        await self._ask(
            f"copy {printable(source)}",
            lambda: self._obstore.copy_async(self._store, source, target, overwrite=True),
        )

    async def read(self, key: str) -> Small | None:
        """Read a small object; None if there is none."""

        async def get() -> Small:
            reply = await self._obstore.get_async(self._store, key)
            return Small(bytes(await reply.bytes_async()), reply.meta["last_modified"].timestamp())

        with suppress(FileNotFoundError):
            return await self._ask(f"read {printable(key)}", get, may_lack=True)
        return None

    async def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, which need not exist."""
        with suppress(FileNotFoundError):
            await self._ask(
                f"delete {printable(keys[0])}",
                lambda: self._obstore.delete_async(self._store, keys),
                may_lack=True,
            )

    def upload(self, key: str, about: About, piece_bytes: int) -> "Upload":
        """Make an upload. It sends nothing yet, as an object that fits in one piece is put in one request."""
        attribute = msgspec.json.encode(about).decode()
        is_fit = attribute.isascii() and len(attribute) <= ATTRIBUTE_BYTES
        attributes: dict[str, str] | None = {ATTRIBUTE: attribute} if is_fit else None
        file = self._obstore.open_writer_async(
            self._store,
            key,
            attributes=attributes,
            buffer_size=piece_bytes,
            max_concurrency=PIECES_UNDER_WAY,
        )

        async def put_whole(data: bytes) -> str | None:
            put = self._obstore.put_async
            result = await put(self._store, key, data, attributes=attributes, use_multipart=False)
            etag: str | None = result["e_tag"]
            return etag

        return Upload(key, file, piece_bytes, put_whole, self._ask)

    async def _ask(
        self,
        what: str,
        call: Callable[[], Awaitable[T]],
        *,
        may_lack: bool = False,
        passes: tuple[type[Exception], ...] = (),
    ) -> T:
        """Make a call within the time limit. Passes on ``passes``; ``may_lack``: also a FileNotFoundError."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await call()
        except TimeoutError:
            raise VolumeFault(
                f"{self._shown} did not {what} within {self._timeout_s:g} s; if the way there is slow, raise "
                "--write-timeout or lower --concurrency"
            ) from None
        except FileNotFoundError as error:
            if may_lack and "<Code>NoSuchBucket</Code>" not in str(error):
                raise
            raise self._fault(error, what) from None
        except passes:
            raise
        except Exception as error:  # noqa: BLE001 - of many types; what they have in common is the store
            raise self._fault(error, what) from None

    @property
    def _shown(self) -> str:
        return printable(self.url)

    def _fault(self, error: Exception, what: str) -> VolumeFault:
        """Make an error in cfetch's own words; the text of ``error`` may hold a key or a signed URL."""
        text = str(error)
        said = find_status(text)
        if said & NO_ROOM:
            return VolumeFault(f"{self._shown} has no room left: it did not {what}", no_room=True)
        if "NoSuchUpload" in said:
            why = "another process has ended the upload; run the same command again"
        elif isinstance(error, FileNotFoundError) or "404" in said:
            why = "there is no such bucket or container; make it, or correct --to"
        elif NO_LOGIN.search(text):
            why = "no login for it was found; set the store's variables in the environment"
        elif said & DENIED:
            why = "it denies access; the login needs to list, read, write and delete there"
        elif said & {"429", "503"}:
            why = "it is overloaded or asks to slow down; lower --concurrency, or try again later"
        elif "error sending request" in text:
            why = "it cannot be reached; check the network, and the endpoint in the environment"
        else:
            why = "it reports an error; try again later, or see its own logs"
        return VolumeFault(f"{self._shown} did not {what}: {why}", denied=bool(said & DENIED))


class Upload:
    """One upload; the object is invisible before ``complete``, which ends the upload even if it fails."""

    def __init__(
        self,
        key: str,
        file: "AsyncWritableFile",
        piece_bytes: int,
        put_whole: Callable[[bytes], Awaitable[str | None]],
        asked: Callable[[str, Callable[[], Awaitable[object]]], Awaitable[object]],
    ) -> None:
        self._key = key
        self._file = file
        self._piece_bytes = piece_bytes
        self._put_whole = put_whole
        self._asked = asked
        self._only: bytes | None = b""  # all bytes so far, while they are less than a piece
        self.etag: str | None = None  # of the object that ``complete`` has put in one request
        self._is_sound = True  # if closed after a failed write, obstore would put an empty object
        self._is_over = False

    async def write(self, piece: bytes) -> None:
        """Send a piece; wait while enough pieces are under way. All pieces except the last have one size."""
        if self._only == b"" and len(piece) < self._piece_bytes:
            self._only = piece
            return
        assert not self._only, "only the last piece is smaller"
        self._only = None
        await self._do("take a piece of", lambda: self._file.write(piece))

    async def complete(self) -> None:
        """Make the whole object visible, in place of an older one."""
        assert self._is_sound, "an upload that has failed is over"
        self._is_over = True
        await self._do("complete", self._finish)

    async def _finish(self) -> None:
        if self._only is None:
            await self._file.close()
        else:
            self.etag = await self._put_whole(self._only)

    async def abort(self) -> None:
        """Remove the upload from the store; harmless when it is over."""
        if self._is_over:
            return
        self._is_over = True
        if self._only is not None:
            return
        stop = RuntimeError("given up")
        await self._do("end the upload of", lambda: self._file.__aexit__(RuntimeError, stop, None))

    async def _do(self, what: str, call: Callable[[], Awaitable[object]]) -> None:
        was_sound, self._is_sound = self._is_sound, False
        await self._asked(f"{what} {printable(self._key)}", call)
        self._is_sound = was_sound


def _read_about(text: object) -> About | None:
    with suppress(*NOT_DECODED):
        if isinstance(text, str):
            return msgspec.json.decode(text, type=About)
    return None
