"""The adapter to botocore: sends requests to a service of AWS in threads, and converts its errors to ours.

It uses botocore rather than a client for asyncio because of the credentials: botocore finds them wherever the
AWS command line does. The asyncio clients wrap it too, but pin one version, which hinders other packages.
"""

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import Any

from cfetch.base.clock import Clock
from cfetch.base.errors import CfetchError, Refused, Throttled, Transient, UsageError
from cfetch.wire.document import repeat_until_answered

CONNECT_S, READ_S = 10.0, 30.0
THROTTLED_S = 1.0  # the limits are for each second: 5 reads of a shard, 2 MiB from it
CONNECTIONS = 32  # Python's own pool has fewer threads on most machines
_THROTTLED = {
    "KMSThrottlingException",
    "LimitExceededException",
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "Throttling",
    "ThrottlingException",
}
_CODE = re.compile(r"[A-Za-z0-9.]{1,80}")


class AwsClient:
    """One service, which messages name as ``shown``. ``own``: makes errors of some of its codes."""

    def __init__(
        self,
        service: str,
        shown: str,
        *,
        region: str | None,
        endpoint: str | None,
        own: Mapping[str, Callable[[int], CfetchError]],
        clock: Clock,
        jitter: Callable[[], float],
        session: Any = None,  # noqa: ANN401 - botocore has no types
    ) -> None:
        """``region`` and ``session`` (botocore's, with its login) None: those that AWS's tools would use.

        Raises:
            UsageError: botocore is not installed, or knows no such region.
        """
        try:
            import botocore.config
            import botocore.exceptions
            import botocore.session
        except ImportError:
            raise UsageError(
                f"{service}:// needs botocore, which is not installed; install cfetch[kinesis]"
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
                service, region_name=region, endpoint_url=endpoint, config=config
            )
        except (self._errors.BotoCoreError, ValueError) as error:
            raise UsageError(f"no client for {shown} in {region} could be made: {_name_of(error)}") from None
        self.endpoint: str = self._client.meta.endpoint_url
        self._shown = shown
        self._own = own
        self._clock = clock
        self._jitter = jitter

    async def ask(self, operation: str, **query: Any) -> dict[str, Any]:  # noqa: ANN401 - each its own
        """Ask for an operation until it is answered.

        Raises SourceError, UsageError (no credentials) and the errors of ``own``; throttled and transient
        faults have been tried again before.
        """
        return await repeat_until_answered(
            lambda: self._ask_once(operation, query), clock=self._clock, jitter=self._jitter
        )

    async def close(self) -> None:
        """Close the connections."""
        await asyncio.to_thread(self._client.close)

    async def _ask_once(self, operation: str, query: dict[str, Any]) -> dict[str, Any]:
        try:
            reply: dict[str, Any] = await asyncio.to_thread(getattr(self._client, operation), **query)
        except (self._errors.BotoCoreError, self._errors.ClientError) as error:
            raise self._convert(error) from None
        return reply

    def _convert(self, error: Exception) -> CfetchError:
        """Convert an error to ours. Only its code is used, as its text may hold anything."""
        if isinstance(error, self._errors.ClientError):
            return self._make_refusal(error.response)
        if isinstance(error, self._errors.HTTPClientError | self._errors.IncompleteReadError):
            return Transient(f"{self._shown} cannot be reached: {_name_of(error)}")
        return UsageError(
            f"{self._shown} was not asked ({_name_of(error)}); are there AWS credentials (the environment, "
            "~/.aws, the machine's role), and is this region right?"
        )

    def _make_refusal(self, reply: dict[str, Any]) -> CfetchError:
        code = str(reply.get("Error", {}).get("Code", ""))
        status = reply.get("ResponseMetadata", {}).get("HTTPStatusCode")
        if code in self._own:
            return self._own[code](status)
        if code in _THROTTLED:
            return Throttled(
                f"{self._shown} asks us to slow down", http_status=status, retry_after_s=THROTTLED_S
            )
        shown = code if _CODE.fullmatch(code) else "no code"
        if type(status) is int and status >= 500:
            return Transient(f"{self._shown} failed: {shown}", http_status=status)
        return Refused(f"{self._shown} refuses: {shown}", http_status=status)


def _name_of(error: Exception) -> str:
    return type(error).__name__
