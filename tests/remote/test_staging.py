"""Pushes of few and of many refs to a repository that others write, too."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from mercurial import error
from testlib.environment import executable, git
from testlib.githost import git_host

from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore.git.process import Access, Git
from hgext3rd.amalgam.remote import staging, urls
from hgext3rd.amalgam.remote.staging import Change
from hgext3rd.amalgam.remote.transport import (
    NO_OID,
    FailureKind,
    PushAnswers,
    Transport,
)

pytestmark = pytest.mark.slow
_TREE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_RACE = """#!/bin/sh
unset GIT_QUARANTINE_PATH
git update-ref refs/heads/5 {theirs}
"""


class Pushing:
    """A store, and a remote that has its old refs."""

    def __init__(self, path: Path, remote: Path, url: str) -> None:
        self.store, self.remote, self.url = path / "store", remote, url
        git(path, "init", "-q", "--bare", "store")
        git(self.store, "hash-object", "-wt", "tree", os.devnull)
        old, new, theirs = (self._commit(it) for it in ("old", "new", "theirs"))
        self.old, self.new, self.theirs = old, new, theirs
        git(self.store, "push", "-q", str(self.remote), f"{theirs}:refs/heads/theirs")

    def _commit(self, message: str) -> str:
        identity = ("-c", "user.name=a", "-c", "user.email=a")
        made = git(self.store, *identity, "commit-tree", _TREE, "-m", message)
        return made.decode().strip()

    def has(self, refs: dict[str, str]) -> None:
        for name, oid in refs.items():
            spec = f"{oid}:refs/heads/{name}"
            git(self.store, "push", "-q", "-f", str(self.remote), spec)

    def push(self, changes: list[Change]) -> PushAnswers:
        program = Git(b"git", Directory(os.fsencode(self.store)))
        url = urls.parsed(self.url.encode(), b"/")
        transport = Transport(program, url, Access(may_ask=False), 60)
        parent = os.fsencode(self.store.parent)
        return staging.push(transport, b"git", parent, changes)

    def change(self, name: str, old: str, new: str) -> Change:
        ref = f"refs/heads/{name}".encode()
        return Change(ref, old.encode() or NO_OID, new.encode() or NO_OID)

    def refs(self) -> dict[str, str]:
        form = "--format=%(refname:lstrip=2) %(objectname)"
        listed = git(self.remote, "for-each-ref", form).decode().splitlines()
        return dict(line.split(" ") for line in listed)


@pytest.fixture
def pushing(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Pushing]:
    if getattr(request, "param", "file") == "http":
        with git_host(tmp_path / "host") as host:
            hosted = host.add("remote")
            yield Pushing(tmp_path, hosted.path, hosted.url)
        return
    git(tmp_path, "init", "-q", "--bare", "remote")
    yield Pushing(tmp_path, tmp_path / "remote", str(tmp_path / "remote"))


@pytest.mark.parametrize(
    ("count", "is_noexec", "pushing"),
    [(9, False, "file"), (40, False, "file"), (40, True, "file"), (40, False, "http")],
    indirect=["pushing"],
)
def test_only_refs_that_are_as_expected_are_written(
    pushing: Pushing, monkeypatch: pytest.MonkeyPatch, count: int, is_noexec: bool
) -> None:
    """Of few and of many refs, and where no program may run from the file system."""
    if is_noexec:
        found = os.statvfs("/")
        flags = os.statvfs_result((*found[:8], os.ST_NOEXEC, *found[9:]))
        monkeypatch.setattr(os, "statvfs", lambda _path: flags)
    old, new, theirs = pushing.old, pushing.new, pushing.theirs
    others = {str(number): old for number in range(6, count)}
    there = {"moved": theirs, "kept": theirs, "equal": new, "gone": old}
    pushing.has({**there, **others, "made": theirs})
    changes = [
        pushing.change("moved", old, new),
        pushing.change("kept", old, ""),
        pushing.change("equal", old, new),
        pushing.change("gone", old, ""),
        pushing.change("made", "", new),
        pushing.change("new", "", new),
        *(pushing.change(name, old, new) for name in others),
    ]
    answers = pushing.push(changes)
    assert answers.refs.keys() == {it.ref for it in changes}
    refused = {ref: it for ref, it in answers.refs.items() if not it.is_done}
    assert sorted(refused) == [
        b"refs/heads/" + it for it in (b"kept", b"made", b"moved")
    ]
    assert {it.kind for it in refused.values()} == {FailureKind.MOVED}
    assert [it for it in answers.refs if answers.refs[it].was_equal] == [
        b"refs/heads/equal"
    ]
    left = {"moved": theirs, "kept": theirs, "made": theirs, "theirs": theirs}
    written = {"equal": new, "new": new, **dict.fromkeys(others, new)}
    assert pushing.refs() == left | written


def test_a_ref_that_moves_during_a_push_is_not_written(pushing: Pushing) -> None:
    """After the hook has compared what the remote has advertised."""
    old, new, theirs = pushing.old, pushing.new, pushing.theirs
    names = [str(number) for number in range(40)]
    pushing.has(dict.fromkeys(names, old))
    hook = pushing.remote / "hooks" / "pre-receive"
    executable(hook, _RACE.format(theirs=theirs))
    answers = pushing.push([pushing.change(name, old, new) for name in names])
    refused = [ref for ref, it in answers.refs.items() if not it.is_done]
    assert refused == [b"refs/heads/5"]
    expected = {**dict.fromkeys(names, new), "5": theirs, "theirs": theirs}
    assert pushing.refs() == expected


def test_a_git_that_runs_no_hook_is_named(
    pushing: Pushing, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = [str(number) for number in range(40)]
    monkeypatch.setattr(os, "chmod", lambda *_args: stat.S_IRUSR)
    with pytest.raises(error.StateError, match="git ran no hook"):
        pushing.push([pushing.change(name, "", pushing.new) for name in names])
