"""How the rows of a frame come to tasks, and how many there are."""

import re

import pytest
from pyspark.resource import ExecutorResourceRequests, ResourceProfileBuilder, TaskResourceRequests
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's manuals call it

from cfetch.base.config.settings import Settings
from cfetch.base.errors import ConfigError
from cfetch.manifest import signatures
from cfetch.manifest.urls import strip_signature
from cfetch.plugins.spark import download, job
from cfetch.plugins.spark.frames.spread import (
    _SIGNATURE,
    _SIGNED,
    TASKS_A_SLOT,
    choose_spread,
    spread_rows,
)
from tests.manifest.test_signatures import SIGNERS
from tests.plugins.spark.serving import asked, serving

FILES = {f"d/{n}.bin": b"%d" % n for n in range(40)}
SLOTS = 2  # of the tests' session


def test_a_small_result_is_spread_over_all_slots(spark, tmp_path, caplog):
    """``distinct()``, of which Spark makes one task, has two tasks a slot; totals are logged at the end."""
    caplog.set_level("INFO", "cfetch.spark")
    with serving(FILES) as origin:
        links = [(origin.url + name,) for name in FILES]
        frame = spark.createDataFrame(links * 2, "url string").distinct()
        results = download(frame, to=tmp_path / "to").withColumn("task", F.spark_partition_id())
        rows = results.collect()
        assert {row.status for row in rows} == {"done"}
        assert {row.task for row in rows} == set(range(TASKS_A_SLOT * SLOTS))
        assert asked(origin) == dict.fromkeys(FILES, 1)
        fetched = sum(map(len, FILES.values()))
        assert caplog.messages == [f"download is over: 40 files in place ({fetched} B fetched), from 1 host"]
        results.count()
        assert caplog.messages[1:] == ["download is over: 0 files in place (0 B fetched), from 0 hosts"]
        (plan,) = results._jdf.queryExecution().toString().split("== Physical Plan ==")[1:]
        assert "cfetch_download" in plan  # as the page of the query shows it


def place(frame, tasks=None, **settings):
    """The spread of a frame, and the tasks in which each host's rows are."""
    chosen = Settings(**settings)
    spread = choose_spread(frame, tasks, chosen)
    placed = spread_rows(frame, spread, {"url": "url"}, chosen).withColumn("task", F.spark_partition_id())
    hosts: dict[str, set[int]] = {}
    for row in placed.collect():
        hosts.setdefault(row.url.split("/")[2].lower(), set()).add(row.task)
    return spread, hosts


def test_a_limit_of_a_host_keeps_its_rows_in_few_tasks(spark):
    """So that ``per_host`` is the whole query's: one connection is one task, two are at most two."""
    rows = [(f"https://{host}/{n}?sig={n}",) for host in ("a", "A", "b:81", "c") for n in range(50)]
    frame = spark.createDataFrame(rows, "url string")
    spread, hosts = place(frame, per_host=1)
    assert spread == (TASKS_A_SLOT * SLOTS, SLOTS, 1)
    assert {host: len(tasks) for host, tasks in hosts.items()} == {"a": 1, "b:81": 1, "c": 1}
    spread, hosts = place(frame, 8, per_host=5)
    assert (spread.tasks, spread.sharers) == (8, SLOTS)
    assert max(len(tasks) for tasks in hosts.values()) <= SLOTS
    signed_anew = frame.withColumn("url", F.concat("url", F.lit("x")))
    assert place(signed_anew, 8, per_host=5)[1] == hosts


