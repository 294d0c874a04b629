"""hg-git's parts of bundles: from a clone of git to clones of that clone."""

from __future__ import annotations

from pathlib import Path

import pytest
from testlib.environment import HG, git
from testlib.gitclone import Clone
from testlib.randomcommits import GitObjects

OURS = (
    "amalgam.git.dialect=hggit",
    "amalgam.git.hggit-files=yes",
)
BUNDLE = "experimental.hg-git-bundle=yes"
SERVE = "experimental.hg-git-serve=yes"
#: Each changeset with its commit and tags of git.
SHOWN = ("log", "-r", "all()", "-T", "{gitnode} {gittags}\n")


def given(*items: str) -> list[str]:
    return [part for item in (*OURS, *items) for part in ("--config", item)]


class Cloned(Clone):
    """A clone whose commands have the configuration of a user of hg-git."""

    def hg(self, *args: str, **environment: str) -> str:
        return super().hg(*args, *given(), **environment)

    @property
    def parts(self) -> str:
        return (self.root / ".hg/git-mapfile").read_text()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    objects = GitObjects(tmp_path / "project.git")
    tips = [""]
    for number in range(3):
        author = f"a <x> {number} +0000".encode()
        tips.append(objects.commit(*filter(None, tips[-1:]), author=author))
    objects.branch("main", tips[-1])
    git(objects.path, "symbolic-ref", "HEAD", "refs/heads/main")
    git(objects.path, "tag", "v1", tips[2])
    return objects.path


@pytest.fixture
def first(tmp_path: Path, project: Path) -> Cloned:
    made = Cloned(tmp_path / "first")
    made.hg("clone", "-q", f"git+{project.as_uri()}", str(made.root))
    return made


@pytest.fixture
def second(tmp_path: Path) -> Cloned:
    made = Cloned(tmp_path / "second")
    made.hg("init", str(made.root))
    return made


def test_a_bundle_has_ids_and_tags(
    tmp_path: Path, project: Path, first: Cloned, second: Cloned
) -> None:
    path = str(tmp_path / "bundle")
    first.hg("bundle", "-qa", path)
    assert "exp-hg-git" not in first.hg("debugbundle", path)
    first.hg("bundle", "-qa", path, "--config", BUNDLE)
    assert first.hg("debugbundle", path).count("exp-hg-git") == 2

    # nobody takes them unasked
    second.hg("unbundle", "-q", path)
    assert not (second.root / ".hg/git-mapfile").exists()
    second.hg("unbundle", "-q", path, "--config", BUNDLE)
    shown = first.hg(*SHOWN)
    assert second.hg(*SHOWN) == shown
    assert shown.count("v1") == 1

    said = second.hg("pull", f"git+{project.as_uri()}")
    assert f"warning: created new git repository at {second.root}/.hg/git" in said
    assert "no changes found" in said
    # no ref of it leads to an object that it does not have
    assert "missing" not in git(second.root / ".hg/git", "fsck").decode()
    (second.root / "a").write_text("a")
    second.hg("update", "-q", "main")
    second.hg("commit", "-Aqm", "four", "-u", "me <m@x>")
    second.hg("push", f"git+{project.as_uri()}")
    assert git(project, "log", "--format=%s", "main").decode().split()[0] == "four"


def test_ids_that_are_known_stay(tmp_path: Path, first: Cloned, second: Cloned) -> None:
    path = str(tmp_path / "bundle")
    first.hg("bundle", "-qa", path, "--config", BUNDLE)
    second.hg("unbundle", "-q", path, "--config", BUNDLE)
    lines = second.parts.splitlines(True)
    ids = [line[:40] for line in lines]
    turned = [new + line[40:] for new, line in zip(ids[::-1], lines, strict=True)]
    (second.root / ".hg/git-mapfile").write_text("".join(turned))
    second.hg("bundle", "-qa", path, "--config", BUNDLE)
    before = first.hg(*SHOWN)
    first.hg("unbundle", "-q", path, "--config", BUNDLE)
    assert first.hg(*SHOWN) == before


@pytest.mark.parametrize("server", [True, False])
@pytest.mark.parametrize("client", [True, False])
def test_clones_get_them_if_both_want_it(
    tmp_path: Path, first: Cloned, server: bool, client: bool
) -> None:
    items = "[extensions]\namalgam =\n[amalgam]\ngit.dialect = hggit\n"
    items += "[experimental]\nhg-git-serve = yes\n" * server
    (first.root / ".hg/hgrc").write_text(items)
    ssh = tmp_path / "ssh"  # the host is the first argument
    ssh.write_text('#!/bin/sh\nexec sh -c "$2"\n')
    ssh.chmod(0o755)
    made = Cloned(tmp_path / "clone")
    options = ["--ssh", str(ssh), "--remotecmd", str(HG)]
    options += ["--config", SERVE] * client
    remote = f"ssh://host/{first.root}"
    made.hg("clone", "-q", "--pull", *options, remote, str(made.root))
    shown = first.hg(*SHOWN)
    assert (made.hg(*SHOWN) == shown) is (server and client)


@pytest.mark.parametrize(
    ("part", "content"),
    [
        ("map", "b'damaged v1\\n'"),
        ("tags", "b'damaged v1\\n'"),
        ("tags", "b'abcd short\\n'"),
        ("tags", "b'%s ../../x\\n' % nodes[0].hex().encode()"),
        ("tags", "b'%s \\x1b[31m\\n' % nodes[0].hex().encode()"),
        ("tags", "b'%s cut' % nodes[0].hex().encode()"),
    ],
)
def test_a_damaged_part_is_named_and_not_taken(
    tmp_path: Path, first: Cloned, second: Cloned, part: str, content: str
) -> None:
    extension = tmp_path / "damage.py"
    extension.write_text(
        "from hgext3rd.amalgam.gitpeer import bundleparts\n"
        f"bundleparts._{part}_of = lambda store, nodes: {content}\n"
    )
    path = str(tmp_path / "bundle")
    options = ("--config", f"extensions.damage={extension}", "--config", BUNDLE)
    first.hg("bundle", "-qa", path, *options)
    said = second.hg("unbundle", path, "--config", BUNDLE)
    assert "warning: " in said
    assert "taken\n" in said
    file = {"map": "git-mapfile", "tags": "git-tags"}[part]
    assert not (second.root / ".hg" / file).exists()
