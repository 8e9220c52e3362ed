"""Callers that wait for a condition of a member."""

from __future__ import annotations

from phalanx.runtime.condition_watchers import ConditionWatchers


def test_a_condition_that_holds_calls_back_at_once() -> None:
    watchers, calls = ConditionWatchers(), list[str]()
    watchers.add(lambda: True, lambda: calls.append("a"))
    assert (calls, len(watchers)) == (["a"], 0)


def test_each_caller_is_called_once_when_its_condition_holds() -> None:
    watchers, calls, true = ConditionWatchers(), list[str](), set[str]()
    watchers.add(lambda: "a" in true, lambda: calls.append("a"))
    watchers.add(lambda: "b" in true, lambda: calls.append("b"))
    watchers.check()
    assert calls == []
    true.add("b")
    watchers.check()
    watchers.check()
    assert (calls, len(watchers)) == (["b"], 1)


def test_a_caller_that_no_longer_waits_is_not_called() -> None:
    watchers, calls = ConditionWatchers(), list[str]()

    def call() -> None:
        calls.append("a")

    watchers.add(lambda: False, call)
    watchers.remove(call)
    watchers.call_all()
    assert calls == []


def test_at_the_end_all_are_called() -> None:
    watchers, calls = ConditionWatchers(), list[str]()
    watchers.add(lambda: False, lambda: calls.append("a"))
    watchers.add(lambda: False, lambda: calls.append("b"))
    watchers.call_all()
    assert (calls, len(watchers)) == (["a", "b"], 0)
