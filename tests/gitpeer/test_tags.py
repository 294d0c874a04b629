"""Tags of git repositories that were pulled from, as git users get them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from testlib.environment import captured, git
from testlib.gitclone import Clone
from testlib.githost import GitHost, HostedRepository
from testlib.webserver import serving

pytestmark = pytest.mark.slow

SIGNED = """object {oid}
type commit
tag signed
tagger A U Thor <a@example.org> 1 +0000

released
-----BEGIN PGP SIGNATURE-----

iQ==
-----END PGP SIGNATURE-----
"""


@pytest.fixture
def leader(host: GitHost) -> HostedRepository:
    """A repository with tags of all kinds; only ``key`` leads to no exported object."""
    made = host.add("leader.git")
    for name in ("one", "two", "three"):
        made.edit("refs/heads/main", name)
    made.git("branch", "side", "main~1")
    made.edit("refs/heads/side", "aside")
    made.git("tag", "light", "main~1")
    made.git("tag", "-a", "-m", "annotated", "heavy", "main")
    made.git("tag", "-a", "-m", "again", "heavier", "heavy")
    made.git("tag", "-a", "-m", "of a tree", "tree", "main^{tree}")
    made.git("tag", "-a", "-m", "of a draft", "draft/heavy", "side")
    put(made, "signed", SIGNED.format(oid=made.git("rev-parse", "main")), "tag")
    put(made, "key", "a key", "blob")
    return made


def put(repository: HostedRepository, tag: str, content: str, kind: str) -> None:
    """Make an object of any content, and a tag of it."""
    file = repository.path / "content"
    file.write_text(content)
    oid = repository.git("hash-object", "-w", "-t", kind, str(file))
    repository.git("update-ref", f"refs/tags/{tag}", oid)


class Follower(Clone):
    """A repository that follows another one."""

    def __init__(self, tmp_path: Path, leader: HostedRepository, *items: str) -> None:
        super().__init__(tmp_path / "follower")
        self.hg("init", str(self.root))
        lines = ["[extensions]", "amalgam =", "[hggit]", "usephases = no", "[amalgam]"]
        lines += ["git.serve = yes", f"follow.up = {leader.url}", *items]
        (self.root / ".hg" / "hgrc").write_text("\n".join(lines) + "\n")
        self.store = self.root / ".hg/amalgam/git/cinnabar.git"

    def tags(self) -> dict[str, str]:
        return tags(self.store)

    def verify(self, *args: str) -> str:
        """Return the notes of a verification that finds no mistake."""
        return self.hg("git::verify", *args)

    def has(self, oid: str) -> bool:
        """Return whether the store has an object."""
        return captured(["git", "cat-file", "-e", oid], self.store).returncode == 0


def tags(repository: Path) -> dict[str, str]:
    """Return names and oids of tags, and those of the objects behind them."""
    shown = git(repository, "ls-remote", "--tags", ".").decode().splitlines()
    return {ref.removeprefix("refs/tags/"): oid for oid, ref in map(str.split, shown)}


def test_git_users_get_the_tags_of_the_remote(
    tmp_path: Path, leader: HostedRepository
) -> None:
    clone = Follower(tmp_path, leader)
    clone.hg("git::follow", "-q")
    wanted = tags(leader.path)
    del wanted["key"]
    assert clone.tags() == wanted
    assert "refs/tags/key" in clone.verify("--full")
    with serving(clone.root) as server:
        git(tmp_path, "clone", "-q", "--mirror", server.url, "mirror")
        assert tags(tmp_path / "mirror") == wanted
        git(tmp_path / "mirror", "fsck", "--strict")
        # one that comes, one that goes, and one that moves
        old = leader.git("rev-parse", "heavier")
        leader.git("tag", "-a", "-m", "new", "v2", "main~2")
        leader.git("tag", "-d", "heavier")
        leader.git("tag", "-f", "light", "main")
        clone.hg("git::follow", "-q")
        git(tmp_path / "mirror", "fetch", "-q", "--prune")
    wanted = tags(leader.path)
    del wanted["key"]
    assert clone.tags() == tags(tmp_path / "mirror") == wanted
    assert not clone.has(old)
    clone.verify("--full")
    before = {path: path.stat() for path in clone.store.rglob("*")}
    assert "refs changed" not in clone.hg("git::export")
    assert before == {path: path.stat() for path in clone.store.rglob("*")}


def test_a_chain_of_tags_has_an_end(tmp_path: Path, leader: HostedRepository) -> None:
    leader.git("tag", "-a", "-m", "of a commit", "t1", "main")
    for depth in range(1, 101):
        leader.git("tag", "-a", "-m", "of a tag", f"t{depth + 1}", f"t{depth}")
    clone = Follower(tmp_path, leader)
    clone.hg("git::follow", "-q")
    assert {"t100", "t101"} & clone.tags().keys() == {"t100"}
    assert "refs/tags/t101: it leads to its commit by way of over 100 tags" in (
        clone.verify("--full")
    )


def test_names_need_not_be_utf_8(tmp_path: Path, leader: HostedRepository) -> None:
    leader.git("update-ref", "refs/tags/caf\udce9", "main")
    clone = Follower(tmp_path, leader)
    clone.hg("git::follow", "-q")
    assert b"refs/tags/caf\xe9" in git(clone.store, "for-each-ref")
    clone.verify()


def test_a_tag_leaves_with_its_changeset(
    tmp_path: Path, leader: HostedRepository
) -> None:
    clone = Follower(tmp_path, leader)
    clone.hg("git::follow", "-q")
    wanted, oid = clone.tags(), leader.git("rev-parse", "draft/heavy")
    clone.hg("phase", "-q", "--secret", "--force", "-r", "draft/heavy")
    clone.hg("git::export", "-q")
    assert wanted.keys() - clone.tags() == {"draft/heavy", "draft/heavy^{}"}
    assert not clone.has(oid)
    assert "its changeset is not exported" in clone.verify()
    for phase in ("--draft", "--public"):
        clone.hg("phase", "-q", phase, "-r", "draft/heavy")
        clone.hg("git::export", "-q")
        assert clone.tags() == wanted
        clone.verify("--full")
    # all of the base, too
    clone.hg("phase", "-q", "--secret", "--force", "-r", "0")
    clone.hg("git::export", "-q")
    assert clone.tags() == {}
    assert not clone.has(oid)


def test_tags_of_mercurial_stand_before(
    tmp_path: Path, leader: HostedRepository
) -> None:
    clone = Follower(tmp_path, leader)
    clone.hg("git::follow", "-q")
    wanted = clone.tags()
    clone.hg("update", "-q", "main")
    clone.hg("tag", "-r", "heavy", "heavy")
    clone.hg("git::export", "-q")
    assert clone.tags() == wanted
    clone.hg("tag", "-r", "light", "-f", "heavier")
    clone.hg("tag", "-r", "light", "draft")
    clone.hg("git::export", "-q")
    for name in ("heavier", "heavier^{}", "draft/heavy", "draft/heavy^{}"):
        del wanted[name]
    light = leader.git("rev-parse", "light")
    assert clone.tags() == wanted | {"heavier": light, "draft": light}
    shown = clone.verify("--full")
    assert "refs/tags/heavier: Mercurial has it on another changeset" in shown
    assert "refs/tags/draft/heavy: not every clone could have it" in shown


def test_the_leading_remote_has_the_name(
    tmp_path: Path, host: GitHost, leader: HostedRepository
) -> None:
    other = host.add("other.git")
    other.git("fetch", "-q", "--no-tags", str(leader.path), "refs/heads/*:refs/heads/*")
    other.git("tag", "light", "main")
    other.git("tag", "only", "main")
    clone = Follower(tmp_path, leader)
    clone.hg("pull", "-q", f"git+{other.url}")
    clone.hg("git::export", "-q")
    assert clone.tags()["light"] == leader.git("rev-parse", "main")
    clone.hg("git::follow", "-q")
    assert clone.tags()["light"] == leader.git("rev-parse", "main~1")
    assert clone.tags()["only"] == leader.git("rev-parse", "main")


def test_pushes_do_not_change_tags_of_the_remote(
    tmp_path: Path, leader: HostedRepository
) -> None:
    clone = Follower(tmp_path, leader, "git.push = yes", "git.push-tags = yes")
    clone.hg("git::follow", "-q")
    wanted = clone.tags()
    options = ("--config", "web.allow-push=*", "--config", "web.push_ssl=no")
    with serving(clone.root, *options) as server:
        git(tmp_path, "clone", "-q", server.url, "work")
        for spec in (":refs/tags/heavy", "+origin/main:refs/tags/light"):
            done = captured(["git", "push", server.url, spec], tmp_path / "work")
            assert b"change it there" in done.stderr
    assert clone.tags() == wanted


@pytest.mark.parametrize("seed", range(3))
def test_names_by_difference_are_those_of_all(
    tmp_path: Path, leader: HostedRepository, seed: int
) -> None:
    """A verification computes all names."""
    draw = random.Random(seed)
    clone = Follower(tmp_path, leader)
    clone.hg("git::follow", "-q")
    clone.hg("update", "-q", "main")
    for number in range(12):
        name, at = f"t/{draw.randrange(4)}", draw.choice(["main", "main~1", "side"])
        step = draw.randrange(6)
        if step == 0:
            leader.git("tag", "-f", "-a", "-m", str(number), name, at)
        elif step == 1:
            leader.git("tag", "-f", name, at)
        elif step == 2:
            leader.git("update-ref", "-d", f"refs/tags/{name}")
        elif step == 3:
            leader.edit("refs/heads/" + draw.choice(["main", "side"]), str(number))
        elif step == 4:
            phase = draw.choice(["--secret", "--draft"])
            clone.hg("phase", "-q", "--force", phase, "-r", "side")
        else:
            clone.hg("tag", "-q", "-f", "-r", "side", draw.choice([name, "t"]))
        if draw.random() < 0.7 or step < 4:
            clone.hg("git::follow", "-q")
        clone.hg("git::export", "-q")
        clone.verify()
