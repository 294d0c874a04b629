"""Layout of a git store: an empty bare repository, its hook, locks and staging areas.

Owns the files and directories of gitrepository-layout(5), and the list of forbidden
ones, which would lead git to other repositories. Does not know objects, refs and
settings.

The hook ``pre-receive`` refuses pushes, since amalgam alone writes a git store. Users
who may write its files could circumvent it. Nothing else stays in ``hooks``.

``NAME.lock`` beside a file is git's own lock for its replacement.

git writes new packs in staging areas: beside the objects, so that a rename brings a
pack there, and out of the sight of readers. An area has a lock (``flock``), which the
kernel releases at the end of the process, and a list of the packs that the new one is
made of. If one of these is removed from the store, the area is removed, too: so a
dropped object does not come back.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ... import scratch
from ...files import Unusable
from ...terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ...files import Directory, Placement


PACKS = b"objects/pack"
_DIRECTORIES = (PACKS, b"objects/info", b"refs/heads", b"refs/tags")
_NEEDED = (PACKS, b"refs", b"HEAD")
HEAD = b"ref: refs/heads/default\n"
"""Content of HEAD in a new store."""

MEDDLING = frozenset(
    {
        b"commondir",
        b"config.worktree",
        b"gitdir",
        b"info/grafts",
        b"modules",
        b"objects/info/alternates",
        b"objects/info/http-alternates",
        b"reftable",
        b"shallow",
        b"worktrees",
    }
)
"""Files and directories that make git look elsewhere, or hide objects."""


def is_whole(directory: Directory) -> bool:
    """Return whether the repository exists."""
    return all(map(directory.exists, _NEEDED))


def complete(directory: Directory, placement: Placement) -> None:
    """Make a directory an empty repository without a configuration.

    Existing files stay.
    """
    for name in _DIRECTORIES:
        directory.sub(name).make(placement)
    if not directory.exists(b"HEAD"):
        directory.replace(b"HEAD", HEAD, placement)


def forbidden_files(directory: Directory) -> Iterator[bytes]:
    """Yield the names of forbidden files.

    They are neither files nor directories, or have a name of ``MEDDLING``. Reads
    directories only: about 10 us for each, and no call for a file.
    """
    for name, entry in directory.walk():
        is_known = entry.is_file(follow_symlinks=False) or entry.is_dir(
            follow_symlinks=False
        )
        if name in MEDDLING or not is_known:
            yield name


def check_layout(directory: Directory) -> None:
    """Raise ``SecurityError`` if git, in this repository, would look elsewhere."""
    for name in forbidden_files(directory):
        raise error.SecurityError(
            _(b"git store has a file that leads git elsewhere: '%s'")
            % printable(directory.join(name)),
            hint=_(b"run 'hg git::export', which removes it"),
        )


def remove_forbidden(directory: Directory) -> None:
    """Remove forbidden files."""
    for name in [*forbidden_files(directory)]:
        try:
            directory.remove(name)
        except Unusable:
            continue  # a directory above it was an intruder, too


HOOKS = b"hooks"
_HOOK = b"pre-receive"
# git starts it in the repository; its path is not written down, since it may be moved
_SCRIPT = b"""\
#!/bin/sh
# Written by amalgam, and written anew by each export.
cat > /dev/null
echo 'this repository is read-only for git' >&2
case $PWD in
*/.hg/amalgam/git/*)
    echo "(push with Mercurial to '${PWD%/.hg/amalgam/git/*}' instead)" >&2 ;;
*)
    echo '(push with Mercurial to the repository that it is made from)' >&2 ;;
esac
exit 1
"""


def write_push_hook(directory: Directory, placement: Placement) -> None:
    """Write the hook of the store ``directory``, and remove all others."""
    hooks = directory.sub(HOOKS)
    hooks.make(placement)
    for name in hooks.names():
        if name != _HOOK:
            hooks.remove(name)
    if not _is_written(hooks, placement):
        if hooks.exists(_HOOK):
            hooks.remove(_HOOK)  # it may be a directory
        hooks.replace(_HOOK, _SCRIPT, placement, executable=True)


def _is_written(hooks: Directory, placement: Placement) -> bool:
    try:
        mode = hooks.stat(_HOOK).st_mode & 0o7777
        is_ours = mode == placement.program_mode
        return is_ours and hooks.read(_HOOK, len(_SCRIPT)) == _SCRIPT
    except (FileNotFoundError, Unusable):
        return False


LOCK_SECONDS = 1.0
"""How long a lock of git is waited for: ``core.packedRefsTimeout`` of git-config(1)."""
_PAUSE_SECONDS = 0.05
_STAGED = b".amalgam"


def replace_locked(
    directory: Directory,
    name: bytes,
    content: bytes,
    placement: Placement,
    staged: bytes = b"",
) -> None:
    """Write a file as a whole, and keep git from doing so. Fsynced when this returns.

    That takes ``NAME.lock``. It becomes a second name of a file that only amalgam
    makes, so that if this process dies, the next one knows whose lock it was: of
    ``staged``, by default beside the file. A lock of git is waited for as long as git
    would; ``StateError`` if it stays.
    """
    staged, lock = staged or name + _STAGED, name + b".lock"
    forget_lock(directory, name, staged)
    try:
        directory.replace(staged, content, placement)
        deadline = time.monotonic() + LOCK_SECONDS
        while not _link(directory, staged, lock):
            if time.monotonic() >= deadline:
                raise error.StateError(
                    _(b"git store is locked: %s") % directory.join(lock),
                    hint=_(b"remove the file if no git process uses the store"),
                )
            time.sleep(_PAUSE_SECONDS)
        directory.rename(lock, name)
    finally:
        forget_lock(directory, name, staged)


def forget_lock(directory: Directory, name: bytes, staged: bytes = b"") -> None:
    """Remove leftovers of ``replace_locked``, of this process or a dead one."""
    staged = staged or name + _STAGED
    if forget_lock_of(directory, name, staged):
        directory.remove(staged)


def forget_lock_of(directory: Directory, name: bytes, staged: bytes) -> bool:
    """Remove the lock if it is a name of ``staged``; return whether that exists."""
    try:
        ours = directory.stat(staged)
    except FileNotFoundError:
        return False
    lock = name + b".lock"
    with contextlib.suppress(FileNotFoundError):
        if os.path.samestat(ours, directory.stat(lock)):
            directory.remove(lock)
    return True


def _link(directory: Directory, old: bytes, new: bytes) -> bool:
    """Give a file a second name; ``False`` if that is taken."""
    try:
        directory.link(old, new)
    except FileExistsError:
        return False
    return True


_PREFIX = b"roll-up-"
_NAME = re.compile(re.escape(_PREFIX) + rb"[0-9a-f]{16}")
_SOURCES = b"sources"
# the names of all packs that there could be
_SOURCES_BYTES = 1 << 24
# where git makes a directory of its own for packs
_OBJECTS = b"objects"


@contextlib.contextmanager
def staging_area(
    repository: Directory, placement: Placement, sources: Iterable[str]
) -> Iterator[Directory]:
    """Make a directory that lasts as long as the context, which yields it.

    ``sources``: the packs that a new pack is made of. ``FileNotFoundError`` if somebody
    has removed the directory before its lock was taken.
    """
    name = _PREFIX + os.urandom(8).hex().encode()
    directory = repository.sub(name)
    content = "".join(f"{source}\n" for source in sources)
    directory.sub(_OBJECTS + b"/pack").make(placement)
    directory.replace(_SOURCES, content.encode("ascii"), placement, durable=False)
    fd = scratch.hold(repository, name)
    try:
        yield directory
    finally:
        with contextlib.suppress(OSError, error.StorageError):
            repository.remove(name)
        os.close(fd)


def staged_objects(directory: Directory) -> Directory:
    """Return where git is to write objects."""
    return directory.sub(_OBJECTS)


def staged_names(repository: Directory) -> list[bytes]:
    """Return the names of all such directories in ``repository``."""
    return [*filter(_NAME.fullmatch, repository.names())]


def sweep_staging(repository: Directory) -> bool:
    """Remove the directories of ended processes; return whether others stay."""
    return scratch.sweep(repository, _NAME)


def remove_outdated_staging(repository: Directory, packs: Iterable[str]) -> None:
    """Remove the directories, in use or not, that were made of other than ``packs``."""
    known = frozenset(packs)
    for name in staged_names(repository):
        directory = repository.sub(name)
        try:
            content = directory.tryread(_SOURCES, _SOURCES_BYTES)
        except Unusable:
            content = b""
        sources = content.decode("ascii", "replace").split()
        if not sources or not known.issuperset(sources):
            with contextlib.suppress(OSError, error.StorageError):
                repository.remove(name)
