"""Git hosts that share no code with git: python -m hosts, in ``tests``.

klaus receives with dulwich, Gerrit with JGit. Follows ``docs/mirroring.rst``: a
password that is wrong and one that is right, refusals, a first push, other people. Then
three developers work there, two of them with hg (``testlib.developers``); with Gerrit
over ssh, too.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import hashlib
import json
import os
import shlex
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from testlib.developers import Rounds
from testlib.environment import ENVIRONMENT, add_config, captured, git
from testlib.exported import Exported
from testlib.gitclone import Clone
from testlib.hgserver import HgServer
from testlib.s3server import free_port

HERE = Path(__file__).parent
EQUAL, REFUSED, FAILED = 0, 1, 2
_START_SECONDS = 600
_MOST_COMMITS = 5
_ROUNDS = 50
_RIGHTS = "push create delete forgeAuthor forgeCommitter pushMerge createSignedTag"


class Host:
    """A running host with the empty repositories ``demo`` and ``team``."""

    ssh_url = ""
    """Of another empty repository, if the host has ssh."""

    def __init__(self, url: str, user: str, password: str) -> None:
        self.url, self.user, self.password = url, user, password
        self.team = url.removesuffix("demo") + "team"

    def allow(self) -> None:
        """Let the user push, who could not before."""

    def ssh_command(self) -> str:
        """Return the command that git runs as ssh, with a key of the user's."""
        raise NotImplementedError

    def allow_key(self) -> None:
        """Let the user log in with that key."""


class Gerrit(Host):
    """Gerrit refuses pushes until the user has rights."""

    projects = ("demo", "team", "over-ssh")

    def __init__(self, url: str, root: Path, ssh_port: int) -> None:
        """``root`` has the site, and gets the key."""
        super().__init__(url, "admin", "secret")
        self._root, self._port = root, ssh_port
        self.ssh_url = f"ssh://{self.user}@127.0.0.1:{ssh_port}/over-ssh"

    def ssh_command(self) -> str:
        """Make the key, and a file with the keys of the host."""
        key = self._root / "key"
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        assert captured(made, self._root).returncode == 0
        known = self._root / "known_hosts"
        keys = sorted((self._root / "site/etc").glob("ssh_host_*_key.pub"))
        known.write_text(
            "".join(f"[127.0.0.1]:{self._port} {it.read_text()}" for it in keys)
        )
        options = {
            "UserKnownHostsFile": known,
            "GlobalKnownHostsFile": "/dev/null",
            "StrictHostKeyChecking": "yes",
            "IdentitiesOnly": "yes",
        }
        command = ["ssh", "-F", "none", "-i", str(key)]
        command += [f"-o{name}={value}" for name, value in options.items()]
        return shlex.join(command)

    def allow_key(self) -> None:
        """Add it to the account."""
        key = (self._root / "key.pub").read_bytes()
        self.request("POST", "accounts/self/sshkeys", key, "text/plain")

    def request(
        self, method: str, path: str, body: bytes, kind: str = "application/json"
    ) -> None:
        """Send a request of Gerrit's REST API, as the administrator."""
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        headers = {"Authorization": f"Basic {login}", "Content-Type": kind}
        place = self.url.removesuffix("demo") + path
        urllib.request.urlopen(
            urllib.request.Request(place, body, headers, method=method), timeout=120
        ).close()

    def allow(self) -> None:
        """Grant the rights that the page names."""
        rule = {"action": "ALLOW", "force": True}
        rights = {
            name: {"rules": {"global:Registered-Users": rule}}
            for name in _RIGHTS.split()
        }
        access = json.dumps({"add": {"refs/*": {"permissions": rights}}}).encode()
        for name in self.projects:
            self.request("POST", f"projects/{name}/access", access)


@contextlib.contextmanager
def running(command: list[str], cwd: Path, address: str) -> Iterator[None]:
    """Run a server until the end of the context, once it answers."""
    with (cwd / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=cwd, stdout=log, stderr=log)
    try:
        end = time.monotonic() + _START_SECONDS
        while True:
            try:
                urllib.request.urlopen(address, timeout=30).close()
                break
            except OSError:
                failed = process.poll() is not None or time.monotonic() > end
                assert not failed, (cwd / "log").read_text()[-2000:]
                time.sleep(0.5)
        yield
    finally:
        process.terminate()
        process.wait()


