"""Directories and URLs of bundles, and the right to read them.

Bundles are in the directory of the register, or in a configured one. No other directory
is read, written or cleaned on the word of the register. A bundle served only by hgweb
has a URL relative to its repository's, since the server's name is known only during a
request.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import shutil
import stat
from typing import TYPE_CHECKING, Any, BinaryIO

from mercurial import error, util
from mercurial.i18n import _
from mercurial.utils import urlutil

from ..config import BundlesConfig
from ..files import TEMPORARY, Directory, Placement
from ..terminal import printable
from ..trust import Trust
from .formats import is_uploaded
from .register import HERE, directory_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mercurial.interfaces.types import RepoT, UiT


ROUTE = b"amalgam/bundles"
"""Below the URL of a repository; hgweb answers there."""


def relative_url(name: bytes) -> bytes:
    """Return the address of a file that hgweb serves."""
    return b"%s/%s" % (ROUTE, name)


def is_relative_url(url: bytes) -> bool:
    """Return whether ``url`` is one of ``relative``."""
    return url.startswith(ROUTE + b"/")


def is_url_restricted(ui: UiT) -> bool:
    """Return whether hgweb lets only some users read the repository.

    An untrusted setting restricts, too.
    """

    def names(item: bytes) -> list[bytes]:
        return list(ui.configlist(b"web", item, untrusted=True))

    allowed = names(b"allow_read")
    if names(b"deny_read") or (allowed and b"*" not in allowed):
        return True
    return not ui.configbool(b"web", b"allow-pull", untrusted=True)


def may_name_url(ui: UiT) -> bool:
    """Return whether bundles may leave the reach of hgweb's permissions."""
    external = BundlesConfig.from_ui(ui).external
    return not is_url_restricted(ui) if external is None else external


def uploads(ui: UiT) -> bool:
    """Return whether the operator's command uploads bundles."""
    return is_uploaded(ui) and may_name_url(ui)


def url_of_directory(ui: UiT, name: bytes) -> bytes:
    """Return the address of a file in the directory where bundles are put."""
    url = BundlesConfig.from_ui(ui).url
    return b"%s/%s" % (url, name) if url and may_name_url(ui) else relative_url(name)


def base_of(ui: UiT, req: Any) -> bytes:
    """Return the URL of the repository of a web request, with a slash.

    The host is that in ``web.baseurl``, else the client's name for it.
    """
    root = req.baseurl
    configured = urlutil.url(ui.config(b"web", b"baseurl") or b"")
    if configured.scheme and configured.host:
        root = b"%s://%s" % (configured.scheme, configured.host)
        if configured.port:
            root += b":%s" % configured.port
    return b"%s%s/" % (root, util.urlreq.quote(req.apppath))


def base_of_peer(repo: RepoT, proto: Any) -> bytes:
    """Return the same for a request in Mercurial's protocol; empty if not by HTTP."""
    req = getattr(proto, "_req", None)
    return base_of(repo.ui, req) if req is not None else b""


def absolute_url(url: bytes, base: bytes) -> bytes:
    """Return the address that a client needs; empty if it cannot reach the file."""
    if not is_relative_url(url):
        return url
    return base + url if base else b""


_CHUNK_BYTES = 1 << 20


def directory_trust(repo: RepoT) -> Trust:
    """Return the rights of this process over the bundles of ``repo``."""
    return Trust.of(repo.ui, repo.store.path, repo.path)


def chosen_directory(repo: RepoT) -> str:
    """Return the path, as in the register, of where new bundles are put.

    The operator's directory is one that others than hgweb may serve, with a list of
    the bundles.
    """
    configured = _configured(repo)
    if BundlesConfig.from_ui(repo.ui).store:
        return HERE  # for the list; bundles are in the store
    return configured if configured and may_name_url(repo.ui) else HERE


