"""Opens the listeners of other distributions that the user names.

They are guarded. After its first error a listener gets no more events, the run goes on, and a note says which
package is at fault.
"""

from collections.abc import Iterator, Sequence

from cfetch.base.entry_points import make_plugin_error
from cfetch.base.errors import UsageError
from cfetch.base.events import Event, Listener, RunNoted
from cfetch.base.registry import load


def open_listeners(names: Sequence[str], emit: Listener) -> Iterator[Listener]:
    """Yield the listeners; ``emit`` gets the notes. Raises UsageError: one cannot be made."""
    for name in dict.fromkeys(names):
        make = load("listeners", name)
        try:
            listener = make()
        except UsageError:
            raise
        except Exception as error:
            raise make_plugin_error("listeners", name, error) from error
        if listener is not None:
            yield _guard(listener, name, emit)


def _guard(listener: Listener, name: str, emit: Listener) -> Listener:
    has_failed = False

    def tell(event: Event) -> None:
        nonlocal has_failed
        if has_failed:
            return
        try:
            listener(event)
        except Exception as error:  # noqa: BLE001 - of any type, and the run does not depend on it
            has_failed = True
            note = f"{make_plugin_error('listeners', name, error)}; it gets no more events"
            emit(RunNoted(t_s=event.t_s, note=note))

    return tell
