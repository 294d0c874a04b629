"""The command ``git::push``: replicate to git remotes, several at the same time."""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Any

from mercurial import cmdutil, encoding, error
from mercurial.i18n import _

from ..background import end_quickly
from ..config import GitConfig, replicas
from ..gitstore import selection
from ..gitstore.export import export
from ..gitstore.git.refs import HEADS, TAGS, escaped
from ..gitstore.store import GitStore
from ..remote import targets
from ..remote.planning import Options
from ..remote.replicate import Replication
from ..remote.results import EXIT_CODES, Action, Result, Status
from ..remote.source import ReplicaSource, is_settled, look_of
from ..remote.transport import NO_OID, FailureKind, RemoteFailureError
from ..scratch import scratch
from ..terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from ..remote.results import Outcome
    from ..remote.storerefs import StoreRefs
    from ..remote.targets import Target

_MOST_SHOWN = 20
_MOST_READ = 100
"""Commits whose attributes are read."""
_READS_ONLY = ("prune", "force", "adopt", "dry_run", "bookmark", "tags")


def run(ui: UiT, repo: RepoT, *remotes: bytes, **opts: Any) -> int:
    """Answer ``git::push``."""
    end_quickly()
    if opts["check"]:
        cmdutil.check_incompatible_arguments(opts, "check", _READS_ONLY)
    store = GitStore(repo, GitConfig.from_ui(ui))
    found = _targets(store, remotes, is_all=opts["all"])
    if opts["force"] and not opts["bookmark"]:
        raise error.InputError(
            _(b"--force needs the branches to overwrite"), hint=_(b"add -B NAME")
        )
    state, names = selection.state_of(store.repo), store.repository.names_state()
    is_plain = not any(opts[it] for it in (*_READS_ONLY, "check"))
    results: dict[bytes, Result] = {}
    if is_plain:
        for target in found:
            if is_settled(target, look_of(names, state, target)):
                results[target.name] = Result(Status.EQUAL)
    open_targets = [it for it in found if it.name not in results]
    if open_targets:
        state = export.export(store).state
        with scratch(store.repo) as path:
            source = ReplicaSource.read(store.repository, state, path)
            options = _options(source.refs, opts)
            checks = bool(opts["check"])
            results |= _replicate(ui, open_targets, source, options, checks=checks)
    if _has_pointers(store, results.values()):
        ui.warn(_(b"warning: files in LFS are pushed as pointers, without contents\n"))
        ui.warn(_(b"(push the contents with 'git lfs push --all' from a clone)\n"))
    byte_opts = {name.encode(): value for name, value in opts.items()}
    with ui.formatter(b"git-push", byte_opts) as fm:
        for target in found:
            _show(ui, fm, target, results[target.name], opts)
    return max(EXIT_CODES[it.status] for it in results.values())


def _has_pointers(store: GitStore, results: Iterable[Result]) -> bool:
    """Return whether commits that were or would be written have pointers of git-lfs.

    Of files that only git knows to be in LFS, ``.gitattributes`` tells.
    """
    found = {it.new for result in results for it in result.outcomes} - {NO_OID}
    if not found or b"lfs" in store.repo.requirements:
        return bool(found)
    asked = b"".join(b"%s:.gitattributes\n" % oid for oid in sorted(found)[:_MOST_READ])
    done = store.repository.git.run("cat-file", "--batch", input=asked, check=False)
    return b"filter=lfs" in done.stdout


def _targets(
    store: GitStore, remotes: Sequence[bytes], *, is_all: bool
) -> list[Target]:
    ui = store.repo.ui
    known = replicas(ui)
    if is_all and remotes:
        raise error.InputError(_(b"cannot specify both --all and a remote"))
    if is_all and not known:
        raise error.ConfigError(
            _(b"no remotes are configured"), hint=_(b"set amalgam.replicate.NAME")
        )
    if not is_all and not remotes:
        names = _(b"known names: %s") % b", ".join(known)
        raise error.InputError(
            _(b"no remote given"),
            hint=names if known else _(b"give a URL, or set amalgam.replicate.NAME"),
        )
    if is_all:
        return [targets.named(store, name) for name in known]
    found = {it.name: it for it in (targets.given(store, name) for name in remotes)}
    return [*found.values()]


def _options(refs: StoreRefs, opts: dict[str, Any]) -> Options:
    """Return the wishes of the command line."""
    branches = {HEADS + _branch(name) for name in opts["bookmark"]}
    if opts["force"]:
        for name in branches:
            if not refs.get(name):
                raise error.InputError(
                    _(b"no branch '%s' to push") % name.removeprefix(HEADS),
                    hint=_(b"see 'hg bookmarks' and 'hg branches'"),
                )

    def is_chosen(name: bytes) -> bool:
        return name in branches or (opts["tags"] and name.startswith(TAGS))

    return Options(
        only=is_chosen if opts["bookmark"] or opts["tags"] else None,
        forced=frozenset(branches if opts["force"] else ()),
        prunes=opts["prune"],
        adopts=opts["adopt"],
        is_dry=opts["dry_run"],
        waits=opts["wait"],
    )


def _branch(name: bytes) -> bytes:
    """Return the git branch of a bookmark or branch, if it has its usual name."""
    return escaped(encoding.fromlocal(name).removeprefix(HEADS))


