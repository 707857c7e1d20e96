"""From staged entries to their batches: totals of hosts, and pieces to deal out, by Spark."""

from typing import TYPE_CHECKING, NamedTuple

from cfetch.spark.prepare.prepared import Floor
from cfetch.spark.prepare.queues import (
    GIANT,
    QUEUE,
    SMALL,
    Dealt,
    Piece,
    buckets,
    dealt,
    pieces_a_batch,
    target,
)
from cfetch.spark.shares import MICRO, MOST_FILES, Pace

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = ["Cut", "Cutting"]

MOST_FLOORS = 20  # a person reads the first
MOST_HOSTS = 100  # the same
MOST_COST = 9e18  # a bigint holds it


class Cut(NamedTuple):
    """How entries get their batches. The frames grow with the batches alone."""

    dealt: Dealt
    hosts: int
    host_files: dict[str, int]
    floors: list[Floor]
    noted: "DataFrame"
    batches: "DataFrame"
    cutting: "Cutting"
    small: int

    def placed(self, entries: "DataFrame") -> "DataFrame":
        """Entries with their ``batch`` and its ``sharers``."""
        from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's manuals call it

        pieces = self.cutting.pieces(entries, self.noted, self.small)
        return pieces.join(F.broadcast(self.batches), ["kind", "place", "bucket"])


