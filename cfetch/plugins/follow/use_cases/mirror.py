"""The destinations of a follower, with the record of what it has put there."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, closing, suppress
from itertools import chain, islice
from pathlib import Path

from cfetch.base.config.path_filter import PathFilter
from cfetch.base.config.settings import Settings
from cfetch.base.errors import CfetchError
from cfetch.manifest.entry import SafePath, UnsafePathError, safe_path
from cfetch.plugins.follow.journal import Journal
from cfetch.plugins.follow.server.source_root import STATE_DIRECTORY
from cfetch.plugins.follow.use_cases.follow_text import (
    adopted_text,
    kept_lines,
    mirror_text,
    no_record_text,
)
from cfetch.plugins.follow.use_cases.own_files import OwnFiles
from cfetch.run.catalogue import Homes, Own
from cfetch.run.directories import find_destinations
from cfetch.run.volumes import Volumes
from cfetch.storage.claims import end_claims
from cfetch.storage.files import STATE_NAME
from cfetch.storage.tree import ReadOnlyTree

MOST_COUNTED = 100_000  # files are counted at a follower's end: half a second


class Mirror:
    """The files of one feed here; ``own``: which of them the follower has put there."""

    def __init__(
        self,
        own: OwnFiles,
        journal: Journal,
        feed: str,
        settings: Settings,
        emit_line: Callable[[str], None],
    ) -> None:
        self.own = own
        self._journal = journal
        self._feed = feed
        self._places = find_destinations(settings)
        self._timeout_s = settings.write_timeout
        self._emit_line = emit_line
        self._kept: set[str] = set()  # paths of files that were named as kept
        self._claims: dict[Path, int] = {}
        self.metrics = str(self._places.state / "metrics")

    def claim(self) -> None:
        """Keep other followers of the feed away from the directories. Raises Held, LocalFault."""
        self.open_volumes().close()

    def leave(self) -> None:
        """Let others follow the feed into the directories."""
        end_claims(self._claims)

    def settle(self, *, tells_lack: bool) -> None:
        """Note the files that a killed run has put in place. Raises Held, LocalFault.

        ``tells_lack``: tell if an earlier version, which kept no record, has put files here.
        """
        with closing(self.open_volumes()) as volumes:
            self.own.settle(Homes(volumes.local))
        if tells_lack and self.own.is_new and self._journal.has_checkpoint() and self._places.directories:
            self._emit_line(no_record_text())

    def adopt(self, paths: PathFilter) -> None:
        """Take all files in the destinations whose paths are taken for own ones. Raises Held, LocalFault."""
        with closing(self.open_volumes()) as volumes:
            homes, count = Homes(volumes.local), 0
            for directory in volumes.local:
                for path in self._list_files(Path(directory.root)):
                    identity = directory.identify(path) if paths.takes(path) else None
                    if identity is None or all(file.is_own for file in self.own.find_here(path, homes)):
                        continue
                    self.own.enter(Own(path, str(directory.root), identity), None)
                    count += 1
        self.own.commit()
        self._emit_line(adopted_text(count))

    def list_others(self, has: Callable[[str], bool], paths: PathFilter) -> tuple[list[SafePath], int]:
        """List own files that the feed does not have, and count the others that it does not have."""
        own: dict[SafePath, None] = {}
        others = 0
        with closing(self.open_volumes()) as volumes:
            homes = Homes(volumes.local)
            for directory in volumes.local:
                for path in self._list_files(Path(directory.root)):
                    if has(path) or not paths.takes(path):
                        continue
                    if any(file.is_own for file in self.own.find_here(path, homes)):
                        own[path] = None
                    else:
                        others += 1
        return list(own), others

    def tell_kept(self, paths: Iterable[SafePath]) -> None:
        """Name files that stay as they are not own, each once."""
        kept = [path for path in paths if path not in self._kept]
        self._kept.update(kept)
        for line in kept_lines(kept):
            self._emit_line(line)

    def tell(self, *, is_stopped: bool) -> None:
        """Say how many files are in the destinations, and how far in the feed they are."""
        with suppress(CfetchError, OSError):  # the follower's own end is said already
            files = self._count_files(MOST_COUNTED + 1) if self._places.directories else None
            in_step_s = self._journal.in_step_s()
            self._emit_line(mirror_text(files, MOST_COUNTED, in_step_s, is_stopped=is_stopped))

    def _count_files(self, most: int | None = None) -> int:
        """Count the files in the destinations, up to ``most``."""
        with ExitStack() as stack:
            trees = [stack.enter_context(ReadOnlyTree(directory)) for directory in self._places.directories]
            listed = chain.from_iterable(tree.regular_files((STATE_NAME, STATE_DIRECTORY)) for tree in trees)
            return sum(1 for _ in islice((path for path, status, _ in listed if status is not None), most))

    def _list_files(self, directory: Path) -> Iterator[SafePath]:
        with ReadOnlyTree(directory) as tree:
            for path, status, _ in tree.regular_files((STATE_NAME, STATE_DIRECTORY)):
                if status is None or self._places.state in (directory / path).parents:
                    continue
                with suppress(UnsafePathError):  # no feed can name the file, so it came from elsewhere
                    yield safe_path(path)

    def open_volumes(self) -> Volumes:
        """Open the destinations, and keep others away from them. Raises Held, LocalFault."""
        volumes = Volumes(self._places.roots, state=self._places.state, write_timeout_s=self._timeout_s)
        try:
            volumes.claim(self._feed, self._claims)  # a volume may have come back meanwhile
        except BaseException:
            volumes.close()
            raise
        return volumes