def directory_at(repo: RepoT, path: str) -> Directory | None:
    """Return the directory that is ``path`` in the register.

    ``None`` if the bundle was uploaded, or if it is no directory of ours: one that was
    configured before, or one that somebody wrote there.
    """
    if path == HERE:
        return directory_of(repo)
    if not path or path != _configured(repo) or not directory_trust(repo).usable:
        return None
    return Directory(os.fsencode(path))


def placement_at(repo: RepoT, path: str) -> Placement:
    """Return mode and owner of files in the directory ``path``.

    In the directory of the register: as for all files of amalgam. Elsewhere: readable
    for readers of the repository; or, if bundles may leave its permissions, for readers
    of that directory or its parent.
    """
    if path == HERE:
        return Placement.of(repo)
    if not BundlesConfig.from_ui(repo.ui).external:
        return Placement.elsewhere(repo.store.path, repo.path)
    directory = _existing(os.fsencode(path))
    return Placement.at(directory, directory)


def is_directory_for_all(repo: RepoT, path: str) -> bool:
    """Return whether every user may read files in the directory ``path``."""
    return bool(placement_at(repo, path).file_mode & stat.S_IROTH)


def make_directory(repo: RepoT, path: str) -> Directory:
    """Make the directory ``path``, one of ours, unless it is there."""
    directory, placement = directory_at(repo, path), placement_at(repo, path)
    assert directory is not None
    root = _existing(directory.root)
    missing = os.path.relpath(directory.root, root).split(b"/")
    above = () if missing == [b"."] else tuple(missing)
    Directory(root, (*above, *directory.below)).make(placement)
    return directory


@contextlib.contextmanager
def writing(path: str) -> Iterator[None]:
    """Name the way out if a file in the directory ``path`` cannot be written."""
    try:
        yield
    except PermissionError as exc:
        if path == HERE:
            raise
        reason = os.fsencode(os.strerror(exc.errno or 0))
        name = os.fsencode(exc.filename or path)
        raise error.StateError(
            _(b"cannot write bundle file '%s': %s") % (printable(name), reason),
            hint=_(
                b"give each repository an amalgam.bundles.directory of its own, which "
                b"its owner may write"
            ),
        ) from None


def move_file(
    source: Directory, name: bytes, target: Directory, placement: Placement
) -> None:
    """Move the finished file ``name`` of this process from ``source``.

    It is fsynced and read-only then, and replaces a file of that name in ``target``. A
    file on another file system, or with other hard links, is copied: its mode must not
    change.
    """
    fd = source.open(name)
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_nlink == 1:
            os.fsync(fd)
            placement.hand_over(fd, placement.file_mode & 0o444, source.join(name))
            try:
                source.rename(name, name, target)
                return
            except OSError as exc:
                if exc.errno != errno.EXDEV:
                    raise
        _copy(file, name, target, placement)
    source.remove(name)


def _copy(file: BinaryIO, name: bytes, target: Directory, placement: Placement) -> None:
    # named after its target, so that ``remove`` finds it after a crash
    temporary = b"%s%s-%s" % (TEMPORARY, name, os.urandom(8).hex().encode())
    try:
        with os.fdopen(target.create(temporary, placement), "wb") as copy:
            shutil.copyfileobj(file, copy, _CHUNK_BYTES)
            copy.flush()
            os.fchmod(copy.fileno(), placement.file_mode & 0o444)
            os.fsync(copy.fileno())
        target.rename(temporary, name)
    except BaseException:
        target.remove(temporary)
        raise


def remove_file(directory: Directory, name: bytes) -> None:
    """Remove a bundle, and the leftovers of copying it."""
    unfinished = re.compile(re.escape(TEMPORARY + name) + rb"-[0-9a-f]{16}")
    for there in directory.names():
        if there == name or unfinished.fullmatch(there):
            directory.remove(there)


def _existing(path: bytes) -> bytes:
    """Return the last directory on ``path`` that is there."""
    while not os.path.isdir(path):
        path = os.path.dirname(path)
    return path


def _configured(repo: RepoT) -> str | None:
    configured = BundlesConfig.from_ui(repo.ui).directory
    return os.fsdecode(configured) if configured else None
