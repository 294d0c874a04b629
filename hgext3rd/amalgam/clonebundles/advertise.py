"""Manifests and lists of bundles, one for each kind of client.

Mercurial: ``clonebundles.manifest``, with DIGEST and REQUIREDRAM added to the lines of
Mercurial's extension ("hg help -e clonebundles"). Each client gets the lines that it
can use.

git-cinnabar: ``.hg/cinnabar.manifest``, one line. The capability and the command
``cinnabarclone`` are those of git-cinnabar's own server extension. A manifest written
by the operator is served unchanged. The register has the digests of amalgam's own.

git: ``bundles.list``, a git config file, git-bundle-uri(5), "Bundle Lists". The file on
disk is for clients of a static server; hgweb makes a list for each request.
"""

from __future__ import annotations

import hashlib
import os
import sys
from typing import TYPE_CHECKING, Any

from mercurial import bundlecaches, error, wireprototypes, wireprotov1server
from mercurial.i18n import _

from ..config import BundlesConfig, followed
from ..files import Directory, Placement
from ..gitpeer import follow
from ..loading import load
from ..terminal import one_line, printable
from . import (
    formats,
    locations,
    objectstore,
    validity,
)
from .formats import is_uploaded
from .register import HERE, Register

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mercurial.interfaces.types import RepoT

    from .register import Entry


_CAPABILITIES = frozenset((b"clonebundles", b"clonebundles_manifest"))

_MANIFEST_LIMIT_BYTES = 1 << 20
# below that, the interpreter of a client takes more
_WORTH_SAYING_BYTES = 16 << 20


def manifest_lines(bundles: Iterable[Any]) -> bytes:
    """Return the manifest of ``bundles``, without those for git."""
    chosen = [bundle for bundle in bundles if not formats.kind_of(bundle.bundle_type)]
    chosen.sort(key=lambda bundle: bundle.bundle_type)
    return b"".join(b"%s\n" % _manifest_line(bundle) for bundle in chosen)


def _manifest_line(bundle: Any) -> bytes:
    line: bytes = bundle.manifest_line()
    entry: Entry | None = bundle.entry
    if entry is None:
        return line
    line += b" DIGEST=sha256:%s" % entry.name.partition(".")[0].encode()
    if entry.window_bytes > _WORTH_SAYING_BYTES:
        line += b" REQUIREDRAM=%s" % _megabytes(entry.window_bytes)
    return line


def _megabytes(count: int) -> bytes:
    # the window, and the text decompressed from it
    return b"%dMB" % (2 * count >> 20)


def _for_client(repo: RepoT, content: bytes, base: bytes) -> bytes:
    """Return the lines that a client can use: it ends without a clone at any other."""
    if not content:
        return content
    named: dict[bytes, list[Entry]] = {}
    register = Register.read_for_client(repo)
    if register is None:
        return b""  # any line may be one that was withdrawn
    for entry in register.entries.values():
        named.setdefault(os.fsencode(entry.url), []).append(entry)
    outlived = {bundle.file_url for bundle in _outlived(repo)}
    kept = []
    for line in content.splitlines(keepends=True):
        url = line.split(None, 1)[0] if line.strip() else b""
        entries = named.get(url, [])
        is_lost = not entries and locations.is_relative_url(url)
        if url in outlived or is_lost:
            continue
        if entries and not any(validity.is_sound(repo, entry) for entry in entries):
            continue  # withdrawn since, or lost
        link = objectstore.link_to(repo, entries[0]) if entries else b""
        kept.append(
            link + line[len(url) :] if link else locations.absolute_url(line, base)
        )
    return b"".join(kept) if any(map(bytes.strip, kept)) else b""


def read_hg_manifest(repo: RepoT) -> bytes:
    """Return Mercurial's manifest; ``StorageError`` or ``OSError`` if it is none."""
    name = bundlecaches.CB_MANIFEST_FILE
    return Directory(repo.path).tryread(name, _MANIFEST_LIMIT_BYTES)


def _outlived(repo: RepoT) -> list[Any]:
    """Return bundles from before a censoring, and those with lost register entries."""
    try:
        return validity.outlived(repo)
    except error.StorageError:
        return []


def inline(orig: Callable[..., Any], repo: RepoT, proto: Any, path: bytes) -> Any:
    """Send a bundle inline, unless it is from before a censoring."""
    load(sys.modules[__name__])
    if not validity.do_hooks_allow(repo, names=False):
        return wireprototypes.ooberror(b"a hook of this server refuses bundles\n")
    name = os.path.basename(os.path.normpath(path))
    if name in {bundle.basename for bundle in _outlived(repo)}:
        # Mercurial's text for a file that is deleted, without a traceback
        text = b"clonebundle %s does not exist\n" % printable(path)
        return wireprototypes.ooberror(text)
    return orig(repo, proto, path)


