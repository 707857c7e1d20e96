"""What a run would do, told without it."""

from collections.abc import Sequence

from cfetch.base.config.settings import Settings
from cfetch.base.secret import printable
from cfetch.manifest.entries import Frozen
from cfetch.run.volumes import Volumes
from cfetch.show.plan_view import Preview


def make_preview(
    plan: Frozen, volumes: Volumes, notes: Sequence[str], settings: Settings, destination: str
) -> Preview:
    """Look at the plan and at what stands on its volumes."""
    refetches = settings.existing == "refetch"
    return Preview(
        files=len(plan),
        in_place=0 if refetches else volumes.count_in_place(plan.entries()),
        bytes_known=plan.total_bytes,
        sizes_unknown=plan.sizes_unknown,
        merged=plan.merged,
        hosts={printable(host): count for host, count in plan.host_files.items()},
        more_hosts=plan.more_hosts,
        batches=plan.tasks,
        floors={printable(host): floor_s for host, floor_s in plan.floors_s.items()},
        destination=destination,
        free_bytes=volumes.free_bytes(),
        volumes=volumes.rooms() if len(volumes.roots) > 1 else {},
        notes=list(notes),
    )
