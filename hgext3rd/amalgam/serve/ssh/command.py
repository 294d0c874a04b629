"""The command that an ssh client asks for, as sshd(8) has it in the environment.

Mercurial and git each have one form. Whatever else there is, options included, is no
command. Runs nothing and opens nothing.
"""

from __future__ import annotations

import os
import re
import shlex
from typing import TYPE_CHECKING

from ...records import Choice, Record

if TYPE_CHECKING:
    from collections.abc import Collection

_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_LONGEST = 1 << 13  # characters; git refuses longer ones


class Service(Choice):
    """What a client wants of a repository."""

    MERCURIAL = "hg serve --stdio"
    FETCH = "git-upload-pack"
    PUSH = "git-receive-pack"
    ARCHIVE = "git-upload-archive"


_OF_GIT = (Service.FETCH, Service.PUSH, Service.ARCHIVE)


class Command(Record):
    """A service, and the repository as the client names it."""

    service: Service
    path: str

    @classmethod
    def parse(cls, text: str) -> Command:
        """Return the command that ``text`` is; ``ValueError`` if it is none."""
        if len(text) > _LONGEST or _CONTROL.search(text):
            raise ValueError("not a command")
        words = shlex.split(text)
        if words[:1] == ["git"] and len(words) == 3:
            words = [f"git-{words[1]}", words[2]]
        if len(words) == 5 and words[:2] == ["hg", "-R"]:
            if words[3:] == ["serve", "--stdio"]:
                return cls._of(Service.MERCURIAL, words[2])
        elif len(words) == 2:
            for service in _OF_GIT:
                if words[0] == service.value:
                    return cls._of(service, words[1])
        raise ValueError("another command")

    @classmethod
    def _of(cls, service: Service, path: str) -> Command:
        if not path or path.startswith("-") or ".." in path.split("/"):
            raise ValueError("not a path")
        return cls(service, path)


def allowed(path: str, paths: Collection[str], directory: str) -> str | None:
    """Return the repository of ``paths`` that is meant by ``path``, if there is one.

    Relative ones are below ``directory``; ``~`` is a home. As in hg-ssh.
    """
    found = _absolute(path, directory)
    return found if found in {_absolute(name, directory) for name in paths} else None


def _absolute(path: str, directory: str) -> str:
    return os.path.normpath(os.path.join(directory, os.path.expanduser(path)))
