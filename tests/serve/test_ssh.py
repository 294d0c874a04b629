"""What clients get over ssh: hg as from hg-ssh, git what hgweb would give it.

A script takes the place of ssh and sshd: it runs the command that a key has in
``authorized_keys``, and hands over the command of the client as sshd(8) does.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import random
import re
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import (
    ENVIRONMENT,
    HG,
    ROOT,
    add_config,
    git,
    publish_commits,
)
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.hiding import EVENTS, fetch_of, planted, with_draft
from testlib.sshaccount import ON, PROGRAM, Account

from hgext3rd.amalgam.serve.ssh import Command, Service, allowed


@pytest.fixture
def account(store: Exported) -> Account:
    """Return an account whose key is for one repository."""
    return Account(store.root.parent, "repo")


def test_client_that_has_gone_needs_no_answer(account: Account) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [str(account.ssh), "host", "git-upload-pack 'none'"],
        cwd=account.home,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
    )
    os.close(writing)
    listening = account.ask("git-upload-pack 'none'")
    assert listening.stdout
    assert (done.returncode, done.stderr) == (listening.returncode, listening.stderr)


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
    sentence = b"this repository is read-only for git; push with Mercurial, or ask its "
    sentence += b"operator to set amalgam.git.push = yes"
    assert b"fatal: remote error: " + sentence in done.stderr


@pytest.fixture
def pushing(account: Account) -> Account:
    """Return an account that may push, and has a clone."""
    with (account.home / "hgrc").open("a") as file:
        file.write("git.push = yes\n")
    assert not account.git("clone", "-q", "host:repo", "clone").returncode
    return account


def test_git_pushes(pushing: Account, store: Exported) -> None:
    clone = pushing.home / "clone"
    # more than any pipe holds
    noise = random.Random(0).randbytes(3_000_000)
    (clone / "noise").write_bytes(noise)
    git(clone, "add", "noise")
    git(clone, "commit", "-qm", "by git")
    push = ("-C", "clone", "push", "--progress", "origin", "HEAD:refs/heads/new")
    done = pushing.git(*push)
    assert not done.returncode, done.stderr
    assert b"remote: added 1 changesets with" in done.stderr
    assert "by git" in store.hg("log", "-r", "new", "-T", "{desc}")
    assert store.server.hg(store.root, "cat", "-r", "new", "noise") == noise
    refs = git(clone, "for-each-ref")
    # the tip of the branch that the bookmark is on has moved, too
    pushing.git("-C", "clone", "fetch", "-q", "origin", "new")
    assert git(clone, "for-each-ref") == refs
    done = pushing.git("-C", "clone", "push", "-q", "origin", ":new")
    assert (done.returncode, done.stderr) == (0, b"")
    assert "new" not in store.hg("bookmarks")
    store.hg("git::verify", "--full")


def test_read_only_key_may_not_push(pushing: Account, store: Exported) -> None:
    reading = Account(pushing.home, "--read-only", "repo")
    with (pushing.home / "hgrc").open("a") as file:
        file.write("git.push = yes\n")
    done = reading.git("-C", "clone", "push", "origin", "HEAD:refs/heads/new")
    assert b"fatal: remote error: you may not push into this repository" in done.stderr
    assert "new" not in store.hg("bookmarks")


def test_what_hooks_print_is_for_people(pushing: Account, store: Exported) -> None:
    add_config(store.root, "[hooks]\ntxnclose = echo done by a hook\n")
    done = pushing.git("-C", "clone", "push", "origin", "HEAD:refs/heads/new")
    assert not done.returncode, done.stderr
    assert b"remote: done by a hook" in done.stderr


def test_git_sees_only_what_is_pushed(pushing: Account, store: Exported) -> None:
    """Else its check walks from each ref of the store."""
    see = "cat .hg/amalgam/*scratch-*/packed-refs"
    add_config(store.root, f"[hooks]\npretxnclose = {see}\n")
    done = pushing.git("-C", "clone", "push", "origin", "HEAD:refs/heads/new")
    assert not done.returncode, done.stderr
    new = git(pushing.home / "clone", "rev-parse", "HEAD").decode().strip()
    seen = re.findall(r"remote: ([0-9a-f]{40} \S+)", done.stderr.decode())
    assert seen == [f"{new} refs/pushed/{new}"]


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
    more = account.ask("git-upload-pack 'repo'", GIT_PROTOCOL="x=y:version=2:x")
    assert more.stdout == v2.stdout
    for odd in ("version=2,object-format=sha256", "version=3", "version=2\n", "x"):
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


@contextlib.contextmanager
def session(account: Account, version: str) -> Iterator[subprocess.Popen[bytes]]:
    """Begin a session, and read what the server advertises."""
    environment = {**ENVIRONMENT, "GIT_PROTOCOL": f"version={version}"}
    with subprocess.Popen(
        [str(account.ssh), "host", "git-upload-pack 'repo'"],
        cwd=account.home,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        try:
            assert b"0000" in until_flush(process)
            yield process
        finally:
            process.kill()


def until_flush(process: subprocess.Popen[bytes]) -> bytes:
    """Read pkt-lines up to a flush, or the end."""
    assert process.stdout
    found = b""
    while length := process.stdout.read(4):
        found += length
        if length in (b"0000", b"PACK"):  # in version 0, packs are not framed
            break
        if int(length, 16) > 4:
            found += process.stdout.read(int(length, 16) - 4)
    return found


def tell(process: subprocess.Popen[bytes], said: bytes) -> None:
    assert process.stdin
    with contextlib.suppress(BrokenPipeError):
        process.stdin.write(said)
        process.stdin.flush()


def configure(account: Account, *lines: str) -> None:
    with (account.home / "hgrc").open("a") as hgrc:
        hgrc.write("[amalgam]\n" + "".join(f"{line}\n" for line in lines))


@pytest.mark.parametrize("version", ["0", "2"])
@pytest.mark.parametrize(
    ("event", "is_exported"),
    [("secret", False), ("hidden", True), ("stripped", True)],
)
def test_what_is_hidden_during_a_session_is_not_sent(
    tmp_path: Path,
    server: HgServer,
    version: str,
    event: str,
    is_exported: bool,
) -> None:
    store = with_draft(tmp_path / "repo", server)
    store.hg("git::export")
    account = Account(tmp_path, "repo")
    configure(account, "serve.queue-timeout = 0")
    public = store.ids("0")[1]
    oid = planted(store)[0]
    with session(account, version) as process:
        if version == "2":
            tell(process, b"0014command=ls-refs\n0000")
            assert oid.encode() in until_flush(process)
            tell(process, fetch_of(oid, 2))
            assert b"PACK" in until_flush(process)
        EVENTS[event](store)
        if is_exported:
            store.hg("git::export")
        tell(process, fetch_of(oid, int(version)))
        found = until_flush(process)
        assert b"ERR " in found
        assert b"PACK" not in found
    with session(account, version) as process:
        store.commit_nothing("new")
        tell(process, fetch_of(public, int(version)))
        assert b"PACK" in until_flush(process)


def test_session_of_a_silent_client_ends(account: Account) -> None:
    configure(account, "serve.timeout = 1")
    for version in "02":
        with session(account, version) as process:
            assert process.wait(60) == 255


def test_session_of_a_client_that_reads_too_slowly_ends(
    account: Account, store: Exported
) -> None:
    store.commit("large", text=os.urandom(4 << 20), message="heavy")
    store.hg("git::export")
    oid = store.ids("tip")[1]
    configure(account, "serve.timeout = 3", "serve.min-speed = 1 GB")
    with session(account, "2") as process:
        assert process.stdout
        tell(process, fetch_of(oid, 2))
        found = 0
        while piece := os.read(process.stdout.fileno(), 1 << 14):
            found += len(piece)
            time.sleep(0.05)
        assert process.wait(60) == 255
    assert found < 4 << 20


def test_client_that_hangs_up_ends_its_session(account: Account) -> None:
    for version in "02":
        with session(account, version) as process:
            assert process.stdin
            process.stdin.close()
            process.wait(60)


@pytest.mark.parametrize(
    ("said", "sentence"),
    [
        (b"zzzz", b"malformed"),
        (b"0014command=ls-refs\n00", b"malformed"),
        (b"0014command=ls-refs\n", b"ends too early"),
        (b"0018command=object-info\n0000", b"malformed"),
        (b"0017command=../ls-refs\n0000", b"malformed"),
        (b"0016command=push-all\n0000", b"malformed"),
        (b"0014command=ls-refs\n0001" + b"0009peel\n" * 300 + b"0000", b"too long"),
    ],
    ids=lambda it: repr(it[:20]),
)
def test_malformed_request_ends_a_session(
    account: Account, said: bytes, sentence: bytes
) -> None:
    configure(account, "serve.max-body = 1 KB")
    with session(account, "2") as process:
        assert process.stdin
        tell(process, said)
        process.stdin.close()
        found = until_flush(process)
        assert b"ERR " in found
        assert sentence in found
        assert process.wait(60) == 1


def test_new_commit_that_is_not_here_yet_is_waited_for(
    account: Account, store: Exported, tmp_path: Path
) -> None:
    store.server.hg(tmp_path, "clone", "-qU", "repo", "other")
    other = Exported(tmp_path / "other", store.server)
    publish_commits(other.root)
    other.hg("update", "-q", "default")
    other.commit_nothing("later")
    other.hg("git::export")
    oid = other.ids("tip")[1]
    configure(account, "serve.replication-lag = 30")
    with session(account, "2") as process:
        tell(process, fetch_of(oid, 2))
        store.hg("pull", "-q", str(other.root))
        assert b"PACK" in until_flush(process)


@pytest.mark.parametrize("version", ["0", "2"])
def test_client_reads_what_git_complains_about(account: Account, version: str) -> None:
    clone = ("clone", "--shallow-exclude=NOSUCH", "host:repo", "clone")
    done = account.git(*clone, version=version)
    assert b"remote error: 'NOSUCH' is no branch and no tag" in done.stderr


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
    done = account.git("clone", "host:repo", "clone")
    assert done.returncode
    assert b"fatal: remote error: " in done.stderr
    assert b"preoutgoing" in done.stderr


def test_missing_repository_is_named(account: Account) -> None:
    gone = Account(account.home, "gone")
    done = gone.git("ls-remote", "host:gone")
    assert b"fatal: remote error: " in done.stderr
    assert b"gone" in done.stderr
