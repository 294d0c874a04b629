"""The parts of `make oracle` that need no git-cinnabar."""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle import metadata
from oracle.crashes import CRASHES, our_answers
from oracle.shrinking import shrink
from oracle.sides import STORE
from testlib import odd
from testlib.environment import ROOT, hg
from testlib.oddstore import Edit, Step, write

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


@pytest.mark.slow
def test_a_difference_of_metadata_is_told_by_its_entries(tmp_path: Path) -> None:
    steps = [
        Step(0, edits=(Edit("write", b"a", b"1\n"),)),
        Step(1, 0, user=b"Foo (f@x)"),
    ]
    found = []
    for name in ("ours", "theirs"):
        repository = tmp_path / name
        write(repository, steps)
        hg(repository, "git::export")
        found.append(metadata.read(repository / STORE))
        steps[1] = Step(1, 0, user=b"Foo <f@x> ")
    ours, theirs = found
    assert ours is not None
    assert ours.entries == 2 * len(steps) + 2  # a manifest and a file
    assert list(metadata.differences(ours, ours)) == []
    assert list(metadata.differences(ours, None)) == ["git-cinnabar has none"]
    told = "\n".join(metadata.differences(ours, theirs))
    assert [name for name in metadata.PARENTS if f"{name}: " in told] == [
        "changesets",
        "hg2git",
        "git2hg",
    ]
    assert r"\nauthor Foo (f@x)" in told
    assert r"\nauthor Foo <f@x> '" in told


def culprit(step: Step) -> bool:
    """Whether a step writes a file, which we call wrong here."""
    return any(edit.kind == "write" for edit in step.edits)