@contextlib.contextmanager
def klaus(program: str, root: Path) -> Iterator[Host]:
    """Run klaus."""
    for name in ("demo.git", "team.git"):
        git(root, "init", "-q", "--bare", "-b", "main", name)
    digest = hashlib.md5(b"mirror:demo:right").hexdigest()  # as HTTP has it
    (root / "passwords").write_text(f"mirror:demo:{digest}\n")
    port = str(free_port())
    options = ["--smarthttp", "--htdigest", "passwords", "--port", port]
    command = [program, "--host", "127.0.0.1", *options, "demo.git", "team.git"]
    address = f"http://127.0.0.1:{port}/"
    with running(command, root, address):
        yield Host(f"{address}demo", "mirror", "right")


@contextlib.contextmanager
def gerrit(java: str, jars: str, root: Path) -> Iterator[Host]:
    """Make a site of Gerrit, and run it."""
    access = "--enable-native-access=ALL-UNNAMED"
    program = [java, "-Xmx1g", access, "-cp", f"{jars}/*", str(HERE / "Gerrit.java")]
    made = ["init", "-d", "site", "--batch", "--dev", "--no-auto-start"]
    done = captured([*program, *made, "--skip-plugins"], root)
    assert done.returncode == 0, done.stderr.decode()[-2000:]
    address, ssh_port = f"http://127.0.0.1:{free_port()}/", free_port()
    for key, value in (
        ("httpd.listenUrl", address),
        ("gerrit.canonicalWebUrl", address),
        ("sshd.listenAddress", f"127.0.0.1:{ssh_port}"),
        ("receive.maxBatchCommits", str(_MOST_COMMITS)),
    ):
        git(root, "config", "-f", "site/etc/gerrit.config", key, value)
    command = [*program, "daemon", "-d", "site", "--console-log", "--headless"]
    with running(command, root, f"{address}config/server/version"):
        host = Gerrit(f"{address}a/demo", root, ssh_port)
        made_of = {"create_empty_commit": False, "branches": ["main"]}
        project = json.dumps(made_of).encode()
        for name in host.projects:
            host.request("PUT", f"projects/{name}", project)
        yield host


