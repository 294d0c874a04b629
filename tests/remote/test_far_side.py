"""Remotes by ssh and by path, which are asked to advertise few refs, and LFS."""

from __future__ import annotations

from pathlib import Path

import pytest
from testlib import lfs
from testlib.environment import add_config, executable, git
from testlib.exported import Exported
from testlib.githost import git_host
from testlib.hgserver import HgServer

_HOOK = "#!/bin/sh\ngit config --get-all receive.hideRefs > hidden\nexit 0\n"
# in place of ssh and sshd: git asks for the variant by -G; the command comes last
_SSH = """#!/bin/sh
echo "$@" >> {log}
[ "$1" = -G ] && exit 0
if [ -e {denied} ]; then
  printf 'git@localhost: Permission denied (publickey).\\r\\n' >&2
  exit 255
fi
for command; do :; done
exec sh -c "$command"
"""
_SHOWN = (
    "for-each-ref",
    "--format=%(refname) %(objectname)",
    "refs/heads",
    "refs/tags",
)


@pytest.mark.parametrize("url", ["git@localhost:{}", "ssh://git@localhost:22{}"])
def test_a_remote_is_reached_by_ssh(store: Exported, tmp_path: Path, url: str) -> None:
    mirror, log, denied = (tmp_path / name for name in ("mirror", "log", "denied"))
    git(tmp_path, "init", "-q", "--bare", str(mirror))
    (mirror / "hooks").mkdir(exist_ok=True)
    executable(mirror / "hooks/pre-receive", _HOOK)
    executable(tmp_path / "ssh", _SSH.format(log=log, denied=denied))
    config = (
        f"replicate.mirror = {url.format(mirror)}\nreplicate.mirror.hide-refs = yes"
    )
    add_config(store.root, f"[ui]\nssh = {tmp_path / 'ssh'}\n[amalgam]\n{config}\n")
    store.hg("git::push", "mirror")
    assert git(mirror, *_SHOWN).decode().strip() == store.git(*_SHOWN)
    # nothing asks for a password or about a host key
    assert "-o BatchMode=yes" in log.read_text()
    store.commit("more")
    denied.touch()
    done = store.run("git::push", "mirror")
    assert done.code == 2
    assert b"Permission denied (publickey)" in done.err
    assert b"(try 'git ls-remote' with the same URL, as the same user)" in done.err
    assert b"needs a person" in store.run("admin::amalgam").out
    denied.unlink()
    # the first push that was not answered: only the ref in doubt is asked for
    before = log.read_text()
    store.hg("git::push", "mirror")
    asked = log.read_text().removeprefix(before)
    assert "-c uploadpack.hideRefs='!refs/heads/default' upload-pack" in asked
    assert (mirror / "hidden").read_text() == "refs\n!refs/heads/default\n"
    assert git(mirror, *_SHOWN).decode().strip() == store.git(*_SHOWN)


def test_pointers_of_lfs_are_warned_of(tmp_path: Path, own_server: HgServer) -> None:
    """Those of Mercurial's LFS, and those that only git takes for such."""

    def warns(store: Exported) -> bool:
        mirror = tmp_path / f"{store.root.name}-mirror"
        git(tmp_path, "init", "-q", "--bare", str(mirror))
        done = store.run("git::push", str(mirror))
        assert done.code == 0
        assert b"files in LFS" not in store.run("git::push", str(mirror)).err
        return b"files in LFS are pushed as pointers" in done.err

    small = lfs.init(tmp_path / "small", own_server)
    small.commit("small", text=b"small")
    assert not warns(small)
    large = lfs.init(tmp_path / "large", own_server)
    large.commit("large", text=b"large" * 100)
    assert warns(large)
    of_git = Exported.init(tmp_path / "of_git", own_server)
    of_git.commit(".gitattributes", text=b"*.bin filter=lfs diff=lfs -text\n")
    assert warns(of_git)


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
    assert git(mirror, *_SHOWN).decode().strip() == store.git(*_SHOWN)
    store.hg("bookmark", "-d", "it's;$HOME")
    store.hg("git::push", "--prune", "mirror")
    assert git(mirror, *_SHOWN).decode().strip() == store.git(*_SHOWN)


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
