"""Makes the policy that the settings name: one of cfetch's own, or one of an installed package."""

import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, cast

from cfetch.base.config.option_table import POLICIES
from cfetch.base.config.settings import Settings
from cfetch.base.config.straggler import StragglerConfig
from cfetch.base.errors import UsageError
from cfetch.base.events import Listener, RunNoted
from cfetch.base.registry import load
from cfetch.base.secret import printable
from cfetch.straggler.guarded import GuardedPolicy
from cfetch.straggler.knowledge import NOTHING, Knowledge

if TYPE_CHECKING:
    from cfetch.straggler.policy import Policy


def make_policy(settings: Settings, knowledge: Knowledge = NOTHING, wall_s: float = 0.0) -> "Policy":
    """Make a policy that begins with the knowledge of earlier runs; ``wall_s`` is the time now.

    ``base/registry.py`` finds the policies of packages.

    Raises:
        UsageError: the policy of a package cannot be made; the message names the package.
    """
    make: Callable[..., Policy] = partial(policy_of, settings.policy)
    is_own = not settings.mitigation or settings.policy in POLICIES
    try:
        if not is_own:
            make = load("policies", settings.policy)
        return make(
            settings.straggler,
            tick_s=settings.check_interval,
            concurrency=settings.concurrency,
            knowledge=knowledge,
            wall_s=wall_s,
        )
    except Exception as error:
        if is_own or isinstance(error, UsageError):
            raise
        raise UsageError(
            f"{_describe_fault(settings.policy, error)}; nothing was downloaded; choose another --policy, or "
            "report the fault to its authors"
        ) from error


def policy_of(
    name: str,
    config: StragglerConfig,
    *,
    tick_s: float,
    concurrency: int,
    knowledge: Knowledge = NOTHING,
    wall_s: float = 0.0,
) -> "Policy":
    """The policy of cfetch itself that is called ``name``.

    ``tick_s``: the formula's time between checks; ``knowledge``: of earlier runs; ``wall_s``: the time now.
    """
    if name == "cloudfetch" or not config.enabled:
        from cfetch.straggler.detector import Detector  # a run has one of the two

        return Detector(config, tick_s=tick_s)
    from cfetch.straggler.adaptive import Adaptive  # a run has one of the two

    return Adaptive(config, concurrency=concurrency, knowledge=knowledge, wall_s=wall_s)


def guard_policy(policy: "Policy", name: str, emit: Listener) -> "Policy":
    """The policy called ``name``, which after its first error cancels nothing; ``emit`` gets a note then."""

    def note(now_s: float, error: Exception) -> None:
        text = f"{_describe_fault(name, error)}; mitigation is off for the rest of this run"
        emit(RunNoted(t_s=now_s, note=text))

    return cast("Policy", GuardedPolicy(policy, note))


def _describe_fault(name: str, error: Exception) -> str:
    """Which policy failed, and how. The text of our own errors stays out: it was not written for a person."""
    kind = type(error).__name__
    if name in POLICIES:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        return f"a bug in cfetch: the policy {name} failed with {kind} at {place}"
    from cfetch.base.entry_points import name_distribution  # few policies fail

    distribution = name_distribution("policies", name)
    package = f" of the package {distribution}" if distribution else ""
    return f"the policy {name}{package} failed with {kind}: {printable(str(error))}"
