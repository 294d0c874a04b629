"""Files and directories that amalgam creates: opened, created, renamed and removed.

Owns all changes to files below ``.hg/amalgam``, and in directories that the operator
configured. Nothing else makes any. Symbolic links are never followed, FIFOs are never
waited for, and sizes are checked before a file is read (docs/security.rst). Directories
get the mode and group of ``.hg/store``. Files get that mode without the execute bits,
whatever the umask. Only new files change mode or owner. Does not know what files
contain.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from typing import TYPE_CHECKING

from mercurial import encoding, error
from mercurial.i18n import _

from .records import Record
from .terminal import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT

TEMPORARY = b"tmp-"
"""How the names of files begin that are not whole."""
TICK_NS = 20_000_000
"""Twice the longest tick of the clock that file systems take their times from.

A file that has changed since the last tick may change again, and have the same times.
"""
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_FILE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | _FILE
_DEEPEST = 100  # levels of directories, where amalgam and git make a handful


class Placement(Record):
    """Mode and owner of new files and directories, taken from ``.hg/store``."""

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
        store = os.stat(store_path)
        # git insists that the owner may write
        mode = store.st_mode & 0o7777 | 0o700
        return cls(mode, os.stat(owner_path).st_uid, store.st_gid)

    @classmethod
    def elsewhere(cls, store_path: bytes, owner_path: bytes) -> Placement:
        """Look at a store, for files that no directory above it protects.

        As ``at``, without the permissions of users whom a directory above the store
        keeps out, as a home directory of mode 0700 does.
        """
        placement = cls.at(store_path, owner_path)
        mode = placement.mode & ~_kept_out(store_path, placement.gid)
        return placement._replace(mode=mode)

    @property
    def file_mode(self) -> int:
        """Permission bits of a file that may change."""
        return self.mode & 0o666

    @property
    def program_mode(self) -> int:
        """Permission bits of a file that is run: only its owner may change it."""
        return self.mode & 0o755

    def hand_over(self, fd: int, mode: int, path: bytes) -> None:
        """Set owner, group and mode of a file or directory that was just created.

        ``path`` is its name in errors.

        Only root can give a file away; others can only share it with their groups, and
        in containers, with those that have a number there (user_namespaces(7)).
        Otherwise the file stays as it is, like Mercurial's own files.
        """
        uid = self.uid if os.geteuid() == 0 else -1
        try:
            os.fchown(fd, uid, self.gid)
        except OSError as exc:
            if exc.errno not in (errno.EPERM, errno.EACCES, errno.EINVAL):
                raise
        with naming(path):
            os.fchmod(fd, mode)


class Unusable(error.StorageError):
    """Something below ``.hg/amalgam`` is not of the kind that amalgam makes."""

    def __init__(self, path: bytes, problem: bytes) -> None:
        super().__init__(
            _(b"'%s' %s") % (printable(path), problem),
            hint=_(b"remove it; amalgam makes its files again"),
        )


class Directory(Record):
    """A directory of amalgam, below ``.hg`` or where a trusted item puts it.

    A name is one component, or several with slashes between them. No component is a
    symbolic link: each is opened by the descriptor of the one before. Nothing is held
    open between two calls.

    Unless a method says otherwise, it raises ``FileNotFoundError`` if something is
    missing, ``Unusable`` in place of a directory or regular file that is something
    else, and ``OSError`` as the system calls do.
    """

    root: bytes
    """Full path of a directory that may be a link: ``.hg``, or a configured one."""
    below: tuple[bytes, ...] = ()
    """Path from there to the directory."""

    @property
    def path(self) -> bytes:
        """Full path, for messages and for git."""
        return os.path.join(self.root, *self.below)

    def join(self, name: bytes) -> bytes:
        """Return the full path of ``name``, for messages and for git."""
        return os.path.join(self.path, name)

    def sub(self, name: bytes) -> Directory:
        """Return a directory in this one, which need not exist."""
        return Directory(self.root, (*self.below, *_components(name)))

    @contextlib.contextmanager
    def opened(self) -> Iterator[int]:
        """Open the directory as long as the context lasts, which yields a descriptor.

        The core works in it, or a caller makes several calls of ``os``.
        """
        fd = os.open(self.root, _DIRECTORY)
        try:
            for depth, name in enumerate(self.below, 1):
                inner = self._enter(fd, name, depth)
                os.close(fd)
                fd = inner
            yield fd
        finally:
            os.close(fd)

    def _enter(self, fd: int, name: bytes, depth: int) -> int:
        try:
            return os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
        except OSError as exc:
            path = os.path.join(self.root, *self.below[:depth])
            if exc.errno in (errno.ELOOP, errno.ENOTDIR):
                raise Unusable(path, _(b"is not a directory")) from None
            exc.filename = path
            raise

    @contextlib.contextmanager
    def _parent(self, name: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield a descriptor of the directory that has ``name``, and its last part."""
        *above, last = _components(name)
        inner = Directory(self.root, (*self.below, *above))
        with inner.opened() as fd:
            try:
                yield fd, last
            except OSError as exc:
                # the caller knows it by its full path
                exc.filename = self.join(name)
                raise

    def exists(self, name: bytes = b".") -> bool:
        """Return whether the name exists, even as a dangling link."""
        with contextlib.suppress(FileNotFoundError, Unusable):
            return bool(self.stat(name))
        return False

    def stat(self, name: bytes = b".") -> os.stat_result:
        """Return the file stat of ``name`` itself; a link is not followed."""
        if name == b".":
            with self.opened() as fd:
                return os.fstat(fd)
        with self._parent(name) as (fd, last):
            return os.stat(last, dir_fd=fd, follow_symlinks=False)

    def names(self) -> list[bytes]:
        """Return the names in the directory; none if it is missing."""
        try:
            with self.opened() as fd:
                return [os.fsencode(name) for name in os.listdir(fd)]
        except FileNotFoundError:
            return []

    def directories(self) -> list[bytes]:
        """Return the names of directories in the directory, without links."""
        try:
            with self.opened() as fd, os.scandir(fd) as entries:
                return [
                    os.fsencode(entry.name)
                    for entry in entries
                    if entry.is_dir(follow_symlinks=False)
                ]
        except FileNotFoundError:
            return []

    def walk(self) -> Iterator[tuple[bytes, os.DirEntry[str]]]:
        """Yield the names below the directory, with slashes, and their entries.

        A directory comes before its content; links are not entered. Yields nothing if
        the directory is missing. Files removed meanwhile may be left out.
        """
        try:
            with self.opened() as fd:
                yield from _walk(fd, b"", 0)
        except FileNotFoundError:
            return
        except OSError as exc:
            if isinstance(exc.filename, bytes):
                exc.filename = self.join(exc.filename)
            raise

    def readlink(self, name: bytes) -> bytes:
        """Return where a symbolic link leads; ``OSError`` if it is none."""
        with self._parent(name) as (fd, last):
            return os.readlink(last, dir_fd=fd)

    def symlink(self, target: bytes, name: bytes) -> None:
        """Make a symbolic link, which is never followed."""
        with self._parent(name) as (fd, last):
            os.symlink(target, last, dir_fd=fd)

    def touch(self, name: bytes = b".") -> None:
        """Set the times of ``name`` itself to now, by the file system's clock."""
        if name == b".":
            with self.opened() as fd, naming(self.path):
                os.utime(fd)
        else:
            with self._parent(name) as (fd, last):
                os.utime(last, dir_fd=fd, follow_symlinks=False)

    def set_time(self, name: bytes, time_ns: int) -> None:
        """Set the times of ``name`` itself."""
        with self._parent(name) as (fd, last):
            os.utime(last, ns=(time_ns, time_ns), dir_fd=fd, follow_symlinks=False)

    def open(self, name: bytes) -> int:
        """Open a regular file and return a descriptor to read it."""
        return self._open(name, os.O_RDONLY)[0]

    def open_to_map(self, name: bytes) -> tuple[int, os.stat_result]:
        """Open a regular file; return it with the file stat of its directory."""
        return self._open(name, os.O_RDONLY)

    def open_to_append(self, name: bytes) -> int | None:
        """Open a regular file to write it in place; ``None`` if it has other names.

        A copy made of hard links shares its files, and must not see appended data.
        """
        fd, _directory = self._open(name, os.O_RDWR)
        if os.fstat(fd).st_nlink == 1:
            return fd
        os.close(fd)
        return None

    def _open(self, name: bytes, flags: int) -> tuple[int, os.stat_result]:
        with self._parent(name) as (fd, last):
            try:
                # a FIFO without a writer is not waited for
                found = os.open(last, flags | _FILE, dir_fd=fd)
            except OSError as exc:
                if exc.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
                    raise self._not_a_file(name) from None
                raise
            directory = os.fstat(fd)
        if stat.S_ISREG(os.fstat(found).st_mode):
            return found, directory
        os.close(found)
        raise self._not_a_file(name)

    def _not_a_file(self, name: bytes) -> Unusable:
        return Unusable(self.join(name), _(b"is not a regular file"))

    def read(self, name: bytes, limit_bytes: int) -> bytes:
        """Return the content of a file; ``Unusable`` if it is longer than the limit."""
        with os.fdopen(self.open(name), "rb", buffering=0) as file:
            # the size now: the file may grow while it is read
            size_bytes = os.fstat(file.fileno()).st_size
            if size_bytes > limit_bytes:
                raise Unusable(self.join(name), _(b"is too large"))
            content = b""
            while chunk := file.read(size_bytes + 1 - len(content)):
                content += chunk
                if len(content) > size_bytes:
                    break
            return content[:size_bytes]

    def tryread(self, name: bytes, limit_bytes: int) -> bytes:
        """Return the content of a file as ``read``; nothing if it is missing."""
        try:
            return self.read(name, limit_bytes)
        except FileNotFoundError:
            return b""

    def make(self, placement: Placement) -> None:
        """Make the directory and those above it, unless they are there."""
        try:
            fd = os.open(self.root, _DIRECTORY)
        except FileNotFoundError:
            above, name = os.path.split(os.path.normpath(self.root))
            Directory(above, (name,)).make(placement)
            fd = os.open(self.root, _DIRECTORY)
        try:
            for depth, name in enumerate(self.below, 1):
                inner = self._enter_or_make(fd, name, depth, placement)
                os.close(fd)
                fd = inner
        finally:
            os.close(fd)

    def _enter_or_make(
        self, fd: int, name: bytes, depth: int, placement: Placement
    ) -> int:
        with contextlib.suppress(FileNotFoundError):
            return self._enter(fd, name, depth)
        try:
            os.mkdir(name, 0o700, dir_fd=fd)
        except FileExistsError:
            return self._enter(fd, name, depth)
        except OSError as exc:
            exc.filename = os.path.join(self.root, *self.below[:depth])
            raise
        inner = self._enter(fd, name, depth)
        # somebody may have put another one in its place
        if os.fstat(inner).st_uid == os.geteuid() and not os.listdir(inner):
            path = os.path.join(self.root, *self.below[:depth])
            placement.hand_over(inner, placement.mode, path)
        return inner

    def create(self, name: bytes, placement: Placement) -> int:
        """Make a file that is not there yet; return a descriptor to read and write."""
        with self._parent(name) as (fd, last):
            created = os.open(last, _NEW_FILE, 0o600, dir_fd=fd)
        try:
            placement.hand_over(created, placement.file_mode, self.join(name))
        except BaseException:
            os.close(created)
            raise
        return created

    def replace(
        self,
        name: bytes,
        content: bytes,
        placement: Placement,
        *,
        durable: bool = True,
        executable: bool = False,
    ) -> None:
        """Replace a file atomically. It is fsynced when this returns, or unchanged.

        A file that is not ``durable`` may be lost or torn by a crash of the machine. A
        link of that name is replaced, not followed. Users who may enter directories may
        run an ``executable`` file; only its owner may write it.
        """
        *above, last = _components(name)
        parent = Directory(self.root, (*self.below, *above))
        temporary = unpredictable(TEMPORARY)
        try:
            with naming(self.join(name)):
                fd = parent.create(temporary, placement)
                if executable:
                    os.fchmod(fd, placement.program_mode)
                _fill(fd, content, durable)
                parent.rename(temporary, last, durable=durable)
        except BaseException as exc:
            parent.remove(temporary)
            if isinstance(exc, IsADirectoryError):
                raise Unusable(self.join(name), _(b"is a directory")) from None
            raise

    def rename(
        self,
        old: bytes,
        new: bytes,
        target: Directory | None = None,
        *,
        durable: bool = True,
    ) -> None:
        """Rename, into ``target`` if given, and replace a file named ``new``.

        Errors name that file, unless ``old`` is missing: it may be a temporary one.
        """
        into = target or self
        try:
            with (
                self._parent(old) as (fd, last),
                into._parent(new) as (target_fd, name),
            ):
                os.rename(last, name, src_dir_fd=fd, dst_dir_fd=target_fd)
                if durable:
                    os.fsync(target_fd)
        except FileNotFoundError:
            raise
        except OSError as exc:
            exc.filename = into.join(new)
            raise

    def link(self, old: bytes, new: bytes) -> None:
        """Give a file a second name; ``FileExistsError`` if that is taken."""
        with self._parent(old) as (fd, last), self._parent(new) as (target_fd, name):
            os.link(
                last, name, src_dir_fd=fd, dst_dir_fd=target_fd, follow_symlinks=False
            )

    def take_link(self, path: bytes, name: bytes) -> None:
        """Let ``name`` be another name of the file ``path``, which is elsewhere."""
        temporary = unpredictable(TEMPORARY)
        with self._parent(name) as (fd, last):
            os.link(path, temporary, dst_dir_fd=fd, follow_symlinks=False)
            try:
                os.rename(temporary, last, src_dir_fd=fd, dst_dir_fd=fd)
            finally:
                # a rename to another name of the same file does nothing
                _remove_if_there(fd, temporary)

    def remove_empty(self, name: bytes) -> None:
        """Remove a directory; ``OSError`` if it is not empty."""
        with self._parent(name) as (fd, last):
            os.rmdir(last, dir_fd=fd)

    def remove(self, name: bytes) -> None:
        """Remove a file, a link, or a directory with all in it; nothing if missing.

        No link is followed. A directory that others fill meanwhile is an ``OSError``.
        """
        with contextlib.suppress(FileNotFoundError), self._parent(name) as (fd, last):
            _remove(fd, last)


