"""Columns as Spark and as pyarrow take them: names with Spark's types, each list of columns stated once."""

from collections.abc import Iterable, Sequence
from typing import Any


def ddl(columns: Iterable[Sequence[str]]) -> str:
    """The columns, each a name, a type and perhaps more, as a schema for Spark."""
    return ", ".join(f"`{name}` {kind}" for name, kind, *_ in columns)


def arrow_schema(columns: Iterable[Sequence[str]]) -> Any:  # noqa: ANN401 - pyarrow is not typed
    """The same columns as pyarrow's schema."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "binary": pa.binary(),
        "bigint": pa.int64(),
        "int": pa.int32(),
        "double": pa.float64(),
        "boolean": pa.bool_(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us", tz="UTC"),
        "struct<algorithm:string,hex:string>": pa.struct([("algorithm", pa.string()), ("hex", pa.string())]),
        "array<struct<at_s:double,bytes:bigint>>": pa.list_(
            pa.struct([("at_s", pa.float64()), ("bytes", pa.int64())])
        ),
    }
    return pa.schema([(name, types[kind]) for name, kind, *_ in columns])
