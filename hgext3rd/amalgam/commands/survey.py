"""The command ``git::survey``."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from mercurial.i18n import _

from ..config import GitConfig
from ..gitstore.git.process import Git
from ..receive import survey
from ..terminal import counted, one_line

if TYPE_CHECKING:
    from mercurial.interfaces.types import UiT

    from ..receive.survey import Survey


def run(ui: UiT, gitrepo: bytes, *revs: bytes, **opts: Any) -> int:
    """Answer ``git::survey``."""
    config = GitConfig.from_ui(ui)
    start = time.monotonic()
    git = Git(config.program)
    found, exact = survey.run(ui, git, gitrepo, revs, config.dialect)
    seconds = time.monotonic() - start
    ui.log(
        b"amalgam",
        b"surveyed %d commits and %d trees in %.3f seconds\n",
        *(found.commits, found.trees, seconds),
    )
    byte_opts = {name.encode(): value for name, value in opts.items()}
    with ui.formatter(b"git-survey", byte_opts) as fm:
        fm.startitem()
        _show(fm, found, exact, lists_commits=opts["commits"])
        fm.data(path=gitrepo, seconds=round(seconds, 3))
    return 1 if found.findings else 0


def _show(fm: Any, found: Survey, exact: Survey, *, lists_commits: bool) -> None:
    refused = found.commits - found.survivors
    fm.data(
        commits=found.commits,
        survivors=found.survivors,
        refused=refused,
        trees=found.trees,
        exact_survivors=exact.survivors,
        commit_extras=exact.commit_extras,
        tree_extras=exact.tree_extras,
    )
    fm.plain(
        one_line(
            _(b"%d of %s would survive a push into Mercurial")
            % (found.survivors, counted(found.commits, b"commit"))
        )
    )
    if found.refused:
        line = _(b"%d with amalgam.git.push-exact: %d need git.commit, %d git.tree")
        counts = (exact.survivors, exact.commit_extras, exact.tree_extras)
        fm.plain(one_line(line % counts))
    with fm.nested(b"findings", tmpl=b"{reason} {commits}\n") as nested:
        for finding in found.findings:
            nested.startitem()
            nested.data(
                reason=finding.reason.name,
                commits=finding.commits,
                first=finding.first,
                detail=finding.detail,
            )
            line = b"%8d %s: %s" % (
                *(finding.commits, finding.reason.name),
                finding.reason.text,
            )
            nested.plain(one_line(line))
            first = _(b"first: %s") % finding.first
            if finding.detail:
                first += b" (%s)" % finding.detail
            nested.plain(one_line(b" " * 9 + first))
    if not lists_commits:
        return
    with fm.nested(b"refusals", tmpl=b"{commit} {reason}\n") as nested:
        for commit, reason in found.refused:
            nested.startitem()
            nested.data(commit=commit, reason=reason.name)
            nested.plain(one_line(b"%s %s" % (commit, reason.name)))
