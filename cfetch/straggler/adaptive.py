"""Judges attempts by their live progress, against what a fresh attempt would need."""

from cfetch.straggler.detector import Detector
from cfetch.config.straggler import StragglerConfig
from cfetch.straggler.knowledge import Knowledge

__all__ = ["Adaptive"]


class Adaptive(Detector):
    """See ``Policy``."""

    def __init__(
        self, config: StragglerConfig, *, concurrency: int, knowledge: Knowledge, wall_s: float
    ) -> None:
        super().__init__(config, tick_s=0.1)
