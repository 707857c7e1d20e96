"""botocore's client of S3, for what obstore cannot do; it is loaded only when it is needed."""

from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

CONNECT_S = 5.0


def has_botocore() -> bool:
    """Whether it is installed; it is no part of the extra ``cloud``."""
    return find_spec("botocore") is not None


def connect_s3(env: Mapping[str, str], *, read_s: float) -> Any:  # noqa: ANN401 - botocore has no types
    """A client with the login and the endpoint that obstore would use; a reply may take ``read_s``."""
    import botocore
    import botocore.config
    import botocore.session

    endpoint = env.get("AWS_ENDPOINT_URL_S3") or env.get("AWS_ENDPOINT_URL") or env.get("AWS_ENDPOINT")
    is_plain = env.get("AWS_SKIP_SIGNATURE", "").lower() in ("true", "1", "yes", "on", "y")
    config = botocore.config.Config(
        connect_timeout=CONNECT_S,
        read_timeout=read_s,
        retries={"total_max_attempts": 2},
        s3={"addressing_style": "path"} if endpoint else None,
        signature_version=botocore.UNSIGNED if is_plain else None,
    )
    return botocore.session.get_session().create_client(
        "s3",
        region_name=env.get("AWS_REGION") or env.get("AWS_DEFAULT_REGION") or "us-east-1",
        endpoint_url=endpoint,
        config=config,
    )


def list_pages(client: Any, bucket: str, prefix: str, *, behind: str) -> Iterator[Mapping[str, Any]]:  # noqa: ANN401
    """The pages of the list of a bucket, from the first key behind ``behind``."""
    asked = {"Bucket": bucket, "Prefix": prefix, **({"StartAfter": behind} if behind else {})}
    yield from client.get_paginator("list_objects_v2").paginate(**asked)
