"""Makes the policy that the settings name: one of cfetch's own, or one of an installed package."""

from collections.abc import Callable
from functools import partial

from cfetch.config.option_table import POLICIES
from cfetch.config.settings import Settings
from cfetch.straggler.knowledge import NOTHING, Knowledge
from cfetch.straggler.policy import Policy, policy_of


def make_policy(settings: Settings, knowledge: Knowledge = NOTHING, wall_s: float = 0.0) -> Policy:
    """Make a policy that begins with the knowledge of earlier runs; ``wall_s`` is the time now.

    ``config.plugins`` finds the policies of packages.

    Raises:
        ImportError: the package is broken or gone.
    """
    make: Callable[..., Policy] = partial(policy_of, settings.policy)
    if settings.mitigation and settings.policy not in POLICIES:
        from cfetch.config.plugins import load_policy

        make = load_policy(settings.policy)
    return make(
        settings.straggler,
        tick_s=settings.check_interval,
        concurrency=settings.concurrency,
        knowledge=knowledge,
        wall_s=wall_s,
    )
