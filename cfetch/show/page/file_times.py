"""How long files took: the empirical distribution function, thinned. Pure.

A curve of a run has the time of each file that is done, from its first attempt to its end. A second curve
shows the same files without mitigation: a file whose attempt was cancelled would have taken as long as that
attempt by its projection (``cfetch.show.makespan``).
"""

from array import array

import numpy as np

from cfetch.base.records import FileRecord
from cfetch.show.makespan import list_jobs
from cfetch.show.page.document import Curve

POINTS = 300  # of a curve; a chart has no more pixels in which it could differ


class FileTimesBuilder:
    """``add`` the records of entries."""

    def __init__(self) -> None:
        self._took_s, self._alone_s = array("d"), array("d")
        self._has_mitigated = False

    def add(self, record: FileRecord) -> None:
        """Add an entry that has ended; it counts if it was downloaded."""
        if record.status != "done" or not record.attempts:
            return
        took_s = record.end_s - record.start_s
        alone_s = took_s
        if len(record.attempts) > 1:
            jobs = list_jobs(record)
            if jobs and jobs[0].alone_s != jobs[0].took_s:
                alone_s = jobs[0].alone_s
                self._has_mitigated = True
        self._took_s.append(took_s)
        self._alone_s.append(alone_s)

    def curves(self, name: str, alone_name: str = "") -> list[Curve]:
        """The curve of the run, and ``alone_name``'s if files were mitigated; none without files."""
        if not self._took_s:
            return []
        curves = [_make_curve(name, self._took_s)]
        if alone_name and self._has_mitigated:
            curves.append(_make_curve(alone_name, self._alone_s))
        return curves


def _make_curve(name: str, times_s: "array[float]") -> Curve:
    every = np.sort(np.frombuffer(times_s))
    ranks = np.unique(np.linspace(0, len(every) - 1, min(POINTS, len(every))).round().astype(int))
    return Curve(
        name=name,
        times_s=np.round(every[ranks], 4).tolist(),
        shares=np.round((ranks + 0.5) / len(every), 7).tolist(),  # Hazen's plotting positions: never 1
    )
