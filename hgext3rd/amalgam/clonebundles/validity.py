"""Valid bundles, by the state of Mercurial's extension and the register.

A bundle is valid as long as all its changesets are public here, and its file, if on
this machine, exists. Mercurial's extension reads its state by ``bundles``, so it sees
only valid ones.

The heads of a bundle are in ``.hg/amalgam/bundles/SHA-256.heads``: 20 bytes for each
node, sorted, named after the content. Bundles of one moment share a file, and the
register stays small however many heads exist.

A bundle made before a censoring, or of changesets that are no longer public, is hidden
from the next request on. A transaction then withdraws it: manifests first, then files.
A bundle whose register entry is lost (``.hg/amalgam`` was removed) is hidden, too, and
the next generator withdraws it.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import weakref
from typing import TYPE_CHECKING, Any

from hgext import clonebundles
from mercurial import error, phases
from mercurial.i18n import _
from mercurial.node import nullrev
from mercurial.utils import stringutil

from ..config import GitConfig
from ..configitems import CINNABAR_V1
from ..files import Directory, Placement
from ..gitstore import censorship, selection
from ..gitstore.store import has_foreign_ids
from ..terminal import one_line
from . import formats, generator, locations, objectstore
from .formats import Link, chain_of
from .register import HERE, NAME, Register, directory_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercurial.interfaces.types import RepoT

    from .register import Entry


_NODE_BYTES = 20
_SUFFIX = b".heads"
# by changelog, as it was read: the phases that were read with it, the state of files,
# and by the name of a set whether it is public; other objects may have read other files
_known: weakref.WeakKeyDictionary[Any, tuple[object, dict[str, bool]]] = (
    weakref.WeakKeyDictionary()
)
_FILE = re.compile(rb"[0-9a-f]{64}" + re.escape(_SUFFIX))


def public_heads(repo: RepoT) -> list[bytes]:
    """Return the heads of all that may be in a bundle; none if that is nothing."""
    changelog = repo.filtered(b"immutable").changelog
    return [changelog.node(rev) for rev in changelog.headrevs() if rev != nullrev]


def heads_name(nodes: Iterable[bytes]) -> str:
    """Return the name of the file of heads ``nodes``."""
    return hashlib.sha256(b"".join(sorted(nodes))).hexdigest()


def write_heads(repo: RepoT, nodes: Iterable[bytes]) -> str:
    """Put a set on disk, unless it is there, and return its name."""
    content = b"".join(sorted(nodes))
    name = hashlib.sha256(content).hexdigest()
    if not read_heads(repo, name):
        directory, placement = directory_of(repo), Placement.of(repo)
        directory.make(placement)
        directory.replace(_file_of(name), content, placement)
    return name


def read_heads(repo: RepoT, name: str) -> list[bytes]:
    """Return the nodes of a set; none if it is not there, or not whole."""
    # more nodes than changesets: at least one is missing here
    limit_bytes = len(repo.unfiltered().changelog) * _NODE_BYTES
    try:
        content = directory_of(repo).read(_file_of(name), limit_bytes)
    except (OSError, error.StorageError):
        return []
    is_whole = len(content) % _NODE_BYTES == 0
    if not is_whole or hashlib.sha256(content).hexdigest() != name:
        return []
    steps = range(0, len(content), _NODE_BYTES)
    return [content[start : start + _NODE_BYTES] for start in steps]


def _file_of(name: str) -> bytes:
    return name.encode("ascii") + _SUFFIX


def is_public(repo: RepoT, name: str) -> bool:
    """Return whether all heads, and so all below, are visible in ``repo``.

    Takes time in proportion to their number, once for each state of the repository.
    """
    unfiltered = repo.unfiltered()
    state = (unfiltered._phasecache, selection.state_of(repo))
    known = _known.get(unfiltered.changelog)
    if known is None or known[0] != state:
        known = _known[unfiltered.changelog] = (state, {})
    verdicts = known[1]
    if name not in verdicts:
        nodes = read_heads(repo, name)
        if not nodes:
            return False  # it may come yet
        verdicts[name] = _is_public(unfiltered, nodes)
    return verdicts[name]


def _is_public(unfiltered: RepoT, nodes: Iterable[bytes]) -> bool:
    get_rev = unfiltered.changelog.index.get_rev
    phase = unfiltered._phasecache.phase
    revs = [get_rev(node) for node in nodes]
    return all(
        rev is not None and phase(unfiltered, rev) == phases.public for rev in revs
    )


def sweep_heads(repo: RepoT, used: frozenset[str]) -> None:
    """Remove files of heads without a bundle. For generators only."""
    directory = directory_of(repo)
    for name in directory.names():
        known = os.fsdecode(name.removesuffix(_SUFFIX)) in used
        if _FILE.fullmatch(name) and not known:
            directory.remove(name)


_STATE_LIMIT_BYTES = 1 << 20


def state(repo: RepoT) -> list[Any]:
    """Return the bundles in the state file; ``StorageError`` if it is damaged."""
    directory, name = Directory(repo.path), clonebundles.AUTO_GEN_FILE
    try:
        content = directory.tryread(name, _STATE_LIMIT_BYTES)
        return list(clonebundles.parse_auto_gen(content))
    except (OSError, ValueError):
        raise error.StorageError(
            _(b"state of clone bundles is damaged: '%s'") % directory.join(name),
            hint=_(b"remove it, and run 'hg admin::clone-bundles-refresh'"),
        ) from None


class PublishedBundle:
    """A bundle that is ready, in the state of Mercurial's extension.

    It has the attributes of the extension's own, for which it stands.
    """

    def __init__(self, state: Any, register: Register) -> None:
        self._state = state
        name = os.fsdecode(state.basename)
        self.entry = register.entries.get(name)
        """Its register entry; ``None`` if the extension itself published it."""
        self.mark = self.entry.mark if self.entry else register.others.get(name, "")
        """The mark of censorings from before it was made."""
        self.is_lost = self.entry is None and bool(NAME.fullmatch(state.basename))
        """Whether amalgam made it, and its register entry was removed since."""

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the extension's bundle."""
        return getattr(self._state, name)

    def __eq__(self, other: object) -> bool:
        """Delegate to the extension's bundle."""
        return bool(self._state == other)

    def valid_for(self, repo: RepoT) -> bool:
        """Whether it may be advertised, and its file exists."""
        if not self._state.valid_for(repo) or not self.may_be_named(repo):
            return False
        return self.entry is None or is_there(repo, self.entry)

    def may_be_named(self, repo: RepoT) -> bool:
        """Whether it may be advertised, without a look at its file."""
        if self.entry is None:
            return not self.is_lost and self.mark == mark_of(repo)
        return may_be_named(repo, self.entry)


