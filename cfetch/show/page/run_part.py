"""One run as a part of the page: charts, stragglers, hosts, failures. Pure, in one pass over its records."""

import shlex
from collections import Counter
from collections.abc import Sequence

from cfetch.base.events import ActiveAttempt
from cfetch.base.records import EventRecord, FileRecord
from cfetch.base.secret import printable
from cfetch.show.analysis import Most, ReportBuilder, RunAccount
from cfetch.show.document import FailureKind, HostLine, Mitigation, Report, RunLine
from cfetch.show.format import count, duration, plural, rate, size
from cfetch.show.metrics import RunHeader
from cfetch.show.metrics_reading import MetricsRun, Record
from cfetch.show.page.document import (
    AnySection,
    Cell,
    Curve,
    FileTimes,
    Lines,
    PagePart,
    PageTable,
    PageVerdict,
    Tone,
)
from cfetch.show.page.file_times import FileTimesBuilder
from cfetch.show.page.ideal import IdealBuilder
from cfetch.show.page.run_names import began_at
from cfetch.show.page.throughput import ThroughputBuilder, received_by
from cfetch.show.page.timeline import TimelineBuilder
from cfetch.show.page.verdicts import Circumstances, judge_run

MOST_HOSTS_UNDER_WAY = 50
MOST_FAILED_HOSTS = 8
FOR_PAGE = Most(slowest=50, mitigations=200, events=0, hosts=50)


class RunPart:
    """The part of one run: ``add`` its records; ``part`` may be asked at any time.

    ``source`` is the file of its metrics, or empty while it is written.
    """

    def __init__(self, header: RunHeader, source: str) -> None:
        self.header = header
        self.source = source
        self._account = RunAccount(header, FOR_PAGE)
        self._report = ReportBuilder(FOR_PAGE)
        self._timeline = TimelineBuilder()
        self._throughput = ThroughputBuilder()
        self._times = FileTimesBuilder()
        self._ideal = IdealBuilder()
        self._files = 0  # that were not in place: the same in whatever order they ended

    def add(self, record: Record) -> None:
        """Add a record of the run."""
        self._account.add(record)
        if isinstance(record, FileRecord):
            self._files += 0 if record.status == "skipped" else hash(record.path)
            self._report.add(record, 1)
            self._timeline.add(record)
            self._throughput.add(record)
            self._times.add(record)
            self._ideal.add(record)
        elif isinstance(record, EventRecord):
            self._throughput.note(record)

    def line(self) -> RunLine:
        """The headline of the run so far."""
        return self._account.line(self.source)

    def curves(self, name: str, alone_name: str = "") -> list[Curve]:
        """The distribution of its files' times; see ``FileTimesBuilder``."""
        return self._times.curves(name, alone_name)

    def circumstances(self, line: RunLine) -> Circumstances:
        """What a run must share with this one, which has the headline ``line``, to be compared with it."""
        engine = printable(str(self.header.settings.get("engine", "local")), 60)
        is_whole = line.complete and not line.cancelled
        return Circumstances(self._files, is_whole, engine, printable(line.host, 60))

    def verdict(self, line: RunLine) -> PageVerdict:
        """The verdict on the run, which is over and has the headline ``line``."""
        return judge_run(line, self._ideal.ideal_s(line.elapsed_s))

    def part(
        self,
        title: str,
        line: RunLine,
        *,
        shown_s: float,
        active: Sequence[ActiveAttempt] = (),
        is_over: bool = True,
        verdict: PageVerdict | None = None,
    ) -> PagePart:
        """The part, with the headline ``line``. Charts show ``shown_s``; attempts under way last until then.

        It begins with the ``verdict``, if the page's own is on several runs.
        """
        if is_over and line.had_nothing_to_do:
            idle = Lines(title="Downloads", lines=["Nothing was downloaded: no file was missing."])
            return PagePart(title=title, note=_describe_run(line), sections=[idle])
        if is_over and not line.complete and not line.bytes and not line.failed:
            nothing = Lines(title="Downloads", lines=["The run ended before the first file had come."])
            return PagePart(title=title, note=_describe_run(line), sections=[nothing])
        report = self._report.report([line])
        throughput = self._throughput.with_active(shown_s, active)
        sections: list[AnySection] = [] if verdict is None else [verdict]
        if report.failures:
            sections.append(_list_failures(report, _make_retry_command(self.header, self.source)))
        sections += [self._timeline.section(shown_s, active), throughput.section(shown_s)]
        if report.mitigations.cancelled:
            sections.append(_list_stragglers(report))
        sections.append(_list_hosts(report, throughput.host_lines(), active))
        sections.append(_list_slowest(report))
        return PagePart(title=title, note=_describe_run(line), sections=sections)