def _replicate(
    ui: UiT,
    found: Sequence[Target],
    source: ReplicaSource,
    options: Options,
    *,
    checks: bool,
) -> dict[bytes, Result]:
    """Replicate to all, one thread each; the first one has the progress bar."""
    results: dict[bytes, Result] = {}
    failed: list[BaseException] = []

    def work(target: Target, progress: Callable[[bytes, int, int], None]) -> None:
        replication = Replication(target, source, options, progress)
        try:
            done = replication.compare() if checks else replication.run()
            results[target.name] = done
        except BaseException as exc:
            failed.append(exc)

    with contextlib.ExitStack() as stack:
        bars: dict[bytes, Any] = {}

        def progress(topic: bytes, position: int, total: int) -> None:
            if topic not in bars:
                bars[topic] = stack.enter_context(ui.makeprogress(topic.lower()))
            bars[topic].update(position, total=total)

        slots = threading.Semaphore(os.cpu_count() or 1)
        first, *others = found

        def work_beside(target: Target) -> None:
            with slots:
                work(target, _no_progress)

        threads = [
            threading.Thread(target=work_beside, args=(it,), daemon=True)
            for it in others
        ]
        for thread in threads:
            thread.start()
        work(first, progress)
        for thread in threads:
            thread.join()
    for exc in failed:
        raise exc
    return results


def _no_progress(_topic: bytes, _position: int, _total: int) -> None:
    pass


_MARKS = {
    Action.CREATED: _(b"new"),
    Action.MOVED: _(b"moved"),
    Action.FORCED: _(b"forced"),
    Action.DELETED: _(b"deleted"),
    Action.REFUSED: _(b"refused"),
    Action.KEPT: _(b"kept"),
    Action.DIFFERENT: _(b"differs"),
}


def _show(
    ui: UiT, fm: Any, target: Target, result: Result, opts: dict[str, Any]
) -> None:
    """Show the result for a remote."""
    failure = result.failure
    fm.startitem()
    fm.data(
        remote=target.name,
        url=target.remote.shown,
        status=result.status.value.encode(),
        reason=failure.reason if failure else b"",
        kind=failure.kind.value.encode() if failure else b"",
        pushes=result.pushes,
        seconds=round(result.seconds, 3),
    )
    shown = result.outcomes
    lines = [*map(_line, shown)]
    if len(lines) > _MOST_SHOWN and not ui.verbose:
        is_quiet = (Action.CREATED, Action.MOVED, Action.DELETED, Action.KEPT)
        lines = [
            line
            for line, it in zip(lines, shown, strict=True)
            if it.action not in is_quiet
        ][:_MOST_SHOWN]
    with fm.nested(b"refs", tmpl=b"{ref} {action}\n") as nested:
        for it in shown:
            nested.startitem()
            nested.data(
                ref=it.ref,
                action=it.action.value.encode(),
                old=b"" if it.old == NO_OID else it.old,
                new=b"" if it.new == NO_OID else it.new,
                reason=it.reason,
                unreadable=it.is_unreadable,
            )
    if not fm.isplain():
        return
    if not ui.quiet:
        fm.plain(one_line(b"%s: %s" % (target.remote.shown, _summary(result, opts))))
        for line in lines:
            fm.plain(one_line(b"  " + line))
    for it in result.outcomes:
        if it.is_unreadable:
            text = _(b"warning: %s still has %s, which is not served here any more")
            ui.warn(one_line(text % (it.ref, it.old[:12])))
    if failure:
        ui.warn(one_line(_(b"push to %s failed: %s") % (target.shown, failure.reason)))
        if hint := result.hint or _hint(failure):
            ui.warn(one_line(b"(%s)" % hint))


def _hint(failure: RemoteFailureError) -> bytes:
    if failure.kind is FailureKind.LOGIN:
        return _(b"try 'git ls-remote' with the same URL, as the same user")
    return b""


def _summary(result: Result, opts: dict[str, Any]) -> bytes:
    """Return one line about a result."""
    counts = {
        action: sum(it.action is action for it in result.outcomes) for action in Action
    }
    done = [Action.CREATED, Action.MOVED, Action.FORCED, Action.DELETED]
    parts = [
        b"%d %s" % (counts[action], _MARKS[action])
        for action in (*done, Action.KEPT, Action.REFUSED, Action.DIFFERENT)
        if counts[action]
    ]
    if result.status is Status.BUSY:
        return _(b"another push is running (--wait waits for it)")
    if not parts and result.status is Status.FAILED:
        return _(b"nothing was pushed")
    if opts["dry_run"] and parts:
        return _(b"would be: %s") % b", ".join(parts)
    return b", ".join(parts) or _(b"up to date")


def _line(outcome: Outcome) -> bytes:
    """Return one line about a ref."""
    mark, old, new = _MARKS[outcome.action], outcome.old[:12], outcome.new[:12]
    ids = b"%s..%s" % (old, new)
    if outcome.old == NO_OID:
        ids = new
    elif outcome.new == NO_OID:
        ids = old
    line = b"%-8s %s %s" % (mark, outcome.ref, ids)
    return b"%s: %s" % (line, outcome.reason) if outcome.reason else line
