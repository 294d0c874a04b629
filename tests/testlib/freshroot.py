"""A root of this machine without Mercurial, and a stand-in for the registry.

``roots`` is beside the scripts for releases, where only tests find it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from mercurial import util

from .environment import ENVIRONMENT, ROOT

if TYPE_CHECKING:
    from roots import Machine

_REGISTRY = "/srv/registry"
_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")


def _downloads() -> Path:
    version = util.version().decode().partition("+")[0]
    return _CACHE / "hg-amalgam" / f"newcomer-{version}"


def missing() -> str:
    """Return why there can be none here; nothing if there can."""
    if not (_downloads() / ".ready").exists():
        return "nothing was downloaded for the system's Python (make, NEWCOMER)"
    import roots

    return roots.missing()


def make(path: Path) -> Machine:
    """Make a root at ``path``. pip finds Mercurial there, and no other hg is."""
    import roots

    root = roots.Machine(path)
    registry = path / _REGISTRY.lstrip("/")
    shutil.copytree(_downloads(), registry, ignore=shutil.ignore_patterns("venv"))
    config = f"[global]\nno-index = yes\nfind-links = {_REGISTRY}\n"
    (path / "etc/pip.conf").write_text(config)
    return root


def make_wheel(directory: Path) -> Path:
    """Return the wheel of this tree, for this machine."""
    command = [sys.executable, "setup.py", "-q", "egg_info", "-e", str(directory)]
    command += ["build", "-b", str(directory / "build")]
    command += ["bdist_wheel", "-b", str(directory / "dist"), "-d", str(directory)]
    subprocess.run(
        command, cwd=ROOT, env=ENVIRONMENT, check=True, stderr=subprocess.DEVNULL
    )
    (wheel,) = directory.glob("*.whl")
    return wheel