def read_run(run: MetricsRun) -> RunPart:
    """Read a run to its end."""
    part = RunPart(run.header, str(run.source.absolute()))
    for record in run.records:
        part.add(record)
    return part


def _describe_run(line: RunLine) -> str:
    """The run's identity in one line."""
    began, version, instant = began_at(line), printable(line.version, 40), printable(line.instant, 40)
    setup = f"{line.concurrency} at a time, policy {printable(line.policy, 40) or 'unknown'}"
    return f"{began}, on {printable(line.host, 60)}, {setup}, cfetch {version}, instant {instant}"


def make_times(curves: list[Curve]) -> FileTimes:
    """The distribution functions of all runs in one chart."""
    medians = [
        f"{curve.name}: half within {duration(_time_at(curve, 0.5))}, 99 % within "
        f"{duration(_time_at(curve, 0.99))}, all within {duration(curve.times_s[-1])}"
        for curve in curves
    ]
    return FileTimes(
        title="Time that files took",
        note="the share of files that took up to so long, from the first attempt to the end",
        summary="; ".join(medians),
        curves=curves,
    )


def _time_at(curve: Curve, share: float) -> float:
    pairs = zip(curve.shares, curve.times_s, strict=True)
    return next((time_s for reached, time_s in pairs if reached >= share), curve.times_s[-1])


def _list_stragglers(report: Report) -> PageTable:
    """Cancelled attempts: first those that saved most, then the wrong and unknown ones."""
    sums = report.mitigations
    shown = sorted(sums.shown, key=lambda verdict: (verdict.saved_s is None, -(verdict.saved_s or 0.0)))
    ends_s = [end_s for verdict in shown for end_s in (verdict.projected_s, verdict.finish_s)]
    longest_s = max(filter(None, ends_s), default=1.0)
    more = sums.cancelled - len(shown)
    rest = f"; {plural(more, 'further attempt')} had less effect" if more else ""
    return PageTable(
        title="Stragglers",
        note=f"{plural(sums.cancelled, 'attempt')} cancelled: {sums.better:,} better, {sums.worse:,} worse, "
        f"{sums.unknown:,} unknown; {size(sums.wasted_bytes)} wasted{rest}. "
        "Alone by and done by: since the run's start, as in the charts",
        columns=["file", ">try", "alone by", "done by", ">saved", ">wasted"],
        rows=[
            [
                Cell(text=printable(verdict.path), path=True),
                str(verdict.attempt),
                _bar_cell(verdict.projected_s, longest_s, "dim"),
                _bar_cell(verdict.finish_s, longest_s, "good"),
                _saved_cell(verdict),
                size(verdict.wasted_bytes),
            ]
            for verdict in shown
        ],
    )


def _bar_cell(time_s: float | None, longest_s: float, tone: Tone) -> Cell:
    if time_s is None:
        return Cell(text="never")
    return Cell(text=duration(time_s), bar=_length_of(time_s, longest_s), tone=tone)


def _length_of(time_s: float, longest_s: float) -> float:
    """The length of a bar; clocks of several machines may make a time negative."""
    return round(max(0.0, time_s) / longest_s, 3) if longest_s > 0 else 0.0


def _saved_cell(verdict: Mitigation) -> Cell:
    if verdict.saved_s is None:
        return Cell(text="unknown", tone="dim")
    if verdict.saved_s > 0:
        return Cell(text=f"+{duration(verdict.saved_s)}", tone="good")
    return Cell(text=f"✗ wrong: {duration(verdict.saved_s)}", tone="bad")


