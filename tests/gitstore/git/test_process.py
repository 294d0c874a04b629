"""Git does not do what others wrote into a store's configuration.

Each attack runs a command that makes a file. Plain git, in the same repository, is the
proof that it would.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mercurial import error
from testlib.environment import HG, captured, executable, hg
from testlib.users import STRANGER

from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore.git.process import FetchLimits, Git, Owner

pytestmark = pytest.mark.slow

EMPTY_TREE = b"4b825dc642cb6eb9a060e54bf8d69288fbee4904"
NOWHERE = b"1234567890123456789012345678901234567890"
FULL_LIST = "file:git:http:https:ssh"


class Victim:
    """A bare repository with one commit, and commands that leave a mark."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "store.git"
        self.marker = directory / "marker"
        self.script = executable(
            directory / "evil", f"#!/bin/sh\ntouch {self.marker}\n"
        )
        self.plain("init", "--quiet", "--bare", str(self.path))
        commit = self.plain("commit-tree", "-m", "one", EMPTY_TREE.decode())
        self.commit = commit.stdout.decode().strip()
        self.plain("update-ref", "refs/heads/main", self.commit)
        self.git = Git(b"git", Directory(bytes(self.path)))

    def plain(
        self, *args: str, input: bytes = b""
    ) -> subprocess.CompletedProcess[bytes]:
        """Run git as anybody would; whether it fails does not matter."""
        where = ["--git-dir", str(self.path)] if self.path.exists() else []
        command = ["git", *where, *args]
        return captured(command, input=input, timeout=60)

    def set(self, key: str, value: str) -> None:
        self.plain("config", "--add", key, value.replace("EVIL", str(self.script)))

    def was_hit(self) -> bool:
        hit = self.marker.exists()
        self.marker.unlink(missing_ok=True)
        return hit


@pytest.fixture
def victim(tmp_path: Path) -> Victim:
    return Victim(tmp_path)


def hooks(victim: Victim) -> None:
    directory = victim.path / "hooks"
    directory.mkdir(exist_ok=True)
    shutil.copy(victim.script, directory / "reference-transaction")


def alternates(victim: Victim) -> None:
    other = victim.path.with_name("other.git")
    shutil.copytree(victim.path, other)
    (victim.path / "objects/info/alternates").write_text(f"{other}/objects\n")


def work_tree(victim: Victim) -> None:
    victim.path.with_name("tree").mkdir()
    victim.set("core.worktree", str(victim.path.with_name("tree")))
    victim.plain("config", "core.bare", "false")


def two_blobs(victim: Victim) -> None:
    blobs = [
        victim.plain("hash-object", "-w", "--stdin", input=content).stdout.decode()
        for content in (b"one\n", b"two\n")
    ]
    lines = "".join(
        f"100644 blob {blob.strip()}\t{name}\n"
        for blob, name in zip(blobs, ("one", "two"), strict=True)
    )
    tree = victim.plain("mktree", input=lines.encode()).stdout.decode().strip()
    commit = victim.plain("commit-tree", "-m", "two", tree).stdout.decode().strip()
    victim.plain("update-ref", "HEAD", commit)


