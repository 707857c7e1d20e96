"""The calls of Kinesis that a reader of a stream needs."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, NamedTuple

from cfetch.base.clock import Clock
from cfetch.base.errors import CfetchError, FeedError, Refused
from cfetch.plugins.follow.backends.aws import AwsClient


class ExpiredIterator(Refused):
    """The iterator is older than five minutes."""


class Unknown(Refused):
    """The shard does not have this sequence number, or not any more."""


class NoSuchStream(FeedError):
    """The service knows no stream, or no shard, of that name."""


class KinesisStream(NamedTuple):
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
        """``session`` as for ``AwsClient``, whose errors this raises."""
        self.stream = stream
        self._client = AwsClient(
            "kinesis",
            "Kinesis",
            region=region,
            endpoint=endpoint,
            own=_OWN,
            clock=clock,
            jitter=jitter,
            session=session,
        )
        self.endpoint = self._client.endpoint

    async def describe(self) -> KinesisStream:
        """The stream as it is now."""
        reply = await self._client.ask("describe_stream_summary", StreamName=self.stream)
        summary = reply["StreamDescriptionSummary"]
        return KinesisStream(
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
            reply = await self._client.ask("list_shards", **query)
            shards += reply["Shards"]
            if not reply.get("NextToken"):
                return shards
            query = {"NextToken": reply["NextToken"]}

    async def iterator(
        self, shard: str, kind: str, sequence: int | None = None, time_s: float | None = None
    ) -> str:
        """Make an iterator.

        ``kind``: TRIM_HORIZON, AT_SEQUENCE_NUMBER, AFTER_SEQUENCE_NUMBER, or AT_TIMESTAMP with ``time_s``.
        """
        query: dict[str, Any] = {} if sequence is None else {"StartingSequenceNumber": str(sequence)}
        if time_s is not None:
            query["Timestamp"] = datetime.fromtimestamp(time_s, UTC)
        reply = await self._client.ask(
            "get_shard_iterator", StreamName=self.stream, ShardId=shard, ShardIteratorType=kind, **query
        )
        iterator: str = reply["ShardIterator"]
        return iterator

    async def records(self, iterator: str, limit: int) -> Records:
        """Get at most ``limit`` records."""
        reply = await self._client.ask("get_records", ShardIterator=iterator, Limit=limit)
        return Records(reply["Records"], reply.get("NextShardIterator"), reply.get("MillisBehindLatest", 0))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _make_expired(status: int) -> CfetchError:
    return ExpiredIterator("the place in the shard was kept for too long", http_status=status)


_OWN: Mapping[str, Callable[[int], CfetchError]] = MappingProxyType(
    {
        "ExpiredIteratorException": _make_expired,
        "ExpiredNextTokenException": _make_expired,
        "InvalidArgumentException": lambda status: Unknown(
            "the shard has no such sequence number", http_status=status
        ),
        "ResourceNotFoundException": lambda _: NoSuchStream(
            "there is no such stream, or it has no such shard"
        ),
    }
)
