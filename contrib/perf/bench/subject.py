"""Whose work is measured: programs, by the names that the command line gives them.

A specification is KIND:PATH, or PATH alone where the name is a kind; else the kind is
``amalgam``. PATH is an executable.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from .benchmark import Command, CommandError, InputError

#: Kind to what PATH is, and what prints its version.
KINDS = {
    "amalgam": "an hg that has amalgam installed",
    "hg": "an hg, which runs without extensions",
    "hg-git": "an hg that has hg-git installed",
    "fast-export": "an hg, whose fastexport is piped into git fast-import",
    "cinnabar": "a git-cinnabar with git-remote-hg beside it",
    "git": "a git, which works on what amalgam exported",
    "jgit": "a program that pushes with JGit: contrib/perf/jgit/Push.java",
}
AGAIN = " (again)"

_EXTENSIONS = {
    "amalgam": "extensions.amalgam=",
    "hg-git": "extensions.hggit=",
    "fast-export": "extensions.fastexport=",
}


@dataclass(frozen=True)
class Subject:
    """A program under a name."""

    name: str
    kind: str
    program: Path
    hg: Path
    """An hg for what the subject itself is not measured with."""

    @classmethod
    def parse(cls, text: str, hg: Path | None) -> Subject:
        """Return the subject of NAME=SPECIFICATION; ``hg`` is that of the first one."""
        name, equals, specification = text.partition("=")
        kind, colon, path = specification.rpartition(":")
        if not colon:
            kind = name if name in KINDS else "amalgam"
        if not equals or not name or kind not in KINDS:
            raise InputError(
                f"'{text}' is no NAME=[KIND:]PATH with a KIND of {', '.join(KINDS)}"
            )
        program = Path(path).absolute()  # a venv's python is a symbolic link
        if not os.access(program, os.X_OK):
            raise InputError(f"'{path}' of subject '{name}' is no executable")
        is_hg = kind not in ("cinnabar", "git", "jgit")
        return cls(name, kind, program, program if is_hg else hg or Path("hg"))

    def again(self) -> Subject:
        """Return the same subject, to be measured beside itself."""
        return Subject(self.name + AGAIN, self.kind, self.program, self.hg)

    def command(self, *arguments: str) -> Command:
        """Return a command of hg, or of git for a kind of git."""
        if self.kind == "cinnabar":
            path = f"{self.program.parent}:{self.hg.parent}:{os.environ['PATH']}"
            no_check = {"GIT_CINNABAR_CHECK": "no-version-check", "PATH": path}
            return Command(["git", *arguments], no_check)
        words = [str(self.program)]
        if self.kind in _EXTENSIONS:
            words += ["--config", _EXTENSIONS[self.kind]]
        return Command([*words, *arguments])

    def version(self) -> str:
        """Return what the program says of itself, in one line."""
        words = {
            "amalgam": ["--config", "extensions.amalgam=", "version", "-v"],
            "hg-git": ["--config", "extensions.hggit=", "version", "-v"],
            "hg": ["version", "-q"],
            "fast-export": ["version", "-q"],
        }.get(self.kind, ["--version"])
        try:
            lines = Command([str(self.program), *words]).output().splitlines()
        except CommandError:
            return "unknown"
        extensions = [" ".join(line.split()) for line in lines if line.startswith("  ")]
        return ", ".join([lines[0], *(e for e in extensions if "external" in e)])
