"""From a file that was generated to bytes that clients can read, and back.

A bundle is named after its content and never changes. It goes into a directory, or to
where the operator's command uploads it; then it is read from there, and only if every
byte is as it was generated may it be advertised. All this is done by who generates.
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import hashlib
import os
import shutil
import time
import types
import urllib.error
from typing import TYPE_CHECKING, Any

from mercurial import error, url as urlmod, util
from mercurial.i18n import _
from mercurial.utils import stringutil

from ..configitems import BundlesConfig
from ..placement import TEMPORARY
from . import addresses, headset
from .formats import kind_of
from .register import NAME, Entry, Register, directory_of, placement_for

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercurial.interfaces.types import RepoT, UiT

_TRIES = 3
_PAUSE_SECONDS = 1.0
_TIMEOUT_SECONDS = b"60"
_UNFINISHED = b".tmp"
_CHUNK_BYTES = 1 << 20


def publish(
    repo: RepoT, bundle: Any, entry: Entry, upload: Callable[[RepoT, Any], Any]
) -> Any:
    """Bring the file of ``bundle`` to clients, and return it as one that is ready.

    ``entry`` says what is in it; name, place and size are filled in here. ``upload``
    is that of Mercurial's extension, which runs the operator's command.
    """
    ui = repo.ui
    with open(bundle.filepath, "rb") as file:
        entry.bytes = os.fstat(file.fileno()).st_size
        digest = _digest(ui, _(b"reading bundle"), file, entry.bytes)
        os.fsync(file.fileno())
    suffix = b".bundle" if kind_of(bundle.bundle_type) else b".hg"
    name = digest.encode() + suffix
    entry.name = name.decode()
    uploaded = addresses.uploads(ui)
    if not uploaded:
        directory = addresses.directory_for(repo)
        entry.path = os.fsdecode(directory)
        entry.url = os.fsdecode(addresses.of_directory(repo, name))
    # before the first byte is out: what is known can be taken back
    register = Register.read(repo)
    before = register.entries.get(entry.name)
    if before is not None:
        places = [*before.left, [before.path, before.url]]
        entry.left = [place for place in places if place[0] != entry.path]
    register.entries[entry.name] = entry
    register.write(repo)
    if uploaded:
        ready = _upload(repo, bundle, name, upload)
        register.entries[entry.name].url = os.fsdecode(ready.file_url)
        register.write(repo)
    else:
        _place(repo, bundle.filepath, os.path.join(directory, name))
        ready = bundle.uploaded(os.fsencode(entry.url), name)
    _check_readable(repo, entry, digest)
    return ready


def _upload(repo: RepoT, bundle: Any, name: bytes, upload: Any) -> Any:
    # the extension tells the command the name of the file: so it gets the right one
    named = copy.copy(bundle)
    named.filepath = os.path.join(os.path.dirname(bundle.filepath), name)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(named.filepath)
    try:
        util.copyfile(bundle.filepath, named.filepath, hardlink=True)
        with repo.ui.makeprogress(_(b"uploading"), unit=_(b"bundles"), total=1) as bar:
            bar.update(0, item=name)
            ready = upload(repo, named)
            bar.update(1, item=name)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(named.filepath)
    return ready


def upload_file(repo: RepoT, path: bytes, upload: Callable[..., Any]) -> None:
    """Upload a file under its own name; ``upload`` as for ``publish``."""
    upload(repo, types.SimpleNamespace(filepath=path, uploaded=lambda *_args: None))


def _place(repo: RepoT, source: bytes, path: bytes) -> None:
    """Put a file there as a whole, under a name that says what it is."""
    directory = os.path.dirname(path)
    placement = placement_for(repo, directory)
    placement.make_directory(directory)
    unfinished = path + _UNFINISHED
    with contextlib.suppress(FileNotFoundError):
        os.unlink(unfinished)
    try:
        try:
            os.link(source, unfinished)
        except OSError:  # another file system
            shutil.copyfile(source, unfinished)
        os.chmod(unfinished, placement.file_mode & 0o444)
        fd = os.open(unfinished, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
        os.rename(unfinished, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(unfinished)
        raise


def _check_readable(repo: RepoT, entry: Entry, digest: str) -> None:
    """Abort unless clients get exactly what was generated."""
    url = os.fsencode(entry.url)
    problem = b""
    for remaining in reversed(range(_TRIES)):
        try:
            with contextlib.closing(_open(repo.ui, entry)) as file:
                topic = _(b"checking bundle")
                found = _digest(repo.ui, topic, file, entry.bytes)
        except (OSError, error.Abort) as exc:
            problem = _reason(exc)
        else:
            if found == digest:
                return
            problem = _(b"it has another content")
        if addresses.is_relative(url):
            break
        if remaining:
            time.sleep(_PAUSE_SECONDS)
    raise error.Abort(
        _(b"bundle cannot be read where it was published: %s: '%s'") % (problem, url),
        hint=_(b"it is not advertised; try again when it can be read there"),
    )


def _reason(exc: Exception) -> bytes:
    """Return what is wrong, without what urllib puts around it."""
    has_reason = isinstance(exc, urllib.error.URLError) and not hasattr(exc, "code")
    return stringutil.forcebytestr(getattr(exc, "reason", exc) if has_reason else exc)


def _open(ui: UiT, entry: Entry) -> Any:
    if addresses.is_relative(os.fsencode(entry.url)):
        return open(os.path.join(entry.path, entry.name), "rb")
    # a server that hangs must not keep the lock of generators for ever
    timeout = ui.config(b"http", b"timeout") or _TIMEOUT_SECONDS
    with ui.configoverride({(b"http", b"timeout"): timeout}, b"amalgam"):
        return urlmod.open(ui, os.fsencode(entry.url))


def _digest(ui: UiT, topic: bytes, file: Any, total: int) -> str:
    digest = hashlib.sha256()
    with ui.makeprogress(topic, unit=_(b"bytes"), total=total) as progress:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
            progress.increment(len(chunk))
    return digest.hexdigest()


def retire(register: Register, name: str, *, at_once: bool) -> None:
    """Note that a bundle is no longer advertised."""
    entry = register.entries.get(name)
    if entry is None:
        return
    entry.retired = entry.retired or time.time()
    entry.at_once = entry.at_once or at_once


def sweep(repo: RepoT, live: Iterable[bytes], delete: Callable[[Entry], None]) -> None:
    """Delete what nobody needs any more. Only after the manifests were written.

    ``live``: the names of bundles that are ready. ``delete``: takes back what was
    uploaded; if it fails, it is tried again the next time.
    """
    register = Register.read(repo)
    config = BundlesConfig.from_ui(repo.ui)
    wanted = frozenset(os.fsdecode(name) for name in live)
    now = time.time()
    for entry in list(register.entries.values()):
        if entry.name in wanted:
            entry.retired = None
            if not addresses.may_leave(repo.ui):
                _delete_left(repo, entry, delete)
            continue
        # what was never retired was never advertised, either
        kept_until = (entry.retired or 0) + config.retention_seconds
        if not entry.at_once and entry.retired is not None and now < kept_until:
            continue
        _delete_left(repo, entry, delete)
        if not entry.left and _delete(repo, entry, delete):
            del register.entries[entry.name]
    register.write(repo)
    _sweep_strays(repo, register)
    entries = register.entries.values()
    used = frozenset(name for entry in entries for name in (entry.heads, entry.reached))
    headset.sweep(repo, used)


def _delete_left(repo: RepoT, entry: Entry, delete: Callable[[Entry], None]) -> None:
    """Delete a file where it was before; what fails stays noted."""
    entry.left = [
        [path, url]
        for path, url in entry.left
        if not _delete(repo, dataclasses.replace(entry, path=path, url=url), delete)
    ]


def _delete(repo: RepoT, entry: Entry, delete: Callable[[Entry], None]) -> bool:
    """Delete the file of a bundle, or warn and return ``False``."""
    try:
        if entry.path:
            _remove(entry)
        else:
            delete(entry)
    except (OSError, error.Abort) as exc:
        message = _(b"warning: cannot delete bundle %s: %s\n")
        problem = stringutil.forcebytestr(exc)
        repo.ui.warn(message % (os.fsencode(entry.name), problem))
        return False
    return True


def _sweep_strays(repo: RepoT, register: Register) -> None:
    """Delete what nobody knows, in the directory that is amalgam's alone."""
    vfs = directory_of(repo)
    for name in vfs.listdir():
        bundle = name.removesuffix(_UNFINISHED)
        known = os.fsdecode(name) in register.entries
        if name.startswith(TEMPORARY) or (NAME.fullmatch(bundle) and not known):
            vfs.tryunlink(name)


def _remove(entry: Entry) -> None:
    path = os.fsencode(os.path.join(entry.path, entry.name))
    for name in (path + _UNFINISHED, path):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
