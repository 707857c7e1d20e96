"""Columns as Spark and as pyarrow take them: names with Spark's types, each list of columns stated once."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def ddl(columns: Mapping[str, str]) -> str:
    """The columns as a schema for Spark."""
    return ", ".join(f"`{name}` {kind}" for name, kind in columns.items())


def arrow_table(columns: Mapping[str, str], rows: Iterable[Sequence[object]]) -> Any:  # noqa: ANN401
    """Rows, each with a value for every column, as pyarrow's table."""
    import pyarrow as pa

    schema = arrow_schema(columns)
    values = list(zip(*rows, strict=True)) or [()] * len(schema)
    arrays = [pa.array(column, field.type) for column, field in zip(values, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def arrow_schema(columns: Mapping[str, str]) -> Any:  # noqa: ANN401 - pyarrow is not typed
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
    return pa.schema([(name, types[kind]) for name, kind in columns.items()])
