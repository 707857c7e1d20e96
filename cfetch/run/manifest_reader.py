"""Reads manifests for verbs that download nothing by them: all entries, frozen in a temporary directory."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from cfetch.base.clock import SystemClock
from cfetch.base.config.reading import ASKING, STANDARD, ReadingOptions
from cfetch.manifest.faults import ignore_fault
from cfetch.manifest.folding import KEEPS_NAMES, Folding
from cfetch.manifest.freezing import freeze
from cfetch.manifest.names import refuse_server_names
from cfetch.manifest.plan import Plan
from cfetch.run.open_manifest import expand_manifests, make_part, name_list, refuse_empty
from cfetch.run.rejected_rows import describe_skipped
from cfetch.run.server_names import name_by_servers
from cfetch.wire.network import DIRECT, Network


def _ignore(_: str) -> None:
    pass


class ManifestReader(NamedTuple):
    """The way in which a command reads its manifests: by which options, over which network.

    ``base_url`` is the base of relative URLs. ``progress`` gets the number of entries that have been read,
    and ``emit_line`` notes for the user.
    """

    options: ReadingOptions = STANDARD
    base_url: str | None = None
    allow_empty: bool = True
    network: Network = DIRECT
    progress: Callable[[int], None] | None = None
    emit_line: Callable[[str], None] = _ignore

    @contextmanager
    def freeze(
        self,
        *names: str,
        own_url: str | None = None,
        file_network: Callable[[Plan], Network] | None = None,
        whole_tree: bool = False,
        folding: Folding = KEEPS_NAMES,
    ) -> Iterator[Plan]:
        """Freeze and validate manifests as a whole, in a temporary directory that only its owner can read.

        ``own_url`` counts as the address of manifests that do not come from a server. ``file_network`` makes
        the network to the files' servers, if these may be asked for names. ``whole_tree`` is as in
        ``open_manifest``. ``folding``: which names are one file where the files are.

        Raises:
            UsageError: a manifest cannot be had, or has faults.
            LocalFault: this machine cannot store it.
        """
        if file_network is None:
            refuse_server_names(self.options.name_by)
        clock, paths = SystemClock(), self.options.paths
        manifests, notes = expand_manifests(names)
        with ExitStack() as stack:
            directory = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="cfetch-")))
            plan = stack.enter_context(
                freeze(
                    [
                        make_part(manifest, clock, self.network, own_url=own_url, whole_tree=whole_tree)
                        for manifest in manifests
                    ],
                    name=name_list(manifests),
                    directory=directory,
                    progress=self.progress,
                    base_url=self.base_url,
                    options=self.options,
                    folding=folding,
                )
            )
            if file_network is not None and self.options.name_by in ASKING:
                (directory / "named").mkdir(0o700)
                plan = stack.enter_context(
                    name_by_servers(
                        plan,
                        directory / "named",
                        network=file_network(plan),
                        clock=clock,
                        paths=paths,
                        by_final_url=self.options.name_by == "final-url",
                        clash=self.options.clash,
                        report=ignore_fault if self.options.bad_rows == "skip" else None,
                    )
                )
            plan.add_notes(notes)
            if paths is not None and not self.allow_empty:
                paths.refuse_none(len(plan), plan.source)
            refuse_empty(len(plan), plan.source, allowed=self.allow_empty)
            for note in (*plan.notes, *self.network.notes):
                self.emit_line(note)
            if plan.skipped:
                self.emit_line(describe_skipped(plan.skipped))
            yield plan


STANDARD_READER = ManifestReader()