def manifest(orig: Callable[..., Any], repo: RepoT, proto: Any, *args: Any) -> Any:
    """Answer with the manifest for this client."""
    load(sys.modules[__name__])
    content = orig(repo, proto, *args).data
    if content and not validity.do_hooks_allow(repo, names=False):
        content = b""
    base = locations.base_of_peer(repo, proto)
    return wireprototypes.bytesresponse(_for_client(repo, content, base))


def hg_capabilities(
    orig: Callable[..., list[bytes]], inner: Any, repo: RepoT, proto: Any
) -> list[bytes]:
    """Hide the capability from clients that no bundle URL serves."""
    load(sys.modules[__name__])
    found = orig(inner, repo, proto)
    if _CAPABILITIES.isdisjoint(found):
        return found
    try:
        content = read_hg_manifest(repo)
    except (OSError, error.StorageError):
        return found  # the file is the operator's
    base = locations.base_of_peer(repo, proto)
    if not content or _for_client(repo, content, base):
        return found
    return [name for name in found if name not in _CAPABILITIES]


CINNABAR_MANIFEST = b"cinnabar.manifest"
CINNABAR_CAPABILITY = b"cinnabarclone"
_SCHEMES = (b"http://", b"https://")
_CINNABAR_LIMIT_BYTES = 1 << 16


def write_cinnabar_manifest(repo: RepoT, live: Entry | None) -> None:
    """Replace the manifest by a line for ``live``, unless it is the operator's.

    For generators only.
    """
    url = os.fsencode(live.url) if live else b""
    if url and not locations.is_relative_url(url) and not url.startswith(_SCHEMES):
        url = b""  # git-cinnabar takes no other from a server
    content = url + b"\n" if url else b""
    register = Register.read(repo)
    there = _read_cinnabar_manifest(repo)
    if there == content or there is None or not _is_our_manifest(register, there):
        if there != content and there != b"" and live:
            text = (
                _(b"%s was not written by amalgam, and stays as it is")
                % CINNABAR_MANIFEST
            )
            repo.ui.note(one_line(text))
        return
    # recorded before it is written: a crash leaves no unknown content
    register.cinnabar_manifests = (
        _digest_of_manifest(there),
        _digest_of_manifest(content),
    )
    register.write(repo)
    if content:
        Directory(repo.path).replace(CINNABAR_MANIFEST, content, Placement.of(repo))
    else:
        Directory(repo.path).remove(CINNABAR_MANIFEST)


def _read_cinnabar_manifest(repo: RepoT) -> bytes | None:
    """Return the manifest; ``None`` if it is no file, or larger than any manifest."""
    try:
        return Directory(repo.path).tryread(CINNABAR_MANIFEST, _CINNABAR_LIMIT_BYTES)
    except (OSError, error.StorageError):
        return None


def _digest_of_manifest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _is_our_manifest(register: Register, content: bytes) -> bool:
    # nobody else writes a relative address: it means nothing to git-cinnabar
    return (
        not content
        or locations.is_relative_url(content)
        or _digest_of_manifest(content) in register.cinnabar_manifests
    )


def answer_cinnabarclone(repo: RepoT, proto: Any) -> bytes:
    """Return the answer of ``cinnabarclone``; empty if the client could not use it."""
    load(sys.modules[__name__])
    content = _read_cinnabar_manifest(repo)
    if not content:
        return b""
    register = Register.read_for_client(repo)
    if register is None:
        return b""
    url = content.rstrip(b"\n")
    if not _is_our_manifest(register, content):
        is_lost = url in {bundle.file_url for bundle in _outlived(repo)}
        return b"" if is_lost else content
    named = [e for e in register.entries.values() if os.fsencode(e.url) == url]
    if not any(_is_valid_for_cinnabar(repo, entry) for entry in named):
        return b""  # it was made of changesets that have been withdrawn since
    if not validity.may_reach_git(repo):
        return b""
    url = locations.absolute_url(url, locations.base_of_peer(repo, proto))
    return url + b"\n" if url else b""


def _is_valid_for_cinnabar(repo: RepoT, entry: Entry) -> bool:
    if entry.key:  # the store may not be ours any more
        return validity.is_sound(repo, entry)
    return validity.may_be_named(repo, entry)


def cinnabar_capabilities(
    orig: Callable[[RepoT, Any], list[bytes]], repo: RepoT, proto: Any
) -> list[bytes]:
    """Add the capability ``cinnabarclone`` if the command has an answer.

    Clients of Mercurial ask for capabilities first, also over ssh. So this lets the
    repository look at the git repositories that it follows.
    """
    if followed(repo.ui):
        follow.start_if_due(repo)
    found = orig(repo, proto)
    if CINNABAR_CAPABILITY not in found and answer_cinnabarclone(repo, proto):
        found.append(CINNABAR_CAPABILITY)
    return found


def register_cinnabarclone() -> None:
    """Register the command, unless git-cinnabar's own extension has."""
    if CINNABAR_CAPABILITY in wireprotov1server.commands:
        return  # git-cinnabar's own extension reads the same file

    @wireprotov1server.wireprotocommand(CINNABAR_CAPABILITY, b"", permission=b"pull")
    def cinnabarclone(repo: RepoT, proto: Any) -> Any:
        return wireprototypes.bytesresponse(answer_cinnabarclone(repo, proto))


