"""Near the stories in which a rule mattered, the sound protocol keeps its promises too."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from phalanx.explore import story as stories
from phalanx.explore.story_mutation import edited

STORIES = sorted((Path(__file__).parents[1] / "sweeps" / "mutants").glob("*.story"))


def play_edits(path: Path, seeds: range) -> None:
    story = stories.load(path)
    for seed in seeds:
        changed = edited(story, Random(f"{path.stem} {seed}"))
        found = stories.play(changed)
        assert found is None, f"{found}, edit {seed}:\n{stories.text_of(changed)}"


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_what_nearly_happened_is_no_worse(path: Path) -> None:
    play_edits(path, range(20))


@pytest.mark.slow
@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_much_that_nearly_happened_is_no_worse(path: Path) -> None:
    play_edits(path, range(20, 2_000))


def test_an_edit_is_the_same_each_time_and_can_be_told() -> None:
    story = stories.load(STORIES[0])
    for seed in range(50):
        changed = edited(story, Random(seed))
        assert changed == edited(story, Random(seed))
        assert stories.parse(stories.text_of(changed)) == changed
