"""Remotes that are asked to advertise only the refs that a push moves."""

from __future__ import annotations

from pathlib import Path

from testlib.environment import add_config, executable, git
from testlib.exported import Exported
from testlib.githost import git_host
from testlib.hgserver import HgServer

_HOOK = "#!/bin/sh\ngit config --get-all receive.hideRefs > hidden\nexit 0\n"


def test_only_moved_refs_are_advertised(store: Exported, tmp_path: Path) -> None:
    """A new ref needs the others: what git sends is based on them."""
    mirror = tmp_path / "it's a mirror"
    git(tmp_path, "init", "-q", "--bare", str(mirror))
    (mirror / "hooks").mkdir(exist_ok=True)
    executable(mirror / "hooks/pre-receive", _HOOK)
    add_config(
        store.root,
        f"[amalgam]\nreplicate.mirror = {mirror}\nreplicate.mirror.hide-refs = yes\n",
    )
    store.hg("bookmark", "-r", "1", "it's;$HOME")
    store.hg("git::push", "mirror")
    assert not (mirror / "hidden").read_text()
    store.hg("bookmark", "-f", "-r", "2", "it's;$HOME")
    store.hg("git::push", "mirror")
    assert (mirror / "hidden").read_text() == "refs\n!refs/heads/it's;$HOME\n"
    shown = (
        "for-each-ref",
        "--format=%(refname) %(objectname)",
        "refs/heads",
        "refs/tags",
    )
    assert git(mirror, *shown).decode().strip() == store.git(*shown)
    store.hg("bookmark", "-d", "it's;$HOME")
    store.hg("git::push", "--prune", "mirror")
    assert git(mirror, *shown).decode().strip() == store.git(*shown)


def test_a_web_address_cannot_hide_refs(store: Exported) -> None:
    config = (
        "replicate.mirror = https://localhost/x\nreplicate.mirror.hide-refs = yes\n"
    )
    add_config(store.root, f"[amalgam]\n{config}")
    done = store.run("git::push", "mirror")
    assert done.code == 30
    assert b"amalgam.replicate.mirror.hide-refs needs a path or ssh" in done.err


def test_tags_are_never_at_other_commits_than_their_own(
    tmp_path: Path, server: HgServer
) -> None:
    """A first push in slices moves branches only."""
    with git_host(tmp_path / "host") as host:
        mirror = host.add("mirror")
        store = Exported.init(tmp_path / "repo", server)
        for number in range(9):
            store.commit(f"file{number}")
        store.hg("tag", "-r", "8", "v1", "-d", "0 0")
        store.hg("tag", "-r", "3", "v0", "-d", "0 0")
        items = f"replicate.mirror = {mirror.url}\nreplicate.mirror.slice = 2\n"
        add_config(store.root, f"[amalgam]\n{items}")
        store.hg("git::push", "mirror")
        pushed = mirror.pushes()
        assert len(pushed) > 3
        for tag in ("refs/tags/v0", "refs/tags/v1"):
            assert [tag in push for push in pushed].count(True) == 1
        assert mirror.refs("refs/tags") == {
            tag: store.git("rev-parse", tag) for tag in ("refs/tags/v0", "refs/tags/v1")
        }
