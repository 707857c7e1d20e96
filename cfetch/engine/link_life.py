"""How long links without a stated end live, by refusals. Pure; loaded where links can be renewed."""

from math import inf

REFUSED = 3  # so many refused links that could be replaced show that all links end; fewer may be chance
LEAST_LIFE_S = 2.0  # a link that is refused sooner was never valid


class LinkLife:
    """What refusals have shown of one kind of links; a link that lives longer disproves it."""

    def __init__(self) -> None:
        self._refused: list[float] = []
        self._served_s = 0.0

    def note_served(self, age_s: float) -> None:
        """Note that a link of this age was served."""
        self._served_s = max(self._served_s, age_s)
        self._refused = [refused_s for refused_s in self._refused if refused_s > self._served_s]

    def note_refused(self, age_s: float) -> None:
        """Note that a link of this age was refused, and another one came in its place."""
        if age_s > max(self._served_s, LEAST_LIFE_S) and len(self._refused) < REFUSED:
            self._refused.append(age_s)

    def is_over(self, age_s: float, margin_share: float) -> bool:
        """Whether a link of this age has ended, or will within this share of its life."""
        life_s = min(self._refused) if len(self._refused) >= REFUSED else inf
        return age_s >= (1 - margin_share) * life_s
