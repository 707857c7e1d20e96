"""Keeps links valid: asks for a fresh link before a try, if the old one has expired or was refused."""

from cfetch.clock import RunClock
from cfetch.engine.transfer import Transfer
from cfetch.errors import SourceError
from cfetch.events import Listener, UrlRefreshed
from cfetch.manifest.fields import Headers
from cfetch.wire.refresh import Link, UrlRefresher

EXPIRY_MARGIN_S = 60.0  # a link is renewed this long before its end; a request must not outlive it on the way


class Links:
    """``headers`` are the manifest's. Without a ``refresher`` no link is renewed."""

    def __init__(
        self, refresher: UrlRefresher | None, headers: Headers, clock: RunClock, emit: Listener
    ) -> None:
        self._refresher = refresher
        self._headers = headers
        self._clock = clock
        self._emit = emit

    def can_renew(self, transfer: Transfer) -> bool:
        """Whether the transfer's link can be renewed; a mirror's cannot."""
        return self._refresher is not None and transfer.sources.number == 0

    async def renew(self, transfer: Transfer) -> SourceError | None:
        """Get a fresh link if the transfer needs one. Returns the error if the old link cannot be used."""
        access = transfer.access
        stale, must = access.link, access.must_refresh
        is_due = stale.expires_at is not None and self._clock.wall() + EXPIRY_MARGIN_S >= stale.expires_at
        if self._refresher is None or not self.can_renew(transfer) or not (must or is_due):
            return None
        try:
            headers = tuple((dict(self._headers) | dict(access.headers)).items())
            link = await self._refresher.refresh(transfer.entry, Link(access.url, stale.expires_at, headers))
        except SourceError as error:
            return error if must else None  # the old link may still be valid: clocks differ
        access.renew(link, counts=must)
        was_straggler = bool(transfer.attempts) and transfer.attempts[-1].outcome == "straggler"
        self._emit(
            UrlRefreshed(
                t_s=self._clock.now(),
                id=transfer.entry.id,
                offset=transfer.entry.position,
                url=str(link.url),
                reason="straggler" if was_straggler else "expired",
            )
        )
        return None
