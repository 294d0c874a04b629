"""Bundles for git in Mercurial's extension clonebundles.

The extension owns triggers, state, commands and settings; amalgam wraps its functions
and repeats none of them. amalgam adds formats for git, one generator at a time, and
retention of replaced bundles.

The order is safe against a crash at any moment. An upload is recorded first in the
register, then, once it can be read, in the state, then in the manifests. A removal
begins with the manifests.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import TYPE_CHECKING, Any

from hgext import clonebundles
from mercurial import bundlecaches, error
from mercurial.i18n import _
from mercurial.utils import stringutil

from ..damage import blamed
from ..files import Directory
from ..terminal import one_line
from . import (
    advertise,
    formats,
    generator,
    gitbundle,
    locations,
    newbundle,
    policy,
    publish,
    register as registers,
    validity,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence, Set

    from mercurial.interfaces.types import RepoT, TransactionT, UiT

    from .register import Entry

_TEMPORARY = b"tmp-bundles"
_FAILURES = (OSError, error.Abort, error.StorageError)
_CATEGORY = b"clonebundles-autobundles"
_LONGEST_PROBLEM = 2000
# Generated bundles by the path that Mercurial's extension gave them. For bundles that
# the extension itself publishes: the mark of censorings.
_unpublished: dict[bytes, newbundle.NewBundle | str] = {}


def read_auto_gen(_orig: object, repo: RepoT) -> list[Any]:
    """Return the valid bundles of the state."""
    return validity.published_bundles(repo)


def transaction(
    orig: Callable[..., TransactionT], repo: RepoT, *args: Any, **kwargs: Any
) -> TransactionT:
    """Renew bundles for git together with Mercurial's, and withdraw censored ones."""
    is_nested = repo.currenttransaction() is not None
    transaction = _renewing(orig, repo, *args, **kwargs)
    if not is_nested:
        validity.watch(repo, transaction, advertise_live)
    return transaction


def _renewing(
    orig: Callable[..., TransactionT], repo: RepoT, *args: Any, **kwargs: Any
) -> TransactionT:
    on_change = (b"clone-bundles", b"auto-generate.on-change")
    if not repo.ui.configbool(*on_change):
        return orig(*args, **kwargs)
    if not locations.directory_trust(repo).usable:
        repo.ui.log(b"amalgam", b"bundles of a stranger are not renewed\n")
        with repo.ui.configoverride({on_change: False}, b"amalgam"):
            return orig(*args, **kwargs)
    is_right = formats.is_right(repo)
    if is_right and not formats.git_formats(repo.ui):
        return orig(*args, **kwargs)
    # without formats of its own, upstream would only complain
    with repo.ui.configoverride({on_change: False}, b"amalgam"):
        transaction = orig(*args, **kwargs)
    if is_right:
        bundler = clonebundles.make_auto_bundler(repo)
        transaction.addpostclose(_CATEGORY, bundler)
    return transaction


def on_change(orig: Callable[[RepoT], Any], source: RepoT) -> Callable[[Any], None]:
    """Return the function that generates bundles after a transaction."""
    if not formats.takes_part(source):
        return orig(source)
    reference = weakref.ref(source)

    def bundle(_transaction: Any) -> None:
        repo = reference()
        if repo is None or generator.is_running(repo):
            return
        try:
            if _missing(repo, b"on-change"):
                generator.start(repo)
        except _FAILURES as exc:
            # the transaction is closed and cannot be aborted
            problem = stringutil.forcebytestr(exc)
            text = _(b"warning: bundles are not renewed: %s") % problem
            repo.ui.warn(one_line(text))

    return bundle


def _missing(repo: RepoT, op_id: bytes) -> Sequence[Any]:
    bundles = clonebundles.read_auto_gen(repo)
    return clonebundles.auto_bundle_needed_actions(repo, bundles, op_id)[0]


def delete(orig: Callable[[RepoT, Any], None], repo: RepoT, bundle: Any) -> None:
    """Let a bundle go: if it is ready, not before it is out of all lists."""
    if not bundle.ready:
        _remove_temporary(repo, {os.path.basename(bundle.filepath)})
        return
    published = isinstance(bundle, validity.PublishedBundle)
    if not published or bundle.entry is None:  # from before amalgam took part
        inline = bundle.file_url.startswith(bundlecaches.CLONEBUNDLESCHEME)
        if inline and b"/" in bundle.basename:
            return  # no name that Mercurial gives: it would lead elsewhere
        if inline or repo.ui.config(b"clone-bundles", b"delete-command"):
            orig(repo, bundle)
        return
    register = registers.Register.read(repo)
    withdrawn = not validity.may_be_named(repo, bundle.entry)
    publish.retire(register, bundle.entry.name, at_once=withdrawn)
    register.write(repo)


