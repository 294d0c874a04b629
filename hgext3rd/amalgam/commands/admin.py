"""The command ``admin::amalgam``: indexes, git store, bundles, and their problems.

Also ``debug::amalgam-bundles``, the process in the background that makes bundles.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from mercurial import error, templatefilters, util
from mercurial.i18n import _

from .. import background
from ..clonebundles import (
    extension,
    generator,
    locations,
    status as bundles_status,
)
from ..config import GitConfig, mistakes
from ..gitpeer import follow
from ..gitstore import oidmap, status as state
from ..gitstore.source import source_of
from ..gitstore.store import GitStore
from ..index import check, opening
from ..remote.status import ReplicaStatus
from ..terminal import counted, one_line
from . import installation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from mercurial.interfaces.types import RepoT, UiT

    from ..clonebundles.status import BundlesStatus, Row
    from ..gitstore.status import Problem, StoreStatus
    from ..gitstore.verify import Difference
    from ..index.check import Examined


def run_generator(ui: UiT, repo: RepoT) -> None:
    """Answer ``debug::amalgam-bundles``."""
    background.begin(repo, generator.COMMAND)
    extension.generate_in_background(ui, repo)


def show_bundles(fm: Any, status: BundlesStatus) -> None:
    """Show the bundles, one line each."""
    if status.rows:
        fm.plain(b"\n")
        heading = _(b"bundles, for %d public changesets") % status.public
        fm.plain(one_line(heading), label=b"amalgam.heading")
    with fm.nested(b"bundles", tmpl=b"{format} {state} {url}\n") as nested:
        for row in status.rows:
            nested.startitem()
            nested.data(
                age=row.age_seconds,
                bytes=row.bytes,
                changesets=row.changesets,
                covered=round(_covered(row, status), 4),
                format=row.format,
                missing=row.missing,
                name=row.name,
                state=row.state,
                token=row.token,
                url=row.url,
            )
            nested.plain(one_line(b"  %-13s %s" % (row.format, _explain(row))))
            if row.url:
                nested.plain(one_line(b"  %-13s %s" % (b"", _where(row))))


def _covered(row: Row, status: BundlesStatus) -> float:
    return row.changesets / status.public if status.public else 0.0


def _explain(row: Row) -> bytes:
    if row.state == b"generating":
        return _(b"is being generated")
    if row.state == b"dead":
        return _(b"was not finished; the next generator removes it")
    text = counted(row.changesets, b"changeset")
    if row.bytes:
        text += b", %s" % util.bytecount(row.bytes)
    if row.made:
        text += b", %s" % templatefilters.age((row.made, 0))
    if row.state == b"live":
        text += b", %s" % _freshness(row)
    if row.state == b"kept":
        text += _(b", replaced")
    if row.state == b"stale":
        text += _(b", no longer valid")
    return text


def _freshness(row: Row) -> bytes:
    if row.next:
        return _(b"continued by %s") % row.next
    if row.missing:
        return _(b"without %d newer changesets") % row.missing
    return _(b"up to date")


def _where(row: Row) -> bytes:
    if locations.is_relative_url(row.url):
        return _(b"by hgweb, at %s") % row.url
    return row.url


_MOST_SHOWN = 12
_EXPORT = _(b" (run 'hg git::export')")
_EXPORTER = {
    b"idle": _(b"exported in the background"),
    b"working": _(b"exported in the background, an exporter is at work"),
    b"waiting": _(b"exported in the background, waiting after a failure"),
}


def run(ui: UiT, repo: RepoT, **opts: Any) -> int:
    """Answer ``admin::amalgam``."""
    problems = general_problems(repo)
    store = store_of(ui, repo)
    mended: Sequence[Difference] = ()
    if opts["repair"]:
        opening.rebuild(repo)
    if opts["repair"] and store and state.StoreStatus.of(store).exists:
        before, after = state.repair(store)
        left = {(difference.what, difference.id) for difference in after.differences}
        mended = [
            difference
            for difference in before.differences
            if (difference.what, difference.id) not in left
        ]
    if opts["repair"]:
        bundles_status.repair(repo)
    status = state.StoreStatus.of(store) if store else state.StoreStatus()
    indexes = check.examine(repo)
    remotes = ReplicaStatus.all_of(store) if store else []
    leaders = follow.leaders(repo)
    published = bundles_status.BundlesStatus.of(repo)
    named = {problem.text for problem in problems}
    problems += _index_problems(indexes)
    problems += status.problems
    problems += (it for it in published.problems if it.text not in named)
    problems += replication_problems(remotes)
    problems += following_problems(leaders)
    byte_opts = {name.encode(): value for name, value in opts.items()}
    with ui.formatter(b"admin-amalgam", byte_opts) as fm:
        fm.startitem()
        _show_mended(fm, mended)
        _show_indexes(fm, indexes)
        _show_store(fm, store.repository.path if store else b"", status)
        show_bundles(fm, published)
        _show_remotes(fm, remotes)
        _show_leaders(fm, leaders)
        _show_problems(fm, problems)
    return 1 if problems else 0


def general_problems(repo: RepoT) -> list[Problem]:
    """Return problems of the configuration and of this machine."""
    kernels = installation.kernel_problems(repo.ui)
    return [*_mistakes(repo), *(state.Problem(*it) for it in kernels)]


def _mistakes(repo: RepoT) -> list[Problem]:
    """Return problems of the configuration, of a share and of its source."""
    hint = _(b"see 'hg help config.amalgam'")
    found = {}
    for ui in (repo.ui, source_of(repo).ui):
        for mistake in mistakes(ui):
            found[mistake.message] = mistake.hint or hint
    return [state.Problem(*it) for it in found.items()]


def store_of(ui: UiT, repo: RepoT) -> GitStore | None:
    """Return the git store; None if the configuration is invalid."""
    try:
        return GitStore(repo, GitConfig.from_ui(ui))
    except error.ConfigError:
        return None


def replication_problems(remotes: Sequence[ReplicaStatus]) -> list[Problem]:
    """Return the problems of git remotes that need a person."""
    found = (remote.problem() for remote in remotes)
    return [state.Problem(*problem) for problem in found if problem]


def following_problems(leaders: Sequence[follow.Leader]) -> list[Problem]:
    """Return the problems of followed git repositories that need a person."""
    found = (leader.problem() for leader in leaders)
    return [state.Problem(*problem) for problem in found if problem]


def _show_leaders(fm: Any, leaders: Sequence[follow.Leader]) -> None:
    """Show the git repositories that are followed, one line each."""
    if leaders:
        fm.plain(b"\n")
        fm.plain(_(b"followed git repositories\n"), label=b"amalgam.heading")
    with fm.nested(b"follows", tmpl=b"{name} {lag}\n") as nested:
        for leader in leaders:
            look, failure = leader.look, leader.failure
            nested.startitem()
            nested.data(
                name=leader.name,
                url=leader.url,
                interval=leader.interval_seconds,
                lag=leader.lag_seconds,
                succeeded=look.ended if look else 0,
                failures=failure.attempts if failure else 0,
                reason=os.fsencode(failure.reason) if failure else b"",
                moved=nested.formatlist(leader.moved, name=b"bookmark"),
                looks=look.looks if look else 0,
                changesets=look.changesets if look else 0,
            )
            text = _(b"never pulled")
            if look:
                text = _(b"pulled %s") % templatefilters.age((look.ended, 0))
            if failure:
                text = _(b"%s; failed since") % text
            label = b"amalgam.behind" if failure or not look else b"amalgam.good"
            _show_line(nested, leader.name, text, label)
            if leader.url:
                _show_line(nested, b"", leader.url)


def _show_remotes(fm: Any, remotes: Sequence[ReplicaStatus]) -> None:
    """Show the git remotes, one line each."""
    if remotes:
        fm.plain(b"\n")
        fm.plain(_(b"git remotes\n"), label=b"amalgam.heading")
    with fm.nested(b"remotes", tmpl=b"{remote} {lag}\n") as nested:
        for remote in remotes:
            nested.startitem()
            nested.data(
                remote=remote.name,
                url=remote.url,
                on_change=remote.on_change,
                lag=remote.lag_seconds,
                succeeded=remote.succeeded,
                refused=len(remote.refused),
                failures=remote.failures,
                reason=remote.reason,
                pushes=remote.pushes,
                written=remote.written,
            )
            text = _remote_state(remote)
            is_good = text.startswith(_(b"up to date"))
            label = b"amalgam.good" if is_good else b"amalgam.behind"
            _show_line(nested, remote.name, text, label)
            if remote.url:
                _show_line(nested, b"", remote.url)


def _remote_state(remote: ReplicaStatus) -> bytes:
    if remote.failures:
        text = _(b"failed, %s in a row") % counted(remote.failures, b"time")
    elif not remote.succeeded:
        text = _(b"never pushed (run 'hg git::push %s')") % remote.name
    elif remote.lag_seconds:
        text = _(b"behind for %s") % counted(remote.lag_seconds, b"second")
    else:
        text = _(b"up to date")
    if remote.refused:
        text += _(b", %s refused") % counted(len(remote.refused), b"ref")
    return text


def _show_mended(fm: Any, mended: Sequence[Difference]) -> None:
    with fm.nested(b"mended", tmpl=b"{what} {id}\n") as nested:
        for difference in mended:
            nested.startitem()
            nested.data(
                what=difference.what,
                id=difference.id,
                found=difference.found,
                expected=difference.expected,
            )
            nested.plain(one_line(_(b"repaired: %s") % difference.line()))
    if mended:
        fm.plain(b"\n")


def _show_indexes(fm: Any, indexes: Sequence[Examined]) -> None:
    fm.plain(_(b"indexes\n"), label=b"amalgam.heading")
    with fm.nested(b"indexes", tmpl=b"{index} {reason}\n") as nested:
        for examined in indexes:
            decision, snapshot = examined.opened.decision, examined.opened.snapshot
            snapshot_bytes = snapshot.length_bytes if snapshot else 0
            nested.startitem()
            nested.data(
                index=decision.name,
                mapped=decision.mapped,
                reason=decision.reason.value.encode(),
                bytes=decision.size_bytes,
                snapshot_bytes=snapshot_bytes,
                mapped_nodes=examined.mapped_nodes,
                node_map_bytes=examined.node_map_bytes,
            )
            _show_line(nested, decision.name, decision.explain())
            if snapshot_bytes:
                size = util.bytecount(snapshot_bytes)
                _show_line(nested, b"", _(b"snapshot of %s") % size)
            if examined.mapped_nodes:
                size = util.bytecount(examined.node_map_bytes)
                nodes = _(b"map of %d nodes, %s") % (examined.mapped_nodes, size)
                _show_line(nested, b"", nodes)


def _index_problems(indexes: Sequence[Examined]) -> list[Problem]:
    hint = _(b"run 'hg admin::amalgam --repair'")
    found = []
    for examined in indexes:
        name = examined.opened.decision.name
        if examined.differs_at is not None:
            text = _(b"snapshot of %s differs from it at byte %d")
            found.append(state.Problem(text % (name, examined.differs_at), hint))
        for problem in examined.node_map_problems:
            text = _(b"node map of %s: %s") % (name, problem)
            found.append(state.Problem(text, hint))
    return found


def _show_store(fm: Any, path: bytes, status: StoreStatus) -> None:
    lock = status.lock
    fm.data(
        path=path,
        exists=status.exists,
        served=status.served,
        behind=status.behind,
        gone=status.gone,
        metadata_behind=status.metadata_behind,
        refs=status.refs,
        refs_behind=status.refs_behind,
        objects=status.objects,
        packs=status.packs,
        pack_bytes=status.pack_bytes,
        growth_bytes=status.growth_bytes,
        peak_bytes=status.peak_bytes,
        changesets=status.pairs.get(oidmap.Table.CHANGESETS, 0),
        manifests=status.pairs.get(oidmap.Table.MANIFESTS, 0),
        files=status.pairs.get(oidmap.Table.FILES, 0),
        segments=status.segments,
        map_bytes=status.map_bytes,
        adopted=status.adopted,
        lock=lock.state.value.encode() if lock else b"free",
        lock_host=lock.host if lock else b"",
        lock_pid=lock.pid if lock else 0,
        exporter=status.exporter,
    )
    if not path:
        fm.plain(_(b"\ngit repository\n"), label=b"amalgam.heading")
        fm.plain(_(b"  not checked, see below\n"))
        return
    fm.plain(b"\n")
    fm.plain(one_line(_(b"git repository %s") % path), label=b"amalgam.heading")
    if not status.exists:
        served = counted(status.served, b"changeset")
        what = _(b"nothing of %s (run 'hg git::export')") % served
        _show_line(fm, _(b"exported"), what)
    else:
        _show_measures(fm, status)
    _show_line(fm, _(b"lock"), lock.explain() if lock else _(b"free"))
    if status.exporter != b"off":
        _show_line(fm, _(b"on change"), _EXPORTER[status.exporter])


def _show_measures(fm: Any, status: StoreStatus) -> None:
    done = status.served - status.behind
    exported = _(b"%d of %s") % (done, counted(status.served, b"changeset"))
    if status.behind:
        exported += _(b", %d behind") % status.behind
    if status.gone:
        exported += _(b", %d gone since") % status.gone
    is_behind = bool(status.behind or status.gone)
    exported += _EXPORT if is_behind else _(b", up to date")
    if status.adopted:
        text = _(b"%s of another program, with the ids from there")
        _show_line(fm, _(b"adopted"), text % counted(status.adopted, b"commit"))
    if status.is_exact:
        text = _(b"extras name commits: git-cinnabar cannot use this repository")
        _show_line(fm, _(b"exact"), text)
    refs = b"%d" % status.refs
    if status.refs and not done:
        refs = _(b"none of %d") % status.refs
    elif status.refs_behind:
        refs += _(b", %d behind") % status.refs_behind + _EXPORT
    freshness = b"amalgam.behind" if is_behind else b"amalgam.good"
    _show_line(fm, _(b"exported"), exported, freshness)
    _show_line(fm, _(b"refs"), refs)
    size = util.bytecount(status.pack_bytes)
    objects = _(b"%d in %s, %s") % (
        status.objects,
        counted(status.packs, b"pack"),
        size,
    )
    _show_line(fm, _(b"objects"), objects)
    disk = _(b"about %s before the next roll-up of packs, %s during it") % (
        util.bytecount(status.pack_bytes + status.growth_bytes),
        util.bytecount(status.peak_bytes),
    )
    _show_line(fm, _(b"disk"), disk)
    nouns = (b"changeset", b"manifest", b"file revision")
    counts = (status.pairs.get(table, 0) for table in oidmap.Table)
    pairs = _(b"%s, %s, %s in %s, %s") % (
        *map(counted, counts, nouns),
        counted(status.segments, b"segment"),
        util.bytecount(status.map_bytes),
    )
    _show_line(fm, _(b"map"), pairs)
    if status.metadata_behind:
        text = _(b"%s behind (updated when git-cinnabar needs it)")
        behind = counted(status.metadata_behind, b"changeset")
        _show_line(fm, _(b"metadata"), text % behind)


def _show_line(fm: Any, name: bytes, text: bytes, label: bytes = b"") -> None:
    """Show a measure; ``label`` decides on its colour."""
    fm.plain(one_line(b"  %-13s %s" % (name, text)), label=label)


def _show_problems(fm: Any, problems: Sequence[Problem]) -> None:
    with fm.nested(b"problems", tmpl=b"{text}\n") as nested:
        if problems:
            nested.plain(_(b"\nwrong\n"), label=b"amalgam.heading")
        for number, problem in enumerate(problems, start=1):
            nested.startitem()
            nested.data(text=problem.text, hint=problem.hint)
            if number <= _MOST_SHOWN:
                nested.plain(one_line(b"  %s" % problem.text), label=b"amalgam.problem")
                following = problems[number : number + 1]
                if number == _MOST_SHOWN or problem.hint not in map(_hint, following):
                    nested.plain(one_line(b"  (%s)" % problem.hint))
    if len(problems) > _MOST_SHOWN:
        more = len(problems) - _MOST_SHOWN
        fm.plain(one_line(_(b"  and %d more; see 'hg git::verify'") % more))
    if not problems:
        fm.plain(_(b"\nnothing is wrong\n"), label=b"amalgam.good")


def _hint(problem: Problem) -> bytes:
    return problem.hint