def published_bundles(repo: RepoT) -> list[Any]:
    """Return the bundles in the state, those that are ready as ``PublishedBundle``."""
    found = state(repo)
    if not found:
        return found
    register = Register.read(repo)
    return [PublishedBundle(it, register) if it.ready else it for it in found]


def mark_of(repo: RepoT) -> str | None:
    """Return the mark of censorings; ``None``, which no bundle has, if it is damaged.

    A bundle that was made before the mark was set may have a censored text.
    """
    try:
        return censorship.mark_of(repo)
    except (OSError, error.StorageError):
        return None


def outlived(repo: RepoT) -> list[Any]:
    """Return the bundles in the state that must not be named any more."""
    found = published_bundles(repo)
    return [it for it in found if it.ready and not it.may_be_named(repo)]


def may_be_read(repo: RepoT, entry: Entry) -> bool:
    """Return whether readers of ``repo`` may read a bundle."""
    return entry.mark == mark_of(repo) and is_public(repo, entry.heads)


def is_sound(repo: RepoT, entry: Entry) -> bool:
    """Return whether the register entry of a bundle is still true."""
    return is_there(repo, entry) and may_be_named(repo, entry)


def may_be_named(repo: RepoT, entry: Entry) -> bool:
    """Return whether a bundle may be advertised, without a look at its file."""
    return not is_exposed(repo, entry) and may_be_read(repo, entry)


def is_there(repo: RepoT, entry: Entry) -> bool:
    """Return whether the file of a bundle is unchanged, if on this machine."""
    if not entry.path:
        return True
    if entry.key:
        return objectstore.is_in_store(
            repo, entry
        )  # it was, when a generator looked last
    directory = locations.directory_at(repo, entry.path)
    if directory is None:
        return False
    try:
        found = directory.stat(entry.name.encode())
    except (OSError, error.StorageError):
        return False
    return stat.S_ISREG(found.st_mode) and found.st_size == entry.bytes


