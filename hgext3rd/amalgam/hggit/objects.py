"""The git repository of hg-git: where it is, and its objects.

``.hg/git``, or ``.git`` with ``git.intree``. Its packs become packs of
``.hg/amalgam/fetched`` by hard links, or by copies if these are impossible; loose
objects are packed there. So hg-git may remove its own at any time. Nothing of it is
obeyed or changed here.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from typing import TYPE_CHECKING

from mercurial.utils import stringutil

from ..config import setting
from ..files import TEMPORARY, Directory, unpredictable
from ..gitstore.git import lending
from ..gitstore.git.process import Git, Owner
from ..gitstore.git.repository import Repository
from ..gitstore.imported import fetched_objects
from ..scratch import scratch
from .mapfile import kept_by_hggit

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

    from ..gitstore.store import GitStore

_OBJECTS = b"objects"
_PACKS = b"objects/pack"
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = %s\n"
_SUFFIXES = (b".pack", b".idx")  # git sees a pack by its index
# those that were taken, since git may have merged them
_TAKEN = b"hggit.packs"
_TAKEN_TITLE = b"amalgam packs of hg-git 1"
_TAKEN_BYTES = 1 << 24


def directory_of(repo: RepoT) -> Directory:
    """Return the directory of the git repository, which need not exist.

    ``repo`` is no share.
    """
    is_in_tree = setting(repo.ui, b"git", b"intree")
    if is_in_tree and stringutil.parsebool(is_in_tree):
        return Directory(repo.root, (b".git",))
    return Directory(repo.sharedpath, (b"git",))


def make(store: GitStore) -> None:
    """Make an empty repository, as hg-git does, if none exists."""
    files = directory_of(store.repo)
    if files.exists(b"HEAD"):
        return
    with contextlib.suppress(FileNotFoundError):
        store.directory.sub(b"fetched").remove(_TAKEN)
    for name in (_PACKS, b"objects/info", b"refs/heads", b"refs/tags"):
        files.sub(name).make(store.placement)
    is_bare = b"false" if files.below[-1] == b".git" else b"true"
    files.replace(b"config", _CONFIG % is_bare, store.placement)
    # last: without it, git sees no repository
    files.replace(b"HEAD", b"ref: refs/heads/master\n", store.placement)


def stamp(files: Directory) -> str:
    """Return file stats that change with packs and refs; empty without a repository."""
    found = []
    for name in (_PACKS, b"packed-refs"):
        with contextlib.suppress(OSError):
            it = os.stat(files.join(name))
            found.append(f"{it.st_ino} {it.st_size} {it.st_mtime_ns}")
    return " ".join(found)


def take(store: GitStore) -> Git | None:
    """Take the objects; return git for the repository that has them then.

    ``None`` if hg-git has no repository. Under the lock of Mercurial.
    """
    files = directory_of(store.repo)
    if not os.path.isdir(files.join(_OBJECTS)):
        return None
    repository = _fetched(store)
    git = repository.git
    fetched = store.directory.sub(b"fetched")
    title, *taken = fetched.tryread(_TAKEN, _TAKEN_BYTES).splitlines() or [b""]
    if title != _TAKEN_TITLE or not repository.exists():
        taken = []
    repository.set_up()
    loose: list[bytes] = []
    with kept_by_hggit():
        listed = [*lending.object_files(files)]
    for name, found in listed:
        if name != lending.PACK:
            loose += [name + it for it in found]
            continue
        packs = _packs({*found})
        _take_packs(files.sub(_PACKS), packs - {*taken}, repository.packs_directory)
        content = b"".join(b"%s\n" % it for it in (_TAKEN_TITLE, *sorted(packs)))
        fetched.replace(_TAKEN, content, store.placement)
    missing = _missing(git, loose)
    if missing:
        with scratch(store.repo) as path:
            lent = Directory(path, (_OBJECTS,))
            lending.lend(files, lent)
            base = repository.packs_directory.join(b"pack")
            seeing = git._replace(new_objects=lent)
            asked = b"".join(b"%s\n" % oid for oid in missing)
            seeing.run("pack-objects", "--quiet", base, input=asked)
    return git


def _fetched(store: GitStore) -> Repository:
    owner = Owner(store.repo.ui, store.repo.sharedpath)
    git = Git(store.config.program, fetched_objects(store), owner)
    return Repository(git, store.placement)


def _packs(found: set[bytes]) -> set[bytes]:
    """Return the names of whole packs among files, without suffix."""
    names = (os.path.splitext(it)[0] for it in found)
    return {it for it in names if found.issuperset(it + end for end in _SUFFIXES)}


def _take_packs(source: Directory, names: set[bytes], target: Directory) -> None:
    for name in sorted(names):
        for file in (name + suffix for suffix in _SUFFIXES):
            try:
                target.take_link(source.join(file), file)
            except OSError:
                _copy(source.join(file), target, file)


def _copy(path: bytes, target: Directory, name: bytes) -> None:
    temporary = unpredictable(TEMPORARY)
    shutil.copyfile(path, target.join(temporary), follow_symlinks=False)
    target.rename(temporary, name)


def _missing(git: Git, oids: list[bytes]) -> list[bytes]:
    """Return those of ``oids`` whose objects ``git`` does not have."""
    if not oids:
        return []
    args = ("cat-file", "--batch-check", "--buffer")
    asked = b"".join(b"%s\n" % oid for oid in oids)
    lines = git.run(*args, input=asked).stdout.splitlines()
    return [line.split(b" ")[0] for line in lines if line.endswith(b" missing")]


def give(store: GitStore, area: Directory | None = None) -> None:
    """Give hg-git's repository the packs that were fetched, or those in ``area``.

    By hard links, or copies. What hg-git has had is not given again: it may have been
    packed otherwise. Packs in ``area`` become fetched ones, too, since commits of
    hg-git may follow on theirs. Under the lock of Mercurial.
    """
    files = directory_of(store.repo)
    target = files.sub(_PACKS)
    fetched = store.directory.sub(b"fetched")
    ours = fetched_objects(store).sub(_PACKS)
    source = area or ours
    title, *taken = fetched.tryread(_TAKEN, _TAKEN_BYTES).splitlines() or [b""]
    had = {*taken} if title == _TAKEN_TITLE else set()
    names = _packs({*source.names()}) - had - _packs({*target.names()})
    if names:
        if files.exists(_OBJECTS):
            target.make(store.placement)
            _take_packs(source, names, target)
        if area:
            _fetched(store).set_up()
            _take_packs(area, names, ours)
        content = b"".join(b"%s\n" % it for it in (_TAKEN_TITLE, *sorted(had | names)))
        fetched.make(store.placement)
        fetched.replace(_TAKEN, content, store.placement)
