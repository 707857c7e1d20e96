"""Reads small objects below a prefix of an object store, such as the log of a table."""

import asyncio
from typing import Any

from cfetch.base.errors import CfetchError, Refused
from cfetch.base.secret import printable
from cfetch.storage.buckets.object_source import LIST_TIMEOUT_S, explain_fault, name_version
from cfetch.storage.buckets.object_store import open_store


class ObjectReader:
    """Reads below ``url``, with logins from the environment; use it in one event loop.

    All methods raise SourceError if the store does not answer, and UsageError if obstore is not installed.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self._store: Any = None

    async def list_after(self, directory: str, name: str) -> list[str]:
        """The names in a directory that come after ``name``, in order."""
        import obstore

        try:
            pages = obstore.list(self._open(), f"{directory}/", offset=f"{directory}/{name}")
            async with asyncio.timeout(LIST_TIMEOUT_S):
                names = [about["path"].rpartition("/")[2] async for page in pages for about in page]
        except Exception as error:  # noqa: BLE001 - of many types; what they have in common is the store
            raise self._explain(error, f"list {directory}") from None
        return sorted(name_ for name_ in names if name_ > name)

    async def find_object(self, key: str) -> tuple[int, str] | None:
        """The size of an object in bytes, and ``name_version`` of it; None: the store says that it has none.

        A 404 of a HEAD request has no body, so that it may be a gateway's, or mean that the bucket has gone.
        """
        import obstore

        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                try:
                    about = await obstore.head_async(self._open(), key)
                except FileNotFoundError:
                    about = (await obstore.get_async(self._open(), key)).meta
        except Exception as error:  # noqa: BLE001 - as above
            if isinstance(error, FileNotFoundError) and "<Code>NoSuchKey</Code>" in str(error):
                return None
            raise self._explain(error, f"look at {printable(key, 200)}") from None
        return about["size"], name_version(about)

    async def read(self, key: str, max_bytes: int) -> bytes:
        """The whole object, which something has named. Raises Refused: it has gone, or is too long."""
        import obstore

        shown = printable(key, 200)
        try:
            async with asyncio.timeout(LIST_TIMEOUT_S):
                reply = await obstore.get_async(self._open(), key)
                if reply.meta["size"] > max_bytes:
                    raise Refused(f"{shown} of {printable(self.url)} is longer than {max_bytes} bytes")
                return bytes(await reply.bytes_async())
        except FileNotFoundError as error:
            if "<Code>NoSuchBucket</Code>" in str(error):
                raise explain_fault(self.url, error, f"read {shown}") from None
            raise Refused(f"{shown} of {printable(self.url)} has gone while it was to be read") from None
        except Exception as error:  # noqa: BLE001 - as above
            raise self._explain(error, f"read {shown}") from None

    def _open(self) -> Any:  # noqa: ANN401 - of the library
        if self._store is None:
            self._store = open_store(self.url, timeout_s=LIST_TIMEOUT_S)
        return self._store

    def _explain(self, error: Exception, what: str) -> CfetchError:
        return error if isinstance(error, Refused) else explain_fault(self.url, error, what)