class Cutting(NamedTuple):
    """``mean`` is what an unknown size counts as, ``known`` the bytes of the others, of ``files`` in all."""

    pace: Pace
    mean: float
    files: int
    known: int
    unknown: int
    slots: int
    per_host: int | None

    @property
    def target(self) -> int:
        """Microseconds that a batch is to take."""
        return target(self.pace.cost_s(self.files, self.known + self.mean * self.unknown), self.slots)

    @property
    def a_batch(self) -> int:
        """How many pieces make up a batch."""
        total_s = self.pace.cost_s(self.files, self.known + self.mean * self.unknown)
        return pieces_a_batch(max(int(total_s * MICRO) // self.target, self.files // MOST_FILES))

    def cost(self) -> "Column":
        """Of an entry, in microseconds."""
        from pyspark.sql import functions as F  # noqa: N812

        size = F.coalesce(F.col("size").cast("double"), F.lit(float(self.mean)))
        seconds = F.lit(self.pace.latency_s / self.pace.concurrency) + size / F.lit(float(self.pace.rate_bps))
        return F.least(seconds * F.lit(float(MICRO)), F.lit(MOST_COST)).cast("long")

    def cut(self, spark: "SparkSession", entries: "DataFrame") -> Cut:
        """Deal entries (row, key, host, size) out to batches."""
        from pyspark.sql import functions as F  # noqa: N812

        hosts = self._hosts(entries).persist()
        try:
            large = (F.col("cost") * 2 >= 3 * self.target) | (F.col("files") > MOST_FILES)
            marked = hosts.withColumn("large", large)
            every = marked.agg(
                F.count("*").alias("hosts"),
                F.sum(F.when(~large, F.col("cost"))).alias("cost"),
                F.sum(F.when(~large, F.col("files"))).alias("files"),
            ).collect()[0]
            noted = self._noted(spark, marked)
            files = (F.col("files") + F.col("giants")).alias("files")
            most = hosts.select("host", files).orderBy(F.desc("files"), "host").limit(MOST_HOSTS).collect()
            small = buckets(int(every.cost or 0), int(every.files or 0), self.target, self.a_batch)
            pieces = self._pieces(entries, noted, small)
            found = dealt(pieces, self.target)
            floors = self._floors(hosts, found)
        finally:
            hosts.unpersist()
        import pyarrow as pa

        rows = zip(pieces, found.batch_of, strict=True)
        table = [(p.kind, p.host, p.bucket, batch, found.sharers[batch]) for p, batch in rows]
        kinds = (pa.int32(), pa.string(), pa.int64(), pa.int32(), pa.int32())
        columns = [pa.array(one, kind) for one, kind in zip(zip(*table, strict=True), kinds, strict=True)]
        names = ["kind", "place", "bucket", "batch", "sharers"]
        batches = spark.createDataFrame(pa.Table.from_arrays(columns, names=names))
        host_files = {one.host: one.files for one in most}
        return Cut(found, every.hosts, host_files, floors, noted, batches, self, small)

    def pieces(self, entries: "DataFrame", noted: "DataFrame", small: int) -> "DataFrame":
        """Entries with the piece that each belongs to: ``kind``, ``place`` (a host) and ``bucket``."""
        from pyspark.sql import functions as F  # noqa: N812

        joined = entries.join(F.broadcast(noted), "host", "left").withColumn("cost", self.cost())
        giant = F.col("cost") >= self.target
        is_queue = F.col("buckets").isNotNull()
        kind = F.when(giant, F.lit(GIANT)).when(is_queue, F.lit(QUEUE)).otherwise(F.lit(SMALL))
        bucket = (
            F.when(giant, F.col("key"))
            .when(is_queue, F.pmod(F.col("key"), F.col("buckets")))
            .otherwise(F.pmod(F.xxhash64("host"), F.lit(small).cast("long")))
        )
        place = F.when(giant | is_queue, F.col("host")).otherwise(F.lit(""))
        return joined.withColumns({"kind": kind, "bucket": bucket, "place": place})

    def _hosts(self, entries: "DataFrame") -> "DataFrame":
        """Of each host: cost and number of the files that are no batch of their own, number of the others."""
        from pyspark.sql import functions as F  # noqa: N812

        costed = entries.withColumn("cost", self.cost().cast("decimal(20,0)"))  # a sum of bigints overflows
        giant = F.col("cost") >= self.target
        return costed.groupBy("host").agg(
            F.sum(F.when(giant, 0).otherwise(F.col("cost"))).alias("cost"),
            F.sum(F.when(giant, 0).otherwise(1)).alias("files"),
            F.sum(F.when(giant, 1).otherwise(0)).alias("giants"),
            F.sum(F.col("size").cast("decimal(20,0)")).alias("known"),
        )

    def _noted(self, spark: "SparkSession", hosts: "DataFrame") -> "DataFrame":
        """Hosts that need several batches, or have files that are one: their buckets, if any, and batches."""
        import pyarrow as pa

        rows = hosts.where("large or giants > 0").orderBy("host").collect()
        a_batch = self.a_batch
        many = [
            buckets(int(one.cost), one.files, self.target, a_batch) if one.large else None for one in rows
        ]
        others = [one.giants + (not one.large and one.files > 0) for one in rows]
        columns = [
            pa.array([one.host for one in rows], pa.string()),
            pa.array(many, pa.int64()),
            pa.array(others, pa.int32()),
        ]
        return spark.createDataFrame(pa.Table.from_arrays(columns, names=["host", "buckets", "others"]))

    def _pieces(self, entries: "DataFrame", noted: "DataFrame", small: int) -> list[Piece]:
        from pyspark.sql import functions as F  # noqa: N812

        cost = F.least(F.sum(F.col("cost").cast("decimal(20,0)")), F.lit(MOST_COST)).cast("long")
        rows = (
            self.pieces(entries, noted, small)
            .groupBy("kind", "place", "bucket")
            .agg(
                cost.alias("cost"),
                F.count("*").alias("files"),
                F.max(F.coalesce(F.col("others"), F.lit(1))).alias("others"),
            )
            .toArrow()
        )
        columns = (column.to_pylist() for column in rows.columns)
        return [Piece(*row) for row in zip(*columns, strict=True)]

    def _floors(self, hosts: "DataFrame", found: Dealt) -> list[Floor]:
        """The longest batch that is one host's; and all of a host by ``per_host`` connections."""
        from pyspark.sql import functions as F  # noqa: N812

        longest: dict[str, float] = {}
        for host, cost_s in zip(found.host, found.cost_s, strict=True):
            if host:
                longest[host] = max(longest.get(host, 0.0), cost_s)
        if self.per_host is not None:
            count, known = (
                F.col("files") + F.col("giants"),
                F.coalesce(F.col("known").cast("double"), F.lit(0.0)),
            )
            files_s = count * F.lit(self.pace.latency_s / self.pace.concurrency)
            alone_s = (files_s + known / F.lit(float(self.pace.rate_bps))) * (
                self.pace.concurrency / self.per_host
            )
            top = hosts.select("host", alone_s.alias("s")).orderBy(F.desc("s"), "host").limit(MOST_FLOORS)
            for row in top.collect():
                longest[row.host] = max(longest.get(row.host, 0.0), row.s)
        floors = [Floor(host, seconds) for host, seconds in longest.items()]
        return sorted(floors, key=lambda one: (-one.seconds, one.host))[:MOST_FLOORS]
