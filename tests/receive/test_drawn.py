"""Commits of every form that git accepts: they come back, or are refused for a reason.

``make oracle`` draws thousands.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle import drawn
from testlib.environment import HG
from testlib.gitgrammar import Drawn, Edit as TreeEdit, Entry, Verdict

pytestmark = pytest.mark.slow

_COMMITS = 60


@pytest.mark.parametrize("name", drawn.MODES)
def test_drawn_commits_come_back_or_are_refused_for_a_reason(
    name: str, tmp_path: Path
) -> None:
    mode = drawn.MODES[name]
    wanted = {Verdict.ACCEPTED, Verdict.WARNED}
    (history, *_more) = drawn.histories(1, _COMMITS, _COMMITS, tmp_path, wanted)
    if not mode.is_lossless:
        history = drawn.flat(history, mode, tmp_path, wanted)
    found, wrong = drawn.problems_of(history, mode, tmp_path)
    assert not wrong
    assert found.accepted > _COMMITS // 4


def test_a_planted_fault_is_found(tmp_path: Path) -> None:
    """A refusal that lossless modes do not have, and a changeset that was edited."""
    signed = Drawn(headers=(b"gpgsig a\n b\n",))
    history = [drawn.Step(Drawn(), ()), drawn.Step(signed, (0,))]
    refusing = drawn.Mode((), is_lossless=True)
    (tmp_path / "refusing").mkdir()
    found, wrong = drawn.problems_of(history, refusing, tmp_path / "refusing")
    assert len(found.refused) == len(wrong) == 1
    client = tmp_path / "hg"
    edit = "--config extensions.strip= -R copy strip -q --no-backup tip"
    client.write_text(
        f'#!/bin/sh\n{HG} "$@" && case $1 in clone) {HG} {edit} ;; esac\n'
    )
    client.chmod(0o755)
    (tmp_path / "edited").mkdir()
    mode = drawn.MODES["cinnabar-exact"]
    _found, wrong = drawn.problems_of(history, mode, tmp_path / "edited", client)
    assert len(wrong) == 1
    assert wrong[0].startswith("second.git: ")


def test_an_unfounded_refusal_is_found(tmp_path: Path) -> None:
    """The oracle itself: what is refused must have what is said of it.

    And what Mercurial cannot check out must be refused.
    """
    entry = Entry(b"100644", b".hg", b"")
    history = [
        drawn.Step(Drawn(), ()),
        drawn.Step(Drawn(edits=(TreeEdit(0, entry),)), (0,)),
    ]
    mode = drawn.MODES["cinnabar"]
    found, wrong = drawn.problems_of(history, mode, tmp_path)
    assert not wrong
    made, (plain, bad) = drawn.grown(tmp_path / "again.git", history)
    assert [*found.refused] == [bad]
    said = found.refused.pop(bad)
    for unfounded in (
        said.replace("Mercurial refuses a path", "the commit is signed"),
        said.replace(bad[:12], plain[:12]),
        "something else",
    ):
        found.refused = {bad: unfounded}
        assert [*drawn.wrongs(made, found, mode, {})]
    found.refused = {}
    (harm,) = drawn.wrongs(made, found, mode, {})
    assert harm == f"{bad} is accepted: Mercurial refuses a path"
    found.refused = {bad: said}
    assert not [*drawn.wrongs(made, found, drawn.MODES["cinnabar-exact"], {})]
