"""A source without a log, in memory, as a world for the contract; each change is observed as it happens."""

from cfetch.plugins.follow.backends.change_log import ChangeLog, News, Seen
from cfetch.plugins.follow.backends.observed import ObservedSource

__all__ = ["Memory", "ObservedWorld", "as_whole"]


def as_whole(files):
    """News that name all files: path to a row, or to a row and a stamp."""
    seen = [Seen(path, *(row if isinstance(row, tuple) else (row,))) for path, row in files.items()]
    return News("1", seen, [("", "")])


class Memory:
    """An ``Upstream`` that gives what a test has put into ``news``, then nothing new."""

    shown, account = "the memory", "memory"

    def __init__(self):
        self.news, self.asked, self.is_closed = [], [], False

    async def ask(self, cursor, list_directories):
        self.asked.append(cursor)
        return self.news.pop(0) if self.news else News(cursor)

    async def close(self):
        self.is_closed = True


class ObservedWorld:
    """Its log is in ``directory``."""

    def __init__(self, directory):
        self.directory, self.upstream, self.sources, self.version = directory, Memory(), [], 0
        self.source = self.reopened()

    def reopened(self):
        log = ChangeLog(self.directory)
        source = ObservedSource(self.upstream, log, log.close)
        self.sources.append(source)
        return source

    async def observe(self, *seen, wholes=()):
        self.version += 1
        self.upstream.news.append(News(str(self.version), seen, wholes))
        await self.source.ranges(None)

    async def append(self, path):
        await self.observe(Seen(path, {"url": "http://h.example/x", "size": 1}, str(self.version)))

    async def delete(self, path):
        await self.observe(Seen(path, None))

    async def close(self):
        for source in self.sources:
            await source.close()
