"""Keeps links valid: asks for a fresh link before a try, if the old one has expired or was refused."""

from math import inf

from msgspec.structs import replace

from cfetch.base.clock import RunClock
from cfetch.base.errors import SourceError
from cfetch.base.events import Listener, UrlRefreshed
from cfetch.engine.transfer import RequestAccess, Transfer
from cfetch.manifest.fields import Headers
from cfetch.wire.fresh_link import Link, UrlRefresher

EXPIRY_MARGIN_S = 60.0  # a link is renewed this long before its end; a request must not outlive it on the way
MARGIN_SHARE = 0.25  # of a fresh link's life, if that is less
REFUSED = 3  # so many refused links that could be replaced show that all links end; fewer may be chance
LEAST_LIFE_S = 2.0  # a link that is refused sooner was never valid


class _Life:
    """How long links without a stated end live, by refusals; a link that lives longer disproves it. Pure."""

    def __init__(self) -> None:
        self._refused: list[float] = []
        self._served_s = 0.0

    def note_served(self, age_s: float) -> None:
        """Note that a link of this age was served."""
        self._served_s = max(self._served_s, age_s)
        self._refused = [refused_s for refused_s in self._refused if refused_s > self._served_s]

    def note_refused(self, age_s: float) -> None:
        """Note that a link of this age was refused, and another one came in its place."""
        if age_s > max(self._served_s, LEAST_LIFE_S) and len(self._refused) < REFUSED:
            self._refused.append(age_s)

    def is_over(self, age_s: float) -> bool:
        """Whether a link of this age has ended, or is about to."""
        life_s = min(self._refused) if len(self._refused) >= REFUSED else inf
        return age_s >= (1 - MARGIN_SHARE) * life_s


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
        self._lives = {False: _Life(), True: _Life()}  # of the manifest's own links, and of fresh ones

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
            return self._lives[access.is_renewed].is_over(age_s)
        margin_s = EXPIRY_MARGIN_S
        if link.made_s is not None:
            margin_s = min(margin_s, MARGIN_SHARE * (link.expires_at - link.made_s))
        return now_s + margin_s >= link.expires_at
