"""What is measured on: repositories that are generated, unbundled, or given.

What is made is kept in a cache directory, under a name that says how; it is made anew
if that was interrupted.
"""

from __future__ import annotations

import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from .benchmark import Command, CommandError, InputError

_GENERATE = Path(__file__).parents[1] / "generate.py"


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
    match = re.fullmatch(r"([a-z-]+)(?::(\w+=\d+(?:,\w+=\d+)*))?", text)
    if given.suffix == ".hg" and given.is_file():
        name, path = given.stem, cache / f"{given.stem}-{given.stat().st_size}"
    elif match:
        name, path = text, cache / re.sub(r"[^\w=-]", "-", text)
    else:
        raise InputError(f"'{text}' is no repository, no bundle and no profile")
    if not path.exists():
        partial = _partial(path)
        if match:
            python, sizes = hg.with_name("python3"), (match[2] or "").split(",")
            command = [str(python if python.exists() else sys.executable)]
            command += [str(_GENERATE), match[1], str(partial)]
            command += [f"--{size}" for size in sizes if size]
            try:
                Command(command).output()
            except CommandError as err:
                problem = str(err).splitlines()[-1]
                raise InputError(f"'{text}': {problem}") from err
        else:
            Command([str(hg), "init", str(partial)]).output()
            Command([str(hg), "-R", str(partial), "unbundle", str(given)]).output()
        partial.rename(path)
    return _described(name, path, hg)


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
