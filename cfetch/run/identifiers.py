"""Finds the list of files that a digital object identifier (``doi:10.…``) stands for.

The handle system (RFC 3650) says to which page an identifier leads. The page itself, which may be made for
browsers only, is not asked for: its address tells the repository, and with it the address of the list.
"""

import random
from urllib.parse import quote

import msgspec

from cfetch.base.clock import Clock
from cfetch.base.errors import SourceError, UsageError
from cfetch.base.secret import SecretUrl, printable
from cfetch.manifest.formats.landing_pages import find_list_address
from cfetch.run.request_connections import open_loop
from cfetch.wire.document import ask
from cfetch.wire.network import Network

RESOLVER = "https://doi.org/api/handles/"
MAX_ANSWER_BYTES = 1 << 20
_UNKNOWN = frozenset({404})


class _Data(msgspec.Struct):
    value: object = None


class _Value(msgspec.Struct):
    type: str
    data: _Data


class _Handle(msgspec.Struct):
    values: list[_Value] = []


def find_list_of(doi: str, clock: Clock, network: Network) -> tuple[str, str]:
    """The address of the list, and a note for the user.

    Raises:
        UsageError: there is no such identifier, or its repository is not known.
    """
    name = f"doi:{printable(doi)}"
    page = _find_page(doi, name, clock, network)
    if (address := find_list_address(page)) is None:
        raise UsageError(
            f"{name} leads to {SecretUrl(page)}, whose list of files cfetch does not know; if the repository "
            "has an address that lists the files of a record, give that, or the addresses of the files"
        )
    return address, f"{name} is {SecretUrl(page)}; its list of files is {printable(address)}"


def _find_page(doi: str, name: str, clock: Clock, network: Network) -> str:
    url = SecretUrl(f"{RESOLVER}{quote(doi)}?type=URL")
    try:
        with open_loop(network) as (runner, transport):
            answer = runner.run(
                ask(
                    url,
                    transport=transport,
                    clock=clock,
                    jitter=random.random,
                    expected=_UNKNOWN,
                    max_bytes=MAX_ANSWER_BYTES,
                )
            )
    except SourceError as error:
        raise UsageError(f"cannot ask where {name} leads: {error}") from None
    if answer.status in _UNKNOWN:
        raise UsageError(f"there is no {name}; is it spelt as the record shows it?")
    try:
        handle = msgspec.json.decode(answer.body, type=_Handle)
    except msgspec.DecodeError:
        raise UsageError(f"cannot ask where {name} leads: the answer is no record of a handle") from None
    for value in handle.values:
        if value.type == "URL" and isinstance(value.data.value, str):
            return value.data.value
    raise UsageError(f"{name} leads to no page")
