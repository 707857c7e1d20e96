"""A small distribution, written into a folder: its modules, and what an installer would leave of it."""

PLUGINS = '''
"""One of each kind of plug-in, by the ports that are open to anybody."""

import json
import os
from pathlib import Path

import typer

from cfetch.base.errors import Refused
from cfetch.base.events import tell_each, EntryFinished
from cfetch.base.schemes import Scheme
from cfetch.manifest.formats.table import Format
from cfetch.manifest.rows import Row
from cfetch.plugins.follow.backends.change_log import News, Seen
from cfetch.plugins.follow.backends.feed_kind import FeedKind, observe
from cfetch.straggler.base_policy import BasePolicy
from cfetch.wire.source import FileTransport

FORMAT = Format("outside:read_pairs", head="outside:is_pairs", endings=".pairs")


def is_pairs(head):
    return head.startswith("== pairs ==")


def read_pairs(source, document, faults):
    for number, line in enumerate("".join(source.texts()).splitlines()[1:], 2):
        path, arrow, url = line.partition(" <- ")
        if path == "boom":
            raise ZeroDivisionError("of the reader")
        if arrow:
            yield Row(number, {"path": path, "url": url})
        else:
            faults.add(number, "it is no pair: PATH <- URL")


SCHEME = Scheme("mem", "outside:open_memory", port=1, may_be_list=True)
FILES = {"/a.bin": b"a" * 100_000, "/list.pairs": b"== pairs ==\\nof-list.bin <- mem://here/a.bin\\n"}


def open_memory(context):
    return FileTransport(Memory())


class Memory:
    async def open_file(self, url, *, fresh):
        path = "/" + url.reveal().split("/", 3)[3]
        if path not in FILES:
            raise Refused(f"there is no {path} in memory")
        return MemoryFile(FILES[path])

    async def close(self):
        pass


class MemoryFile:
    version, modified_s, peer = "v1", None, None

    def __init__(self, body):
        self.body, self.size_bytes = body, len(body)

    async def start(self, first_byte):
        self.body = self.body[first_byte:]

    async def read(self):
        data, self.body = self.body[:1000], self.body[1000:]
        return data

    def close(self):
        pass


class Lines:
    """A text with the name of a file on each line; new lines are news."""

    def __init__(self, url, web, _):
        self.shown, self.account, self.url, self.web = str(url), url.origin(), url.reveal(), web

    async def ask(self, cursor, list_directories):
        names = (await self.web.ask(self.url, max_bytes=10_000)).body.decode().split()
        base = self.url.rsplit("/", 1)[0]
        new = names[int(cursor or 0):]
        return News(str(len(names)), [Seen(name, {"url": f"{base}/{name}"}) for name in new])

    async def close(self):
        await self.web.close()


FEED = FeedKind("lines+http://…", observe("", Lines), ("http",))


def greet(name: str = typer.Argument("world")):
    """Say hello."""
    typer.echo(f"hello {name}")


def make_listener():
    """Write the path of each file that has ended."""
    place = Path(os.environ["OUTSIDE_LOG"])

    def note(event):
        if isinstance(event, EntryFinished):
            with place.open("a") as file:
                file.write(json.dumps([event.record.path, event.record.status]) + "\\n")

    return tell_each(note)


def make_failing():
    def fail(event):
        raise ValueError("of the listener")

    return fail


class Policy(BasePolicy):
    """Judges nobody, and leaves a sign that it was asked."""

    def note_start(self, *args, **kwargs):
        Path(os.environ["OUTSIDE_LOG"] + ".policy").touch()
        return super().note_start(*args, **kwargs)


def make_policy(options, *, tick_s, **_):
    return Policy(tick_s=tick_s)
'''

SUITES = '''
"""The tests of the distribution: the suites of cfetch over its own classes."""

import outside
from cfetch.testing.formats import FormatContract
from cfetch.testing.policy import PolicyContract


class TestPairs(FormatContract):
    name = "pairs"
    samples = {b"== pairs ==\\na <- mem://h/a\\nd/b <- mem://h/b\\n": ["a", "d/b"]}


class TestPolicy(PolicyContract):
    make_policy = staticmethod(outside.make_policy)
'''

BROKEN = "raise ImportError('cannot even begin')\n"
LACKING = "import nobody_has_it\n"

METADATA = "Metadata-Version: 2.1\nName: outside-things\nVersion: 0.7\nProvides-Extra: fancy\n"
ENTRY_POINTS = """\
[cfetch.formats]
pairs = outside:FORMAT
[cfetch.sources]
mem = outside:SCHEME
lost = outside_lacking:SCHEME [fancy]
[cfetch.feeds]
lines = outside:FEED
torn = outside_broken:FEED
[cfetch.verbs]
greet = outside:greet
broken = outside_broken:verb
[cfetch.listeners]
diary = outside:make_listener
failing = outside:make_failing
broken = outside_broken:make
[cfetch.policies]
lenient = outside:make_policy
[cfetch.engines]
broken = outside_broken:Engine
"""


def write_distribution(folder):
    """Write the modules and the metadata into ``folder``, which then goes onto Python's path."""
    (folder / "outside_things-0.7.dist-info").mkdir(parents=True)
    (folder / "outside_things-0.7.dist-info" / "METADATA").write_text(METADATA)
    (folder / "outside_things-0.7.dist-info" / "entry_points.txt").write_text(ENTRY_POINTS)
    (folder / "outside.py").write_text(PLUGINS)
    (folder / "test_outside_things.py").write_text(SUITES)
    (folder / "outside_broken.py").write_text(BROKEN)
    (folder / "outside_lacking.py").write_text(LACKING)
