"""Bundles in Mercurial's own manifest: what its clients can check, and for whom it is.

Adds DIGEST and REQUIREDRAM to the lines that Mercurial's extension writes ("hg help -e
clonebundles"), and gives each client the lines that it can use.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Any

from mercurial import (
    bundlecaches,
    error,
    extensions,
    wireprototypes,
    wireprotov1server,
)

from ...loading import load
from ...placement import Directory
from ...terminal import printable
from ..lifecycle import eligibility, formats, register as registers, urls
from ..lifecycle.objectstore import stored

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercurial.interfaces.types import RepoT

    from ..lifecycle.register import Entry

_COMMANDS = (b"clonebundles", b"clonebundles_manifest")
_CAPABILITIES = frozenset(_COMMANDS)

_LIMIT_BYTES = 1 << 20
# below that, the interpreter of a client takes more
_WORTH_SAYING_BYTES = 16 << 20


def lines(bundles: Iterable[Any]) -> bytes:
    """Return the manifest of ``bundles``, without those for git."""
    chosen = [bundle for bundle in bundles if not formats.kind_of(bundle.bundle_type)]
    chosen.sort(key=lambda bundle: bundle.bundle_type)
    return b"".join(b"%s\n" % _line(bundle) for bundle in chosen)


def _line(bundle: Any) -> bytes:
    line: bytes = bundle.manifest_line()
    entry: Entry | None = bundle.entry
    if entry is None:
        return line
    line += b" DIGEST=sha256:%s" % entry.name.partition(".")[0].encode()
    if entry.window_bytes > _WORTH_SAYING_BYTES:
        line += b" REQUIREDRAM=%s" % _megabytes(entry.window_bytes)
    return line


def _megabytes(count: int) -> bytes:
    # the window, and what was decompressed of it
    return b"%dMB" % (2 * count >> 20)


def _for_client(repo: RepoT, content: bytes, base: bytes) -> bytes:
    """Return the lines that a client can use: it ends without a clone at any other."""
    if not content:
        return content
    named: dict[bytes, list[Entry]] = {}
    register = registers.Register.read_for_client(repo)
    if register is None:
        return b""  # any line may be one that was withdrawn
    for entry in register.entries.values():
        named.setdefault(os.fsencode(entry.url), []).append(entry)
    outlived = {bundle.file_url for bundle in _outlived(repo)}
    kept = []
    for line in content.splitlines(keepends=True):
        url = line.split(None, 1)[0] if line.strip() else b""
        if url in outlived:
            continue
        entries = named.get(url, [])
        if entries and not any(eligibility.is_sound(repo, entry) for entry in entries):
            continue  # withdrawn since, or lost
        link = stored.link(repo, entries[0]) if entries else b""
        kept.append(link + line[len(url) :] if link else urls.absolute(line, base))
    return b"".join(kept) if any(map(bytes.strip, kept)) else b""


def read(repo: RepoT) -> bytes:
    """Return Mercurial's manifest; ``StorageError`` or ``OSError`` if it is none."""
    name = bundlecaches.CB_MANIFEST_FILE
    return Directory(repo.path).tryread(name, _LIMIT_BYTES)


def _outlived(repo: RepoT) -> list[Any]:
    """Return bundles from before a censoring; takes no time if there was none."""
    if eligibility.mark_of(repo) == "":
        return []
    try:
        return eligibility.outlived(repo)
    except error.StorageError:
        return []


def wrap_commands() -> None:
    """Let the commands of the wire protocol name addresses that a client can reach.

    Nor do they send a bundle from before a censoring.
    """
    commands = wireprotov1server.commands
    extensions.wrapfunction(commands[b"get_cached_bundle_inline"], "func", _inline)
    for name in _COMMANDS:
        extensions.wrapfunction(commands[name], "func", _manifest)


def _inline(orig: Callable[..., Any], repo: RepoT, proto: Any, path: bytes) -> Any:
    load(sys.modules[__name__])
    name = os.path.basename(os.path.normpath(path))
    if name in {bundle.basename for bundle in _outlived(repo)}:
        # what Mercurial says of a file that is deleted, without a traceback
        text = b"clonebundle %s does not exist\n" % printable(path)
        return wireprototypes.ooberror(text)
    return orig(repo, proto, path)


def _manifest(orig: Callable[..., Any], repo: RepoT, proto: Any, *args: Any) -> Any:
    load(sys.modules[__name__])
    response = orig(repo, proto, *args)
    base = urls.base_of_peer(repo, proto)
    return wireprototypes.bytesresponse(_for_client(repo, response.data, base))


def capabilities(
    orig: Callable[..., list[bytes]], inner: Any, repo: RepoT, proto: Any
) -> list[bytes]:
    """Advertise bundles only to who can reach any."""
    load(sys.modules[__name__])
    found = orig(inner, repo, proto)
    if _CAPABILITIES.isdisjoint(found):
        return found
    try:
        content = read(repo)
    except (OSError, error.StorageError):
        return found  # what is there is the operator's
    base = urls.base_of_peer(repo, proto)
    if not content or _for_client(repo, content, base):
        return found
    return [name for name in found if name not in _CAPABILITIES]
