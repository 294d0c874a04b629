"""A process that holds the index of a repository, while others change it.

Started as a script, it opens a repository, and then answers one expression a line; its
names are those of ``_names``. What it dies of is the exit code of ``Reader``.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

#: A node that no repository has.
UNKNOWN = b"\x5a" * 20


class DiedError(Exception):
    """The process did not survive its last question."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Reader:
    """A running process; ``config`` is items of the form ``section.name=value``."""

    def __init__(self, repo: Path, config: Sequence[str]) -> None:
        from .environment import ENVIRONMENT  # relative to a package, not to a script

        self._process = subprocess.Popen(
            [sys.executable, __file__, str(repo), *config],
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *_raised: object) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()
        self._process.wait()

    def ask(self, expression: str) -> Any:
        """Return what an expression is there, a literal, or the name of an error.

        ``DiedError`` if the process does not live to answer it.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin
        assert stdout
        stdin.write(expression.encode() + b"\n")
        stdin.flush()
        answer = stdout.readline()
        if not answer:
            raise DiedError(self._process.wait())
        # our own process, which has no reason to lie
        return eval(answer)


def _names(path: str, config: Sequence[str]) -> dict[str, Any]:
    from mercurial import extensions, ui as uimod

    try:
        from mercurial.repo import factory
    except ImportError:  # hg <= 7.1
        from mercurial import hg as factory

    ui = uimod.ui.load()
    for item in config:
        name, _equals, value = item.partition("=")
        section, _dot, name = name.partition(".")
        ui.setconfig(section.encode(), name.encode(), value.encode())
    extensions.loadall(ui)
    repo = factory.repository(ui, path.encode()).unfiltered()
    changes = repo.changelog
    manifests = repo.manifestlog.getstorage(b"").get_revlog()
    return {
        "repo": repo,
        "changes": changes,
        "manifests": manifests,
        "unknown": UNKNOWN,
        "opened": lambda log: _opened(log),
    }


def _opened(log: Any) -> str:
    from hgext3rd.amalgam.index import opening

    how = opening.opened_index(log)
    assert how
    return how.decision.reason.value


def main(path: str, *config: str) -> None:
    """Answer questions about the repository at ``path``."""
    names = _names(path, config)
    for line in sys.stdin:
        try:
            answer = eval(line, names)
        except Exception as exc:
            answer = type(exc).__name__
        print(repr(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