@contextlib.contextmanager
def naming(path: bytes) -> Iterator[None]:
    """Let an error name ``path``: the call knows a descriptor, or a temporary name."""
    try:
        yield
    except OSError as exc:
        exc.filename = path
        raise


@contextlib.contextmanager
def hinting_at_room(place: bytes, hint: bytes) -> Iterator[None]:
    """Abort with ``hint`` if a write has no room; without its file, name ``place``."""
    try:
        yield
    except OSError as exc:
        if exc.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        # instead of a name, it may have a descriptor
        is_named = isinstance(exc.filename, str | bytes)
        path = os.fsencode(exc.filename if is_named else place)
        reason = encoding.strtolocal(os.strerror(exc.errno))
        raise error.StorageError(b"%s: '%s'" % (reason, path), hint=hint) from exc


def unpredictable(prefix: bytes) -> bytes:
    """Return an unpredictable name for a temporary file."""
    return prefix + os.urandom(8).hex().encode()


def _components(name: bytes) -> tuple[bytes, ...]:
    """Split a name; ``ProgrammingError`` if it would lead out of its directory."""
    parts = tuple(name.split(b"/"))
    if any(part in (b"", b".", b"..") or b"\0" in part for part in parts):
        raise error.ProgrammingError(b"not a name below a directory: %r" % name)
    return parts


