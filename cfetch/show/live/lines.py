"""Facts as lines on stderr without a terminal: for people (plain), machines (JSON), or errors only (quiet).

The lines have no escape sequences and no colours, so that a CI log or a journal can keep them.
"""

from collections.abc import Callable
from typing import TextIO

from cfetch.base.events import Event, Listener
from cfetch.base.secret import encode_json
from cfetch.show.live.closing import closing_line
from cfetch.show.live.fact import Fact
from cfetch.show.live.facts import Facts
from cfetch.show.live.view import View


def plain_lines(stream: TextIO, *, explain: bool = False, verbose: bool = False) -> Listener:
    """Write one line per fact, after the run's age."""
    return _write_lines(stream, _as_plain, _choose_facts(explain=explain, verbose=verbose, joins=True))


def json_lines(stream: TextIO, *, explain: bool = False, verbose: bool = False) -> Listener:
    """Write one JSON object per fact: ``t_s``, ``event``, ``level`` and the event's own values."""
    return _write_lines(stream, _as_json, _choose_facts(explain=explain, verbose=verbose, joins=False))


def quiet_lines(stream: TextIO) -> Listener:
    """Write errors only, with the path of the metrics; nothing if there is no error."""
    return _write_lines(stream, _as_error, Facts(joins=True))


def _choose_facts(*, explain: bool, verbose: bool, joins: bool) -> Facts:
    if not verbose:
        return Facts(explain=explain, joins=joins)
    from cfetch.show.live.verbose_facts import VerboseFacts  # few runs are asked for a line for each file

    return VerboseFacts(joins=joins)


def _write_lines(stream: TextIO, render: Callable[[Fact, View], str | None], facts: Facts) -> Listener:
    alive = True

    def write_facts(event: Event) -> None:
        nonlocal alive
        for fact in facts.reduce(event):
            text = render(fact, facts.view)
            if text is not None and alive:
                try:
                    stream.write(f"{text}\n")
                    stream.flush()
                except (OSError, ValueError):  # a closed pipe: the download matters more than its log
                    alive = False

    return write_facts


def _as_plain(fact: Fact, _view: View) -> str:
    return fact.text if fact.name == "finished" else f"[{fact.t_s:6.1f}s] {fact.text}"


def _as_error(fact: Fact, view: View) -> str | None:
    if fact.level != "error":
        return None
    return closing_line(view.summary, view.stopping) if view.summary else _as_plain(fact, view)


def _as_json(fact: Fact, _view: View) -> str:
    head = {"t_s": round(fact.t_s, 3), "event": fact.name, "level": fact.level}
    return encode_json({**head, **fact.data})