def is_exposed(repo: RepoT, entry: Entry) -> bool:
    """Return whether a bundle is elsewhere, which is not permitted (any more)."""
    if entry.key:
        return objectstore.is_exposed(repo, entry)
    return entry.path != HERE and not locations.may_name_url(repo.ui)


def ask_hooks(repo: RepoT, *, contents: bool, names: bool) -> None:
    """Run the hooks that Mercurial asks before a pull; ``Abort`` if one refuses.

    ``names``: whether bookmarks are told, too.
    """
    if contents:
        repo.hook(b"preoutgoing", throw=True, source=b"serve")
    if names:
        repo.hook(b"prelistkeys", throw=True, namespace=b"bookmarks")


def do_hooks_allow(repo: RepoT, *, names: bool) -> bool:
    """Return whether these hooks let a client have bundles."""
    try:
        ask_hooks(repo, contents=True, names=names)
    except error.Abort as exc:
        repo.ui.log(b"amalgam", b"no bundles: %s\n", exc.message)
        return False
    return True


def may_reach_git(repo: RepoT) -> bool:
    """Return whether the configuration of exports is valid (``amalgam.git.*``).

    If not, git clients get nothing; ``admin::amalgam`` names the mistake.
    """
    try:
        GitConfig.from_ui(repo.ui)
    except error.ConfigError as exc:
        repo.ui.log(b"amalgam", b"no bundles for git: %s\n", exc.message)
        return False
    return True


def published_chain(repo: RepoT) -> list[Link]:
    """Return the bundles for git that build upon each other, base first."""
    bundles = clonebundles.read_auto_gen(repo)
    return chain_of(bundles, lambda bundle: bundle.valid_for(repo))


def published_cinnabar_bundle(repo: RepoT) -> Entry | None:
    """Return the bundle for git-cinnabar, or None.

    A bundle made before commits with other ids were adopted does not count.
    """
    if has_foreign_ids(repo):
        return None
    found = [
        bundle
        for bundle in clonebundles.read_auto_gen(repo)
        if bundle.ready and bundle.bundle_type == CINNABAR_V1
        if bundle.entry is not None and bundle.valid_for(repo)
    ]
    return max(found, key=lambda bundle: bundle.revs).entry if found else None


# after the hook of censorship, which sets the mark; hooks run in order of names
_CATEGORY = b"amalgam-withdrawn"


def watch(repo: RepoT, transaction: Any, advertise: Callable[[RepoT], None]) -> None:
    """Withdraw bundles after a censoring transaction that has just begun.

    ``advertise`` writes all manifests, and deletes bundles not needed.
    """
    before = mark_of(repo)
    reference = weakref.ref(repo)

    def check(_transaction: Any) -> None:
        repo = reference()
        if repo is not None and mark_of(repo) != before:
            _withdraw_now(repo, advertise)

    transaction.addpostclose(_CATEGORY, check)


def _withdraw_now(repo: RepoT, advertise: Callable[[RepoT], None]) -> None:
    if not locations.directory_trust(repo).usable:
        return
    try:
        if not outlived(repo):
            return
        with generator.exclusive(repo):
            withdraw(repo)
            if formats.takes_part(repo):
                advertise(repo)
    except error.LockHeld:
        return  # the holder of the lock does this at its end
    except (OSError, error.Abort, error.StorageError) as exc:
        # the transaction is closed and cannot be aborted
        problem = stringutil.forcebytestr(exc)
        text = _(b"warning: bundles with censored text remain: %s") % problem
        repo.ui.warn(one_line(text))
        repo.ui.warn(_(b"(run 'hg admin::clone-bundles-clear')\n"))


def withdraw(repo: RepoT) -> None:
    """Remove invalid bundles from the state. For generators only."""
    with repo.clonebundles_lock():
        gone = outlived(repo)
        if not gone:
            return
        clonebundles.update_ondisk_manifest(repo)  # names valid bundles only
        for bundle in gone:
            clonebundles.delete_bundle(repo, bundle)
        clonebundles.update_bundle_list(repo, del_bundles=gone)
