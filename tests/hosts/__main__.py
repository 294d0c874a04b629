"""Git hosts that share no code with git: python -m hosts, in ``tests``.

klaus receives with dulwich, Gerrit with JGit; Gitea has its own HTTP, ssh and hooks
around git. Follows ``docs/mirroring.rst``: a password that is wrong and one that is
right, refusals, a first push, other people. Then three developers work there, two of
them with hg (``testlib.developers``); with Gerrit and Gitea over ssh, too.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import getpass
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
from urllib.parse import quote

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


class SshHost(Host):
    """A host with an ssh server of its own, and an interface for its administrator."""

    projects = ("demo", "team", "over-ssh")
    _api: str
    """Path of the interface."""
    _host_keys: str
    """Pattern of the files with its public keys."""

    def __init__(self, url: str, user: str, password: str, root: Path) -> None:
        """``root`` has the site, and gets the key."""
        super().__init__(url, user, password)
        self._root = root
        self._place = "/".join(url.split("/")[:3])

    def serve_ssh(self, user: str, port: int, path: str) -> None:
        """Tell where the repository is."""
        self._port = port
        self.ssh_url = f"ssh://{user}@127.0.0.1:{port}/{path}"

    def ssh_command(self) -> str:
        """Make the key, and a file with the keys of the host."""
        key = self._root / "key"
        made = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)]
        assert captured(made, self._root).returncode == 0
        known = self._root / "known_hosts"
        keys = sorted(self._root.glob(self._host_keys))
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

    def request(self, method: str, path: str, body: object) -> None:
        """Send a request as the administrator, of JSON or of a text."""
        login = base64.b64encode(f"{self.user}:{self.password}".encode()).decode()
        is_text = isinstance(body, str)
        kind = "text/plain" if is_text else "application/json"
        headers = {"Authorization": f"Basic {login}", "Content-Type": kind}
        place = f"{self._place}/{self._api}/{path}"
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        urllib.request.urlopen(
            urllib.request.Request(place, data, headers, method=method), timeout=120
        ).close()


class Gerrit(SshHost):
    """Gerrit refuses pushes until the user has rights."""

    _api, _host_keys = "a", "site/etc/ssh_host_*_key.pub"

    def allow_key(self) -> None:
        """Add it to the account."""
        self.request(
            "POST", "accounts/self/sshkeys", (self._root / "key.pub").read_text()
        )

    def allow(self) -> None:
        """Grant the rights that the page names."""
        rule = {"action": "ALLOW", "force": True}
        rights = {
            name: {"rules": {"global:Registered-Users": rule}}
            for name in _RIGHTS.split()
        }
        access = {"add": {"refs/*": {"permissions": rights}}}
        for name in self.projects:
            self.request("POST", f"projects/{name}/access", access)


class Gitea(SshHost):
    """Gitea refuses pushes to protected branches."""

    _api, _host_keys = "api/v1", "data/ssh/*.pub"

    def allow_key(self) -> None:
        """Add it to the account."""
        key = (self._root / "key.pub").read_text()
        self.request("POST", "user/keys", {"title": "key", "key": key})

    def protect(self, branch: str, is_protected: bool) -> None:
        """Let nobody push to a branch, or all who may push."""
        rules = f"repos/{self.user}/demo/branch_protections"
        if is_protected:
            self.request("POST", rules, {"rule_name": branch, "enable_push": False})
        else:
            self.request("DELETE", f"{rules}/{quote(branch, safe='')}", {})


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
        host = Gerrit(f"{address}a/demo", "admin", "secret", root)
        host.serve_ssh("admin", ssh_port, "over-ssh")
        project = {"create_empty_commit": False, "branches": ["main"]}
        for name in host.projects:
            host.request("PUT", f"projects/{name}", project)
        yield host


_GITEA = """
RUN_USER = {user}
I_AM_BEING_UNSAFE_RUNNING_AS_ROOT = true
WORK_PATH = {root}
[server]
HTTP_ADDR = 127.0.0.1
HTTP_PORT = {port}
ROOT_URL = http://127.0.0.1:{port}/
START_SSH_SERVER = true
BUILTIN_SSH_SERVER_USER = git
SSH_LISTEN_HOST = 127.0.0.1
SSH_LISTEN_PORT = {ssh_port}
STATIC_ROOT_PATH = {static}
OFFLINE_MODE = true
[database]
DB_TYPE = sqlite3
[security]
INSTALL_LOCK = true
MIN_PASSWORD_LENGTH = 5
PASSWORD_COMPLEXITY = off
[service]
DISABLE_REGISTRATION = true
[indexer]
ISSUE_INDEXER_TYPE = db
[log]
LEVEL = warn
"""


@contextlib.contextmanager
def gitea(directory: str, root: Path) -> Iterator[Host]:
    """Make a site of Gitea, and run it."""
    program, port, ssh_port = f"{directory}/gitea", free_port(), free_port()
    config = root / "custom/conf/app.ini"
    config.parent.mkdir(parents=True)
    values = {"user": getpass.getuser(), "root": root, "static": f"{directory}/static"}
    config.write_text(_GITEA.format(port=port, ssh_port=ssh_port, **values))
    options = ["--config", str(config), "--work-path", str(root)]
    host = Gitea(f"http://127.0.0.1:{port}/mirror/demo", "mirror", "right", root)
    host.serve_ssh("git", ssh_port, "mirror/over-ssh")
    account = ["--username", host.user, "--password", host.password, "--admin"]
    account += ["--email", "mirror@example.org", "--must-change-password=false"]
    for words in (["migrate"], ["admin", "user", "create", *account]):
        done = captured([program, *words, *options], root)
        assert done.returncode == 0, (done.stdout + done.stderr).decode()[-2000:]
    address = f"http://127.0.0.1:{port}/api/healthz"
    with running([program, "web", *options], root, address):
        for name in host.projects:
            host.request("POST", "user/repos", {"name": name, "default_branch": "main"})
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

    def protected(self) -> None:
        """Gitea protects a branch: its words are passed on, and all else is pushed."""
        if not isinstance(self._host, Gitea):
            return
        self._host.protect("rel/1", True)
        self._store.hg("bookmark", "-f", "-r", "3", "rel/1")
        self._store.commit("beside")
        words = "hook declined: error: branch rel/1 is protected from force push\n"
        self._push(REFUSED, words=words)
        self._host.protect("rel/1", False)
        self._push(EQUAL, "1 forced")

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
    *("wrong_password", "refused", "first_push", "changes", "others", "protected"),
    *("developers", "developers_over_ssh"),
)


def main() -> None:
    """Follow the recipe at each host that is given."""
    parser = argparse.ArgumentParser(prog="hosts")
    parser.add_argument("--klaus", help="the program")
    parser.add_argument("--gerrit", help="a directory with its jars")
    parser.add_argument("--java", default=os.environ.get("JAVA", "java"))
    parser.add_argument("--gitea", help="a directory with it and its static files")
    options = parser.parse_args()
    hosts = []
    if options.klaus:
        hosts.append(("klaus", lambda root: klaus(options.klaus, root)))
    if options.gerrit:
        start = lambda root: gerrit(options.java, options.gerrit, root)  # noqa: E731
        hosts.append(("gerrit", start))
    if options.gitea:
        hosts.append(("gitea", lambda root: gitea(options.gitea, root)))
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
