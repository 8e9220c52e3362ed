"""Answers of interfaces on their way up."""

from __future__ import annotations

from phalanx.service.answer_batches import SERVED_AT_ONCE, WAIT_NS, AnswerBatches
from phalanx.service.group_messages import Served, Tell


def test_answers_to_one_question_go_together_and_the_later_one_of_an_interface() -> None:
    batches = AnswerBatches()
    batches.add(10, Tell("lan", b"lineage1", 7, served=(Served("h", last_number=1),)))
    batches.add(20, Tell("lan", b"lineage1", 7, served=(Served("i"),)))
    batches.add(30, Tell("lan", b"lineage1", 7, served=(Served("h", last_number=2),)))
    assert batches.deadline() == 10 + WAIT_NS
    assert batches.due(10 + WAIT_NS - 1) == []
    assert batches.due(10 + WAIT_NS) == [
        Tell("lan", b"lineage1", 7, served=(Served("h", last_number=2), Served("i")))
    ]
    assert batches.due(1 << 60) == []


def test_answers_to_different_questions_stay_apart() -> None:
    batches = AnswerBatches()
    for asked in (7, 8):
        batches.add(0, Tell("lan", b"lineage1", asked, served=(Served("h"),)))
    assert [tell.asked for tell in batches.due(WAIT_NS)] == [7, 8]


def test_a_message_carries_a_bounded_number_of_interfaces() -> None:
    batches = AnswerBatches()
    for number in range(SERVED_AT_ONCE + 1):
        batches.add(0, Tell("lan", b"lineage1", 7, served=(Served(f"h{number}"),)))
    assert [len(tell.served) for tell in batches.due(WAIT_NS)] == [SERVED_AT_ONCE, 1]