def _kept_out(path: bytes, gid: int) -> int:
    """Return the mode bits of users without access to ``path``: ``gid``, others.

    A member of another group counts as denied whatever that group is denied. Access
    control lists are not looked at.
    """
    bits = 0
    above = os.path.dirname(os.path.realpath(path))
    while True:
        found = os.stat(above)
        others = stat.S_IXOTH | stat.S_IXGRP
        if found.st_mode & others != others:
            bits |= stat.S_IRWXO
        needed = stat.S_IXGRP if found.st_gid == gid else others
        if found.st_mode & needed != needed:
            bits |= stat.S_IRWXG
        if above == os.path.dirname(above):
            return bits
        above = os.path.dirname(above)


def _fill(fd: int, content: bytes, durable: bool) -> None:
    with os.fdopen(fd, "wb") as file:
        file.write(content)
        file.flush()
        if durable:
            os.fsync(file.fileno())


def _walk(
    fd: int, prefix: bytes, depth: int
) -> Iterator[tuple[bytes, os.DirEntry[str]]]:
    with os.scandir(fd) as scan:
        # entries of a directory that was opened have names of type str
        entries = list(scan)
    for entry in entries:
        name = os.fsencode(entry.name)
        yield prefix + name, entry
        if depth > _DEEPEST or not entry.is_dir(follow_symlinks=False):
            continue
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            try:
                inner = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
            except OSError as exc:
                exc.filename = prefix + name
                raise
            try:
                yield from _walk(inner, prefix + name + b"/", depth + 1)
            finally:
                os.close(inner)


def _remove_if_there(fd: int, name: bytes) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(name, dir_fd=fd)


def _remove(fd: int, name: bytes, depth: int = 0) -> None:
    try:
        os.unlink(name, dir_fd=fd)
        return
    except OSError as exc:
        # errno of unlink(2) for a directory, on Linux and elsewhere
        if exc.errno not in (errno.EISDIR, errno.EPERM) or depth > _DEEPEST:
            raise
    inner = os.open(name, _DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
    try:
        for entry in os.listdir(inner):
            with contextlib.suppress(FileNotFoundError):
                _remove(inner, os.fsencode(entry), depth + 1)
    finally:
        os.close(inner)
    os.rmdir(name, dir_fd=fd)