#: attacks by keys that have free names, where there is nothing to override; and by
#: files that lead to other repositories
REFUSED = {
    "core.alternateRefsCommand",
    "promisor",
    "include.path",
    "remote.NAME.uploadpack",
    "credential.URL.helper",
    "alias.NAME",
    "diff.external",
}
ASK = b"protocol=https\nhost=example.org\n\n"
FILL = ("credential fill", ASK)
SIGN = "tag -s -m note note main"
SSH = "ls-remote ssh://localhost:1/x"
#: What to configure, the command, its input or what to prepare, if anything. Whatever
#: speaks to another repository is allowed to.
ATTACKS: dict[str, tuple[Any, ...]] = {
    "hook": ({}, "update-ref refs/heads/b main", hooks),
    "core.hooksPath": ({"": "HOOKS"}, "update-ref refs/heads/b main", hooks),
    "core.fsmonitor": ({"": "EVIL"}, "status", work_tree),
    "core.alternateRefsCommand": (
        *({"": "EVIL"}, "rev-list --alternate-refs", alternates),
    ),
    "core.sshCommand": ({"": "EVIL"}, SSH),
    "core.gitProxy": ({"": "EVIL"}, "ls-remote git://localhost:1/x"),
    "core.editor": ({"": "EVIL"}, "tag -a note main"),
    "gpg.program": ({"": "EVIL", "user.signingKey": "me"}, SIGN),
    "gpg.openpgp.program": ({"": "EVIL", "user.signingKey": "me"}, SIGN),
    "gpg.x509.program": (
        *({"": "EVIL", "gpg.format": "x509", "user.signingKey": "me"}, SIGN),
    ),
    "gpg.ssh.program": (
        *({"": "EVIL", "gpg.format": "ssh", "user.signingKey": "/key"}, SIGN),
    ),
    "gpg.ssh.defaultKeyCommand": ({"": "EVIL", "gpg.format": "ssh"}, SIGN),
    "credential.helper": ({"": "!EVIL"}, *FILL),
    "core.askPass": ({"": "EVIL"}, *FILL),
    "protocol.ext.allow": ({"": "always"}, "ls-remote ext::EVIL"),
    "promisor": (
        {
            "extensions.partialClone": "origin",
            "remote.origin.promisor": "true",
            "remote.origin.url": "/nonexistent",
            "remote.origin.uploadpack": "EVIL",
        },
        f"cat-file -t {NOWHERE.decode()}",
    ),
    "include.path": ({"": "INCLUDED"}, SSH),
    "remote.NAME.uploadpack": (
        {"remote.origin.url": "/nonexistent", "remote.origin.uploadpack": "EVIL"},
        "ls-remote origin",
    ),
    "credential.URL.helper": (
        {"credential.https://example.org.helper": "!EVIL"},
        *FILL,
    ),
    "alias.NAME": ({"alias.mine": "!EVIL"}, "mine"),
    "diff.external": ({"": "EVIL"}, "diff --ext-diff HEAD:one HEAD:two", two_blobs),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_command_in_a_configuration_is_not_run(victim: Victim, attack: str) -> None:
    settings, command, *rest = ATTACKS[attack]
    input = b"".join(it for it in rest if isinstance(it, bytes))
    protocols = FULL_LIST if "ls-remote" in command else ""
    for key in ("user.name", "user.email"):
        victim.plain("config", key, "somebody")
    for prepare in filter(callable, rest):
        prepare(victim)
    included = victim.path.with_name("included")
    included.write_text(f"[core]\nsshCommand = {victim.script}\n")
    for key, value in settings.items():
        value = value.replace("HOOKS", str(victim.path / "hooks"))
        victim.set(key or attack, value.replace("INCLUDED", str(included)))
    args = command.replace("EVIL", str(victim.script)).split(" ")

    refusal = None
    try:
        victim.git.run(*args, input=input, protocols=protocols, check=False)
    except error.SecurityError as exc:
        refusal = exc
    assert not victim.was_hit()
    assert (refusal is not None) == (attack in REFUSED)
    if refusal is not None and attack == "core.alternateRefsCommand":
        assert refusal.message.endswith(
            b"elsewhere: '%s'" % bytes(victim.path / "objects/info/alternates")
        )
    elif refusal is not None:
        assert b"could run programs" in refusal.message
        assert refusal.hint == b"remove them from '%s/config'" % bytes(victim.path)

    victim.plain("tag", "-d", "note")
    victim.plain(*args, input=input)
    assert victim.was_hit(), "the attack is none"


@pytest.mark.parametrize(
    "key",
    [
        "hook.mine.command",
        "filter.mine.clean",
        "diff.mine.textconv",
        "merge.mine.driver",
        "gc.recentObjectsHook",
        "url.ext::sh.insteadOf",
        "extensions.worktreeConfig",
        "tar.zip.command",
        "somethingNew.of.git",
    ],
)
def test_key_that_cannot_be_overridden_is_refused(victim: Victim, key: str) -> None:
    victim.set(key, "EVIL")
    with pytest.raises(error.SecurityError) as caught:
        victim.git.run("rev-parse", "main")
    section, _dot, name = key.rpartition(".")
    assert f"{section}.{name.lower()}".lower().encode() in caught.value.message.lower()


def test_harmless_configuration_is_obeyed(victim: Victim) -> None:
    victim.set("pack.threads", "1")
    victim.set("remote.mirror.url", "https://example.org/")
    victim.set("remote.mirror.fetch", "+refs/*:refs/*")
    done = victim.git.run("config", "--get", "pack.threads")
    assert done.stdout == b"1\n"


def test_configuration_that_changes_is_read_again(victim: Victim) -> None:
    victim.git.run("rev-parse", "main")
    victim.set("alias.mine", "!EVIL")
    with pytest.raises(error.SecurityError):
        victim.git.run("rev-parse", "main")
    victim.plain("config", "--unset", "alias.mine")
    victim.git.run("rev-parse", "main")


def test_configuration_that_is_broken_is_told(victim: Victim) -> None:
    (victim.path / "config").write_text("[core\n")
    with pytest.raises(error.Abort, match="bad config line"):
        victim.git.run("rev-parse", "main")


def test_pack_objects_hook_of_a_store_is_not_run(victim: Victim) -> None:
    # nor does plain git: it takes this key from nobody's repository
    victim.set("uploadpack.packObjectsHook", "EVIL")
    want = f"want {victim.commit} ofs-delta\n".encode()
    request = b"%04x%s00000009done\n" % (len(want) + 4, want)
    operands = [bytes(victim.path)]
    done = victim.git.run("upload-pack", operands=operands, input=request)
    assert b"PACK" in done.stdout
    assert not victim.was_hit()


def test_environment_of_the_caller_is_not_passed_on(
    victim: Victim, monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = str(victim.script)
    for name in ("GIT_SSH_COMMAND", "GIT_EDITOR", "GIT_ASKPASS", "GIT_PROXY_COMMAND"):
        monkeypatch.setenv(name, evil)
    monkeypatch.setenv("GIT_CONFIG_PARAMETERS", f"'alias.mine=!{evil}'")
    monkeypatch.setenv("GIT_DIR", "/nonexistent")
    for args in (["mine"], ["ls-remote", "ssh://localhost:1/x"], ["var", "GIT_EDITOR"]):
        victim.git.run(*args, protocols=FULL_LIST, check=False)
    assert not victim.was_hit()
    assert victim.git.run("rev-parse", "main").stdout.strip().decode() == victim.commit


def test_values_that_git_would_use_are_neutral(victim: Victim) -> None:
    for key in ("core.pager", "core.editor", "sequence.editor"):
        victim.set(key, "EVIL")
    values = {
        name: victim.git.run("var", name).stdout.strip()
        for name in ("GIT_EDITOR", "GIT_PAGER")
    }
    assert values == {"GIT_EDITOR": b":", "GIT_PAGER": b"cat"}


def test_transports_are_closed_unless_they_are_asked_for(victim: Victim) -> None:
    url = [b"file://" + bytes(victim.path)]
    with pytest.raises(error.Abort, match="transport 'file' not allowed"):
        victim.git.run("ls-remote", operands=url)
    assert victim.git.run("ls-remote", operands=url, protocols="file").stdout


def test_operand_is_not_taken_for_an_option(victim: Victim) -> None:
    operand = b"--upload-pack=%s" % bytes(victim.script)
    url = bytes(victim.path)
    victim.git.run("ls-remote", operands=[operand, url], protocols="file", check=False)
    assert not victim.was_hit()
    victim.git.run("ls-remote", operand, url, protocols="file", check=False)
    assert victim.was_hit()


def test_repository_is_not_looked_for_elsewhere(victim: Victim) -> None:
    inner = victim.path / "inner.git"
    inner.mkdir()
    with pytest.raises(error.Abort, match="not a git repository"):
        Git(b"git", Directory(bytes(inner))).run("rev-parse", "main")


def test_replaced_objects_are_what_their_ids_say(victim: Victim) -> None:
    other = victim.plain("commit-tree", "-m", "other", EMPTY_TREE.decode())
    victim.plain("replace", victim.commit, other.stdout.decode().strip())
    assert b"other" in victim.plain("cat-file", "-p", victim.commit).stdout
    assert b"one" in victim.git.run("cat-file", "-p", victim.commit).stdout


@pytest.mark.needs("root")
def test_store_of_another_user_is_refused(victim: Victim, ui: Any) -> None:
    os.chown(victim.path, STRANGER, -1)
    for owner in (None, Owner(ui, bytes(victim.path.parent))):
        with pytest.raises(error.SecurityError) as caught:
            Git(b"git", Directory(bytes(victim.path)), owner).run("rev-parse", "main")
        assert b"belongs to user '%d', who does not own '.hg'" % STRANGER in (
            caught.value.message
        )


@pytest.mark.needs("root")
def test_store_of_the_owner_of_hg_is_used_if_hg_trusts_him(
    victim: Victim, ui: Any
) -> None:
    for path in (victim.path, victim.path.parent):
        os.chown(path, STRANGER, -1)
    git = Git(
        b"git", Directory(bytes(victim.path)), Owner(ui, bytes(victim.path.parent))
    )
    with pytest.raises(error.SecurityError) as caught:
        git.run("rev-parse", "main")
    assert b"belongs to user '%d', who is not trusted" % STRANGER in (
        caught.value.message
    )
    assert caught.value.hint == b"see 'hg help config.trusted'"

    ui.setconfig(b"trusted", b"users", b"%d" % STRANGER)
    ui.fixconfig(section=b"trusted")
    git.run("rev-parse", "main")
    # this one checks the owner itself, and believes safe.directory alone
    git.run("upload-pack", "--advertise-refs", operands=[bytes(victim.path)])


@pytest.mark.needs("root")
def test_program_of_a_repository_that_is_not_trusted_is_not_run(
    tmp_path: Path, victim: Victim
) -> None:
    repo = tmp_path / "repo"
    hg(tmp_path, "init", str(repo))
    hgrc = repo / ".hg/hgrc"
    hgrc.write_text(f"[amalgam]\ngit.program = {victim.script}\n")
    os.chown(hgrc, STRANGER, -1)
    hg(repo, "git::export")
    hg(repo, "git::verify")
    assert (repo / ".hg/amalgam/git/cinnabar.git/HEAD").exists()
    assert not victim.was_hit()

    os.chown(hgrc, os.geteuid(), -1)
    command = [str(HG), "--config", "extensions.amalgam=", "git::verify"]
    captured(command, repo)
    assert victim.was_hit(), "the attack is none"


def test_commands_of_the_extension_run_nothing_of_a_store(
    tmp_path: Path, victim: Victim
) -> None:
    repo = tmp_path / "repo"
    hg(tmp_path, "init", str(repo))
    commit(repo, "one")
    hg(repo, "git::export")
    victim.path = repo / ".hg/amalgam/git/cinnabar.git"
    for key in ("core.fsmonitor", "core.sshCommand", "core.pager", "gpg.program"):
        victim.set(key, "EVIL")
    hooks(victim)
    for name in ("pre-auto-gc", "post-update", "post-checkout", "update"):
        shutil.copy(victim.script, victim.path / "hooks" / name)
    commit(repo, "two")
    hg(repo, "git::export")
    hg(repo, "git::export", "--rebuild")
    hg(repo, "git::verify", "--full")
    for kind in ("git-v2", "cinnabar-v1"):
        hg(repo, "git::bundle", "-t", kind, str(repo / "x.bundle"))
    assert not victim.was_hit()


def commit(repo: Path, name: str) -> None:
    (repo / name).write_text(name)
    arguments: Sequence[str] = ("-qAm", name, "-d", "0 0")
    hg(repo, "commit", *arguments)


@pytest.mark.parametrize(
    ("content", "reason"),
    [(os.urandom(300_000), b""), (bytes(2 << 20), b"over limit")],
    ids=["file", "memory"],
)
def test_files_and_memory_of_a_fetch_have_limits(
    tmp_path: Path, content: bytes, reason: bytes
) -> None:
    captured(["git", "init", "-q", "--bare", str(tmp_path)], check=True)
    repository = Git(b"git", Directory(bytes(tmp_path)))
    for pack_bytes, is_done in ((100_000, False), (1 << 30, not reason)):
        with repository.start(
            *("hash-object", "-w", "--stdin"),
            limits=FetchLimits(pack_bytes, 1 << 20),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            _output, errors = process.communicate(content)
        assert (process.returncode == 0) == is_done
        assert is_done or reason in errors
        files = [it for it in tmp_path.rglob("*") if it.is_file()]
        assert is_done or max(it.stat().st_size for it in files) < 110_000
