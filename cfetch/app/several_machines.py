"""``cfetch plan run --together``: this machine leads the run of a plan, or joins another machine's run."""

from cfetch.app.prepared import Prepared
from cfetch.base.errors import Held
from cfetch.base.events import Listener
from cfetch.base.records import Summary


def run_together(prepared: Prepared, listener: Listener) -> Summary | None:
    """Bring a scheduled plan together with other machines; None: it is completed already.

    If the leader ends before the plan, another machine leads the next run, and the rest join that one. Only a
    machine that sees all volumes leads it.

    Raises:
        Held: a run has the plan that does not share it.
        UsageError, LocalFault, Interrupted: as ``Prepared.run``.
    """
    while prepared.may_take_part(listener):
        try:
            summary = prepared.run(listener, together=True)
            if summary is None:
                return None
        except Held:
            summary = prepared.join(listener)
        if summary is not None and summary.exit_code != Held.exit_code:
            return summary
    return None
