"""Errors of Spark as one line: a damaged file, or the reason why tasks failed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from phalanx.errors import PipelineError

_FILE = re.compile(r"\[(?:FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER)\b.*?\bfile:? +(\S.*?)\. +\w")


@contextmanager
def explained() -> Iterator[None]:
    """PipelineError where what is asked in here fails for a file that cannot be read."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        found = _FILE.search(str(error))
        if found is None:
            raise
        problem = "cannot be read as Parquet"
        remedy = "restore it, or export or ingest the journals again, to another place"
        raise PipelineError(_path(found[1]), problem, remedy) from error


@contextmanager
def failed_tasks() -> Iterator[None]:
    """PipelineError where a job fails, with the error of its last task in one line."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        problem = f"tasks failed ({last_words(error)})"
        remedy = "workers must see the files under the same paths, and have memory for a group"
        raise PipelineError("spark", problem, remedy) from error


def last_words(error: PySparkException | Py4JJavaError) -> str:
    """What was raised in Python, if it was: the line below the last traceback. Else the deepest
    cause that Spark has a word for, as of a worker that died."""
    lines = [line.strip() for line in str(error).splitlines()]
    found = [line for line in lines if re.match(r"\w*(Error|Exception)\b.*: ", line)]
    found = found or [line for line in lines if "SparkException: " in line]
    return found[-1].removeprefix("Caused by: ") if found else lines[0]


def _path(url: str) -> str:
    return unquote(urlsplit(url).path) if url.startswith("file:") else url
