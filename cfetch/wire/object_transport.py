"""Objects of stores (``s3://``, ``gs://``, ``az://``) over HTTP, by links that are signed for one request.

A login that has no key to sign with (``gcloud``, ``az login``) sends its token instead.
"""

from collections.abc import Mapping

from cfetch.base.schemes import S3, scheme_of
from cfetch.base.secret import SecretUrl
from cfetch.storage.buckets.object_source import ObjectLinks
from cfetch.wire.transport import Connecting, Response, SourceContext, Transport

OBJECT_REFUSALS = {  # the link is new, so a refusal is about the login, not about the link
    400: "the store does not accept the request; if its bucket is in another region, set AWS_REGION",
    401: "the store denies access; the login in the environment needs to read there",
    403: "the store denies access; the login in the environment needs to read there",
}
# Only for links without a signature: a signature would have to cover this header, and obstore's does not.
WITH_CHECKSUM = {"x-amz-checksum-mode": "ENABLED"}


def open_objects(context: SourceContext) -> Transport:
    """The opener of the rows of object stores in ``base/schemes.py``."""
    return ObjectTransport(context.http())


class ObjectTransport:
    """Implements ``Transport`` for objects: makes a link, and asks over ``http``, which others close."""

    def __init__(self, http: Transport) -> None:
        self._http = http
        self._links = ObjectLinks()

    async def open(
        self,
        url: SecretUrl,
        headers: Mapping[str, str],
        secrets: Mapping[str, str],
        *,
        fresh: bool,
        method: str = "GET",
        connecting: Connecting | None = None,
    ) -> Response:
        """Request an object by a link that is made now, as ``Transport`` says."""
        link, login = await self._links.make_request(url, "HEAD" if method == "HEAD" else "GET")
        if not login and "?" not in link.reveal() and scheme_of(url.value) == S3:
            headers = {**headers, **WITH_CHECKSUM}
        if login:
            secrets = {**secrets, **login}
        reply = await self._http.open(
            link, headers, secrets, fresh=fresh, method=method, connecting=connecting
        )
        if (why := OBJECT_REFUSALS.get(reply.status)) is not None:
            from cfetch.wire.reasons import refuse_object  # only a refusal needs it

            try:
                raise await refuse_object(reply, why)
            finally:
                reply.close()
        return reply

    def keep_at_most(self, most: Mapping[str, int]) -> None:
        """No effect: ``http`` has the connections."""

    async def close(self) -> None:
        """No effect: ``http`` has the connections."""
