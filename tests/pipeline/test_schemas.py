"""One schema, written once: journal, Arrow and Spark agree, and the document says what it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_type_hints

import msgspec
import pytest
from pyspark.sql import types as t
from tools.generate_tables_doc import text

from phalanx.journal.schema import TABLES
from phalanx.pipeline.schemas import EVENTS, FACTS, IDENTITY, arrow_schema, spark_schema

ROOT = Path(__file__).resolve().parents[2]


def spelled(kind: t.DataType) -> str:
    """A Spark type in the words of the schema."""
    match kind:
        case t.LongType():
            return "int"
        case t.StringType():
            return "str"
        case t.ArrayType():
            return f"list[{spelled(kind.elementType)}]"
    raise AssertionError(f"no such type is in the schema: {kind}")


def declared(kind: Any) -> tuple[str, bool]:
    """A type of the schema, as msgspec sees it, and whether it may be null."""
    match kind:
        case msgspec.inspect.IntType():
            return "int", False
        case msgspec.inspect.StrType() | msgspec.inspect.LiteralType():
            return "str", False
        case msgspec.inspect.ListType():
            return f"list[{declared(kind.item_type)[0]}]", False
        case msgspec.inspect.UnionType():
            (inner,) = [k for k in kind.types if not isinstance(k, msgspec.inspect.NoneType)]
            return declared(inner)[0], True
    raise AssertionError(f"no such type is in the schema: {kind}")


@pytest.mark.parametrize("table", [*EVENTS, *FACTS])
def test_journal_arrow_and_spark_agree_on_every_column(table: str) -> None:
    kind: Any = FACTS[table] if table in FACTS else TABLES[table]
    info = msgspec.inspect.type_info(kind)
    assert isinstance(info, msgspec.inspect.StructType)
    expected = {f.name: declared(f.type) for f in info.fields}
    if table in EVENTS:
        expected = dict.fromkeys(IDENTITY, ("str", False)) | expected
    spark = {f.name: (spelled(f.dataType), f.nullable) for f in spark_schema(table).fields}
    assert list(spark.items()) == list(expected.items())
    arrow = arrow_schema(table)
    assert arrow.names == list(expected)
    assert [f.nullable for f in arrow] == [null for _, null in expected.values()]
    assert set(get_type_hints(kind)) <= set(expected)


def test_the_document_of_the_tables_is_what_the_schemas_say() -> None:
    made = text()
    assert (ROOT / "docs" / "tables.md").read_text(encoding="utf-8") == made, (
        "run: python -m tools.generate_tables_doc > docs/tables.md"
    )
    for table in (*EVENTS, *FACTS):
        for name in arrow_schema(table).names:
            assert f"| `{name}` |" in made
