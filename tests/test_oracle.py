"""The parts of `make oracle` that need no git-cinnabar."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle.crashes import CRASHES, our_answers
from oracle.shrinking import shrink
from testlib import odd
from testlib.environment import ROOT
from testlib.oddstore import Step

DOCUMENT = ROOT / "docs" / "formats" / "cinnabar.rst"


@pytest.mark.slow
def test_what_git_cinnabar_cannot_convert_has_our_answer(tmp_path: Path) -> None:
    answers = our_answers(tmp_path)
    assert answers == dict.fromkeys((crash.name for crash in CRASHES), "")


def test_the_answers_are_documented() -> None:
    text = DOCUMENT.read_text()
    for crash in CRASHES:
        assert f"{crash.name[0].upper()}{crash.name[1:]}" in text
        assert f"``{crash.answer.decode()}``" in text


def test_a_history_shrinks_to_what_matters() -> None:
    steps = odd.steps(6)
    assert sum(map(culprit, steps)) > 1
    (step,) = shrink(steps, lambda some: any(map(culprit, some)))
    (edit,) = step.edits
    assert step == Step(step.key, edits=(edit,))


def test_shrinking_ends_after_so_many_trials() -> None:
    tried = []
    steps = odd.steps(6)

    def is_bad(some: list[Step]) -> bool:
        tried.append(len(some))
        return len(some) > 5

    assert len(shrink(steps, is_bad, trials=3)) < len(steps)
    assert len(tried) == 3


def culprit(step: Step) -> bool:
    """Whether a step writes a file, which we call wrong here."""
    return any(edit.kind == "write" for edit in step.edits)