def generate(
    orig: Callable[[Any, RepoT, bytes], None], request: Any, repo: RepoT, path: bytes
) -> None:
    """Generate a bundle, for git or for Mercurial."""
    inline = repo.ui.configbool(b"clone-bundles", b"auto-generate.serve-inline")
    is_for_hg = not formats.kind_of(request.bundle_type)
    if not formats.takes_part(repo) or (inline and is_for_hg):
        # before anything is read: the bundle may contain text censored from now on
        _unpublished[path] = validity.mark_of(repo) or ""
        orig(request, repo, path)
        return
    _unpublished[path] = newbundle.NewBundle.of(orig, request, repo)


def upload(orig: Callable[[RepoT, Any], Any], repo: RepoT, bundle: Any) -> Any:
    """Publish a generated bundle."""
    made = _unpublished.pop(bundle.filepath, "")
    if isinstance(made, str):
        return _upload_other(orig, repo, bundle, made)
    try:
        return publish.publish(
            repo, bundle, made, orig, lambda entry: _delete_uploaded(repo, entry)
        )
    finally:
        made.remove()


def _upload_other(
    orig: Callable[[RepoT, Any], Any], repo: RepoT, bundle: Any, mark: str
) -> Any:
    """Let Mercurial's extension publish a bundle, and note its mark of censorings."""
    ready = orig(repo, bundle)
    if mark:
        register = registers.Register.read(repo)
        others = {os.fsdecode(b.basename) for b in validity.state(repo) if b.ready}
        register.others = {
            name: mark for name, mark in register.others.items() if name in others
        }
        register.others[os.fsdecode(ready.basename)] = mark
        register.write(repo)
    return ready


def manifest(orig: Callable[[Iterable[Any]], bytes], bundles: Iterable[Any]) -> bytes:
    """Return the manifest of bundles for Mercurial."""
    chosen = list(bundles)
    if not any(b.entry or formats.kind_of(b.bundle_type) for b in chosen):
        return orig(chosen)
    return advertise.manifest_lines(chosen)


def update_manifest(orig: Callable[[RepoT], None], repo: RepoT) -> None:
    """Write Mercurial's manifest, unless it is the operator's."""
    if not formats.hg_formats(repo.ui) and formats.takes_part(repo):
        ready = [b for b in clonebundles.read_auto_gen(repo) if b.ready]
        urls = {entry.url for entry in registers.Register.read(repo).entries.values()}
        urls.update(os.fsdecode(b.file_url) for b in ready)
        try:
            lines = advertise.read_hg_manifest(repo).split(b"\n")
        except (OSError, error.StorageError):
            return  # it is no file, so it is not Mercurial's either
        named = {os.fsdecode(line.split(b" ")[0]) for line in lines} - {""}
        if named.isdisjoint(urls) and (
            named or all(formats.kind_of(b.bundle_type) for b in ready)
        ):
            return
    orig(repo)


@blamed()
def refresh(orig: Any, ui: UiT, repo: RepoT, **opts: Any) -> Any:
    """Generate missing bundles, and describe the result."""
    locations.directory_trust(repo).require(repo.path)
    formats.check_formats(repo)
    before = policy.live_names(repo)
    if not opts.get("background"):
        try:
            with generator.exclusive(repo):
                result = _run(orig, ui, repo)
        except error.LockHeld as exc:
            raise generator.refuse(exc) from None
        policy.show_summary(ui, repo, before)
        _look_again(repo)
        return result
    if not formats.takes_part(repo):
        return orig(ui, repo, **opts)
    if _missing(repo, b"refresh"):
        ui.status(_(b"bundles are being made in the background\n"))
        generator.start(repo)
        return None
    try:
        with generator.exclusive(repo):
            result = _run(orig, ui, repo)
    except error.LockHeld:
        # the lock's holder cleans up, too
        ui.status(_(b"bundles are being made in the background\n"))
        return None
    policy.show_summary(ui, repo, before)
    return result


def _look_again(repo: RepoT) -> None:
    """Generate for changes made while this process held the generator lock."""
    on_change = repo.ui.configbool(b"clone-bundles", b"auto-generate.on-change")
    if not on_change or not formats.takes_part(repo):
        return
    repo.invalidateall()
    if _missing(repo, b"refresh"):
        generator.start(repo)


