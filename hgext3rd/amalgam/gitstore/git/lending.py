"""The files of a git repository of somebody else that have its objects.

Only regular files with names that git gives objects: nothing else in the repository is
looked at, and its alternates, grafts and replacements are not obeyed
(gitrepository-layout(5)).
"""

from __future__ import annotations

import os
import re
import stat
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from ...files import Placement
from ...terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ...files import Directory

_OBJECTS = b"objects"
PACK = b"pack"
_FANOUT = re.compile(rb"[0-9a-f]{2}")
_LOOSE = re.compile(rb"[0-9a-f]{38}")
_PACK = re.compile(rb"pack-[0-9a-f]{40}\.(?:pack|idx)")
# a repository with more files than that is unusual enough to be packed first
_MOST_FILES = 1 << 20


def object_files(files: Directory) -> Iterator[tuple[bytes, list[bytes]]]:
    """Yield the directories of objects, and the names of files in each.

    ``files`` is the git repository. A directory is ``PACK``, or the first two digits of
    oids; then the names are the other digits.
    """
    source, count = files.sub(_OBJECTS), 0
    for name in sorted(source.directories()):
        if name != PACK and not _FANOUT.fullmatch(name):
            continue
        pattern = _PACK if name == PACK else _LOOSE
        with source.sub(name).opened() as fd, os.scandir(fd) as entries:
            found = [
                os.fsencode(it.name)
                for it in entries
                if stat.S_ISREG(it.stat(follow_symlinks=False).st_mode)
            ]
        found = [it for it in found if pattern.fullmatch(it)]
        count += len(found)
        if count > _MOST_FILES:
            raise error.InputError(
                _(b"'%s' has more than %d files of objects")
                % (printable(source.path), _MOST_FILES),
                hint=_(b"run 'git repack -a -d' there"),
            )
        yield name, found


def lend(files: Directory, objects: Directory) -> None:
    """Let ``objects`` have links to the packs and loose objects of ``files``."""
    source = files.sub(_OBJECTS)
    for name, found in object_files(files):
        inner, target = source.sub(name), objects.sub(name)
        target.make(Placement(0o700, os.geteuid(), os.getegid()))
        with target.opened() as made:
            for entry in found:
                os.symlink(os.path.abspath(inner.join(entry)), entry, dir_fd=made)
