"""Other users of this machine, real ones, for tests that root runs.

A user is a number; no account is needed. His processes run in a mount namespace of
their own, in which the interpreter can be reached even if it lies in root's home.
"""

from __future__ import annotations

import dataclasses
import functools
import shlex
import stat
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from .environment import ENVIRONMENT, HG, ROOT

HOMELESS = ENVIRONMENT | {"HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
"""The environment of what other users run."""

#: A user who owns nothing else.
STRANGER = 20001


@dataclasses.dataclass(frozen=True)
class User:
    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    def run(
        self,
        cwd: Path,
        *command: str,
        umask: int = 0o077,
        setup: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.CompletedProcess[bytes]:
        """Run a command; ``setup`` are shell commands that root runs before."""
        return in_namespace(
            f"{setup}\n{_reachable()}\numask {umask:o}",
            [*self._become(), *command],
            cwd,
            HOMELESS | dict(environment or {}),
        )

    def started(self, command: Sequence[str], cwd: Path) -> list[str]:
        """Return what runs a command as this user, for whoever starts it."""
        setup = f"{_reachable()}\numask 077"
        return namespaced(setup, [*self._become(), *command], cwd)

    def _become(self) -> list[str]:
        groups = ",".join(map(str, self.groups))
        become = ["setpriv", "--reuid", str(self.uid), "--regid", str(self.gid)]
        return [
            *become,
            *(["--groups", groups] if groups else ["--clear-groups"]),
            "--",
        ]

    def hg(
        self, cwd: Path, *args: str, setup: str = ""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run hg with amalgam, with the line that docs/shared-servers.rst asks for."""
        groups = ",".join(map(str, self.groups))
        options = ["--config", "extensions.amalgam="]
        options += ["--config", f"trusted.groups={groups}"]
        return self.run(cwd, sys.executable, str(HG), *options, *args, setup=setup)


def namespaced(setup: str, command: Sequence[str], cwd: Path) -> list[str]:
    """Return what runs a command as ``in_namespace`` does."""
    script = f'set -e\n{setup}\ncd {shlex.quote(str(cwd))}\nexec "$@"'
    return ["unshare", "--mount", "sh", "-c", script, "sh", *command]


def reachable(command: Sequence[str], cwd: Path) -> list[str]:
    """Return what runs a command where everybody reaches what the tests need."""
    return namespaced(_reachable(), command, cwd)


def in_namespace(
    setup: str, command: Sequence[str], cwd: Path, environment: Mapping[str, str]
) -> subprocess.CompletedProcess[bytes]:
    """Run a command where ``setup``, shell commands, mounts what nobody else sees."""
    return subprocess.run(
        namespaced(setup, command, cwd),
        env={**environment, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        timeout=300,
    )


@functools.cache
def _reachable() -> str:
    """Return commands that make what the tests need reachable for everybody."""
    needed = {ROOT, Path(sys.prefix), Path(sys.base_prefix)}
    needed |= {Path(sys.executable).resolve().parent}
    closed: dict[Path, set[Path]] = {}
    for path in needed:
        for parent in reversed([path, *path.parents]):
            if not parent.stat().st_mode & stat.S_IXOTH:
                closed.setdefault(parent, set()).add(path)
                break
    lines = ["original=$(mktemp -d)"] if closed else []
    for parent, paths in closed.items():
        lines += [
            f"mount --bind {shlex.quote(str(parent))} $original",
            f"mount -t tmpfs -o mode=755 tmpfs {shlex.quote(str(parent))}",
        ]
        for path in sorted(paths):
            inside = shlex.quote(str(path.relative_to(parent)))
            outside = shlex.quote(str(path))
            lines += [
                f"mkdir -p {outside}",
                f"mount --bind $original/{inside} {outside}",
            ]
        lines.append("umount $original")
    return "\n".join([*lines, "rmdir $original"] if closed else [])