def _run(orig: Any, ui: UiT, repo: RepoT) -> Any:
    """Generate missing bundles, and remove leftovers in any case."""
    formats.check_formats(repo)  # before anything goes because of a mistake
    part = formats.takes_part(repo)
    for kind in formats.git_formats(ui):
        gitbundle.check(repo, kind)
    _remove_debris(repo)
    # an object that is gone is not named any more, and can be made again
    lost = part and publish.withdraw_lost(repo, publish.compare_store(repo))
    if part and (lost or validity.outlived(repo)):
        # out of all lists before others of the same name are made in another place
        advertise_live(repo)
    try:
        result = orig(ui, repo, background=False)
    except BaseException:
        # another failure here is left to the next run
        with contextlib.suppress(*_FAILURES):
            _remove_debris(repo, own=True)
            if part:
                advertise_live(repo)
        raise
    _remove_debris(repo, own=True)
    if part:
        advertise_live(repo)
        _note_failure(repo, "")
    return result


def _remove_debris(repo: RepoT, *, own: bool = False) -> None:
    """Forget bundles whose process died, or which this process failed to make."""
    with repo.clonebundles_lock():
        pending = [b for b in clonebundles.read_auto_gen(repo) if not b.ready]
        gone = [
            b for b in pending if generator.is_dead(b) or (own and generator.is_own(b))
        ]
        if gone:
            clonebundles.update_bundle_list(repo, del_bundles=gone)
        kept = {os.path.basename(b.filepath) for b in pending if b not in gone}
        names = Directory(repo.path, (_TEMPORARY,)).names()
        _remove_temporary(repo, {*names} - kept)


def _remove_temporary(repo: RepoT, names: Set[bytes]) -> None:
    """Remove temporary files of Mercurial's extension."""
    directory = Directory(repo.path, (_TEMPORARY,))
    for name in names & {*directory.names()}:
        directory.remove(name)


def advertise_live(repo: RepoT) -> None:
    """Write all manifests for the live bundles, then delete those not needed.

    For generators only.
    """
    validity.withdraw(repo)
    clonebundles.update_ondisk_manifest(repo)
    chain = [link.entry for link in validity.published_chain(repo)]
    advertise.write_cinnabar_manifest(repo, validity.published_cinnabar_bundle(repo))
    advertise.write_bundle_list(repo, chain, lambda path: _upload_list(repo, path))
    names = [b.basename for b in clonebundles.read_auto_gen(repo) if b.ready]
    publish.sweep(repo, names, lambda entry: _delete_uploaded(repo, entry))


def _upload_list(repo: RepoT, path: bytes) -> None:
    publish.upload_file(repo, path, clonebundles.upload_bundle)


def _delete_uploaded(repo: RepoT, entry: Entry) -> None:
    """Run the operator's command that deletes; without one, nothing is deleted."""
    if not repo.ui.config(b"clone-bundles", b"delete-command"):
        return
    bundle = clonebundles.GeneratedBundle(
        entry.type.encode(),
        entry.revs,
        entry.tip_rev,
        entry.tip_node.encode(),
        os.fsencode(entry.url),
        os.fsencode(entry.name),
    )
    clonebundles.delete_bundle(repo, bundle)


@blamed()
def clear(orig: Any, ui: UiT, repo: RepoT) -> Any:
    """Withdraw all bundles."""
    locations.directory_trust(repo).require(repo.path)
    try:
        with generator.exclusive(repo):
            _remove_debris(repo)
            part = formats.takes_part(repo)
            result = orig(ui, repo)
            if part:
                register = registers.Register.read(repo)
                for name in register.entries:
                    publish.retire(register, name, at_once=True)
                register.write(repo)
                advertise_live(repo)
            return result
    except error.LockHeld as exc:
        raise generator.refuse(exc) from None


def generate_in_background(ui: UiT, repo: RepoT) -> None:
    """Run as the background process: generate, and look for new changes.

    No change is lost: its transaction either finds the lock free, or ends before the
    look of the running generator.
    """
    locations.directory_trust(repo).require(repo.path)
    before: list[tuple[bytes, bytes]] | None = None
    while True:
        try:
            with generator.exclusive(repo):
                _generate_noting(ui, repo)
        except error.LockHeld:
            return
        repo.invalidateall()
        missing = _missing(repo, b"background")
        now = [(request.bundle_type, request.tip_node) for request in missing]
        if not missing or now == before:
            return  # nothing to generate, or no progress
        before = now


def _generate_noting(ui: UiT, repo: RepoT) -> None:
    """Generate, and note for ``admin::amalgam`` if it fails: nobody sees this one."""
    try:
        _run(clonebundles.cmd_admin_clone_bundles_refresh, ui, repo)
    except BaseException as exc:
        problem = os.fsdecode(stringutil.forcebytestr(exc)) or type(exc).__name__
        with contextlib.suppress(*_FAILURES):
            _note_failure(repo, problem)
        raise


def _note_failure(repo: RepoT, problem: str) -> None:
    register = registers.Register.read(repo)
    problem = problem[:_LONGEST_PROBLEM]
    if register.failure != problem:
        register.failure = problem
        register.write(repo)