def _list_hosts(report: Report, lines: dict[str, list[float]], active: Sequence[ActiveAttempt]) -> PageTable:
    under_way: Counter[str] = Counter()
    for attempt in active:
        under_way[attempt.host] += received_by(attempt)
    failed: dict[str, int] = dict.fromkeys(list(under_way)[:MOST_HOSTS_UNDER_WAY], 0)
    for kind in report.failures:
        for host, files in kind.hosts.items():
            failed[host] = failed.get(host, 0) + files
    rows = [
        _host_row(host, failed.pop(host.host, 0), lines.get(host.host, []), under_way[host.host])
        for host in report.hosts
    ]
    for name, files in failed.items():  # hosts without a file that is done
        line = Cell(text="", line=lines.get(name, []))
        number = Cell(text=count(files), tone="bad" if files else "dim")
        received = size(under_way[name]) if under_way[name] else ""
        rows.append([printable(name, 80), line, "0", number, received, *[""] * 6])
    more = report.hosts_total - len(report.hosts)
    rest = f"; {plural(more, 'host')} more with fewer files" if more else ""
    return PageTable(
        title="Hosts",
        note=f"percentiles over the files that are done; bytes with those under way{rest}"
        if active
        else f"percentiles over the files that are done{rest}",
        columns=["host", "throughput", *_HOST_COLUMNS],
        rows=rows,
    )


_HOST_COLUMNS = (
    ">files",
    ">failed",
    ">bytes",
    ">rate p50",
    ">p5",
    ">time p50",
    ">p95",
    ">p99",
    ">1st byte p50",
)


def _host_row(host: HostLine, failed: int, line: list[float], under_way: int) -> list[Cell | str]:
    return [
        printable(host.host, 80),
        Cell(text="", line=line),
        count(host.files),
        Cell(text=count(failed), tone="bad" if failed else "dim"),
        size(host.bytes + under_way),
        rate(host.rate_bps.p50),
        rate(host.rate_bps.p05),
        duration(host.elapsed_s.p50),
        duration(host.elapsed_s.p95),
        duration(host.elapsed_s.p99),
        duration(host.first_byte_s.p50) if host.first_byte_s else "",
    ]


def _make_retry_command(header: RunHeader, source: str) -> str:
    """The command that brings the files that the run has left to do; empty if a name cannot be typed.

    The metrics do not name the manifest, whose URL may hold a secret.
    """
    given = header.settings.get("to")
    several = [str(place) for place in given] if isinstance(given, list | tuple) and len(given) > 1 else []
    places = [word for place in several or [header.destination] for word in ("--to", place)]
    words = [*places, "--failed-from", source]
    if not source or any(printable(word, len(word)) != word for word in words):
        return ""
    return f"cfetch download MANIFEST {shlex.join(words)}"


def _list_failures(report: Report, command: str) -> PageTable:
    hosts = sorted({host for kind in report.failures for host in kind.hosts})[:MOST_FAILED_HOSTS]
    shown = hosts if len(hosts) > 1 else []  # a single host is in the message
    failed = sum(kind.files for kind in report.failures)
    causes = f"{plural(failed, 'file')} failed"
    if failed > 1:
        causes += f", for {plural(len(report.failures), 'cause')}"
    rest = "; this command brings what is left, with the same list as MANIFEST" if command else ""
    return PageTable(
        title="Failures",
        note=causes + rest,
        command=command,
        columns=["cause", ">files", *(f">{printable(host, 40)}" for host in shown), "kind", "for example"],
        rows=[
            [
                Cell(text=_name_cause(kind), tone="bad"),
                count(kind.files),
                *(count(kind.hosts.get(host, 0)) for host in shown),
                printable(kind.kind, 20),
                Cell(text=printable(kind.path), path=True),
            ]
            for kind in report.failures
        ],
    )


def _name_cause(kind: FailureKind) -> str:
    """The message of the example: what all failures of the cause have in common, and one file's own words."""
    return printable(kind.message, 400) or "no reason is recorded"


def _list_slowest(report: Report) -> PageTable:
    longest_s = max((file.elapsed_s for file in report.slowest), default=0.0)
    return PageTable(
        title="Slowest files",
        note="from the first attempt to the end, and why",
        columns=["file", ">size", "time", ">rate", ">tries", "why"],
        rows=[
            [
                Cell(text=printable(file.path), path=True),
                size(file.size_bytes),
                Cell(text=duration(file.elapsed_s), bar=_length_of(file.elapsed_s, longest_s), tone="dim"),
                rate(file.rate_bps),
                str(file.attempts),
                file.why,
            ]
            for file in report.slowest
        ],
        folded=True,
    )
