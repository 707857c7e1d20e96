"""The panels of hosts: of slow ones, and of all where rows of attempts would change too fast to be read."""

from rich.text import Text

from cfetch.base.secret import printable
from cfetch.show.format import count, fit, plural, rate, shorten
from cfetch.show.live.hosts import SlowHost, State
from cfetch.show.live.pace import HostPace
from cfetch.show.live.rows import heading

LEAST_NAME = 12  # columns of a host's name
MARGIN = 3  # columns that the last line of a frame leaves free for the ^C that a terminal echoes

# sign, style: as with attempts, the sign or the word alone is enough to understand the state
_STATES: dict[State, tuple[str, str]] = {
    "out of use": ("×", "bold red"),
    "paused": ("‖", "magenta"),
    "narrow": ("↔", "cyan"),
    "slow": ("▲", "yellow"),
}


def hosts_panel(hosts: list[SlowHost], width: int, lines: int) -> list[Text]:
    """At most ``lines`` lines, at least two: a header, rows, and a row for the rest."""
    name = max(12, min(40, width // 3))
    shown = hosts[: lines - 1] if len(hosts) < lines else hosts[: max(1, lines - 2)]
    header = f"{fit('slow hosts', name)} {'active':>6} {'rate':>10} state"
    panel = [Text(header, style="dim", no_wrap=True, overflow="crop")]
    for host in shown:
        sign, style = _STATES[host.state]
        text = Text(no_wrap=True, overflow="ellipsis")
        text.append(f"{fit(shorten(host.name, name), name)} {host.active:>6} {rate(host.rate_bps):>10} ")
        text.append(f"{sign} {printable(host.text, 300)}", style)
        panel.append(text)
    more = len(hosts) - len(shown)
    return [*panel, Text(f"and {more} more", style="dim")] if more else panel


def pace_panel(hosts: list[HostPace], title: str, more: str, width: int, lines: int) -> list[Text]:
    """At most ``lines`` lines, at least two: a header, a row for each host, and a row for the rest."""
    wide = min(10, max(6, (width - LEAST_NAME - MARGIN) // 3 - 1))  # "failed", or "10,000,000"
    name = max(LEAST_NAME, min(60, width - 3 * (wide + 1) - MARGIN))
    shown = hosts[: lines - 1] if len(hosts) < lines else hosts[: lines - 2]
    columns = f"{'done':>{wide}} {'failed':>{wide}} {'active':>{wide}}"
    panel = [heading(title, more, name, columns)]
    for host in shown:
        text = Text(
            f"{fit(shorten(host.name, name), name)} {count(host.done):>{wide}} ",
            no_wrap=True,
            overflow="crop",
        )
        text.append(f"{count(host.failed):>{wide}}", "bold red" if host.failed else "")
        panel.append(text.append(f" {host.active:>{wide}}"))
    left = len(hosts) - len(shown)
    return [*panel, Text(f"and {plural(left, 'more host')}", style="dim")] if left else panel
