"""The uploads in pieces that are begun and not over, noted in a file that outlives a kill.

A store keeps the pieces of an upload that nobody ends, and charges for them. obstore tells no upload's number
and lists none, so a killed run's uploads are found by their keys: each run notes the keys in a file of its
own, which it holds locked, before it sends a first piece. A later run, or ``cfetch plan clean``, aborts the
uploads of files that nobody holds. It does so with botocore, which is loaded only then, and only at S3.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from secrets import token_hex
from typing import Any

import msgspec

from cfetch.base.errors import Held, LocalFault
from cfetch.base.records import NOT_DECODED
from cfetch.base.schemes import S3, scheme_of
from cfetch.manifest.object_urls import split_destination
from cfetch.storage.files import make_private
from cfetch.storage.locks import take_lock

ENDING = ".uploads"
CONNECT_S, READ_S = 5.0, 10.0  # a run waits for it before its first upload
_LINE = msgspec.json.Decoder(tuple[str, str])  # what, and the store's URL or a key


class OpenUploads:
    """The open uploads of one run to the store at ``url``; ``directory`` None: they are not noted."""

    def __init__(self, directory: Path | None, url: str) -> None:
        self._directory = directory
        self._url = url
        self._open: Counter[str] = Counter()
        self._descriptor: int | None = None
        self._path = Path()

    def begin(self, key: str) -> None:
        """Note that an upload begins. Raises LocalFault if that cannot be noted."""
        self._open[key] += 1
        self._note("begin", key)

    def end(self, key: str) -> None:
        """Note that an upload is complete or aborted; if that fails, a later run looks for it in vain."""
        self._open[key] -= 1
        with suppress(LocalFault):
            self._note("end", key)

    def close(self) -> None:
        """Let go of the file; it goes if no upload is open."""
        if self._descriptor is not None:
            if not +self._open:
                with suppress(OSError):
                    self._path.unlink()
            os.close(self._descriptor)
            self._descriptor = None

    def _note(self, what: str, text: str) -> None:
        if self._directory is None:
            return
        try:
            if self._descriptor is None:
                self._create(self._directory)
            assert self._descriptor is not None
            os.write(self._descriptor, msgspec.json.encode((what, text)) + b"\n")
        except OSError as error:
            raise LocalFault(
                f"cannot note an upload in {self._directory}: {os.strerror(error.errno or 0)}; make room "
                "there, or correct its permissions"
            ) from None

    def _create(self, directory: Path) -> None:
        """Make the file under another name, so that nobody sees it before it is locked."""
        make_private(directory)
        self._path = directory / f"{token_hex(8)}{ENDING}"
        early = self._path.with_suffix(".new")
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
        self._descriptor = os.open(early, flags, 0o600)
        with suppress(OSError):  # where there are no locks, nobody takes the file for a dead run's
            take_lock(self._descriptor, f"{{holder}} has {early}")
        os.write(self._descriptor, msgspec.json.encode(("store", self._url)) + b"\n")
        early.rename(self._path)


def abort_dead_uploads(directory: Path, env: Mapping[str, str], url: str | None = None) -> int:
    """Abort the uploads of killed runs to the store at ``url``, or to all stores; return their number.

    Uploads that cannot be aborted now stay noted. All open uploads of a noted key are aborted, as their
    numbers are not known.
    """
    aborted = 0
    for path in sorted(directory.glob(f"*{ENDING}")):
        with suppress(OSError, Held), path.open("rb") as file:
            if not take_lock(file.fileno(), f"{{holder}} uploads by {path}"):
                continue  # its run may be alive
            store, keys = _read(file)
            if url is not None and store != url:
                continue
            if keys and (scheme_of(store) != S3 or find_spec("botocore") is None):
                continue
            with suppress(Exception):  # of many types, and any of them means: another time
                aborted += _abort(store, keys, env) if keys else 0
                path.unlink()
    return aborted


def _read(lines: Iterator[bytes]) -> tuple[str, list[str]]:
    """The store's URL, and the keys of the uploads that are not over."""
    store, begun = "", Counter[str]()
    for line in lines:
        with suppress(*NOT_DECODED):  # torn by a crash
            what, text = _LINE.decode(line)
            if what == "store":
                store = text
            else:
                begun[text] += 1 if what == "begin" else -1
    return store, sorted(+begun)


def _abort(url: str, keys: list[str], env: Mapping[str, str]) -> int:
    parts = split_destination(url)
    assert parts is not None
    bucket, prefix = parts.store.partition("//")[2], parts.key.strip("/")
    client = _connect(env)
    aborted = 0
    for key in keys:
        whole = f"{prefix}/{key}" if prefix else key
        pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=whole)
        numbers = [
            upload["UploadId"]
            for page in pages
            for upload in page.get("Uploads", ())
            if upload["Key"] == whole
        ]
        for number in numbers:
            client.abort_multipart_upload(Bucket=bucket, Key=whole, UploadId=number)
        aborted += len(numbers)
    return aborted


def _connect(env: Mapping[str, str]) -> Any:  # noqa: ANN401 - botocore has no types
    """A client with the login and the endpoint that obstore would use."""
    import botocore
    import botocore.config
    import botocore.session

    endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or env.get("AWS_ENDPOINT")
    is_plain = env.get("AWS_SKIP_SIGNATURE", "").lower() in ("true", "1", "yes", "on", "y")
    config = botocore.config.Config(
        connect_timeout=CONNECT_S,
        read_timeout=READ_S,
        retries={"total_max_attempts": 2},
        s3={"addressing_style": "path"} if endpoint else None,
        signature_version=botocore.UNSIGNED if is_plain else None,
    )
    return botocore.session.get_session().create_client(
        "s3",  # the name of the service
        region_name=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1",
        endpoint_url=endpoint,
        config=config,
    )