class Recipe:
    """A repository that is replicated to a host; public methods are steps."""

    def __init__(self, root: Path, host: Host) -> None:
        self._host = host
        self._root = root
        self._passwords = root / "passwords"
        config = root / "gitconfig"
        helper = f"[credential]\n\thelper = store --file={self._passwords}\n"
        config.write_text(helper)
        environment = ENVIRONMENT | {"GIT_CONFIG_GLOBAL": str(config)}
        self._environment = environment | {"HOME": str(root)}
        self._store = Exported.init(root / "repo", HgServer(self._environment))
        for number in range(3 * _MOST_COMMITS):
            self._store.commit(f"file{number}")
        self._store.hg("bookmark", "-r", "3", "rel/1")
        self._store.hg("tag", "-r", "2", "v1", "-d", "0 0")
        add_config(self._store.root, f"[amalgam]\nreplicate.host = {host.url}\n")

    def wrong_password(self) -> None:
        """A wrong password, or one that has expired, needs a person."""
        self._login("wrong")
        self._push(FAILED, words="uthentication failed")
        assert b"needs a person" in self._store.run("admin::amalgam").out

    def refused(self) -> None:
        """Gerrit names the right that is missing; klaus asks for no rights."""
        self._login(self._host.password)
        if isinstance(self._host, Gerrit):
            self._push(REFUSED, words="prohibited by Gerrit: ")
        self._host.allow()

    def first_push(self) -> None:
        """Gerrit takes few commits at once; and has refs of its own."""
        self._push(EQUAL, "3 new")
        self._push(EQUAL, "up to date")
        assert isinstance(self._host, Gerrit) == ("refs/meta/config" in self._refs())

    def changes(self) -> None:
        """Move, move back, delete, and create again."""
        self._store.commit("more")
        self._push(EQUAL, "1 moved")
        self._store.hg("bookmark", "-f", "-r", "1", "rel/1")
        self._push(EQUAL, "1 forced")
        self._store.hg("bookmark", "-d", "rel/1")
        self._push(EQUAL, "1 deleted", "--prune")
        self._store.hg("bookmark", "-r", "1", "rel/1")
        self._push(EQUAL, "1 new")

    def others(self) -> None:
        """Somebody else moves a branch: it is refused until it is named."""
        oid = self._store.ids("5")[1]
        self._git("push", "-q", self._host.url, f"{oid}:refs/heads/rel/1")
        self._store.hg("bookmark", "-f", "-r", "4", "rel/1")
        self._push(REFUSED, f"somebody else moved it to {oid[:12]}")
        self._push(EQUAL, "1 forced", "--force", "-B", "rel/1")
        self._push(EQUAL, "up to date", "--check")

    def developers(self) -> None:
        """Rounds of work by three people."""
        self._work("team", self._host.team, 1, self._environment)

    def developers_over_ssh(self) -> None:
        """Rounds over ssh, where the key is not known at first."""
        if not self._host.ssh_url:
            return
        config = self._root / "gitconfig-ssh"
        config.write_text("")
        command = self._host.ssh_command()
        git(self._root, "config", "-f", str(config), "core.sshCommand", command)
        environment = {**self._environment, "GIT_CONFIG_GLOBAL": str(config)}
        clone = Clone(self._root / "nobody")
        url = f"git+{self._host.ssh_url}"
        code, output = clone.run("clone", url, str(clone.root), **environment)
        assert code == 255, output
        assert "Permission denied" in output, output
        assert "\n(see whether 'git ls-remote ssh://" in output, output
        self._host.allow_key()
        self._work("over-ssh", self._host.ssh_url, 2, environment)

    def _work(self, name: str, url: str, seed: int, env: dict[str, str]) -> None:
        team = self._root / name
        team.mkdir()
        rounds = Rounds(team, url, seed=seed, env=env)
        for _number in range(_ROUNDS):
            rounds.pass_one()
        rounds.compare()

    def _login(self, password: str) -> None:
        place = self._host.url.partition("://")[2]
        line = f"http://{self._host.user}:{password}@{place.partition('/')[0]}\n"
        self._passwords.write_text(line)

    def _push(self, code: int, summary: str = "", *args: str, words: str = "") -> None:
        done = self._store.run("git::push", "host", *args)
        said = (done.out + done.err).decode()
        assert done.code == code, said
        assert summary in said, said
        assert words in said, said
        if code == EQUAL:
            there = self._refs()
            names = ("refs/heads", "refs/tags")
            listed = self._store.git("for-each-ref", "--format=%(refname)", *names)
            for ref in listed.split():
                assert there.get(ref) == self._store.git("rev-parse", ref), ref

    def _refs(self) -> dict[str, str]:
        lines = self._git("ls-remote", "--refs", self._host.url).splitlines()
        return {ref: oid for oid, ref in (line.split("\t") for line in lines)}

    def _git(self, *args: str) -> str:
        command = ["git", *args]
        done = subprocess.run(
            command, cwd=self._store.git_dir, env=self._environment, capture_output=True
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout.decode()


STEPS = (
    *("wrong_password", "refused", "first_push", "changes", "others"),
    *("developers", "developers_over_ssh"),
)


def main() -> None:
    """Follow the recipe at each host that is given."""
    parser = argparse.ArgumentParser(prog="hosts")
    parser.add_argument("--klaus", help="the program")
    parser.add_argument("--gerrit", help="a directory with its jars")
    parser.add_argument("--java", default=os.environ.get("JAVA", "java"))
    options = parser.parse_args()
    hosts = []
    if options.klaus:
        hosts.append(("klaus", lambda root: klaus(options.klaus, root)))
    if options.gerrit:
        start = lambda root: gerrit(options.java, options.gerrit, root)  # noqa: E731
        hosts.append(("gerrit", start))
    for name, start in hosts:
        with tempfile.TemporaryDirectory() as directory:
            (root := Path(directory) / "host").mkdir()
            with start(root) as host:
                recipe = Recipe(Path(directory), host)
                for step in STEPS:
                    getattr(recipe, step)()
                    print(f"{name}: {step}", flush=True)


if __name__ == "__main__":
    main()
