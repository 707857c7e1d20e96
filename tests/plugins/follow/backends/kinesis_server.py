"""moto's Kinesis as a server, to be run as a module: prints its port when ready.

moto 5.2 has the calls and their forms, but not what a reader of shards depends on. Its numbers begin with 1
in each shard; on a split the records get new numbers, on a merge they move; new records go to closed shards;
no shard ever comes to its end; nothing expires. So those parts are replaced here by what AWS documents. Tags
of a stream, as ``test:trim``, are a test's levers.
"""

import hashlib
import itertools
from collections import OrderedDict
from datetime import timedelta

from moto.core.exceptions import JsonRESTError
from moto.core.responses import ActionResult
from moto.kinesis import models, responses
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import make_server

NUMBERS = itertools.count(495 * 10**53, 1 << 70)  # 186 bits, as AWS has them
SECONDS = itertools.count()
PAGE_OF_SHARDS = 3


class Shard(models.Shard):
    __module__ = models.__name__  # moto finds its service's name there

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.starting = next(NUMBERS)
        self.last = self.starting

    def put_record(self, partition_key, data, explicit_hash_key):
        self.last += 7
        self.records[self.last] = models.Record(partition_key, data, self.last, explicit_hash_key)
        return str(self.last)

    def get_max_sequence_number(self):
        return self.last

    def to_json(self):
        found = super().to_json()
        found["SequenceNumberRange"] = {"StartingSequenceNumber": str(self.starting)}
        if not self.is_open:
            found["SequenceNumberRange"]["EndingSequenceNumber"] = str(self.starting + (1 << 69))
        return found


class Stream(models.Stream):
    __module__ = models.__name__

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.creation_datetime += timedelta(seconds=next(SECONDS))
        self.at_horizon = set(self.shards)
        self.generation = self.to_throttle = 0
        self.has_empty_pages = self.refuses_gone = False
        self.behind_ms = 1000

    def _kept(self, *shards):
        """Take the records away while moto moves them about."""
        kept = [(self.shards[one], self.shards[one].records) for one in shards]
        for shard, _ in kept:
            shard.records = OrderedDict()
        return kept

    def split_shard(self, shard_to_split, new_starting_hash_key):
        kept = self._kept(shard_to_split)
        super().split_shard(shard_to_split, new_starting_hash_key)
        for shard, records in kept:
            shard.records = records

    def merge_shards(self, shard_to_merge, adjacent_shard_to_merge):
        kept = self._kept(shard_to_merge, adjacent_shard_to_merge)
        super().merge_shards(shard_to_merge, adjacent_shard_to_merge)
        for shard, records in kept:
            shard.records = records

    def get_shard_for_key(self, partition_key, explicit_hash_key):
        key = int(
            explicit_hash_key or hashlib.md5(partition_key.encode()).hexdigest(),
            10 if explicit_hash_key else 16,
        )
        return next(
            one for one in self.shards.values() if one.is_open and one.starting_hash <= key <= one.ending_hash
        )

    def lever(self, name, value):
        if name == "test:trim":
            for shard in self.shards.values():
                shard.records.clear()
            self.at_horizon = {name for name, one in self.shards.items() if one.is_open}
        elif name == "test:trim-shard":
            self.shards.pop(value)
        elif name == "test:expire":
            self.generation += 1
        elif name == "test:throttle":
            self.to_throttle = int(value)
        elif name == "test:empty":
            self.has_empty_pages = True
        elif name == "test:behind":
            self.behind_ms = int(value)
        elif name == "test:refuse-gone":
            self.refuses_gone = True
        elif name == "test:age":  # the records so far came so many seconds earlier
            for record in (record for shard in self.shards.values() for record in shard.records.values()):
                record.created_at -= int(value)
        elif name == "test:delete":
            self.status = "DELETING"


def refused(kind, message="as the test wished"):
    return JsonRESTError(error_type=kind, message=message)


class Iterator:
    """``stream|creation|generation|shard|number|hop``: behind that number; a hop brings nothing."""

    @staticmethod
    def text(stream, shard, number, hop=0):
        created = stream.creation_datetime.isoformat()
        return "|".join(
            (stream.stream_name, created, str(stream.generation), shard.shard_id, str(number), str(hop))
        )


def get_shard_iterator(
    self, stream_arn, stream_name, shard_id, shard_iterator_type, starting_sequence_number, at_timestamp
):
    stream = self.describe_stream(stream_arn=stream_arn, stream_name=stream_name)
    if shard_id not in stream.shards:
        raise refused("ResourceNotFoundException")
    shard = stream.shards[shard_id]
    if shard_iterator_type == "TRIM_HORIZON":
        return Iterator.text(stream, shard, 0)
    if shard_iterator_type == "AT_TIMESTAMP":
        return Iterator.text(stream, shard, shard.get_sequence_number_at(at_timestamp))
    number = int(starting_sequence_number)
    if not shard.starting <= number < shard.starting + (1 << 70):
        raise refused("InvalidArgumentException")
    if stream.refuses_gone and number not in shard.records:
        raise refused("InvalidArgumentException")
    return Iterator.text(stream, shard, number - (shard_iterator_type == "AT_SEQUENCE_NUMBER"))


def get_records(self, stream_arn, shard_iterator, limit):
    name, created, generation, shard_id, number, hop = shard_iterator.split("|")
    stream = self.describe_stream(stream_arn=None, stream_name=name)
    if stream.creation_datetime.isoformat() != created or shard_id not in stream.shards:
        raise refused("ResourceNotFoundException")
    if int(generation) != stream.generation:
        raise refused("ExpiredIteratorException")
    if stream.to_throttle:
        stream.to_throttle -= 1
        raise refused("ProvisionedThroughputExceededException")
    shard = stream.shards[shard_id]
    found = [one for one in shard.records.values() if one.sequence_number > int(number)]
    if found and stream.has_empty_pages and hop != "2":
        return Iterator.text(stream, shard, int(number), int(hop) + 1), [], 5000
    page = found[:limit]
    last = page[-1].sequence_number if page else int(number)
    is_over = not shard.is_open and len(page) == len(found)
    after = None if is_over else Iterator.text(stream, shard, last)
    return after, page, stream.behind_ms if len(found) > len(page) else 0


def list_shards(self):
    token, name = self._get_param("NextToken"), self._get_param("StreamName")
    if token:
        assert not name, "AWS refuses both"
        name, kind, begin = token.split("|")
    else:
        kind, begin = (self._get_param("ShardFilter") or {}).get("Type", "all"), 0
    stream = self.kinesis_backend.describe_stream(None, name)
    shards = [one for one in stream.shards.values() if kind == "all" or one.shard_id in stream.at_horizon]
    begin = int(begin)
    end = begin + PAGE_OF_SHARDS
    reply: dict[str, object] = {"Shards": [one.to_json() for one in shards[begin:end]]}
    if end < len(shards):
        reply["NextToken"] = f"{name}|{kind}|{end}"
    return ActionResult(reply)


def add_tags_to_stream(self, stream_arn, stream_name, tags):
    stream = self.describe_stream(stream_arn=stream_arn, stream_name=stream_name)
    for name, value in tags.items():
        stream.lever(name, value)


def main():
    for owner, own in (
        (models, (Shard, Stream)),
        (models.KinesisBackend, (get_shard_iterator, get_records, add_tags_to_stream)),
        (responses.KinesisResponse, (list_shards,)),
    ):
        for one in own:
            setattr(owner, one.__name__, one)
    server = make_server("127.0.0.1", 0, DomainDispatcherApplication(create_backend_app), True)
    print(server.server_port, flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
