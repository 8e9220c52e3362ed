"""Results as text: a small table for each comparison."""

from __future__ import annotations

from collections.abc import Sequence

from phalanx.benchmark.suite import Suite, SuiteRow

WIDTH = 26
SHOWN_MAX = 11
UNSTEADY = 1.3
OTHERS_MAX = 0.4
"""A row is marked if other programs used more cores than this."""


def table(title: str, rows: Sequence[SuiteRow], reference: str) -> list[str]:
    """Medians, minima and maxima; ratios to the system `reference` if it was measured too."""
    header = f"  {'':{WIDTH}}{'':13}{'median':>12}{'low':>12}{'high':>12}"
    if any(reference in row.ratios for row in rows):
        header += f"  x {reference}"
    lines = [title, header]
    for row in rows:
        low, high = min(row.values), max(row.values)
        line = f"  {row.side:{WIDTH}}{row.measure:13}"
        line += "".join(f"{number(value):>12}" for value in (row.median, low, high))
        if reference in row.ratios:
            line += f"  {number(row.ratios[reference])}"
        lines.append(line)
        if note := _note(row):
            lines.append(f"  {'':{WIDTH}}{note}")
    return lines


def number(value: float) -> str:
    """Three significant digits, or all digits before the point."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _note(row: SuiteRow) -> str:
    if row.what == "failover" and len(row.values) > 2:
        return " ".join(map(number, _some(sorted(row.values))))
    more = row.more
    busy = f"OTHERS TOOK {more['others']:.2g} CORES" if more.get("others", 0) > OTHERS_MAX else ""
    if row.what != "throughput":
        return busy
    text = f"{number(more['mb_per_s'])} MB/s, {more['cpu_share']:.0%} of a core"
    text += f" and {number(more['rss_mb'])} MB a member"
    if more["views_changed"]:
        text += f"; VIEWS CHANGED {more['views_changed']} times"
    return f"{text}; {busy}" if busy else text


def _some(ordered: Sequence[float]) -> Sequence[float]:
    """All values, or a few of them at even distances, both ends included."""
    if len(ordered) <= SHOWN_MAX:
        return ordered
    last = len(ordered) - 1
    return [ordered[round(last * k / (SHOWN_MAX - 1))] for k in range(SHOWN_MAX)]


def closing(suite: Suite) -> list[str]:
    """The verdicts of the checkers, and the failures."""
    lines = []
    if suite.verdicts:
        verdicts = list(suite.verdicts.values())
        lines.append(f"journals of {len(verdicts)} trials checked:")
        lines += [f"  {verdicts.count(text)}: {text}" for text in dict.fromkeys(verdicts)]
    if len(suite.calibrations) > 1:
        low, high = min(suite.calibrations), max(suite.calibrations)
        text = f"a fixed loop took {low * 1e3:.0f} to {high * 1e3:.0f} ms before the trials"
        lines.append(f"{text}: {'steady' if high < UNSTEADY * low else 'UNSTEADY'} machine")
    lines += suite.complaints
    lines += [f"FAILED {text}" for text in suite.failures]
    return lines
