"""The panel of slow hosts: a row for each; without slow hosts there is no panel."""

from rich.text import Text

from cfetch.dashboard.hosts import SlowHost, State
from cfetch.report.format import fit, rate, shorten
from cfetch.secret import printable

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
