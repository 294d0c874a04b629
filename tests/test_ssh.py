"""What clients get over ssh: hg as from hg-ssh, git what hgweb would give it.

A script takes the place of ssh and sshd: it runs the command that a key has in
``authorized_keys``, and hands over the command of the client as sshd(8) does.
"""

from __future__ import annotations

import importlib
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, ROOT, git
from testlib.exported import Exported

from hgext3rd.amalgam.configitems import GitConfig
from hgext3rd.amalgam.gitstore.store import GitStore
from hgext3rd.amalgam.serve import uploadpack
from hgext3rd.amalgam.serve.slots import Slot
from hgext3rd.amalgam.serve.ssh.command import Command, Service, allowed

PROGRAM = f"{sys.executable} -m hgext3rd.amalgam.serve.ssh.program"
ON = "[extensions]\namalgam =\n[amalgam]\ngit.serve = yes\n"
Done = subprocess.CompletedProcess[bytes]


class Account:
    """An account on a server: its directory, and the command of a key."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.home = home
        self.ssh = home / "ssh"
        self.environment = home / "environment"
        config = home / "hgrc"
        config.write_text(ON)
        # as sshd: the last argument is the command; one variable is accepted
        self.ssh.write_text(
            "#!/bin/sh\n"
            'for last; do :; done\nSSH_ORIGINAL_COMMAND="$last"\n'
            f"export SSH_ORIGINAL_COMMAND HGRCPATH='{config}'\n"
            f"cd '{home}'\nexec {PROGRAM} {' '.join(arguments)}\n"
        )
        self.ssh.chmod(0o755)

    def git(self, *args: str, version: str = "2") -> Done:
        """Run git as a client."""
        command = ["git", "-c", f"protocol.version={version}", *args]
        return self.client(command)

    def client(self, command: list[str], **variables: str) -> Done:
        environment = {**ENVIRONMENT, "GIT_SSH_COMMAND": str(self.ssh), **variables}
        return subprocess.run(
            command, cwd=self.home, env=environment, capture_output=True
        )

    def ask(self, command: str, **variables: str) -> Done:
        """Ask for a command, and say nothing more."""
        return subprocess.run(
            [str(self.ssh), "host", command],
            cwd=self.home,
            env={**ENVIRONMENT, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )


@pytest.fixture
def account(store: Exported) -> Account:
    """Return an account whose key is for one repository."""
    return Account(store.root.parent, "repo")


def test_script_is_installed() -> None:
    text = (ROOT / "pyproject.toml").read_text()
    found = re.search(r'^hg-amalgam-ssh = "(.*):(.*)"$', text, re.MULTILINE)
    assert found
    module, name = found.groups()
    assert PROGRAM.endswith(module)
    assert callable(getattr(importlib.import_module(module), name))


@pytest.mark.parametrize("version", ["0", "1", "2"])
@pytest.mark.parametrize("url", ["host:repo", "ssh://host{home}/repo"])
def test_git_clones(account: Account, store: Exported, version: str, url: str) -> None:
    url = url.format(home=account.home)
    done = account.git("clone", "-q", "--mirror", url, "clone", version=version)
    assert not done.returncode, done.stderr
    clone = account.home / "clone"
    git(clone, "fsck", "--strict", "--full")
    shown = git(clone, "show-ref").decode().splitlines()
    expected = store.git("show-ref").splitlines()
    assert shown == [line for line in expected if "refs/cinnabar" not in line]


def test_git_fetches_what_is_new(account: Account, store: Exported) -> None:
    account.git("clone", "-q", "host:repo", "clone")
    store.commit_nothing("newer")
    clone = account.home / "clone"
    done = account.git("-C", str(clone), "fetch", "-q")
    assert not done.returncode, done.stderr
    assert b"newer" in git(clone, "log", "--all", "--format=%s")


def test_hg_clones_and_pushes(account: Account, store: Exported) -> None:
    url = f"ssh://host/{account.home}/repo"
    ssh = f"--config=ui.ssh={account.ssh}"
    done = account.client([str(HG), ssh, "clone", "-q", url, "clone"])
    assert not done.returncode, done.stderr
    clone = account.home / "clone"
    commit = ["commit", "-qm", "new", "--config", "ui.allowemptycommit=yes"]
    account.client([str(HG), "-R", str(clone), *commit])
    push = [str(HG), ssh, "-R", str(clone), "push"]

    reading = Account(account.home, "--read-only", "repo")
    done = reading.client(push)
    assert done.returncode
    assert b"Permission denied" in done.stdout + done.stderr

    done = Account(account.home, "repo").client(push)
    assert not done.returncode, done.stdout + done.stderr
    assert "new" in store.hg("log", "-r", "tip")


def test_read_only_key_may_fetch(account: Account) -> None:
    reading = Account(account.home, "--read-only", "other", "repo")
    assert not reading.git("ls-remote", "host:repo").returncode


def test_push_is_refused_with_a_sentence(account: Account) -> None:
    account.git("clone", "-q", "host:repo", "clone")
    done = account.git("-C", "clone", "push", "origin", "HEAD:refs/heads/new")
    assert done.returncode
    sentence = b"this repository is read-only for git; push with Mercurial instead"
    assert b"fatal: remote error: " + sentence in done.stderr


def test_archive_is_refused_with_a_sentence(account: Account) -> None:
    done = account.git("archive", "--remote=host:repo", "HEAD")
    assert done.returncode
    assert b"this service of git is not offered here" in done.stderr


@pytest.mark.parametrize("url", ["host:other", "host:repo/.hg", "host:re po"])
def test_other_repositories_are_refused(account: Account, url: str) -> None:
    (account.home / "other").symlink_to("repo")
    done = account.git("ls-remote", url)
    assert done.returncode
    assert b"fatal: remote error: illegal repository" in done.stderr
    assert not done.stdout


COMMANDS = [
    "",
    "?",
    "sh",
    "hg",
    "hg -R repo serve",
    "hg -R repo serve --stdio --config=extensions.x=y",
    "hg -R repo serve --stdio; id",
    "hg -R repo log",
    "hg -R --config=alias.serve=!id serve --stdio",
    "hg --config x=y -R repo serve --stdio",
    "git-upload-pack",
    "git-upload-pack repo repo",
    "git-upload-pack --timeout=1 repo",
    "git-upload-pack --help",
    "git-upload-pack '-repo'",
    "git-upload-pack ../*/repo",
    "git-upload-pack other/../repo",
    "git-upload-pack ''",
    "git-upload-pack 'repo",
    "git-upload-pack 'repo'\nid",
    "git-upload-pack 'repo\x1b[31m'",
    "git-shell repo",
    "git log repo",
    "upload-pack repo",
    "/usr/bin/git-upload-pack repo",
    "git-upload-pack " + "x" * 9000,
]


@pytest.mark.parametrize("text", COMMANDS)
def test_all_else_is_no_command(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Command.parse(text)


def test_what_is_no_command_is_refused(account: Account) -> None:
    for text in COMMANDS[::6]:
        done = account.ask(text)
        assert done.returncode == 255
        assert done.stdout == b""
        assert done.stderr.startswith(b'illegal command "')
        assert b"\x1b" not in done.stderr


@pytest.mark.parametrize(
    ("text", "service", "path"),
    [
        ("hg -R repo serve --stdio", Service.MERCURIAL, "repo"),
        ("hg -R 'a repo' serve --stdio", Service.MERCURIAL, "a repo"),
        ("git-upload-pack 'repo'", Service.FETCH, "repo"),
        ("git upload-pack '/repo'", Service.FETCH, "/repo"),
        (r"git-upload-pack 'it'\''s'\!''", Service.FETCH, "it's!"),
        ("git-receive-pack '~/repo'", Service.PUSH, "~/repo"),
        ("git-upload-archive 'repo'", Service.ARCHIVE, "repo"),
    ],
)
def test_commands_of_clients(text: str, service: Service, path: str) -> None:
    assert Command.parse(text) == Command(service, path)


def test_repositories_may_be_named_in_several_ways(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOME", "/home/user")
    paths = ["repo", "/srv/other/", "~/third"]

    def meant(path: str) -> str | None:
        return allowed(path, paths, "/srv/hg")

    assert meant("repo") == meant("repo/") == meant("/srv/hg/./repo") == "/srv/hg/repo"
    assert meant("/srv/other") == "/srv/other"
    assert meant("/home/user/third") == meant("~/third") == "/home/user/third"
    for path in ("other", "/repo", "repo2", "/srv/hg", "~root/third", "repo.git"):
        assert meant(path) is None


def test_protocol_reaches_git_only_as_a_version(account: Account) -> None:
    v2 = account.ask("git-upload-pack 'repo'", GIT_PROTOCOL="version=2")
    assert v2.stdout.startswith(b"000eversion 2\n")
    for odd in ("version=2:object-format=sha256", "version=3", "version=2\n", "x"):
        done = account.ask("git-upload-pack 'repo'", GIT_PROTOCOL=odd)
        assert b"version 2" not in done.stdout
        assert b"refs/heads/" in done.stdout


def test_variables_of_a_client_decide_nothing(account: Account) -> None:
    trace = account.home / "trace"
    done = account.ask(
        "git-upload-pack 'repo'",
        GIT_TRACE=str(trace),
        GIT_CONFIG_COUNT="1",
        GIT_CONFIG_KEY_0="uploadpack.packObjectsHook",
        GIT_CONFIG_VALUE_0=f"touch {trace}",
        GIT_EXEC_PATH="/nowhere",
    )
    assert b"refs/heads/" in done.stdout
    assert not trace.exists()


def test_session_of_a_silent_client_ends(store: Exported) -> None:
    store.hg("git::export")
    repo = store.open()
    silent, client = os.pipe()
    with open(os.devnull, "wb") as answers:
        code, _said = uploadpack.run(
            GitStore(repo, GitConfig.from_ui(repo.ui)),
            Slot(lambda: None),
            b"version=2",
            silent,
            answers.fileno(),
            0.1,
        )
    os.close(silent)
    os.close(client)
    assert code == -signal.SIGKILL


def test_secret_changeset_is_not_sent(account: Account, store: Exported) -> None:
    listed = account.git("ls-remote", "host:repo").stdout
    oid = store.ids("tip")[1].encode()
    assert oid in listed
    store.hg("phase", "--secret", "--force", "tip")
    assert oid not in account.git("ls-remote", "host:repo").stdout


def test_refused_unless_git_is_served(account: Account) -> None:
    config = account.home / "hgrc"
    config.write_text(ON.replace("yes", "no"))
    done = account.git("ls-remote", "host:repo")
    assert b"fatal: remote error: " in done.stderr
    assert b"amalgam.git.serve" in done.stderr
    config.write_text("")
    done = account.git("ls-remote", "host:repo")
    assert b"remote error: amalgam is not enabled for this repository" in done.stderr


def test_hooks_may_refuse(account: Account) -> None:
    with (account.home / "hgrc").open("a") as hgrc:
        hgrc.write("[hooks]\npreoutgoing = false\n")
    done = account.git("ls-remote", "host:repo")
    assert done.returncode
    assert b"fatal: remote error: " in done.stderr
    assert b"preoutgoing" in done.stderr


def test_missing_repository_is_named(account: Account) -> None:
    gone = Account(account.home, "gone")
    done = gone.git("ls-remote", "host:gone")
    assert b"fatal: remote error: " in done.stderr
    assert b"gone" in done.stderr
