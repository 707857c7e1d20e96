"""``cfetch plan``: schedule, run, list, roll back and clean the plans on a destination's timeline."""

import os
import sys
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from cfetch.base.config.kinds import duration
from cfetch.base.config.layers import Resolved
from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError, ConfigError, Held, UsageError
from cfetch.cli import download as main_job
from cfetch.cli.options import with_settings
from cfetch.cli.output import print_document, print_message, print_result
from cfetch.cli.verb_options import (
    READING,
    JsonOption,
    ManifestsArgument,
    complete_instant,
    parse_option,
    with_manifest,
    with_timeline,
)

if TYPE_CHECKING:
    from cfetch.base.records import Summary


app = typer.Typer(
    help="Schedule, run, list, roll back and clean up plans on a timeline.",
    no_args_is_help=True,
)

DELAY = duration(0, 365 * 86_400, "")
KEEP = duration(0, 100 * 365 * 86_400, "")

Instant = Annotated[
    str,
    typer.Argument(
        help="The instant of a plan, as `cfetch plan list` shows it.",
        metavar="INSTANT",
        show_default=False,
        autocompletion=complete_instant,
    ),
]


@app.command(no_args_is_help=True)
@with_manifest
def schedule(
    *,
    manifests: ManifestsArgument,
    removable: Annotated[
        bool,
        typer.Option(
            "--removable", help="Allow one run only; `cfetch plan clean` may remove the plan when it is old."
        ),
    ] = False,
    settings: Settings,
) -> None:
    """Check a manifest, or several as one, and schedule it as a plan.

    `cfetch plan run` downloads it later.

    Any process that sees the timeline can run the plan. If a plan of the same manifest is pending, the
    command prints its instant and schedules nothing. The options of `cfetch plan run`, not of this command,
    decide how fast the plan is downloaded and how often an entry is tried.

    Examples:

      cfetch plan schedule manifest.json --to data/

      cfetch plan run --all --to data/
    """
    from cfetch.timeline.table import ignore_note

    with main_job.open_prepared(manifests, settings) as prepared:
        if settings.dry_run:
            main_job.preview(prepared, settings)
            return
        note = ignore_note if settings.quiet else print_message
        for line in prepared.notes:
            note(line)
        scheduled = prepared.schedule(removable=removable, note=note)
    print_result(scheduled, [scheduled.instant], json=settings.json)


PendingInstant = Annotated[
    str | None,
    typer.Argument(
        help="The instant of a plan; not needed if only one is pending.",
        metavar="INSTANT",
        show_default=False,
        autocompletion=complete_instant,
    ),
]
Every = Annotated[bool, typer.Option("--all", help="Run all pending plans, the oldest first.")]
Together = Annotated[
    bool,
    typer.Option(
        "--together", help="Share each plan with other machines that give the same command, at any time."
    ),
]


@app.command()
@with_settings
def run(
    *, instant: PendingInstant = None, every: Every = False, together: Together = False, resolved: Resolved
) -> None:
    """Run a plan that was scheduled, or continue one that another run has left unfinished.

    If another live run holds the plan, the command ends with exit code 4. With --all the other plans are run
    all the same, the last lines name those that were not, and the exit code is 4 too. A removable plan that
    has had its only run is not run again: exit code 1.

    With --together any number of machines that see the same directory, or the same volumes, bring a plan
    together. A machine that dies loses only the files that it has under way.

    Examples:

      cfetch plan run 20261121T160430123Z-1a2b --to data/

      cfetch plan run --all --to data/

      srun -N 4 cfetch plan run 20261121T160430123Z-1a2b --together --to /lustre/data
    """
    instants = _choose_instants(instant, resolved, every=every)
    if resolved.settings.dry_run:
        _preview(instants, resolved.settings, alone=not every)
    else:
        _run_all(instants, resolved, alone=not every, together=together)


