"""The adapter to botocore: sends requests to Kinesis in threads, and converts its errors to ours.

It uses botocore rather than a client for asyncio because of the credentials: botocore finds them wherever the
AWS command line does. The asyncio clients wrap it too, but pin one version, which hinders other packages.
"""

import asyncio
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from cfetch.clock import Clock
from cfetch.errors import CfetchError, FeedError, Refused, Throttled, Transient, UsageError
from cfetch.wire.document import repeat_until_answered

CONNECT_S, READ_S = 10.0, 30.0
THROTTLED_S = 1.0  # the limits are for each second: 5 reads of a shard, 2 MiB from it
CONNECTIONS = 32  # Python's own pool has fewer threads on most machines
_THROTTLED = {
    "KMSThrottlingException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
}
_CODE = re.compile(r"[A-Za-z0-9.]{1,80}")


class ExpiredIterator(Refused):
    """The iterator is older than five minutes."""


class Unknown(Refused):
    """The shard does not have this sequence number, or not any more."""


class NoSuchStream(FeedError):
    """The service knows no stream, or no shard, of that name."""


class Stream(NamedTuple):
    """``created`` distinguishes a stream from another with the same name."""

    arn: str
    created: datetime
    retention_h: int
    status: str


class Records(NamedTuple):
    """``next_iterator`` None: the shard is closed, and this was all. ``behind_ms``: 0 at the shard's tip."""

    records: list[dict[str, Any]]
    next_iterator: str | None
    behind_ms: int


class KinesisApi:
    """One stream. All methods raise SourceError, UsageError (no credentials) and the errors above.

    Throttled and transient faults have been tried again before.
    """

    def __init__(
        self,
        stream: str,
        *,
        region: str,
        clock: Clock,
        jitter: Callable[[], float],
        endpoint: str | None = None,
        session: Any = None,  # noqa: ANN401 - botocore has no types
    ) -> None:
        """``session``: botocore's, with its credentials; None: the credentials that AWS's tools would use.

        Raises:
            UsageError: botocore is not installed, or knows no such region.
        """
        try:
            import botocore.config
            import botocore.exceptions
            import botocore.session
        except ImportError:
            raise UsageError(
                "kinesis:// needs botocore, which is not installed; install cfetch[kinesis]"
            ) from None
        config = botocore.config.Config(
            connect_timeout=CONNECT_S,
            read_timeout=READ_S,
            retries={"total_max_attempts": 1},  # our own code repeats requests, by its clock
            max_pool_connections=CONNECTIONS,
        )
        self._errors = botocore.exceptions
        try:
            self._client = (session or botocore.session.get_session()).create_client(
                "kinesis", region_name=region, endpoint_url=endpoint, config=config
            )
        except (self._errors.BotoCoreError, ValueError) as error:
            raise UsageError(f"no client for Kinesis in {region} could be made: {_name_of(error)}") from None
        self.stream = stream
        self.endpoint: str = self._client.meta.endpoint_url
        self._clock = clock
        self._jitter = jitter

    async def describe(self) -> Stream:
        """The stream as it is now."""
        reply = await self._ask("describe_stream_summary", StreamName=self.stream)
        summary = reply["StreamDescriptionSummary"]
        return Stream(
            summary["StreamARN"],
            summary["StreamCreationTimestamp"],
            summary["RetentionPeriodHours"],
            summary["StreamStatus"],
        )

    async def shards(self, *, at_horizon: bool = False) -> list[dict[str, Any]]:
        """All shards that have records; ``at_horizon``: those that were open when the oldest record came."""
        query: dict[str, Any] = {"StreamName": self.stream}
        if at_horizon:
            query["ShardFilter"] = {"Type": "AT_TRIM_HORIZON"}
        shards: list[dict[str, Any]] = []
        while True:
            reply = await self._ask("list_shards", **query)
            shards += reply["Shards"]
            if not reply.get("NextToken"):
                return shards
            query = {"NextToken": reply["NextToken"]}

    async def iterator(self, shard: str, kind: str, sequence: int | None = None) -> str:
        """Make an iterator: ``kind`` TRIM_HORIZON, AT_SEQUENCE_NUMBER or AFTER_SEQUENCE_NUMBER."""
        query = {} if sequence is None else {"StartingSequenceNumber": str(sequence)}
        reply = await self._ask(
            "get_shard_iterator", StreamName=self.stream, ShardId=shard, ShardIteratorType=kind, **query
        )
        iterator: str = reply["ShardIterator"]
        return iterator

    async def records(self, iterator: str, limit: int) -> Records:
        """Get at most ``limit`` records."""
        reply = await self._ask("get_records", ShardIterator=iterator, Limit=limit)
        return Records(reply["Records"], reply.get("NextShardIterator"), reply.get("MillisBehindLatest", 0))

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.to_thread(self._client.close)

    async def _ask(self, operation: str, **query: Any) -> dict[str, Any]:  # noqa: ANN401 - each its own
        return await repeat_until_answered(
            lambda: self._ask_once(operation, query), clock=self._clock, jitter=self._jitter
        )

    async def _ask_once(self, operation: str, query: dict[str, Any]) -> dict[str, Any]:
        try:
            reply: dict[str, Any] = await asyncio.to_thread(getattr(self._client, operation), **query)
        except (self._errors.BotoCoreError, self._errors.ClientError) as error:
            raise self._own(error) from None
        return reply

    def _own(self, error: Exception) -> CfetchError:
        """Convert an error to ours. Only its code is used, as its text may hold anything."""
        if isinstance(error, self._errors.ClientError):
            return _refusal(error.response)
        if isinstance(error, self._errors.HTTPClientError | self._errors.IncompleteReadError):
            return Transient(f"Kinesis cannot be reached: {_name_of(error)}")
        return UsageError(
            f"Kinesis was not asked ({_name_of(error)}); are there AWS credentials (the environment, ~/.aws, "
            "the machine's role), and is this region right?"
        )


def _name_of(error: Exception) -> str:
    return type(error).__name__


def _refusal(reply: dict[str, Any]) -> CfetchError:
    code = str(reply.get("Error", {}).get("Code", ""))
    status = reply.get("ResponseMetadata", {}).get("HTTPStatusCode")
    if code in _THROTTLED:
        return Throttled("Kinesis asks us to slow down", http_status=status, retry_after_s=THROTTLED_S)
    if code in ("ExpiredIteratorException", "ExpiredNextTokenException"):
        return ExpiredIterator("the place in the shard was kept for too long", http_status=status)
    if code == "InvalidArgumentException":
        return Unknown("the shard has no such sequence number", http_status=status)
    if code == "ResourceNotFoundException":
        return NoSuchStream("there is no such stream, or it has no such shard")
    shown = code if _CODE.fullmatch(code) else "no code"
    if type(status) is int and status >= 500:
        return Transient(f"Kinesis failed: {shown}", http_status=status)
    return Refused(f"Kinesis refuses: {shown}", http_status=status)
