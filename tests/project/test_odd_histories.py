"""The odd histories of `testlib.odd`: they are odd, and Mercurial takes them."""

from __future__ import annotations

from itertools import chain
from pathlib import Path

import pytest
from testlib import odd, oddities
from testlib.environment import hg
from testlib.oddstore import NULL, Edit, Step, write

SEEDS = range(1, 201)
HISTORIES = {seed: odd.steps(seed) for seed in SEEDS}
STEPS = list(chain.from_iterable(HISTORIES.values()))

# The same with each Mercurial and Python. Whoever changes what is drawn changes these.
TIPS = {
    1: "d0e3919984f08ec76af2db404791c51467f2a552",
    9: "2d03ab2b5f46edff881e1db1b6f9fc2045d0109f",
}


def items(step: Step) -> list[bytes]:
    """The items of the step's extra."""
    return (step.extra or b"").split(b"\0")


def test_every_oddity_is_drawn() -> None:
    assert {step.user for step in STEPS} >= set(oddities.USERS)
    dates = [step.date.split() for step in STEPS]
    assert {seconds for seconds, _offset in dates} >= set(oddities.SECONDS)
    assert {offset for _seconds, offset in dates} >= set(oddities.OFFSETS)
    assert {step.description for step in STEPS} >= set(oddities.DESCRIPTIONS)
    extras = {item for step in STEPS for item in items(step)}
    assert extras >= set(oddities.EXTRAS)
    assert extras >= {b"committer:" + one for one in oddities.COMMITTERS}
    branches = (*oddities.BRANCHES, *oddities.REFUSED_BRANCHES)
    assert extras >= {b"branch:" + branch for branch in branches}
    edits = [edit for step in STEPS for edit in step.edits]
    names = (*oddities.NAMES, *oddities.REFUSED_NAMES, *oddities.DOUBLED_NAMES)
    assert {edit.path for edit in edits if edit.kind == "write"} >= set(names)
    assert {edit.content for edit in edits} >= set(oddities.CONTENTS)
    assert {edit.flag for edit in edits} == {b"", b"x", b"l"}


def test_every_shape_is_drawn() -> None:
    assert any(step.p1 == NULL != step.p2 for step in STEPS)
    assert any(step.extra == b"" for step in STEPS)
    assert any(items(step) != sorted(items(step)) for step in STEPS)
    assert any(len(step.edits) > 300 for step in STEPS)
    assert {step.listing for step in STEPS} == {"sorted", "reversed", "twice", "more"}
    assert {step.phase for step in STEPS} == {0, 1, 2}
    assert any(step.obsolete for step in STEPS)
    assert any(step.null_manifest for step in STEPS)
    roots = [
        sum(step.p1 == step.p2 == NULL for step in steps)
        for steps in HISTORIES.values()
    ]
    assert max(roots) > 2
    kinds = {edit.kind for step in STEPS for edit in step.edits}
    assert kinds == {"write", "mode", "remove", "copy", "rename", "theirs", "clear"}


def test_sets_of_up_to_four_want_the_same_commit() -> None:
    largest = 0
    for steps in HISTORIES.values():
        alike: dict[tuple[object, ...], set[bytes | None]] = {}
        for step in steps:
            same = (step.p1, step.p2, step.user, step.date, step.description)
            if step.edits and b"committer" not in (step.extra or b""):
                alike.setdefault((*same, step.edits), set()).add(step.extra)
        largest = max(largest, *map(len, alike.values()))
    assert largest >= 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 9, 14])
def test_hg_verify_accepts_the_history(tmp_path: Path, seed: int) -> None:
    nodes = write(tmp_path, HISTORIES[seed])
    assert b"warning" not in hg(tmp_path, "verify", "--full")
    if seed in TIPS:
        assert nodes[-1].hex() == TIPS[seed]


@pytest.mark.slow
def test_any_step_can_be_left_out(tmp_path: Path) -> None:
    steps = HISTORIES[3]
    for number, part in enumerate((steps[::2], steps[1::3], steps[20:])):
        repository = tmp_path / str(number)
        assert len(write(repository, part)) == len(part)
        hg(repository, "verify")


@pytest.mark.slow
def test_hidden_and_secret_steps_are_not_exported(tmp_path: Path) -> None:
    edits = (Edit("write", b"a", b"1\n"),)
    steps = [
        Step(0, edits=edits),
        Step(1, 0, description=b"secret", phase=2),
        Step(2, 0, description=b"obsolete", phase=1, obsolete=True),
        Step(3, 0, description=b"draft", phase=1),
    ]
    write(tmp_path, steps)
    hg(tmp_path, "git::export")
    template = "{rev} {if(gitnode, 'exported')}\n"
    log = hg(tmp_path, "log", "--hidden", "-r", "all()", "-T", template)
    assert log.decode().splitlines() == ["0 exported", "1 ", "2 ", "3 exported"]