def _choose_instants(instant: str | None, resolved: Resolved, *, every: bool) -> list[str]:
    """The instants of the plans to run. Raises UsageError, or ConfigError: an option is not for this."""
    from cfetch.app.planned import pending

    if instant is not None and every:
        raise UsageError("give an INSTANT or --all, not both")
    for name in ("base_url", "failed_from", *READING):
        if resolved.origins[name].startswith("--"):
            raise ConfigError(f"{name} is for reading a manifest; a plan is run as it was scheduled")
    if every and resolved.settings.metrics is not None:
        raise ConfigError("metrics names one file, and each plan writes its own; leave it out with --all")
    instants = [instant] if instant is not None else pending(resolved.settings, print_message)
    if len(instants) > 1 and not every:
        raise UsageError(f"{len(instants)} plans are pending; name one of them, or give --all")
    return instants


def _run_all(instants: list[str], resolved: Resolved, *, alone: bool, together: bool) -> None:
    """Run the plans one after the other; exit with the highest of their codes."""
    code, summaries, left = 0, [], []
    for planned in instants:
        summary, ended = _run_one(planned, resolved, alone=alone, together=together)
        code = max(code, ended)
        left += [planned] if summary is None and ended else []
        summaries += [summary] if summary is not None else []
        if summary is not None and (summary.status == "interrupted" or ended == CfetchError.exit_code):
            break
    if resolved.settings.json:
        from cfetch.show.plan_view import Summaries

        print_document(Summaries(summaries=summaries))
    elif not instants:
        typer.echo("there is no pending plan on this timeline")
    if left:
        from cfetch.show.format import plural  # `--help` needs no figures

        shown = ", ".join(left)
        print_message(f"not run, as said above: {len(left)} of {plural(len(instants), 'plan')}: {shown}")
    if code:
        raise typer.Exit(code)


def _preview(instants: list[str], settings: Settings, *, alone: bool) -> None:
    """Print what a run of each plan would do. A completed plan has nothing left to do.

    Unless ``alone``, skip a plan that another run has removed meanwhile.
    """
    from cfetch.app.planned import prepare_planned
    from cfetch.show.live.preview import preview_lines
    from cfetch.show.plan_view import Previews

    previews, lines = [], []
    for planned in instants:
        try:
            with prepare_planned(planned, settings, env=os.environ) as prepared:
                if prepared is not None:
                    previews.append(prepared.preview())
                    lines += preview_lines(previews[-1])
        except UsageError as error:
            if alone or isinstance(error, ConfigError):
                raise
            print_message(str(error))
    print_result(Previews(previews=previews), lines, json=settings.json)


def _run_one(
    instant: str, resolved: Resolved, *, alone: bool, together: bool
) -> "tuple[Summary | None, int]":
    """Run a plan; return summary and exit code. Unless ``alone``, say why a plan cannot be run, and go on.

    A plan that another process has completed or removed meanwhile is no failure.
    """
    from cfetch.app.planned import prepare_planned
    from cfetch.app.several_machines import run_together

    settings = resolved.settings
    try:
        with prepare_planned(instant, settings, env=os.environ) as prepared:
            bring = partial(run_together, prepared) if together and prepared is not None else None
            summary = None if prepared is None else main_job.run(prepared, resolved, bring)
    except CfetchError as error:
        if alone or isinstance(error, ConfigError):
            raise
        print_message(str(error))
        is_completed = isinstance(error, Held) and error.in_place is not None
        is_settled = is_completed or _was_removed(instant, settings)
        # 2 would say that nothing was downloaded, but other plans may have been run
        code = 1 if isinstance(error, UsageError) else error.exit_code
        return None, 0 if is_settled else code
    if summary is None:
        print(f"plan {instant} is completed already", file=sys.stderr)
        return None, 0
    if summary.files.failed and summary.exit_code and not (settings.quiet or settings.json):
        print(
            "  the plan keeps its list as it was scheduled: to correct that, `cfetch plan schedule` the "
            f"corrected list, and\n  `cfetch plan rollback {instant} --remove` removes this plan; or "
            f"--max-failures {summary.files.failed} completes it without what failed",
            file=sys.stderr,
        )
    return summary, summary.exit_code


