"""Errors of Spark about damaged files, as one line that names the file."""

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


def _path(url: str) -> str:
    return unquote(urlsplit(url).path) if url.startswith("file:") else url
