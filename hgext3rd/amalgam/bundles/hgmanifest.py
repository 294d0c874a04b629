"""Bundles in Mercurial's own manifest: what its clients can check, and for whom it is.

Adds DIGEST and REQUIREDRAM to the lines that Mercurial's extension writes ("hg help -e
clonebundles"), and gives each client the lines that it can use.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, BinaryIO

from mercurial import bundlecaches, error, wireprototypes, wireprotov1server
from mercurial.i18n import _

from ..loading import load
from ..placement import Directory
from ..terminal import printable
from . import addresses, formats, live, register as registers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mercurial.interfaces.types import RepoT

    from .register import Entry

_COMMANDS = (b"clonebundles", b"clonebundles_manifest")
_CAPABILITIES = frozenset(_COMMANDS)

_LIMIT_BYTES = 1 << 20
_BUNDLE2 = b"HG20"
_ZSTD = b"\x28\xb5\x2f\xfd"
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


def window_bytes(file: BinaryIO) -> int:
    """Return how much of its past zstd has to keep to read the bundle ``file``.

    0 if it is not compressed so, or does not say (RFC 8878, section 3.1.1.1).
    ``StorageError`` if it ends before that.
    """
    if file.read(4) != _BUNDLE2:
        return 0
    length = int.from_bytes(_whole(file, 4), "big", signed=True)
    if length < 0:
        raise error.StorageError(_(b"bundle has parameters of %d bytes") % length)
    if b"Compression=ZS" not in _whole(file, length):
        return 0
    if _whole(file, 4) != _ZSTD:
        return 0
    descriptor = _whole(file, 1)[0]
    single_segment = descriptor & 0x20
    if single_segment:  # then the window is all of the content
        _whole(file, (0, 1, 2, 4)[descriptor & 3])
        size = (1, 2, 4, 8)[descriptor >> 6]
        return int.from_bytes(_whole(file, size), "little")
    window = _whole(file, 1)[0]
    base = 1 << (10 + (window >> 3))
    return base + (base >> 3) * (window & 7)


def _whole(file: BinaryIO, length: int) -> bytes:
    found = file.read(length)
    if len(found) < length:
        raise error.StorageError(_(b"bundle is cut"))
    return found


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
        if entries and not any(live.is_sound(repo, entry) for entry in entries):
            continue  # withdrawn since, or lost
        kept.append(addresses.absolute(line, base))
    return b"".join(kept) if any(map(bytes.strip, kept)) else b""


def read(repo: RepoT) -> bytes:
    """Return Mercurial's manifest; ``StorageError`` or ``OSError`` if it is none."""
    name = bundlecaches.CB_MANIFEST_FILE
    return Directory(repo.path).tryread(name, _LIMIT_BYTES)


def _outlived(repo: RepoT) -> list[Any]:
    """Return bundles from before a censoring; takes no time if there was none."""
    if live.mark_of(repo) == "":
        return []
    try:
        return live.outlived(repo)
    except error.StorageError:
        return []


def _inline(func: Callable[..., Any]) -> Callable[..., Any]:
    def command(repo: RepoT, proto: Any, path: bytes) -> Any:
        load(addresses, formats, live, registers)
        name = os.path.basename(os.path.normpath(path))
        if name in {bundle.basename for bundle in _outlived(repo)}:
            # what Mercurial says of a file that is deleted, without a traceback
            text = b"clonebundle %s does not exist\n" % printable(path)
            return wireprototypes.ooberror(text)
        return func(repo, proto, path)

    return command


def wrap_commands() -> None:
    """Let the commands of the wire protocol name addresses that a client can reach.

    Nor do they send a bundle from before a censoring.
    """
    sending = wireprotov1server.commands[b"get_cached_bundle_inline"]
    sending.func = _inline(sending.func)
    for name in _COMMANDS:
        entry = wireprotov1server.commands[name]
        entry.func = _wrapped(entry.func)


def _wrapped(func: Callable[..., Any]) -> Callable[..., Any]:
    def command(repo: RepoT, proto: Any, *args: Any) -> Any:
        load(addresses, formats, live, registers)
        response = func(repo, proto, *args)
        base = addresses.base_of_peer(repo, proto)
        return wireprototypes.bytesresponse(_for_client(repo, response.data, base))

    return command


def capabilities(
    orig: Callable[..., list[bytes]], inner: Any, repo: RepoT, proto: Any
) -> list[bytes]:
    """Advertise bundles only to who can reach any."""
    load(addresses, formats, live, registers)
    found = orig(inner, repo, proto)
    if _CAPABILITIES.isdisjoint(found):
        return found
    try:
        content = read(repo)
    except (OSError, error.StorageError):
        return found  # what is there is the operator's
    base = addresses.base_of_peer(repo, proto)
    if not content or _for_client(repo, content, base):
        return found
    return [name for name in found if name not in _CAPABILITIES]