def test_links_that_differ_in_the_query_are_spread(spark):
    """As their files have names of their own; a signature, and a query that no name has, decide nothing."""
    signed = "X-Amz-Algorithm=A&X-Amz-Credential=C&X-Amz-Date={0}&X-Amz-Signature={0}"
    rows = [(f"https://h/get?id={n}&" + signed.format(sign),) for n in range(40) for sign in "12"]
    plain = spark.range(40).selectExpr("'https://h/?n=' || id")
    frame = spark.createDataFrame(rows, "url string").union(plain)

    def place_links(**settings):
        spread = choose_spread(frame, 4, Settings())
        placed = spread_rows(frame, spread, {"url": "url"}, Settings(**settings))
        return {row.url: row.task for row in placed.withColumn("task", F.spark_partition_id()).collect()}

    tasks = place_links()
    assert {task for url, task in tasks.items() if "id=" in url} == set(range(4))
    assert {task for url, task in tasks.items() if "n=" in url} == set(range(4))
    assert [tasks[first] for (first,) in rows[::2]] == [tasks[second] for (second,) in rows[1::2]]
    assert len(set(place_links(name_by="url-path").values())) == 2


def test_whatever_signs_a_link_does_not_spread_it():
    """Two links to one file are the same text without their signatures, by each way to sign."""
    ways = ["&".join(f"{key}={{n}}" for key in needed) for needed, _ in signatures._SIGNATURES]
    for query in [*SIGNERS.values(), *ways]:
        links = [f"https://h/a?id=7&{query.format(n=n)}" for n in (10000, 20000)]
        assert {strip_signature(link) for link in links} == {"https://h/a?id=7"}
        assert all(re.search(_SIGNED, link) for link in links)
        assert {re.sub(_SIGNATURE, "", link) for link in links} == {"https://h/a?id=7"}


def test_a_user_who_has_said_how_many_is_followed(spark):
    """By ``repartition(n)``, ``coalesce(n)`` or ``tasks``; not by a shuffle that Spark may shrink."""
    frame = spark.createDataFrame([("u",)], "url string")
    for given in (frame.repartition(3), frame.repartition(3, "url"), frame.coalesce(1)):
        assert choose_spread(given, None, Settings()).tasks is None
    assert choose_spread(frame.repartition("url"), None, Settings()).tasks == TASKS_A_SLOT * SLOTS
    assert choose_spread(frame.repartition(3), 7, Settings()).tasks == 7
    assert choose_spread(frame, 0, Settings()).tasks is None
    with pytest.raises(ConfigError, match="tasks must be a whole number from 0"):
        choose_spread(frame, -1, Settings())


DYNAMIC = {"dynamicAllocation.enabled": "true", "executor.cores": "4"}
FOUR = {"executor.instances": "4", "executor.cores": "8"}


@pytest.mark.parametrize(
    ("conf", "profile", "slots"),
    [
        ({}, {}, 3),
        (FOUR | {"task.cpus": "2"}, {}, 16),
        ({"executor.cores": "4", "task.cpus": "0.5", "executor.instances": "2"}, {}, 16),
        (DYNAMIC | {"dynamicAllocation.maxExecutors": "10"}, {}, 40),
        (DYNAMIC | {"dynamicAllocation.maxExecutors": "10", "task.cpus": "4"}, {}, 10),
        (DYNAMIC | {"sql.shuffle.partitions": "120"}, {}, 120),
        (DYNAMIC | {"dynamicAllocation.maxExecutors": "2147483647"}, {}, 200),
        ({"task.cpus": "2"}, {"cpus": 1}, 6),
        ({}, {"cpus": 0.25}, 12),
        (FOUR, {"cpus": 4}, 8),
        (DYNAMIC | {"dynamicAllocation.maxExecutors": "10"}, {"cpus": 0.5, "cores": 2}, 40),
        (FOUR, {"cpus": 3, "cores": 2}, 4),
    ],
)
def test_the_slots_that_will_come_are_counted(conf, profile, slots):
    """With ``spark.task.cpus`` or a stage's own profile, of executors that are asked for or may be."""
    assert job.estimate_slots(3, conf.get, **profile) == slots


def test_a_profile_says_what_a_task_needs(spark):
    """Its cores for a task and an executor are what is counted with."""
    task, executor = TaskResourceRequests().cpus(2), ExecutorResourceRequests().cores(6)
    profile = ResourceProfileBuilder().require(task).require(executor).build
    assert job._read_profile(profile) == (6, 2)
    assert job._read_profile(ResourceProfileBuilder().require(task).build) == (None, 2)
