"""How amalgam's files come to be: whole, durable, and with the mode of ``.hg/store``.

Whoever may read or write ``.hg/store`` may do so with all that amalgam keeps: its
directories get the mode and the group of ``.hg/store``, its files that mode without
the execute bits, whatever the umask. Knows nothing of what the files contain.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from typing import TYPE_CHECKING

from mercurial import error
from mercurial.i18n import _

from .records import Record

if TYPE_CHECKING:
    from mercurial.interfaces.types import RepoT

TEMPORARY = b"tmp-"
"""How the names of files begin that are not whole."""
_STAGED = b".amalgam"


class Placement(Record):
    """What ``.hg/store`` says of new files and directories."""

    mode: int
    """Permission bits of a directory, with setgid."""
    uid: int
    """The owner of ``.hg``, whom root makes the owner of directories."""
    gid: int

    @classmethod
    def of(cls, repo: RepoT) -> Placement:
        """Look at the store of ``repo``."""
        return cls.at(repo.store.path, repo.sharedpath)

    @classmethod
    def at(cls, store_path: bytes, owner_path: bytes) -> Placement:
        """Look at a store, and at ``.hg``, which may be of another repository."""
        stat = os.stat(store_path)
        # git insists that the owner may write
        mode = stat.st_mode & 0o7777 | 0o700
        return cls(mode, os.stat(owner_path).st_uid, stat.st_gid)

    @property
    def file_mode(self) -> int:
        """Permission bits of a file that may change."""
        return self.mode & 0o666

    def make_directory(self, path: bytes) -> None:
        """Make a directory and those above it, unless they are there."""
        try:
            os.mkdir(path)
        except FileExistsError:
            return
        except FileNotFoundError:
            self.make_directory(os.path.dirname(path))
            with contextlib.suppress(FileExistsError):
                os.mkdir(path)
        self._settle(path, self.mode)

    def settle(self, root: bytes) -> None:
        """Give all below ``root``, which only this process uses, its mode and group."""
        for directory, _directories, files in os.walk(root):
            self._settle(directory, self.mode)
            for name in files:
                self._settle(os.path.join(directory, name), self.file_mode)

    def _settle(self, path: bytes, mode: int) -> None:
        # Only root can give a file away; others can only share it with their groups.
        # What is neither stays as it is, as with Mercurial's own files.
        uid = self.uid if os.geteuid() == 0 else -1
        with contextlib.suppress(PermissionError):
            os.chown(path, uid, self.gid)
        os.chmod(path, mode)

    def create(self, path: bytes) -> int:
        """Make a file that is not there yet, and return a descriptor to write it."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        os.fchmod(fd, self.file_mode)
        return fd

    def replace(self, path: bytes, content: bytes, *, durable: bool = True) -> None:
        """Write a file as a whole. It is on disk when this returns, or is as it was.

        What is not ``durable`` may be lost or torn by a crash of the machine.
        """
        fd, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=os.path.dirname(path))
        try:
            self._fill(fd, content, durable)
            if durable:
                _move(temporary, path)
            else:
                os.rename(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise

    def replace_of_git(self, path: bytes, content: bytes) -> None:
        """Write a file of a git repository as a whole, and keep git from doing so.

        That takes ``path.lock``. It becomes a second name of a file that only amalgam
        makes, so that if this process dies, the next one knows whose lock it was.
        """
        staged, lock = path + _STAGED, path + b".lock"
        forget(path)
        fd = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            self._fill(fd, content)
            os.link(staged, lock)
            _move(lock, path)
        except FileExistsError:
            raise error.StateError(
                _(b"git store is locked: %s") % lock,
                hint=_(b"remove the file if no git process uses the store"),
            ) from None
        finally:
            forget(path)

    def _fill(self, fd: int, content: bytes, durable: bool = True) -> None:
        with os.fdopen(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fchmod(fd, self.file_mode)
            if durable:
                os.fsync(fd)


def _move(source: bytes, path: bytes) -> None:
    """Rename a file, and wait until that is on disk."""
    os.rename(source, path)
    fd = os.open(os.path.dirname(path), os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def forget(path: bytes) -> None:
    """Remove what ``replace_of_git`` left, in this process or in one that died."""
    staged, lock = path + _STAGED, path + b".lock"
    if not os.path.exists(staged):
        return
    with contextlib.suppress(FileNotFoundError):
        if os.path.samefile(staged, lock):
            os.unlink(lock)
    os.unlink(staged)
