"""The bare git repository of a dialect: made by git, filled by the core, named by us.

Any git tool may read it. Objects arrive as packs; refs are one ``packed-refs`` file
that is replaced as a whole, so that readers see all refs of one export or all of
another (gitrepository-layout(5), git-pack-refs(1)).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

from mercurial import error, pycompat, vfs as vfsmod
from mercurial.i18n import _
from mercurial.utils import procutil

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_PACKED_REFS = b"packed-refs"
_PACKED_REFS_HEADER = b"# pack-refs with: peeled fully-peeled sorted \n"

# what every store is set up with; none of it changes what objects mean
_CONFIG = {
    "core.logAllRefUpdates": "false",
    "gc.auto": "0",
    "maintenance.auto": "false",
    "transfer.hideRefs": "refs/cinnabar",
}


class Repository:
    """A bare git repository at ``path``, which may not exist yet."""

    def __init__(self, path: bytes, program: bytes) -> None:
        """``program`` is the git binary."""
        self.path = path
        self._program = program
        self.vfs = vfsmod.vfs(path)

    def exists(self) -> bool:
        """Tell whether there is a repository."""
        return bool(self.vfs.exists(b"objects/pack") and self.vfs.exists(b"HEAD"))

    def create(self) -> None:
        """Make an empty repository, or none at all if that fails."""
        parent = os.path.dirname(self.path)
        os.makedirs(parent, exist_ok=True)
        temporary = b"%s.tmp-%d" % (self.path, os.getpid())
        try:
            self._git("init", "--quiet", "--bare", "--template=", "--", temporary)
            for key, value in _CONFIG.items():
                config = os.path.join(temporary, b"config")
                self._git("config", "--file", config, key, value)
            os.makedirs(os.path.join(temporary, b"objects", b"pack"), exist_ok=True)
            os.rename(temporary, self.path)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    @property
    def packs_path(self) -> bytes:
        """The directory that packs are written to."""
        return self.vfs.join(b"objects/pack")

    def has_pack(self, name: str) -> bool:
        """Tell whether the pack ``name`` (without suffix) can be read."""
        return bool(self.vfs.exists(b"objects/pack/%s.idx" % os.fsencode(name)))

    def remove_packs(
        self, keep: Iterable[str] | None = None, *, only: str = ""
    ) -> None:
        """Remove the pack ``only``, or all packs but those in ``keep``.

        The index goes first: what it names can no longer be found when the rest goes.
        """
        kept = frozenset(map(os.fsencode, keep or ()))
        found: dict[bytes, list[bytes]] = {}
        for file in self.vfs.listdir(b"objects/pack"):
            name = file.partition(b".")[0]
            if name == os.fsencode(only) if only else name not in kept:
                found.setdefault(name, []).append(file)
        for files in found.values():
            for file in sorted(files, key=lambda file: not file.endswith(b".idx")):
                self.vfs.tryunlink(b"objects/pack/" + file)

    def set_refs(self, refs: Mapping[bytes, bytes], head: bytes) -> int:
        """Make ``refs`` (name to oid, 20 bytes) all refs, and HEAD lead to ``head``.

        Returns how many refs are new, gone or moved. Writes nothing if nothing changes.
        """
        before = self.refs()
        changed = sum(before.get(name) != oid for name, oid in refs.items())
        changed += sum(name not in refs for name in before)
        lines = [b"%s %s\n" % (oid.hex().encode(), name) for name, oid in refs.items()]
        lines.sort(key=lambda line: line[41:])
        content = _PACKED_REFS_HEADER + b"".join(lines)
        if self.vfs.tryread(_PACKED_REFS) != content:
            self._replace(_PACKED_REFS, content)
        self._remove_loose_refs()
        symbolic = b"ref: %s\n" % head
        if self.vfs.tryread(b"HEAD") != symbolic:
            self._replace(b"HEAD", symbolic)
        return changed

    def refs(self) -> dict[bytes, bytes]:
        """Return the refs in ``packed-refs``: name to oid, 20 bytes."""
        refs = {}
        for line in self.vfs.tryread(_PACKED_REFS).splitlines():
            if line[:1] not in b"#^":
                oid, name = line.split(b" ", 1)
                refs[name] = bytes.fromhex(oid.decode())
        return refs

    def _replace(self, name: bytes, content: bytes) -> None:
        """Replace a file as git does, with its ``.lock`` against other processes."""
        lock = name + b".lock"
        try:
            fd = os.open(
                self.vfs.join(lock), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666
            )
        except FileExistsError:
            raise error.StateError(
                _(b"git store is locked: %s") % self.vfs.join(lock),
                hint=_(b"remove the file if no git process uses the store"),
            ) from None
        try:
            with os.fdopen(fd, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            self.vfs.rename(lock, name)
        except BaseException:
            self.vfs.tryunlink(lock)
            raise

    def _remove_loose_refs(self) -> None:
        """Remove refs that somebody else made: they hide ours of the same name."""
        for directory, _directories, files in self.vfs.walk(b"refs"):
            for file in files:
                self.vfs.tryunlink(self.vfs.reljoin(directory, file))

    def _git(self, *args: str | bytes) -> bytes:
        """Run git away from any repository and configuration, and return its output."""
        command = [self._program, *(os.fsencode(arg) for arg in args)]
        environment = {b"PATH": os.environb.get(b"PATH", os.defpath.encode())}
        environment |= {
            b"LC_ALL": b"C",
            b"GIT_CONFIG_NOSYSTEM": b"1",
            b"GIT_CONFIG_GLOBAL": os.devnull.encode(),
            b"GIT_TERMINAL_PROMPT": b"0",
        }
        try:
            done = subprocess.run(
                command,
                env=environment,
                cwd="/",
                check=False,
                stdin=subprocess.DEVNULL,
                capture_output=True,
            )
        except OSError as exc:
            raise error.Abort(
                _(b"cannot run git program '%s': %s")
                % (self._program, pycompat.bytestr(os.strerror(exc.errno or 0))),
                hint=_(b"install git, or set amalgam.git.program"),
            ) from None
        if done.returncode:
            raise error.Abort(
                _(b"git %s failed: %s")
                % (
                    os.fsencode(args[0]),
                    done.stderr.strip() or procutil.explainexit(done.returncode),
                ),
            )
        return done.stdout
