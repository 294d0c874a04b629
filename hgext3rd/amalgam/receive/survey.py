"""The survey of a git repository: how many of its commits could be pushed, and why not.

Nothing is written but to a temporary directory, and nothing in the repository is
obeyed: git runs in an empty repository of ours that has its objects and its refs. git
lists the commits and reads commits and trees; the core judges them.
"""

from __future__ import annotations

import os
from subprocess import PIPE
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _
from mercurial.node import hex as hex_node

from ..core.operation import Operation
from ..files import Placement, Unusable
from ..gitstore.adopt import mirror as mirrors
from ..gitstore.oidmap import ID_LEN
from ..records import Record
from ..scratch import outside
from ..terminal import printable
from .convert import REASONS, GitProcesses, RejectReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercurial.interfaces.types import UiT

    from ..gitstore.git.process import Git

_PHASES = {
    0: (_(b"reading commits"), _(b"commits")),
    1: (_(b"reading trees"), _(b"trees")),
}
# refs that a push would have: no notes, no stash, no pull requests
_EVERYTHING = ("--branches", "--tags", "--remotes")
_ORDER = ("--topo-order", "--full-history", "--reverse")
# of packs, by all processes
_MAPPED_BYTES = 256 << 20


class SurveyFinding(Record):
    """The commits that cannot be pushed for one reason."""

    reason: RejectReason
    """The reason."""
    commits: int
    """How many."""
    first: bytes
    """Oid in hex of the first: none of its ancestors has this reason."""
    detail: bytes
    """Part of the first commit that is the reason, at most 512 bytes; may be empty."""


class Survey(Record):
    """Result of a survey."""

    commits: int
    """Commits that were surveyed."""
    trees: int
    """Different trees that they have."""
    findings: tuple[SurveyFinding, ...]
    """One for each reason found, in the order of the reasons."""
    refused: tuple[tuple[bytes, RejectReason], ...]
    """Commits that cannot be pushed, oids in hex, parents before children."""
    commit_extras: int
    """Other commits that need the extra ``git.commit``."""
    tree_extras: int
    """Other commits that need the extra ``git.tree``."""

    @property
    def survivors(self) -> int:
        """How many commits could be pushed."""
        return self.commits - sum(finding.commits for finding in self.findings)


def run(
    ui: UiT,
    git: Git,
    name: bytes,
    revs: Sequence[bytes],
    dialect: bytes,
) -> tuple[Survey, Survey]:
    """Survey ``revs`` and their ancestors in the git repository ``name``.

    Returns two surveys: without and with ``amalgam.git.push-exact``. ``git`` is the
    program, ``name`` the user's name for the repository. Without ``revs``: all
    branches, tags and remote-tracking branches. ``InputError`` for an unknown
    repository or revision, or if an object is missing.
    """
    for rev in revs:
        _check_rev(rev)
    with outside() as path:
        files = mirrors.local_files(name)
        # before the objects: they are there before their refs
        try:
            refs = mirrors.read_refs(files, name, git.program) if files else None
        except Unusable as exc:
            # its hint is for files of ours
            raise error.InputError(
                _(b"cannot survey '%s': %s") % (printable(name), exc.message)
            ) from None
        mirror = mirrors.opened(name, git, path)
        asked = [*revs]
        if refs is not None:
            assert mirror.git.directory is not None
            own = Placement(0o700, os.geteuid(), os.getegid())
            refs.write(mirror.git.directory, own)
            if not revs and refs.is_detached:
                asked = [b"HEAD"]
        with GitProcesses(mirror.git, _MAPPED_BYTES) as processes:
            found = _survey(
                ui, processes, mirror.name, asked, dialect, everything=not revs
            )
        if not found.refused:
            return found, found
        with GitProcesses(mirror.git, _MAPPED_BYTES) as processes:
            return found, _survey(
                *(ui, processes, mirror.name, asked, dialect),
                everything=not revs,
                is_exact=True,
            )


def _check_rev(rev: bytes) -> None:
    if not rev or rev.startswith(b"-") or b"\n" in rev or b"\0" in rev:
        raise error.InputError(
            _(b"'%s' is not a revision of git") % printable(rev),
            hint=_(b"see gitrevisions(7)"),
        )


def _survey(
    ui: UiT,
    git: GitProcesses,
    name: bytes,
    revs: Sequence[bytes],
    dialect: bytes,
    *,
    everything: bool,
    is_exact: bool = False,
) -> Survey:
    """Start git, and let the core read its output."""
    asked = git.temporary_file()
    asked.writelines(b"%s\n" % rev for rev in revs)
    asked.seek(0)
    which = _EVERYTHING if everything else ()
    oids = git.start("rev-list", *_ORDER, *which, "--stdin", stdin=asked).stdout
    assert oids is not None
    commits = git.start("cat-file", "--batch", "--buffer", stdin=oids).stdout
    oids.close()  # so that rev-list ends when its reader does
    trees = git.start("cat-file", "--batch-command", "--buffer", stdin=PIPE)
    assert commits is not None
    assert trees.stdin is not None
    assert trees.stdout is not None
    fields = {
        "dialect": dialect,
        "is_exact": is_exact,
        "commits": commits.fileno(),
        "requests": trees.stdin.fileno(),
        "answers": trees.stdout.fileno(),
    }
    try:
        found = Operation(ui, _PHASES, git.kill).job("survey", fields)
    except error.InputError as exc:
        _check(git, name)
        raise error.InputError(
            _(b"cannot survey '%s': %s") % (printable(name), exc.message), hint=exc.hint
        ) from None
    except error.StorageError as exc:
        _check(git, name)
        raise error.StorageError(
            _(b"cannot survey '%s': %s") % (printable(name), exc.message), hint=exc.hint
        ) from None
    trees.stdin.close()
    git.wait()
    _check(git, name)
    return _answer(found)


def _check(git: GitProcesses, name: bytes) -> None:
    """Abort if a process has failed."""
    message = git.failure()
    if message:
        raise error.InputError(
            _(b"git cannot read '%s': %s") % (printable(name), printable(message))
        )


def _answer(found: dict[str, Any]) -> Survey:
    """Return the core's answer."""
    oids = found["refused"]
    refused = (oids[at : at + ID_LEN] for at in range(0, len(oids), ID_LEN))
    return Survey(
        commits=found["commits"],
        trees=found["trees"],
        findings=tuple(
            SurveyFinding(
                REASONS[it["reason"]],
                it["commits"],
                hex_node(it["first"]),
                it["detail"],
            )
            for it in found["findings"]
        ),
        refused=tuple(
            (hex_node(oid), REASONS[reason])
            for oid, reason in zip(refused, found["reasons"], strict=True)
        ),
        commit_extras=found["commit_extras"],
        tree_extras=found["tree_extras"],
    )
