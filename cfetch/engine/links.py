"""Keeps links valid: asks for a fresh link before a try, if the old one has expired or was refused."""

from msgspec.structs import replace

from cfetch.base.clock import RunClock
from cfetch.base.errors import SourceError
from cfetch.base.events import Listener, UrlRefreshed
from cfetch.engine.transfer import RequestAccess, Transfer
from cfetch.manifest.fields import Headers
from cfetch.wire.fresh_link import Link, UrlRefresher

EXPIRY_MARGIN_S = 60.0  # a link is renewed this long before its end; a request must not outlive it on the way
MARGIN_SHARE = 0.25  # of a fresh link's life, if that is less


class Links:
    """``headers`` are the manifest's; ``plan_secrets`` are the same, revealed.

    Without a ``refresher`` no link is renewed.
    """

    def __init__(
        self, refresher: UrlRefresher | None, headers: Headers, clock: RunClock, emit: Listener
    ) -> None:
        self._refresher = refresher
        self._headers = headers
        self.plan_secrets = {name: value.reveal() for name, value in headers}
        self._clock = clock
        self._emit = emit
        self._began_s = clock.wall()  # all links of the manifest are older
        if refresher is not None:
            from cfetch.engine.link_life import LinkLife  # most links cannot be renewed

            self._lives = {False: LinkLife(), True: LinkLife()}  # of the manifest's own, and of fresh ones

    def can_renew(self, transfer: Transfer) -> bool:
        """Whether the transfer's link can be renewed; a mirror's cannot."""
        return self._refresher is not None and transfer.sources.number == 0

    def note_served(self, transfer: Transfer) -> None:
        """Note that the source has served the transfer by its link, which can be renewed."""
        access = transfer.access
        self._lives[access.is_renewed].note_served(access.asked_s - self._find_birth_s(access.link))

    async def renew(self, transfer: Transfer) -> SourceError | None:
        """Get a fresh link if the transfer needs one. Returns the error if the old link cannot be used."""
        access = transfer.access
        must = access.must_refresh
        if self._refresher is None or not self.can_renew(transfer) or not (must or self._is_due(access)):
            access.asked_s = self._clock.wall()
            return None
        age_s = self._clock.wall() - self._find_birth_s(access.link)
        try:
            link = await self._refresh(self._refresher, transfer)
            if must:
                self._lives[access.is_renewed].note_refused(age_s)
            access.renew(link, counts=must)
            if link.expires_at is None and self._is_due(access):  # it was got for another entry, long ago
                access.renew(await self._refresh(self._refresher, transfer), counts=False)
        except SourceError as error:
            return error if must else None  # the old link may still be valid: clocks differ
        finally:
            access.asked_s = self._clock.wall()
        was_straggler = bool(transfer.attempts) and transfer.attempts[-1].outcome == "straggler"
        self._emit(
            UrlRefreshed(
                t_s=self._clock.now(),
                id=transfer.entry.id,
                offset=transfer.entry.position,
                url=str(access.link.url),
                reason="straggler" if was_straggler else "expired",
            )
        )
        return None

    async def _refresh(self, refresher: UrlRefresher, transfer: Transfer) -> Link:
        access = transfer.access
        headers = tuple((dict(self._headers) | dict(access.headers)).items())
        stale = Link(access.url, access.link.expires_at, headers)
        link = await refresher.refresh(transfer.entry, stale)
        return replace(link, made_s=self._clock.wall()) if link.made_s is None else link

    def _find_birth_s(self, link: Link) -> float:
        return self._began_s if link.made_s is None else link.made_s

    def _is_due(self, access: RequestAccess) -> bool:
        link, now_s = access.link, self._clock.wall()
        age_s = now_s - self._find_birth_s(link)
        if link.expires_at is None:
            return self._lives[access.is_renewed].is_over(age_s, MARGIN_SHARE)
        margin_s = EXPIRY_MARGIN_S
        if link.made_s is not None:
            margin_s = min(margin_s, MARGIN_SHARE * (link.expires_at - link.made_s))
        return now_s + margin_s >= link.expires_at
