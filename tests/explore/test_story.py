"""Walks written down, and done again."""

from __future__ import annotations

import pytest

from phalanx.core.effects import Service
from phalanx.errors import FileError
from phalanx.explore.live_group import LiveGroup, Setting
from phalanx.explore.random_walk import Walk
from phalanx.explore.story import Story, parse, play, shrunk, text_of

SMALL = """# two meet
boot 0|1
mode flow
service agreed
changes 1

attempt 0 1
data 0
"""


def test_a_story_comes_back_as_it_went() -> None:
    assert text_of(parse(SMALL)) == SMALL
    assert play(parse(SMALL)) is None


def test_messages_in_parts_and_for_one_member_come_back_and_hold() -> None:
    text = SMALL.replace("changes 1", "frames small").replace("boot 0|1", "boot 0 1|2")
    text = text.replace("attempt 0 1\ndata 0", "large 0 2\nwhisper 0 1 2\nattempt 0 2\nlarge 1 3")
    story = parse(text)
    assert story.setting.small
    assert text_of(story) == text
    assert play(story) is None


def test_a_message_for_one_member_is_delivered_there_alone() -> None:
    group = LiveGroup(Setting([[0, 1, 2]], hold=False, service=Service.AGREED))
    group.whisper(1, 2, int(Service.CAUSAL))
    group.deliver(0, 1)
    group.deliver(2, 1)
    histories = [group._histories.stories[history] for history in group._history]
    assert [history.delivered for history in histories] == [((),), ((),), (((1, 1),),)]
    assert histories[1].addressed == {1: (2,)}
    assert group.settle() is None


def test_the_story_of_a_walk_ends_as_the_walk_did() -> None:
    for seed in range(5):
        walk = Walk(seed)
        assert (walk.run(), play(walk.story)) == (None, None)
        assert text_of(parse(text_of(walk.story))) == text_of(walk.story)


def test_more_view_changes_than_there_is_cause_for_are_found() -> None:
    found = play(parse(SMALL.replace("changes 1", "changes 0")))
    assert found is not None
    assert (found.check, found.text) == ("JC", "m0 has changed its view 1 times, not 0")


def test_a_story_gets_smaller_as_long_as_it_fails() -> None:
    story = parse(SMALL + "ack 0\nack 1\nbreak 0 1\ncalm\n")

    def fails(shorter: Story) -> bool:
        return "break 0 1" in shorter.steps

    assert shrunk(story, fails).steps == ("break 0 1",)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("attempt 0 1\n", "it does not say how it begins"),
        (SMALL.replace("boot 0|1", "boot x"), "it does not say how it begins"),
        (SMALL.replace("changes 1", "changes some"), "it does not say how it begins"),
        (SMALL + "attempt 0\n", "no step: attempt 0"),
        (SMALL + "jump 0\n", "no step: jump 0"),
        (SMALL + "split 0\n", "no step: split 0"),
        (SMALL + "deliver 7 0\n", "no such member: deliver 7 0"),
        (SMALL + "break 0 2\n", "no such member: break 0 2"),
        (SMALL.replace("boot 0|1", "boot 0|2"), "nobody can boot so: 0.2"),
        (SMALL.replace("boot 0|1", "boot 0|0"), "nobody can boot so: 0.0"),
        (SMALL.replace("mode flow", "mode both"), "it does not say how it begins"),
    ],
)
def test_what_is_no_story_is_refused(text: str, problem: str) -> None:
    with pytest.raises(FileError, match=problem):
        parse(text)
