"""The command ``git::follow``: pull from the git repositories that lead this one."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from mercurial import error
from mercurial.i18n import _

from ..config import followed
from ..gitpeer import follow
from ..gitstore import failures
from ..gitstore.source import source_of
from ..terminal import counted, one_line, printable

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT, UiT


def run(ui: UiT, repo: RepoT, *names: bytes, **opts: Any) -> int:
    """Answer ``git::follow``."""
    known = followed(source_of(repo).ui)
    for name in names:
        if name not in known:
            hint = _(b"known names: %s") % b", ".join(known)
            raise error.InputError(
                _(b"unknown git repository '%s'") % printable(name),
                hint=hint if known else _(b"set amalgam.follow.NAME to its URL"),
            )
    if not known:
        raise error.ConfigError(
            _(b"no git repository is followed"), hint=_(b"set amalgam.follow.NAME")
        )
    done: dict[bytes, int] = {}
    reasons: dict[bytes, bytes] = {}
    for name in dict.fromkeys(names or known):
        with contextlib.ExitStack() as stack:
            if not ui.verbose or opts["template"]:
                stack.enter_context(source_of(repo).ui.silent())
            try:
                done[name] = follow.follow(repo, name)
            except follow.FAILURES as exc:
                reasons[name] = failures.reason_of(exc)
    asked = {*done, *reasons}
    byte_opts = {name.encode(): value for name, value in opts.items()}
    with ui.formatter(b"git-follow", byte_opts) as fm:
        for leader in follow.leaders(repo):
            if leader.name in asked:
                count, reason = done.get(leader.name, 0), reasons.get(leader.name)
                _show(ui, fm, leader, count, reason)
    return 1 if reasons else 0


def _show(
    ui: UiT, fm: Any, leader: follow.Leader, count: int, reason: bytes | None
) -> None:
    fm.startitem()
    fm.data(
        name=leader.name,
        url=leader.url,
        changesets=count,
        reason=reason or b"",
        moved=fm.formatlist(leader.moved, name=b"bookmark"),
    )
    if not fm.isplain():
        return
    if reason is not None:
        text = _(b"following %s failed: %s")
        ui.warn(one_line(text % (leader.name, reason)))
        return
    new = counted(count, b"new changeset") if count else _(b"no new changesets")
    if not ui.quiet:
        fm.plain(one_line(b"%s: %s" % (leader.name, new)))
    for bookmark in leader.moved:
        text = _(b"bookmark '%s' is not where %s has the branch")
        ui.warn(one_line(text % (bookmark, leader.name)))
        hint = _(b"(hg bookmark -f -r %s/%s %s)")
        ui.warn(one_line(hint % (leader.name, bookmark, bookmark)))