def _was_removed(instant: str, settings: Settings) -> bool:
    """Whether another process has removed the plan meanwhile, as ``cfetch plan clean`` rightly does."""
    from cfetch.app.plans import list_plans

    plans = list_plans(settings, also_archived=True).plans
    return all((plan.instant, plan.action) != (instant, "download") for plan in plans)


@app.command("list")
@with_timeline
def list_(
    *,
    directory: Annotated[
        str | None,
        typer.Argument(help="A destination, in place of --to.", metavar="[DIR]", show_default=False),
    ] = None,
    archived: Annotated[bool, typer.Option("--archived", help="List the plans in the archive too.")] = False,
    json: JsonOption = False,
    settings: Settings,
) -> None:
    """List all plans and rollbacks with their states, and the runs that hold them.

    Examples:

      cfetch plan list data/

      cfetch plan list --to data/ --json | jq '.plans[] | select(.state != "completed")'
    """
    from cfetch.app.plans import list_plans
    from cfetch.show.plan_view import plan_lines

    if directory is not None:
        settings = replace(settings, to=(directory,))
    plans = list_plans(settings, also_archived=archived)
    print_result(plans, plan_lines(plans.plans), json=json)


@app.command("show", no_args_is_help=True)
@with_timeline
def show_(*, instant: Instant, json: JsonOption = False, settings: Settings) -> None:
    """Show one plan and its rollbacks in full.

    Examples:

      cfetch plan show 20261121T160430123Z-1a2b --to data/
    """
    from cfetch.app.plans import show_plan
    from cfetch.show.plan_view import detail_lines

    plans = show_plan(settings, instant)
    print_result(plans, detail_lines(plans.plans), json=json)


@app.command(no_args_is_help=True)
@with_timeline
def rollback(
    *,
    instant: Instant,
    remove: Annotated[
        bool, typer.Option("--remove", help="Remove the plan too, because nobody needs it any more.")
    ] = False,
    json: JsonOption = False,
    settings: Settings,
) -> None:
    """Roll back a plan whose run has died: remove the parts that the run has left.

    Files under their final names stay. A removable plan is removed. Any other plan is pending again, so that
    it can run anew, unless --remove is given.

    Examples:

      cfetch plan rollback 20261121T160430123Z-1a2b --to data/

      cfetch plan rollback 20261121T160430123Z-1a2b --to data/ --remove
    """
    from cfetch.app.plans import list_plans, roll_back_plan
    from cfetch.show.plan_view import Plans, plan_lines

    roll_back_plan(settings, instant, remove=remove, note=print_message)
    plans = Plans(plans=[p for p in list_plans(settings).plans if instant in (p.instant, p.target)])
    print_result(plans, plan_lines(plans.plans), json=json)


@app.command()
@with_timeline
def clean(
    *,
    rollback_delay: Annotated[
        str, typer.Option(help="Keep removable plans that are younger than this.", metavar="DURATION")
    ] = "60m",
    keep: Annotated[
        str,
        typer.Option(help="Move completed plans to the archive when they are this old.", metavar="DURATION"),
    ] = "720h",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what the command would do, and do nothing.")
    ] = False,
    json: JsonOption = False,
    settings: Settings,
) -> None:
    """Roll back removable plans that nobody runs, and move old completed plans to the archive.

    The command says for each plan what it did and why. Uploads to S3 that killed runs have left open
    are aborted (botocore must be installed).

    Examples:

      cfetch plan clean --to data/

      cfetch plan clean --to data/ --dry-run
    """
    from cfetch.app.plans import clean_plans
    from cfetch.show.plan_view import clean_lines

    cleaned = clean_plans(
        settings,
        rollback_delay_s=parse_option("rollback_delay", rollback_delay, DELAY),
        keep_s=parse_option("keep", keep, KEEP),
        dry_run=dry_run,
        note=print_message,
    )
    print_result(cleaned, clean_lines(cleaned), json=json)
