"""One repository on both sides: which ids are equal, and which are not.

Every served changeset counts. Its commit id covers its whole tree and all its
ancestors. What git-cinnabar knows beside that is compared by its commit, and entry by
entry where that differs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from testlib.environment import hg

from . import metadata
from .sides import NONE, SERVED, Answer, Ids, Ours, SideError, Theirs

#: Differences that are kept: the first ones tell the cause.
_KEPT = 5


@dataclass(frozen=True)
class Difference:
    """A changeset with two ids; ``NONE`` for no id."""

    rev: int
    node: str
    ours: str
    theirs: str
    how: str


@dataclass
class Outcome:
    """What the comparison of one repository gave."""

    name: str
    changesets: int = 0
    equal: int = 0
    """Changesets whose ids are equal, however they were exported."""
    entries: int = 0
    """Entries of the maps that git-cinnabar keeps, all of which have to be ours."""
    differences: list[Difference] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What went wrong on either side, and what git finds wrong with our store."""
    how: str = ""
    ours_seconds: float = 0.0
    theirs_seconds: float = 0.0

    @property
    def is_good(self) -> bool:
        """Whether all is equal and nothing went wrong."""
        return self.equal == self.changesets and not self.problems

    def to_json(self) -> dict[str, object]:
        """Return the outcome as plain values."""
        return dataclasses.asdict(self)


def compare(
    name: str,
    repository: Path,
    theirs: Theirs,
    *,
    percent: int | None = None,
    pulls: int = 0,
    check: bool = False,
) -> Outcome:
    """Convert ``repository`` on both sides and compare all ids.

    ``percent``: ours exports so much first, then the rest, and then all at once again.
    ``pulls``: the same history is pulled in so many parts, and exported after each.
    ``check``: git-cinnabar checks what git fetches of ours, and of its own clone.
    """
    outcome = Outcome(name)
    ours = Ours(repository)
    answers: list[Answer] = []
    try:
        nodes = ours.served()
        outcome.changesets = len(nodes)
        if percent is not None:
            answers.append(ours.in_two(percent))
        answers.append(ours.at_once())
        if pulls:
            outcome.problems += _pulled(repository, answers[-1].ids, pulls)
    except SideError as err:
        outcome.problems.append(f"amalgam: {err}")
        return outcome
    outcome.ours_seconds = answers[-1].seconds
    try:
        reference = _reference(repository, nodes, theirs)
    except SideError as err:
        outcome.problems.append(f"git-cinnabar: {err}")
        return outcome
    outcome.how, outcome.theirs_seconds = reference.how, reference.seconds
    if reference.metadata is not None:
        outcome.entries = reference.metadata.entries
    different: dict[str, Difference] = {}
    for answer in answers:
        for rev, node in enumerate(nodes):
            sides = answer.ids.get(node, NONE), reference.ids.get(node, NONE)
            if sides[0] != sides[1] or NONE in sides:
                difference = Difference(rev, node, *sides, answer.how)
                different.setdefault(node, difference)
        for node in sorted(answer.ids.keys() - set(nodes)):
            outcome.problems.append(f"amalgam: {node} is not served and was exported")
        wrong = list(metadata.differences(answer.metadata, reference.metadata))
        if wrong:
            outcome.problems.append("\n".join((f"metadata, {answer.how}:", *wrong)))
    outcome.equal = len(nodes) - len(different)
    outcome.differences = sorted(different.values(), key=lambda one: one.rev)[:_KEPT]
    if complaint := ours.fsck():
        outcome.problems.append(f"git fsck: {complaint}")
    if check and not outcome.problems and reference.metadata is not None:
        try:
            outcome.problems += _checked(answers[-1].store, reference.store, theirs)
        except SideError as err:
            outcome.problems.append(f"taking the metadata: {err}")
    return outcome


def _pulled(origin: Path, ids: Ids, pulls: int) -> Iterator[str]:
    """Say where exports after each of some pulls end with other than one at once."""
    for publishing in (False, True):  # the other way, the origin's would be public
        target = origin.with_name(f"pulled-{publishing}")
        ours = Ours(target)
        parts = ours.in_pulls(origin, pulls, publishing=publishing)
        shown = "%(refname) %(objectname)"
        refs = ours.refs(shown)
        whole = ours.at_once()
        if parts.ids != ids or whole.ids != ids:
            yield f"{parts.how}: other ids"
        if refs != ours.refs(shown):
            yield f"{parts.how}: other refs"
        wrong = list(metadata.differences(parts.metadata, whole.metadata))
        if wrong:
            yield "\n".join((f"metadata, {parts.how}, and at once:", *wrong))
        if complaint := ours.fsck():
            yield f"{parts.how}: git fsck: {complaint}"


def _checked(ours: Path, reference: Path, theirs: Theirs) -> Iterator[str]:
    """Say where git-cinnabar's own check of ours is not that of what it made itself.

    Both as git fetches them: what no ref leads to, which a clone may have, is then on
    neither side.
    """
    found, expected = (theirs.check(theirs.take(each)) for each in (ours, reference))
    if found != expected:
        yield f"git cinnabar fsck --full:\n{found}\nof its own:\n{expected}"


def _reference(repository: Path, nodes: list[str], theirs: Theirs) -> Answer:
    """Their ids, of all ``nodes`` if there is any way."""
    answer = theirs.clone(repository, nodes)
    if len(answer.ids) == len(nodes):
        return answer
    # what has an obsolete or an unusual branch name is cloned by no ref, and since ids
    # may depend on all that comes before, a clone without it is no reference
    log = ("log", "-r", f"heads({SERVED})", "-T", "{node}\n")
    heads = hg(repository, *log).decode().split()
    return theirs.fetch(repository, heads, nodes)
