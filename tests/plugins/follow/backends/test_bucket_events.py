"""A bucket with events: moto's S3 sends them to moto's SQS; and the forms of SNS and EventBridge."""

import json

import botocore.session
import pytest

from cfetch.base.errors import HostileFeed, Refused, UsageError
from tests.plugins.follow.upstream_site import Mirror, open_site
from tests.storage.s3_server import point_at

PREFIX = "some/prefix/"


class Queue:
    """A queue that gets the events of ``bucket``."""

    def __init__(self, bucket):
        session = botocore.session.get_session()
        self.sqs = session.create_client("sqs", region_name="us-east-1", endpoint_url=bucket.server.url)
        s3 = session.create_client("s3", region_name="us-east-1", endpoint_url=bucket.server.url)
        self.url = self.sqs.create_queue(QueueName=bucket.name)["QueueUrl"]
        arn = f"arn:aws:sqs:us-east-1:123456789012:{bucket.name}"
        events = ["s3:ObjectCreated:*", "s3:ObjectRemoved:*"]
        s3.put_bucket_notification_configuration(
            Bucket=bucket.name,
            NotificationConfiguration={"QueueConfigurations": [{"QueueArn": arn, "Events": events}]},
        )
        self.delete = lambda key: s3.delete_object(Bucket=bucket.name, Key=PREFIX + key)

    def send(self, document):
        self.sqs.send_message(QueueUrl=self.url, MessageBody=json.dumps(document))

    def lose_all(self):
        """All messages."""
        while messages := self.sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                self.sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])

    def count(self):
        """The messages that are left, also those that somebody has received and not removed."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        found = self.sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(map(int, found.values()))


@pytest.fixture
def queue(bucket, monkeypatch):
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr("cfetch.plugins.follow.backends.bucket_events.WAIT_S", 0)
    return Queue(bucket)


@pytest.fixture
def mirror(queue, bucket, tmp_path):
    return Mirror(f"sqs+{queue.url}?objects=s3://{bucket.name}/{PREFIX}", tmp_path)


def test_a_listing_then_events(queue, bucket, mirror):
    for name in ("a", "d/b c+d.txt", "e"):
        bucket.put(name, b"1")
    assert mirror.follow().files.done == 3
    bucket.put("a", b"2")  # of the same size
    bucket.put("d/ü.txt", b"3")
    queue.delete("e")
    found = mirror.follow()
    assert (mirror.names(), mirror.read("a"), found.feed.deletes) == (["a", "d/b c+d.txt", "d/ü.txt"], "2", 1)
    assert (mirror.follow().feed.entries, queue.count()) == (0, 0)


@pytest.mark.parametrize(
    "answer", [(404, b""), (404, b"<html>"), (404, b"<Code>NoSuchBucket</Code>"), (403, b"")]
)
def test_only_a_store_that_lacks_the_key_says_that_an_object_has_gone(
    queue, bucket, mirror, monkeypatch, answer
):
    """Not a gateway's 404, a store that lost the bucket, or a login that has expired."""
    bucket.put("a", b"1")
    mirror.follow()
    bucket.put("a", b"2")
    with open_site(lambda *_: answer) as url, monkeypatch.context() as patch:
        point_at(patch, url)
        with pytest.raises(Refused, match="did not look at some/prefix/a"):
            mirror.follow()
    assert (mirror.names(), mirror.read("a")) == (["a"], "1")


def test_messages_stay_until_their_news_are_written_down(queue, bucket, mirror, monkeypatch):
    """A follower that is killed before gets them again."""
    mirror.follow()
    bucket.put("a", b"1")
    with monkeypatch.context() as patch:
        patch.setattr("cfetch.plugins.follow.backends.change_log.ChangeLog.add", broken)
        with pytest.raises(RuntimeError):
            mirror.follow()
    assert queue.count() > 0


def broken(*_):
    raise RuntimeError("killed")


def test_a_long_listing_comes_in_pieces(queue, bucket, mirror, monkeypatch):
    """What is missing between two of them has gone; an interrupted one begins anew."""
    monkeypatch.setattr("cfetch.plugins.follow.backends.bucket_events.LISTED", 2)
    for name in "abcde":
        bucket.put(name, b"1")
    assert mirror.follow().files.done == 5
    queue.delete("b")
    queue.delete("e")
    queue.lose_all()
    mirror.follow(resync=True)
    assert mirror.names() == ["a", "c", "d"]


def test_forms_of_events(queue, bucket, mirror):
    """What tells of other objects, or of none, brings nothing; each form of ours brings it once."""
    mirror.follow()
    names = ["a y", "b y", "c y"]
    for name in names:
        bucket.put(name, b"1")
    queue.lose_all()
    first, twice = (
        {
            "Records": [
                {"s3": {"bucket": {"name": bucket.name}, "object": {"key": f"{PREFIX}{key}", "size": 9}}}
            ]
        }
        for key in ("a+y", "c+y")
    )
    other = {"s3": {"bucket": {"name": "other"}, "object": {"key": f"{PREFIX}a+y"}}}
    beside = {"s3": {"bucket": {"name": bucket.name}, "object": {"key": "other/x"}}}
    detail = {"bucket": {"name": bucket.name}, "object": {"key": f"{PREFIX}b y", "size": 9}}
    test = {"Service": "Amazon S3", "Event": "s3:TestEvent", "Bucket": bucket.name}
    for document in ({"Records": [other]}, {"Records": [beside]}, test):
        queue.send(document)
    mirror.follow()
    assert mirror.names() == []
    by_sns = {"Type": "Notification", "Message": json.dumps(first)}
    by_eventbridge = {"detail-type": "Object Created", "detail": detail}
    for document in (by_sns, by_eventbridge, twice, twice):
        queue.send(document)
    mirror.follow()
    assert mirror.names() == names


def test_a_message_that_is_no_event(queue, mirror):
    """It stays in the queue: perhaps another program wants it."""
    mirror.follow()
    queue.send({"order": 7})
    with pytest.raises(HostileFeed, match="is no event of a bucket"):
        mirror.follow()
    assert queue.count() == 1


def test_a_queue_without_objects_is_refused(mirror):
    for query in ("", "?objects=", "?objects=http://h/x", "?objects=s3://b/x", "?other=s3://b/"):
        mirror.feed = f"sqs+http://h.example/1/q{query}"
        with pytest.raises(UsageError, match="names no objects"):
            mirror.follow()
