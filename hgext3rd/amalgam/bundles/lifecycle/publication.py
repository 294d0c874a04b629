"""From a file that was generated to bytes that clients can read, and back.

A bundle is named after its content and never changes. It goes into a directory, or to
where the operator's command uploads it; then it is read from there, and only if every
byte is as it was generated may it be advertised. All this is done by who generates.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
import types
import urllib.error
from typing import TYPE_CHECKING, Any

from mercurial import error, url as urlmod
from mercurial.i18n import _
from mercurial.utils import stringutil

from ...configitems import BundlesConfig
from ...placement import TEMPORARY
from ...terminal import one_line, printable
from . import directories, eligibility as bundles, headset, urls
from .formats import kind_of
from .register import NAME, Entry, Register, directory_of, is_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercurial.interfaces.types import RepoT, UiT

    from .newbundle import NewBundle

_TRIES = 3
_PAUSE_SECONDS = 1.0
_TIMEOUT_SECONDS = b"60"
_CHUNK_BYTES = 1 << 20


def publish(
    repo: RepoT,
    bundle: Any,
    made: NewBundle,
    upload: Callable[[RepoT, Any], Any],
    delete: Callable[[Entry], None],
) -> Any:
    """Bring what was made to clients, and return ``bundle`` as one that is ready.

    Name, place and size are filled in. ``upload`` is that of Mercurial's extension,
    which runs the operator's command. ``delete`` as for ``sweep``.
    """
    ui, entry = repo.ui, made.entry
    with made.open() as file:
        entry.bytes = os.fstat(file.fileno()).st_size
        digest = _digest(ui, _(b"reading bundle"), file, entry.bytes)
        os.fsync(file.fileno())
    suffix = b".bundle" if kind_of(bundle.bundle_type) else b".hg"
    name = digest.encode() + suffix
    entry.name = name.decode()
    made.rename(name)
    uploaded = urls.uploads(ui)
    if not uploaded:
        entry.path = directories.chosen(repo)
        entry.url = os.fsdecode(urls.of_directory(ui, name))
        _check_address(entry.url)
    # before the first byte is out: what is known can be deleted
    register = Register.read(repo)
    former = register.entries.get(entry.name, entry)
    # the register has one place for each bundle
    if former.path != entry.path and not _delete(repo, former, delete):
        raise error.Abort(
            _(b"bundle %s has to be deleted in its former place first") % name,
            hint=_(b"see 'hg admin::amalgam'"),
        )
    register.entries[entry.name] = entry
    register.write(repo)
    if uploaded:
        with ui.makeprogress(_(b"uploading"), unit=_(b"bundles"), total=1) as bar:
            bar.update(0, item=name)
            path = made.directory.join(name)
            ready = upload_file(repo, path, upload, bundle.uploaded)
            bar.update(1, item=name)
        _check_address(os.fsdecode(ready.file_url))
        entry.url = os.fsdecode(ready.file_url)
        register.write(repo)
    else:
        directory = directories.make(repo, entry.path)
        placement = directories.placement_at(repo, entry.path)
        directories.move(made.directory, name, directory, placement)
        ready = bundle.uploaded(os.fsencode(entry.url), name)
    _check_readable(repo, entry, digest)
    return ready


def _check_address(url: str) -> None:
    if not is_address(url):
        raise error.ConfigError(
            _(b"invalid URL of a bundle: '%s'") % printable(os.fsencode(url)),
            hint=_(b"URLs in manifests must not contain spaces"),
        )


def upload_file(
    repo: RepoT,
    path: bytes,
    upload: Callable[..., Any],
    uploaded: Callable[..., Any] = lambda *_args: None,
) -> Any:
    """Upload a file under its own name; ``upload`` as for ``publish``.

    Returns what ``uploaded`` makes of its URL and name.
    """
    # the extension tells the command the name of the file that it was to make
    return upload(repo, types.SimpleNamespace(filepath=path, uploaded=uploaded))


def _check_readable(repo: RepoT, entry: Entry, digest: str) -> None:
    """Abort unless clients get exactly what was generated."""
    url = os.fsencode(entry.url)
    problem = b""
    for remaining in reversed(range(_TRIES)):
        try:
            with contextlib.closing(_open(repo, entry)) as file:
                topic = _(b"checking bundle")
                found = _digest(repo.ui, topic, file, entry.bytes)
        except (OSError, error.Abort, error.StorageError) as exc:
            problem = _reason(exc)
        else:
            if found == digest:
                return
            problem = _(b"its content differs")
        if urls.is_relative(url):
            break
        if remaining:
            time.sleep(_PAUSE_SECONDS)
    raise error.Abort(
        _(b"cannot read published bundle: %s: '%s'")
        % (printable(problem), printable(url)),
        hint=_hint(repo, entry),
    )


def _hint(repo: RepoT, entry: Entry) -> bytes:
    is_elsewhere = entry.path and not urls.is_relative(os.fsencode(entry.url))
    external = BundlesConfig.from_ui(repo.ui).external
    if is_elsewhere and not external and not directories.is_for_all(repo, entry.path):
        return _(
            b"only users who can read the repository may read it; "
            b"to let others read it, set amalgam.bundles.external = yes"
        )
    return _(b"it is not advertised; try again when it can be read there")


def _reason(exc: Exception) -> bytes:
    """Return what is wrong, without what urllib puts around it."""
    has_reason = isinstance(exc, urllib.error.URLError) and not hasattr(exc, "code")
    return stringutil.forcebytestr(getattr(exc, "reason", exc) if has_reason else exc)


def _open(repo: RepoT, entry: Entry) -> Any:
    ui = repo.ui
    if urls.is_relative(os.fsencode(entry.url)):
        directory = directories.directory_at(repo, entry.path)
        assert directory is not None
        return os.fdopen(directory.open(entry.name.encode()), "rb")
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
    """Note that a bundle is no longer advertised, and not needed if ``at_once``."""
    entry = register.entries.get(name)
    if entry is not None:
        entry.retired = None if at_once else entry.retired or time.time()


def sweep(repo: RepoT, live: Iterable[bytes], delete: Callable[[Entry], None]) -> None:
    """Delete what nobody needs any more. Only after the manifests were written.

    ``live``: the names of bundles that are ready. ``delete``: deletes what was
    uploaded; if it fails, it is tried again the next time.
    """
    register = Register.read(repo)
    config = BundlesConfig.from_ui(repo.ui)
    wanted = frozenset(os.fsdecode(name) for name in live)
    now = time.time()
    for entry in list(register.entries.values()):
        if entry.name in wanted:
            entry.retired = None
            continue
        if not bundles.may_be_named(repo, entry):
            entry.retired = None
        # what was never retired was never advertised, either
        if entry.retired is not None and now < entry.retired + config.retention_seconds:
            continue
        if _delete(repo, entry, delete):
            del register.entries[entry.name]
    register.write(repo)
    _sweep_strays(repo, register)
    entries = register.entries.values()
    used = frozenset(name for entry in entries for name in (entry.heads, entry.reached))
    headset.sweep(repo, used)


def _delete(repo: RepoT, entry: Entry, delete: Callable[[Entry], None]) -> bool:
    """Delete the file of a bundle, or warn and return ``False``.

    What is in no directory of ours is forgotten, and stays.
    """
    name = entry.name.encode()
    directory = directories.directory_at(repo, entry.path)
    if entry.path and directory is None:
        path = os.path.join(os.fsencode(entry.path), name)
        repo.ui.warn(one_line(_(b"warning: bundle is not deleted: %s") % path))
        repo.ui.warn(_(b"(its directory is not amalgam.bundles.directory)\n"))
        return True
    try:
        if directory is None:
            delete(entry)
        else:
            directories.remove(directory, name)
    except (OSError, error.Abort, error.StorageError) as exc:
        text = _(b"warning: cannot delete bundle %s: %s")
        text %= (name, stringutil.forcebytestr(exc))
        repo.ui.warn(one_line(text))
        return False
    return True


def _sweep_strays(repo: RepoT, register: Register) -> None:
    """Delete what nobody knows, in the directory that is amalgam's alone."""
    directory = directory_of(repo)
    for name in directory.names():
        known = os.fsdecode(name) in register.entries
        if name.startswith(TEMPORARY) or (NAME.fullmatch(name) and not known):
            directory.remove(name)
