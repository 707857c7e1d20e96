"""Spark finds this package by its name and knows the format ``cfetch`` then, also in programs of SQL.

From Spark 4.0 on each session imports the packages whose names begin with ``pyspark_`` and registers their
``DefaultSource``: so Thrift servers, dbt and spark-sql read ``format("cfetch")`` without a line of Python.
A package has one such source; ``cfetch.spark.register`` registers the others too.
"""

try:
    from cfetch.plugins.spark.frames.source import FilesSource as DefaultSource
except ImportError:  # Spark imports all such packages: without pyarrow, all but this one still work
    __all__: list[str] = []
else:
    __all__ = ["DefaultSource"]
