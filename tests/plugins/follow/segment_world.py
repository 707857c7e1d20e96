"""A directory of segments as a World of the contract, read from the disk or over loopback HTTP."""

import shutil
import time

from cfetch.base.clock import SystemClock
from cfetch.base.secret import SecretUrl
from cfetch.plugins.follow.backends.web import Web
from cfetch.plugins.follow.server.segments.files import DirectoryFiles, SegmentFiles, UrlFiles
from cfetch.plugins.follow.server.segments.source import SegmentSource
from cfetch.plugins.follow.server.segments.writer import SegmentWriter
from cfetch.wire.http import HttpTransport

BASE = "https://files.example/data/"


class SegmentWorld:
    """``roll_bytes`` small: every few changes a new segment."""

    def __init__(self, root, *, url=None, roll_bytes=400):
        self.root, self.url, self.roll_bytes = root, url, roll_bytes
        self.writer = SegmentWriter(root, base_url=BASE, roll_bytes=roll_bytes)
        self.opened = []
        self.source = self.reopened()

    def reopened(self):
        self.opened.append(SegmentSource(self._files()))
        return self.opened[-1]

    def _files(self) -> SegmentFiles:
        if self.url is None:
            return DirectoryFiles(self.root)
        web = Web(HttpTransport(connect_timeout_s=5.0), SystemClock(), lambda: 0.0)
        return UrlFiles(SecretUrl(self.url), web)

    async def append(self, path):
        self.writer.append([{"path": path, "url": "x.bin", "size": 3}])

    async def delete(self, path):
        self.writer.delete([path])

    async def split(self, of):
        self.writer.split(of)

    async def merge(self, one, other):
        self.writer.merge(one, other)

    async def recreate(self):
        self.writer.close()
        shutil.rmtree(self.root)
        self.writer = SegmentWriter(self.root, base_url=BASE, roll_bytes=self.roll_bytes)

    async def retire(self):
        self.writer.roll()
        self.writer.retire(time.time() + 60)

    async def close(self):
        for source in self.opened:
            await source.close()
        self.writer.close()
