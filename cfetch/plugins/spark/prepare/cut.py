"""Makes shares of staged entries: Spark sums up hosts and pieces, and the driver deals out the pieces.

A hash groups entries into pieces: a piece is some files of a host that needs several shares, or some small
hosts. There are several pieces for each share, so that shares become even, but altogether not more than the
driver can easily hold, however many files there are. ``tasks/shares/cut.py`` deals them out like files.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as all of Spark's manuals call it

from cfetch.plugins.spark.schemas import ddl
from cfetch.tasks.shares.cut import MICRO, MOST_FILES, ExpectedPace, choose_target, count_shares, deal_items

MOST_FLOORS = 20  # a person reads only the first ones
MOST_HOSTS = 100  # a person reads only the first ones
MOST_COST = 9e18  # a bigint can hold it
PIECES = {"kind": "int", "place": "string", "bucket": "bigint", "share": "int", "sharers": "int"}
NOTED = {"host": "string", "buckets": "bigint", "others": "int"}
SMALL, QUEUE, GIANT = range(3)
MOST_PIECES = 100_000  # some 40 MB of the driver's memory
EVENEST, COARSEST = 64, 4  # pieces a share; with files of 1 KB to 100 MB, shares differ by 0.1 % and by 4 %


class SharePiece(NamedTuple):
    """``kind``: small hosts, a part of a large ``host``, or one file that is a whole share.

    ``cost`` is in microseconds. ``others``: how many shares, its own included, ask its hosts, without the
    queues of a large host.
    """

    kind: int
    host: str
    bucket: int
    cost: int
    files: int
    others: int


class Deal(NamedTuple):
    """``share_of``: the share of each piece, from 0; other fields are by share.

    ``host``: the only host of the share; empty: it has several.
    """

    share_of: Sequence[int]
    cost_s: list[float]
    sharers: list[int]
    host: list[str]


def count_pieces_per_share(shares: int) -> int:
    """How many pieces make up a share, if there are so many shares."""
    return min(EVENEST, max(COARSEST, MOST_PIECES // max(1, shares)))


def deal_pieces(pieces: Sequence[SharePiece], target: int) -> Deal:
    """Make shares of about ``target`` microseconds, as ``shares`` does of files."""
    numbers: dict[tuple[str, int], int] = {}
    names = [(piece.host, piece.bucket if piece.kind == SMALL else 0) for piece in pieces]
    host_of = [numbers.setdefault(name, len(numbers)) for name in names]
    costs, files = [piece.cost for piece in pieces], [piece.files for piece in pieces]
    cut = deal_items(costs, files, host_of, target=target)
    shares = [[pieces[number] for number in members] for members in cut.list_members(range(len(pieces)))]
    queues_of = Counter(host for share in shares for host in {p.host for p in share if p.kind == QUEUE})
    hosts = [{piece.host for piece in share} for share in shares]
    return Deal(
        cut.share_of,
        cut.cost_s,
        [max(piece.others + queues_of[piece.host] for piece in share) for share in shares],
        [share[0].host if len(names) == 1 else "" for share, names in zip(shares, hosts, strict=True)],
    )


class ManifestCut(NamedTuple):
    """The share of each piece; ``entries`` have their ``share`` and its ``sharers``."""

    deal: Deal
    hosts: int
    host_files: dict[str, int]
    floors_s: dict[str, float]
    entries: DataFrame


class ManifestCutter(NamedTuple):
    """Cuts a manifest. ``mean`` replaces an unknown size; ``known``: bytes of the others; ``files``: all."""

    pace: ExpectedPace
    mean: float
    files: int
    known: int
    unknown: int
    slots: int
    per_host: int | None

    @property
    def total_s(self) -> float:
        """The seconds that all files take one task."""
        return self.pace.cost_s(self.files, self.known + self.mean * self.unknown)

    @property
    def target(self) -> int:
        """The microseconds that a share should take."""
        return choose_target(self.total_s, self.slots)

    def _count_buckets(self, cost: int, files: int) -> int:
        """Count the pieces into which a hash divides this work."""
        shares = max(int(self.total_s * MICRO) // self.target, self.files // MOST_FILES)
        return count_pieces_per_share(shares) * count_shares(cost, files, self.target)

    def _cost(self) -> Column:
        """The cost of an entry, in microseconds."""
        size = F.coalesce(F.col("size").cast("double"), F.lit(float(self.mean)))
        seconds = F.lit(self.pace.latency_s / self.pace.concurrency) + size / F.lit(float(self.pace.rate_bps))
        return F.least(seconds * F.lit(float(MICRO)), F.lit(MOST_COST)).cast("long")

    def cut(self, spark: SparkSession, entries: DataFrame) -> ManifestCut:
        """Divide entries (row, key, host, size) among shares."""
        hosts = self._sum_hosts(entries).persist()
        try:
            large = (F.col("cost") * 2 >= 3 * self.target) | (F.col("files") > MOST_FILES)
            marked = hosts.withColumn("large", large)
            every = marked.agg(
                F.count("*").alias("hosts"),
                F.sum(F.when(~large, F.col("cost"))).alias("cost"),
                F.sum(F.when(~large, F.col("files"))).alias("files"),
            ).collect()[0]
            noted = self._note_large_hosts(spark, marked)
            files = (F.col("files") + F.col("giants")).alias("files")
            most = hosts.select("host", files).orderBy(F.desc("files"), "host").limit(MOST_HOSTS).collect()
            small = self._count_buckets(int(every.cost or 0), int(every.files or 0))
            pieces = self._collect_pieces(entries, noted, small)
            deal = deal_pieces(pieces, self.target)
            floors = self._find_floors(hosts, deal)
        finally:
            hosts.unpersist()
        rows = zip(pieces, deal.share_of, strict=True)
        table = [(p.kind, p.host, p.bucket, share, deal.sharers[share]) for p, share in rows]
        shares = spark.createDataFrame(table, ddl(PIECES))
        cut = self._assign_pieces(entries, noted, small).join(
            F.broadcast(shares), ["kind", "place", "bucket"]
        )
        return ManifestCut(deal, every.hosts, {row.host: row.files for row in most}, floors, cut)

    def _assign_pieces(self, entries: DataFrame, noted: DataFrame, small: int) -> DataFrame:
        """Entries with the piece that each belongs to: ``kind``, ``place`` (a host) and ``bucket``."""
        joined = entries.join(F.broadcast(noted), "host", "left").withColumn("cost", self._cost())
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

    def _sum_hosts(self, entries: DataFrame) -> DataFrame:
        """Sum up each host.

        The columns are cost and number of the files that are no share of their own, and number of the others.
        """
        costed = entries.withColumn("cost", self._cost().cast("decimal(20,0)"))  # a sum of bigints overflows
        giant = F.col("cost") >= self.target
        return costed.groupBy("host").agg(
            F.sum(F.when(giant, 0).otherwise(F.col("cost"))).alias("cost"),
            F.sum(F.when(giant, 0).otherwise(1)).alias("files"),
            F.sum(F.when(giant, 1).otherwise(0)).alias("giants"),
            F.sum(F.col("size").cast("decimal(20,0)")).alias("known"),
        )

    def _note_large_hosts(self, spark: SparkSession, hosts: DataFrame) -> DataFrame:
        """Hosts that need several shares, or have files that are shares: their buckets and shares."""
        rows = hosts.where("large or giants > 0").orderBy("host").collect()
        many = [self._count_buckets(int(row.cost), row.files) if row.large else None for row in rows]
        others = [row.giants + (not row.large and row.files > 0) for row in rows]
        noted = zip([row.host for row in rows], many, others, strict=True)
        return spark.createDataFrame(list(noted), ddl(NOTED))

    def _collect_pieces(self, entries: DataFrame, noted: DataFrame, small: int) -> list[SharePiece]:
        cost = F.least(F.sum(F.col("cost").cast("decimal(20,0)")), F.lit(MOST_COST)).cast("long")
        rows = (
            self._assign_pieces(entries, noted, small)
            .groupBy("kind", "place", "bucket")
            .agg(
                cost.alias("cost"),
                F.count("*").alias("files"),
                F.max(F.coalesce(F.col("others"), F.lit(1))).alias("others"),
            )
            .collect()
        )
        return sorted(SharePiece(*row) for row in rows)  # so all runs make the same shares

    def _find_floors(self, hosts: DataFrame, deal: Deal) -> dict[str, float]:
        """The least times of hosts: the longest share of one host only, or all of it by ``per_host``."""
        longest: dict[str, float] = {}
        for host, cost_s in zip(deal.host, deal.cost_s, strict=True):
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
        return dict(sorted(longest.items(), key=lambda floor: (-floor[1], floor[0]))[:MOST_FLOORS])
