"""As-of join: each row gets values of the last mark at or before it, or of the first mark after it.

Rows and marks are united and sorted, and one running window carries the values along. There is no
range join, so no row meets a mark that is not its own. For the first mark after a row the sort is
reversed, because a window that looks ahead without bound is quadratic in Spark.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

_MARK = "_mark"
_IS_MARK = "_is_mark"


def as_of(
    frame: DataFrame,
    marks: DataFrame,
    keys: Sequence[str],
    at: str,
    values: Sequence[str],
    *,
    behind: bool = False,
) -> DataFrame:
    """The frame with columns `values` of the last mark whose `at` is at most the row's, per keys;
    null where there is none. `behind`: of the first mark whose `at` is at least the row's."""
    assert not set(values) & set(frame.columns), "a value has the name of a column"
    marked = marks.select(*keys, at, F.struct(*values).alias(_MARK), F.lit(True).alias(_IS_MARK))
    mine = frame.withColumn(_IS_MARK, F.lit(False))
    both = mine.unionByName(marked, allowMissingColumns=True)
    # At the same place a mark comes first, whichever way the window goes.
    along = F.col(at).desc() if behind else F.col(at).asc()
    order = Window.partitionBy(*keys).orderBy(along, F.col(_IS_MARK).desc())
    carried = F.last(_MARK, ignorenulls=True).over(
        order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return (
        both.withColumn(_MARK, carried)
        .where(~F.col(_IS_MARK))
        .select(*frame.columns, *[F.col(_MARK)[value].alias(value) for value in values])
    )