BUNDLE_LIST = b"bundles.list"

_LIST_LIMIT_BYTES = 1 << 20

_LIST_OWNER = b"# amalgam list of "
"""Begins a line with a digest of the repository, in a directory that others may use."""
_LIST_HEAD = b"""\
[bundle]
\tversion = 1
\tmode = all
\theuristic = creationToken
"""
_LIST_BUNDLE = b"""\
[bundle "%s-%d"]
\turi = %s
\tcreationToken = %d
"""


def bundle_list_text(
    chain: Iterable[Entry], address: Callable[[Entry], bytes]
) -> bytes:
    """Return a list of ``chain``, base first. ``address`` gives the URL of each."""
    text = _LIST_HEAD
    for entry in chain:
        what = b"increment" if entry.follows else b"base"
        url = address(entry)
        text += _LIST_BUNDLE % (what, entry.token, url, entry.token)
    return text


def write_bundle_list(
    repo: RepoT, chain: Sequence[Entry], upload: Callable[[bytes], None]
) -> None:
    """Write the list of ``chain``. For generators only, after the bundles.

    ``upload`` publishes a file under its own name. It is called if clients get files
    that way, or have got an earlier list.
    """
    register = Register.read(repo)
    if register.uploaded_list and not locations.may_name_url(repo.ui):
        chain = ()  # the list elsewhere is to name nothing; hgweb makes its own
    path = locations.chosen_directory(repo)
    configured = BundlesConfig.from_ui(repo.ui).directory
    if configured and os.fsdecode(configured) != path:
        _empty_list(repo, os.fsdecode(configured))
    directory = locations.directory_at(repo, path)
    assert directory is not None
    there = _read_bundle_list(directory)
    if not chain and not there and not register.uploaded_list:
        return
    # git before 2.40 knows no relative addresses, but a file has no others
    text = bundle_list_text(chain, _on_disk)
    if path != HERE:
        text = _owner(repo) + text
        _require_own(repo, path, there or b"")
    if there != text:
        with locations.writing(path):
            locations.make_directory(repo, path)
            directory.replace(BUNDLE_LIST, text, locations.placement_at(repo, path))
    _write_elsewhere(repo, register, directory, text, upload)


def _write_elsewhere(
    repo: RepoT,
    register: Register,
    directory: Directory,
    text: bytes,
    upload: Callable[[bytes], None],
) -> None:
    """Upload the list, unless the same is uploaded already."""
    store = BundlesConfig.from_ui(repo.ui).store
    if store and not objectstore.has_list(repo.ui):
        text = bundle_list_text(
            (), _on_disk
        )  # it would lead to nothing that clients can read
    digest = hashlib.sha256(text + store).hexdigest()
    may_leave = (
        objectstore.has_list(repo.ui) if store else locations.may_name_url(repo.ui)
    )
    if not (store or is_uploaded(repo.ui)) or register.uploaded_list == digest:
        return
    if not may_leave and not register.uploaded_list:
        return
    if store:
        client = objectstore.client_of(store.decode())
        client.replace(BUNDLE_LIST.decode(), text)
    else:
        upload(directory.join(BUNDLE_LIST))
    register.uploaded_list = digest
    register.write(repo)


def _on_disk(entry: Entry) -> bytes:
    url = os.fsencode(entry.url)
    return url.rpartition(b"/")[2] if locations.is_relative_url(url) else url


def _empty_list(repo: RepoT, path: str) -> None:
    """Let the list in a directory where bundles may not be name nothing."""
    directory = locations.directory_at(repo, path)
    text = _owner(repo) + bundle_list_text((), _on_disk)
    there = _read_bundle_list(directory) if directory is not None else b""
    if directory is not None and there not in (b"", text):
        _require_own(repo, path, there or b"")
        with locations.writing(path):
            directory.replace(BUNDLE_LIST, text, locations.placement_at(repo, path))


def _owner(repo: RepoT) -> bytes:
    """Return the line that names this repository: a digest of its path."""
    digest = hashlib.sha256(repo.sharedpath).hexdigest()
    return b"%s%s\n" % (_LIST_OWNER, digest.encode())


def _require_own(repo: RepoT, path: str, there: bytes) -> None:
    """Abort if ``there`` is the list of another repository."""
    if there.startswith(_LIST_OWNER) and not there.startswith(_owner(repo)):
        raise error.StateError(
            _(b"the list of bundles in '%s' is of another repository")
            % printable(os.fsencode(path)),
            hint=_(
                b"give each repository an amalgam.bundles.directory of its own; if "
                b"this one was moved, remove %s there"
            )
            % BUNDLE_LIST,
        )


def _read_bundle_list(directory: Directory) -> bytes | None:
    """Return the list in a directory, ``None`` if that is none of ours."""
    try:
        return directory.tryread(BUNDLE_LIST, _LIST_LIMIT_BYTES)
    except error.StorageError:
        return None
