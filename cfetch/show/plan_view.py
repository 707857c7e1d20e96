"""The output of ``cfetch plan`` about a timeline: documents for machines, lines for people."""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from cfetch.base.errors import Held
from cfetch.base.records import Summary
from cfetch.base.secret import printable
from cfetch.show.format import UNKNOWN, duration, size
from cfetch.show.table_text import align


class ListedPlan(msgspec.Struct, frozen=True, kw_only=True):
    """One instant. ``owner`` is the process that works on it or completed it.

    ``live`` None: it is not certain yet whether the owner is alive. ``released``: the owner ended in good
    order, and any process may go on. ``target`` is the plan that a rollback names; ``files`` and ``bytes``
    are set only for a plan.
    """

    instant: str
    action: str
    kind: str | None
    state: str
    owner: str | None
    live: bool | None
    released: bool
    epoch: int
    heartbeat_age_s: float | None
    files: int | None = None
    bytes: int | None = None
    manifest: str | None = None
    destinations: tuple[str, ...] = ()
    target: str | None = None


class Plans(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch plan list --json`` (``cfetch.plans/1``): oldest first."""

    schema: str = "cfetch.plans/1"
    plans: list[ListedPlan]


class Preview(msgspec.Struct, frozen=True, kw_only=True):
    """The document that ``--dry-run`` prints (``cfetch.preview/1``); nothing is downloaded.

    ``hosts``: files by host, only the largest hosts; ``more_hosts``: the number of others. ``volumes``: the
    free bytes of each volume, if there are several. For a manifest that Spark has prepared, ``batches`` is
    the number of tasks, and ``floors`` the seconds that the slowest hosts take with any number of executors.
    ``notes`` are for the user.
    """

    schema: str = "cfetch.preview/1"
    files: int
    in_place: int
    bytes_known: int
    sizes_unknown: int
    merged: int
    hosts: dict[str, int]
    more_hosts: int = 0
    destination: str
    free_bytes: int | None
    volumes: dict[str, int | None] = {}
    batches: int | None = None
    floors: dict[str, float] = {}
    notes: list[str] = []


class SyncPreview(msgspec.Struct, frozen=True, kw_only=True):
    """The document that ``cfetch sync --dry-run`` prints (``cfetch.sync-preview/1``).

    ``changed`` files would be fetched again; the source no longer has ``gone`` files. ``deletes`` are the
    first thousand files that would be deleted. ``refusal``: why a run would end at once.
    """

    schema: str = "cfetch.sync-preview/1"
    preview: Preview
    changed: int
    gone: int
    deletes: list[str]
    refusal: str | None = None


class Previews(msgspec.Struct, frozen=True, kw_only=True):
    """The previews of several plans: ``cfetch plan run --dry-run --json`` (``cfetch.previews/1``)."""

    schema: str = "cfetch.previews/1"
    previews: list[Preview]


class Scheduled(msgspec.Struct, frozen=True, kw_only=True):
    """The document that ``cfetch plan schedule`` prints (``cfetch.scheduled/1``).

    ``was_pending``: the same plan was on the timeline already, and no second one was made.
    """

    schema: str = "cfetch.scheduled/1"
    instant: str
    was_pending: bool
    files: int
    bytes_known: int


class HeldBy(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch download --json`` with exit code 4 (``cfetch.held/1``): another run has the plan."""

    schema: str = "cfetch.held/1"
    exit_code: int
    message: str
    host: str
    pid: int
    heartbeat_age_s: float | None


class Summaries(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch plan run --json`` (``cfetch.summaries/1``): one per plan that was run."""

    schema: str = "cfetch.summaries/1"
    summaries: list[Summary]


class CleanedInstant(msgspec.Struct, frozen=True, kw_only=True):
    """The fate of one instant, and the reason."""

    instant: str
    action: str
    state: str
    kept: bool
    why: str


class Cleaned(msgspec.Struct, frozen=True, kw_only=True):
    """``cfetch plan clean --json`` (``cfetch.cleaned/1``)."""

    schema: str = "cfetch.cleaned/1"
    dry_run: bool
    instants: list[CleanedInstant]


def held_document(held: Held) -> HeldBy:
    """The document of a refusal: another run has the plan."""
    return HeldBy(
        exit_code=held.exit_code, message=str(held), host=held.host, pid=held.pid, heartbeat_age_s=held.age_s
    )


def plan_lines(plans: Iterable[ListedPlan]) -> Iterator[str]:
    """A row for each instant, at most 80 columns wide, and below it a line about the run that has it."""
    shown = list(plans)
    rows = [("instant", "what", "state", "files", "size")]
    for plan in shown:
        files = UNKNOWN if plan.files is None else f"{plan.files:,}"
        known = size(plan.bytes or None)  # 0: no size is known
        rows.append(
            (plan.instant, "download" if plan.target is None else "rollback", plan.state, files, known)
        )
    if not shown:
        yield "there is no plan on this timeline"
        return
    head, *lines = align(rows)
    yield head
    for line, plan in zip(lines, shown, strict=True):
        yield line
        yield f"  {'; '.join(_describe_run(plan))}"


def _describe_run(plan: ListedPlan) -> Iterator[str]:
    if plan.target is not None:
        yield f"of {plan.target}"
    if plan.kind is None:
        yield "its record cannot be read"
    elif plan.kind == "removable":
        yield "removable"
    if plan.owner is None:
        yield "not begun yet"
    elif plan.released and plan.state != "completed":
        yield f"run {plan.epoch} has ended{_ago(plan)}; cfetch plan run goes on with it"
    else:
        yield f"run {plan.epoch}, {_owner_text(plan)}"


def detail_lines(plans: Sequence[ListedPlan]) -> Iterator[str]:
    """A block for each instant, one fact a line."""
    for number, plan in enumerate(plans):
        if number:
            yield ""
        facts = [
            ("instant", plan.instant),
            ("what", plan.action if plan.target is None else f"rollback of {plan.target}"),
            ("kind", _KINDS.get(plan.kind or "", "its record cannot be read")),
            ("state", plan.state),
            ("run", str(plan.epoch) if plan.epoch else "not begun yet"),
            ("owner", _owner_text(plan)),
            ("manifest", plan.manifest),
            *(("" if position else "to", volume) for position, volume in enumerate(plan.destinations)),
            ("files", None if plan.files is None else f"{plan.files:,}"),
            ("size", size(plan.bytes) if plan.bytes else None),
        ]
        yield from (f"{name:>10}  {printable(text, 1000)}" for name, text in facts if text)


def clean_lines(cleaned: Cleaned) -> Iterator[str]:
    """A line for each instant: its fate, and the reason."""
    done = "would go" if cleaned.dry_run else "gone"
    for instant in cleaned.instants:
        fate = "kept" if instant.kept else done
        yield f"{fate}: {instant.instant} ({instant.action}, {instant.state}): {printable(instant.why)}"
    if not cleaned.instants:
        yield "there is no plan on this timeline"


def _owner_text(plan: ListedPlan) -> str:
    if plan.owner is None:
        return UNKNOWN
    ago = _ago(plan)
    if plan.state == "completed":
        return printable(plan.owner)
    if plan.released:
        return f"none; the last was {printable(plan.owner)}, which ended{ago}"
    word = {True: "alive", False: "dead", None: "alive or dead"}[plan.live]
    return f"{printable(plan.owner)} ({word}{ago and f', last beat{ago}'})"


def _ago(plan: ListedPlan) -> str:
    return "" if plan.heartbeat_age_s is None else f" {duration(plan.heartbeat_age_s)} ago"


_KINDS = {"immutable": "stays until it is complete", "removable": "removable: run once, then cleaned away"}
