"""Notes of git repositories that were pulled from, as git users get them."""

from __future__ import annotations

from pathlib import Path

import pytest
from testlib.environment import captured, git
from testlib.gitclone import Clone
from testlib.githost import GitHost, HostedRepository
from testlib.webserver import serving

pytestmark = pytest.mark.slow


@pytest.fixture
def leader(host: GitHost) -> HostedRepository:
    """A repository with notes on a public commit, and on one of a branch."""
    made = host.add("leader.git")
    for name in ("one", "two", "three"):
        made.edit("refs/heads/main", name)
    made.git("branch", "side", "main~1")
    made.edit("refs/heads/side", "aside")
    made.git("notes", "add", "-m", "reviewed", "main")
    made.git("notes", "--ref", "side", "add", "-m", "a draft", "side")
    return made


class Puller(Clone):
    """A clone that is exported and served."""

    def __init__(self, tmp_path: Path, leader: HostedRepository) -> None:
        super().__init__(tmp_path / "puller")
        self.hg("clone", "-q", f"git+{leader.url}", str(self.root))
        with (self.root / ".hg" / "hgrc").open("a") as file:
            file.write("[extensions]\namalgam =\n[amalgam]\ngit.serve = yes\n")
        self.store = self.root / ".hg/amalgam/git/cinnabar.git"

    def export(self) -> dict[str, str]:
        """Export, and return the refs of notes."""
        self.hg("git::export", "-q")
        self.hg("git::verify", "--full")
        return notes(self.store)

    def has(self, oid: str) -> bool:
        """Return whether the store has an object."""
        return captured(["git", "cat-file", "-e", oid], self.store).returncode == 0


def notes(repository: Path) -> dict[str, str]:
    """Return names and oids of refs of notes."""
    lines = git(repository, "for-each-ref", "refs/notes").decode().splitlines()
    found = {ref: oid for oid, _kind, ref in map(str.split, lines)}
    return {ref.removeprefix("refs/notes/"): oid for ref, oid in found.items()}


def test_git_users_get_the_notes_of_the_remote(
    tmp_path: Path, leader: HostedRepository
) -> None:
    clone = Puller(tmp_path, leader)
    assert clone.export() == notes(leader.path)
    with serving(clone.root) as server:
        git(tmp_path, "clone", "-q", "--mirror", server.url, "mirror")
        mirror = tmp_path / "mirror"
        assert notes(mirror) == notes(leader.path)
        git(mirror, "fsck", "--strict")
        shown = git(mirror, "log", "-1", "--notes", "--format=%N", "main").decode()
        assert shown.strip() == "reviewed"
        # a note that changes, one that comes, and a ref that goes
        leader.git("notes", "add", "-f", "-m", "reviewed again", "main")
        leader.git("notes", "add", "-m", "old", "main~2")
        leader.git("update-ref", "-d", "refs/notes/side")
        clone.hg("pull", "-q")
        assert clone.export() == notes(leader.path)
        git(mirror, "fetch", "-q", "--prune")
        shown = git(mirror, "log", "--notes", "--format=%N", "main").decode()
        assert {*shown.split()} == {"reviewed", "again", "old"}
    before = {path: path.stat() for path in clone.store.rglob("*")}
    assert "refs changed" not in clone.hg("git::export")
    assert before == {path: path.stat() for path in clone.store.rglob("*")}


def test_notes_leave_with_a_changeset_that_has_or_had_one(
    tmp_path: Path, leader: HostedRepository
) -> None:
    leader.git("notes", "--ref", "side", "add", "-m", "more", "main")
    leader.git("notes", "--ref", "side", "remove", "side")
    clone = Puller(tmp_path, leader)
    wanted, oid = clone.export(), leader.git("rev-parse", "refs/notes/side")
    assert {*wanted} == {"commits", "side"}
    clone.hg("phase", "-q", "--secret", "--force", "-r", "side")
    assert {*clone.export()} == {"commits"}
    assert not clone.has(oid)
    shown = clone.hg("git::verify")
    assert "refs/notes/side: a commit with notes is not exported" in shown
    for phase in ("--draft", "--public"):
        clone.hg("phase", "-q", phase, "-r", "side")
        assert clone.export() == wanted
    clone.hg("strip", "--config", "extensions.strip=", "-q", "--no-backup", "side")
    assert {*clone.export()} == {"commits"}
    assert not clone.has(oid)
    clone.hg("pull", "-q")
    assert clone.export() == wanted


def test_a_ref_of_notes_shows_no_changeset(
    tmp_path: Path, leader: HostedRepository
) -> None:
    """Whatever the remote calls its notes, nothing secret leaves with them."""
    content = tmp_path / "content"
    content.write_text("a password")
    blob = leader.git("hash-object", "-w", str(content))
    leader.git("update-index", "--add", "--cacheinfo", f"100644,{blob},file")
    tree = leader.git("write-tree")
    leader.git("branch", "full", leader.git("commit-tree", tree, "-m", "full"))
    wanted = notes(leader.path)
    leader.git("update-ref", "refs/notes/empty", "side")
    leader.git("update-ref", "refs/notes/history", "full")
    leader.git("update-ref", "refs/notes/tree", tree)
    leader.git("update-ref", "refs/notes/blob", blob)
    leader.git("tag", "-a", "-m", "tag", "notes", "refs/notes/commits")
    leader.git("update-ref", "refs/notes/tag", "refs/tags/notes")
    leader.git("tag", "-d", "notes")
    clone = Puller(tmp_path, leader)
    assert clone.export() == wanted
    oids = [*map(leader.git, ("rev-parse", "rev-parse"), ("side", "full")), tree, blob]
    assert all(map(clone.has, oids))
    clone.hg("phase", "-q", "--secret", "--force", "-r", "side + full")
    assert {*clone.export()} == {"commits"}
    assert not any(map(clone.has, oids))
    shown = clone.hg("git::verify")
    assert "refs/notes/empty: it has commits that are changesets" in shown
    for name in ("history", "tree", "blob", "tag"):
        assert f"refs/notes/{name}: it has other files than notes" in shown


def test_notes_on_commits_that_were_never_here_stay(
    tmp_path: Path, leader: HostedRepository
) -> None:
    """As after an amend at the remote, before anybody has pulled it."""
    leader.git("notes", "add", "-m", "gone", "side")
    leader.git("update-ref", "-d", "refs/heads/side")
    clone = Puller(tmp_path, leader)
    assert {*clone.export()} == {"commits", "side"}


def test_servers_that_follow_have_notes_unless_others_are_named(
    tmp_path: Path, leader: HostedRepository
) -> None:
    for number, (items, names) in enumerate(
        (
            ("", {"commits", "side"}),
            ("follow.up.refs = !refs/notes/side", {"commits"}),
            ("follow.up.refs = *", set()),
        )
    ):
        clone = Clone(tmp_path / f"follower{number}")
        clone.hg("init", str(clone.root))
        (clone.root / ".hg" / "hgrc").write_text(
            "[extensions]\namalgam =\n[amalgam]\ngit.serve = yes\n"
            f"follow.up = {leader.url}\n{items}\n"
        )
        clone.hg("git::follow", "-q")
        assert notes(clone.root / ".hg/amalgam/git/cinnabar.git").keys() == names
