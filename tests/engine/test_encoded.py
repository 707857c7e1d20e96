"""Replies with a Content-Encoding: kept, decoded, and asked for as a store keeps them. On virtual time."""

import gzip

import pytest

from cfetch.base.events import RunNoted
from tests.engine.drive import drive, entry_of
from tests.engine.fake import FakeTransport, Reply

PLAIN = b"line\n" * 40_000
PACKED = gzip.compress(PLAIN, mtime=0)
LABEL = {"Content-Encoding": "gzip"}


def test_files_that_came_encoded_are_noted_once_with_their_number(tmp_path):
    """Kept as they came; the first is named, and the end says how many there were. Tasks can add them up."""
    scripts = {name: Reply(body=PACKED, headers=LABEL) for name in "abc"}
    entries = [entry_of(n, name, PACKED, size=False) for n, name in enumerate(scripts)]
    outcome = drive(tmp_path, scripts, entries)
    assert outcome.tree == dict.fromkeys(scripts, PACKED)
    first, last = outcome.of(RunNoted)
    assert first.note.startswith("a came encoded (gzip)")
    assert "for 3 files" in last.note
    assert first.note == f"a {first.kind}"
    assert (last.kind, first.files, last.files) == (first.kind, 1, 2)


@pytest.mark.parametrize("digest", [False, True])
def test_a_decoded_file_begins_anew_after_a_break(tmp_path, digest):
    """No request can ask for the rest of decoded bytes; size and hash are of the decoded file."""
    broken = Reply(body=PACKED, cut=len(PACKED) - 50, then="reset", headers=LABEL)
    entry = entry_of(0, "a", PLAIN, digest=digest)
    outcome = drive(tmp_path, {"a": [broken, Reply(body=PACKED, headers=LABEL)]}, [entry], encoded="decode")
    assert outcome.tree == {"a": PLAIN}
    assert [asked.range for asked in outcome.transport.of("a")] == [None, None]


class Store(FakeTransport):
    """A store that unpacks what it keeps in gzip, unless gzip is asked for."""

    accepted: list[str | None]

    async def open(self, url, headers, secrets, *, fresh, method="GET", connecting=None):
        self.accepted = [*getattr(self, "accepted", []), headers.get("Accept-Encoding")]
        as_stored = self.accepted[-1] == "gzip"
        self.scripts = {name: [self.stored(as_stored=as_stored)] for name in self.scripts}
        return await super().open(url, headers, secrets, fresh=fresh, method=method, connecting=connecting)

    @staticmethod
    def stored(*, as_stored):
        stated = {"x-goog-stored-content-encoding": "gzip"} | (LABEL if as_stored else {})
        return Reply(body=PACKED if as_stored else PLAIN, headers=stated)


def test_an_object_that_its_store_unpacks_is_asked_for_as_it_is_stored(tmp_path):
    """The list states the stored size and hash; the next file costs one request."""
    transport = Store({"a": Reply(), "b": Reply()})
    entries = [entry_of(n, name, PACKED, digest=True) for n, name in enumerate("ab")]
    outcome = drive(tmp_path, {}, entries, transport=transport, concurrency=1)
    assert outcome.tree == {"a": PACKED, "b": PACKED}
    assert transport.accepted == [None, "gzip", "gzip"]
