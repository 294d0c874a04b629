"""What is measured on: repositories that are generated, unbundled, or given.

What is made is kept in a cache directory, under a name that says how; it is made anew
if that was interrupted.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from .benchmark import Command

_GENERATE = Path(__file__).parents[1] / "generate.py"


class UnusableError(ValueError):
    """Names no repository."""


@dataclass(frozen=True)
class Repository:
    """A Mercurial repository that nobody changes."""

    name: str
    path: Path
    changesets: int
    tip: str

    def describe(self) -> dict[str, object]:
        """Return what names it, and its contents, in results."""
        return {"changesets": self.changesets, "tip": self.tip}


def prepare(text: str, cache: Path, hg: Path) -> Repository:
    """Return the repository that ``text`` names.

    ``PROFILE[:OPTION=NUMBER,...]`` is generated, ``FILE.hg`` is a bundle, and a
    directory a repository.
    """
    given = Path(text)
    if (given / ".hg").is_dir():
        return _described(given.name, given.absolute(), hg)
    cache.mkdir(parents=True, exist_ok=True)
    if given.suffix == ".hg" and given.is_file():
        path = cache / f"{given.stem}-{given.stat().st_size}"
        if not path.exists():
            partial = _partial(path)
            Command([str(hg), "init", str(partial)]).output()
            Command([str(hg), "-R", str(partial), "unbundle", str(given)]).output()
            partial.rename(path)
        return _described(given.stem, path, hg)
    match = re.fullmatch(r"([a-z-]+)(?::(\w+=\d+(?:,\w+=\d+)*))?", text)
    if not match:
        raise UnusableError(f"'{text}' is no repository, no bundle and no profile")
    profile, sizes = match[1], (match[2] or "").split(",") if match[2] else []
    path = cache / re.sub(r"[^\w=-]", "-", text)
    if not path.exists():
        partial = _partial(path)
        python = hg.with_name("python3")
        command = [str(python if python.exists() else sys.executable), str(_GENERATE)]
        command += [profile, str(partial), *(f"--{size}" for size in sizes)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise UnusableError(f"'{text}': {done.stderr.strip().splitlines()[-1]}")
        partial.rename(path)
    return _described(text, path, hg)


def _partial(path: Path) -> Path:
    partial = path.with_name(path.name + ".partial")
    if partial.exists():
        shutil.rmtree(partial)
    return partial


def _described(name: str, path: Path, hg: Path) -> Repository:
    words = ["log", "-r", "tip", "-T", "{rev} {node}"]
    found = Command([str(hg), "-R", str(path), *words]).output().split()
    rev, tip = found or ["-1", "0" * 40]
    return Repository(name, path, int(rev) + 1, tip)
