"""What git-cinnabar notes about odd changesets, as the git-cinnabar program gave it.

The id of a metadata commit covers every note, every manifest commit and what precedes
the content of files. Whoever changes a history asks the program again, `make oracle`
compares with it entry by entry.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from oracle.sides import Ours
from testlib import odd, oddnotes
from testlib.oddstore import Step, write

# of git-cinnabar 0.7.5
NOTES = "9901b7fbbb68d147430ac2274b3e225161b7438c"
ODD = {
    3: "6449c1ad864a5e8717cdec404e23277a94f03c05",
    6: "b838779fc2b2f1f17561b55212ffe3ea8ff3f854",
}


@pytest.mark.slow
def test_every_kind_of_note_is_that_of_git_cinnabar(tmp_path: Path) -> None:
    assert metadata_of(tmp_path / "repository", oddnotes.steps(), 30) == NOTES


@pytest.mark.slow
@pytest.mark.parametrize("seed", ODD)
def test_metadata_of_odd_histories_are_those_of_git_cinnabar(
    tmp_path: Path, seed: int
) -> None:
    steps = odd.steps(seed)
    assert metadata_of(tmp_path / "repository", steps, 60) == ODD[seed]


def metadata_of(repository: Path, steps: list[Step], percent: int) -> str:
    """The metadata commit of an export in two steps, and of one at once."""
    write(repository, steps)
    ours = Ours(repository)
    found = [answer.metadata for answer in (ours.in_two(percent), ours.at_once())]
    commits = {metadata.commit for metadata in found if metadata is not None}
    assert len(commits) == 1
    return commits.pop()
