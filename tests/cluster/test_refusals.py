"""Eight tasks ask a host that bears four connections and answers 429 to all others.

Run by ``scripts/cluster-test``; each test prints what it has measured (``-s``).
"""

import asyncio
import json
import threading
from contextlib import contextmanager

import pytest
from aiohttp import web

from cfetch.base.config.settings import Settings
from cfetch.plugins.spark import download, register
from cfetch.plugins.spark.session import spark_session
from cfetch.tasks.shares import cut
from tests.tasks.scene import download as download_manifest

pytestmark = pytest.mark.cluster

FILES = 1500
BEARS = 4
MOST_REQUESTS = 1.1  # a file


class Crowded:
    """A host that bears ``BEARS`` connections."""

    def __init__(self):
        self.asking = self.requests = self.refused = self.most = 0
        self.url = ""

    async def answer(self, _):
        """A small file, or a refusal at once."""
        self.requests += 1
        self.asking += 1
        self.most = max(self.most, self.asking)
        try:
            if self.asking > BEARS:
                self.refused += 1
                return web.Response(status=429)
            await asyncio.sleep(0.02)
            return web.Response(body=bytes(1000))
        finally:
            self.asking -= 1

    async def serve(self):
        """Begin."""
        app = web.Application()
        app.router.add_get("/{name}", self.answer)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/"
        return runner


@contextmanager
def crowded():
    """One that runs while the ``with`` block does."""
    host, loop = Crowded(), asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    runner = asyncio.run_coroutine_threadsafe(host.serve(), loop).result()
    try:
        yield host
    finally:
        asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@pytest.fixture(scope="module")
def spark():
    """Eight slots on this machine."""
    with spark_session("local[8]") as session:
        yield session


def rows_of(host, files):
    """A row for each file."""
    return [{"url": f"{host.url}{n}", "path": f"{n}"} for n in range(files)]


def check(host, files, what):
    """Few were refused."""
    print(f"{what}: {host.requests / files:.3f} requests a file, {host.refused} refused")
    assert host.requests <= MOST_REQUESTS * files


@pytest.mark.parametrize("kind", ["function", "shards"])
def test_a_frames_tasks_learn_together_what_a_host_bears(spark, tmp_path, kind):
    """With a lone connection to begin with none would be refused; eight tasks begin with two each."""
    with crowded() as host:
        frame = spark.createDataFrame(rows_of(host, FILES)).repartition(8)
        if kind == "function":
            assert download(frame, to=tmp_path / "to", path="path").where("status != 'done'").count() == 0
        else:
            register(spark)
            sink = frame.write.format("cfetch.webdataset").mode("append").option("path_column", "path")
            sink.save(str(tmp_path / "shards"))
        check(host, FILES, kind)


def test_a_jobs_tasks_learn_together_what_a_host_bears(spark, tmp_path, monkeypatch):
    """Shares begin during the whole run, and each knows from its first requests on."""
    monkeypatch.setattr(cut, "SHORTEST_S", 0.5)  # some shares a slot, as in a long run
    with crowded() as host:
        (tmp_path / "m.json").write_text(json.dumps({"version": 1, "files": rows_of(host, FILES)}))
        summary = download_manifest(tmp_path / "m.json", tmp_path / "to", engine="spark")
        assert summary.files.done == FILES
        check(host, FILES, "job")


def test_one_connection_is_one(spark, tmp_path):
    """``per_host=1`` holds for all tasks of a frame that is in eight partitions by itself."""
    with crowded() as host:
        frame = spark.createDataFrame(rows_of(host, 200)).repartition(8)
        results = download(frame, to=tmp_path, path="path", settings=Settings(per_host=1))
        assert results.where("status != 'done'").count() == 0
        assert (host.requests, host.most) == (200, 1)
