"""What stands in a checkpoint comes back, and nothing else is taken for one."""

import json
import os
import stat

import pytest

from cfetch.base.errors import FeedError, LocalFault
from cfetch.base.secret import SecretUrl
from cfetch.manifest.entry import Digest, Entry, safe_path
from cfetch.plugins.follow.checkpoint import (
    MAX_PENDING,
    Checkpoint,
    decode_checkpoint,
    encode_checkpoint,
    read_checkpoint,
    write_checkpoint,
)
from cfetch.plugins.follow.lineage import grow_lineage
from cfetch.plugins.follow.ranges import ALL_KEYS, Range, Span
from cfetch.plugins.follow.source import Change, FeedId, Ranges
from tests.plugins.follow.reader_world import lineage_of, token_at
from tests.plugins.follow.simulator import at, between, seed_tree

TOKENS = (token_at("3", 9001, between(0, 0x40)), token_at("1", 6000, between(0x40, 0x80)))
PATH = safe_path("grüße/a b.bin")
ENTRY = Entry(
    id=3,
    url=SecretUrl("https://files.example/a?signature=secret"),
    path=PATH,
    size_bytes=1 << 40,
    digest=Digest("sha256", "0" * 64),
)


def checkpoint(**changes):
    given = {
        "lineage": lineage_of(seed_tree(every=2500)),
        "keys": between(0, 0x80),
        "tokens": TOKENS,
        "pending": (Change(7, at(0x10), PATH, ENTRY), Change(8, (1 << 128) - 1, safe_path("b"), None)),
    }
    return Checkpoint(**{**given, **changes})


def test_it_comes_back_as_it_was(tmp_path):
    path = tmp_path / "checkpoint.json"
    assert read_checkpoint(path) is None
    write_checkpoint(path, checkpoint())
    assert read_checkpoint(path) == checkpoint()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_checkpoint(path, checkpoint(pending=()))
    assert read_checkpoint(path) == checkpoint(pending=())
    assert os.listdir(tmp_path) == ["checkpoint.json"]
    assert "secret" not in repr(checkpoint())


def test_numbers_beyond_64_bits_come_back():
    """Kinesis has sequence numbers of 56 digits, and ranges that ended before LSN 0 have -1."""
    big = 10**55 + 7
    live = Range("b", ALL_KEYS, frozenset({"a", "nothing"}))
    lineage = grow_lineage(
        None, Ranges(FeedId("x", "y"), "e", (live,)), {"a": Span(big, big + 5), "nothing": Span(0, -1)}
    )
    one = Checkpoint(lineage, ALL_KEYS, (token_at("b", big + 6, ALL_KEYS, is_new=True),))
    assert decode_checkpoint(encode_checkpoint(one)) == one


def test_it_says_its_schema_and_has_the_seeds_shape():
    document = json.loads(encode_checkpoint(checkpoint()))
    assert document["schema"] == "cfetch.checkpoint/1"
    assert document["tokens"][0] == {
        "keys": "0" * 32 + "-" + "4" + "0" * 31,
        "range": "3",
        "next_lsn": "9001",
        "is_new": False,
    }
    assert [one["id"] for one in document["closed"]] == ["0", "1"]


@pytest.mark.parametrize(
    ("changes", "fault"),
    [
        ({"tokens": ()}, "each key once"),
        ({"tokens": TOKENS[:1]}, "each key once"),
        ({"tokens": TOKENS[1:]}, "each key once"),
        ({"tokens": TOKENS[::-1]}, "each key once"),
        ({"keys": between(0, 0x81)}, "each key once"),
        ({"tokens": (TOKENS[0], TOKENS[0], TOKENS[1])}, "each key once"),
        ({"tokens": (token_at("3", 1, between(0, 0)), *TOKENS)}, "has no keys"),
        ({"tokens": (TOKENS[0], token_at("9", 1, between(0x40, 0x80)))}, "does not know"),
        ({"pending": (Change(1, 2, safe_path("a"), None),) * (MAX_PENDING + 1)}, "changes wait"),
    ],
)
def test_its_tokens_have_each_key_once(changes, fault):
    """J3, proved where it is made."""
    with pytest.raises(ValueError, match=fault):
        checkpoint(**changes)


def damage(*path, value=None):
    """The document with one value replaced, or left out."""

    def change(document):
        *way, last = path
        for step in way:
            document = document[step]
        if value is None:
            del document[last]
        else:
            document[last] = value

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (damage("schema", value="cfetch.checkpoint/2"), "not what cfetch writes"),
        (damage("schema"), "not what cfetch writes"),
        (damage("generation"), "not what cfetch writes"),
        (damage("more", value=1), "not what cfetch writes"),
        (damage("tokens", 0, "next_lsn", value=5), "not what cfetch writes"),
        (damage("tokens", 0, "next_lsn", value="٥"), "LSN"),
        (damage("tokens", 0, "next_lsn", value="-1"), "beyond the end"),
        (damage("tokens", 1, "next_lsn", value="7502"), "beyond the end"),
        (damage("tokens", 0, "keys", value="0-4"), "keys are not"),
        (damage("tokens", 0, "keys", value="4" + "0" * 31 + "-" + "0" * 32), "keys are not"),
        (damage("tokens", 0, "range", value="x"), "does not know"),
        (damage("tokens", 0), "each key once"),
        (damage("keys", value="0" * 32 + "-2" + "0" * 32), "keys are not"),
        (damage("live", 0), "gap"),
        (damage("live", 0, "ancestors", value=["0", "1", "x"]), "does not describe"),
        (damage("live", 0, "ancestors", value=["0", "1", "2"]), "ranges"),
        (damage("closed", 0), "does not describe"),
        (damage("closed", 1, "last", value="4999"), "ends before it begins"),
        (damage("pending", 0, "path", value="../x"), "path that is not allowed"),
        (damage("pending", 0, "path", value="x"), "contradicts itself"),
        (damage("pending", 0, "key", value="10"), "contradicts itself"),
        (damage("pending", 0, "entry", value=[1]), "not what cfetch writes"),
    ],
)
def test_what_is_damaged_is_refused(tmp_path, change, why):
    document = json.loads(encode_checkpoint(checkpoint()))
    change(document)
    path = tmp_path / "checkpoint.json"
    path.write_text(json.dumps(document))
    with pytest.raises(FeedError, match=why) as caught:
        read_checkpoint(path)
    assert str(path) in str(caught.value)
    assert "move it away" in str(caught.value)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"\xff\xfe", b"[" * 100_000, b'{"schema":1}'])
def test_what_is_no_document_is_refused(tmp_path, data):
    path = tmp_path / "checkpoint.json"
    path.write_bytes(data)
    with pytest.raises(FeedError, match="not what cfetch writes"):
        read_checkpoint(path)


def test_every_prefix_of_a_checkpoint_is_refused():
    data = encode_checkpoint(checkpoint())
    for size in range(0, len(data), 7):
        with pytest.raises(ValueError, match="not what cfetch writes"):
            decode_checkpoint(data[:size])


def test_what_cannot_be_read_is_a_local_fault(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in (".", "link"):
        with pytest.raises(LocalFault):
            read_checkpoint(tmp_path / name)
    with pytest.raises(LocalFault):
        write_checkpoint(tmp_path / "nowhere" / "checkpoint.json", checkpoint())
