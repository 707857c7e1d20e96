"""Brings an entry that a worker has in hand: looks for it, fetches it, gives the outcome to the commitment.

its name is another entry's -> fail
in place already            -> skip; if the server is to be asked, only after its answer
whole and verified          -> publish
its next try has to wait    -> put back
the file cannot be had      -> fail
the volume fails            -> fail locally
the worker is cancelled     -> interrupt
"""

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from cfetch.base.clock import RunClock
from cfetch.base.errors import Blocked, Clashing, Corrupt, LocalFault, SourceError, Unstorable
from cfetch.engine.attempt import Unchanged
from cfetch.engine.fetcher import Fetcher
from cfetch.engine.transfer import Transfer
from cfetch.show.counts import LiveCounts

if TYPE_CHECKING:
    from cfetch.engine.commitment import Commitment
    from cfetch.straggler.policy import Policy


class EntryBringer:
    """Brings entries to their end, or lets them wait in the schedule or in their batch."""

    def __init__(
        self,
        commitment: "Commitment",
        fetcher: Fetcher,
        policy: "Policy",
        counts: LiveCounts,
        clock: RunClock,
    ) -> None:
        self._commitment = commitment
        self._fetcher = fetcher
        self._policy = policy
        self._counts = counts
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()

    async def bring(self, transfer: Transfer) -> None:
        """Bring the entry to its end, or back to the schedule, or let it wait for the others of its batch.

        Raises LocalFault: the run cannot go on.
        """
        try:
            if transfer.entry.clash is not None:  # what stands under its name is the other entry's file
                raise Clashing(transfer.entry.clash.message)
            turn = await self._wait_for_turn(transfer) if self._policy.sequential else None
            try:
                if transfer.is_new:
                    transfer.adopted_bytes = 0
                    is_there = not self._commitment.has_nothing_of(transfer)
                    if is_there and await self._take_over(transfer):
                        self._commitment.skip(transfer)
                        return
                is_whole = transfer.verified != "none"
                due_s = None if is_whole else await self._fetcher.go_on(transfer)
                if due_s is not None:
                    transfer.part.close()
            finally:
                if turn is not None:
                    turn.release()
        except Unchanged:
            self._commitment.skip(transfer)
            return
        except (SourceError, Blocked, Clashing, Unstorable) as error:
            self._commitment.fail(transfer, error)
            return
        except asyncio.CancelledError:
            if self._commitment.interrupt(transfer):
                return
            raise
        except LocalFault as fault:
            self._commitment.fail_locally(transfer, fault)
            return
        except BaseException:
            transfer.part.discard()
            raise
        if due_s is None:
            await self._commitment.publish(transfer)
            return
        transfer.put_back(self._clock.now(), due_s)
        self._commitment.put_back(transfer, due_s)

    async def _wait_for_turn(self, transfer: Transfer) -> asyncio.Lock:
        """Wait until no other entry is fetched (sequential fallback); this costs none of the retry budget."""
        began_s = self._clock.now()
        await self._one_at_a_time.acquire()
        transfer.tries.progress_s += self._clock.now() - began_s
        return self._one_at_a_time

    async def _take_over(self, transfer: Transfer) -> bool:
        """Take over what there is of the entry: a file in place (returns True), or what a dead run has left.

        ``transfer.verified`` then says how the file was verified, or a part that is whole. If the server has
        to be asked whether the file has changed, this returns False and the fetch asks.
        """
        entry, part = transfer.entry, transfer.part
        standing = await self._commitment.find_standing(transfer)
        if standing is not None and standing.unless:
            transfer.access.standing = standing
            return False
        if standing is not None:
            await self._clock.sleep(0)  # otherwise a plan that is all in place would block signals
            transfer.verified = standing.verified
            return True
        transfer.adopted_bytes = part.position
        if part.position and not transfer.attempts:  # otherwise this run fetched the bytes for another volume
            self._counts.adopted_bytes += part.position
        if part.position and part.position == entry.size_bytes:
            with suppress(Corrupt):  # verifying has emptied the part, so it is fetched anew
                transfer.verified = part.verify(entry.size_bytes, entry.digest)
        return False
