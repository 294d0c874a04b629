"""Git clients that share no code with git: python -m clients, in ``tests``.

Each has a program in ``programs``, called ``PROGRAM STEP DIRECTORY ARGUMENT`` with
``URL`` in the environment. Local work that no server sees is done by real git. It also
lists the served refs, and checks whether the client's repository is sound and has it.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from testlib import passwords
from testlib.environment import ENVIRONMENT
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.webserver import serving, started

HERE = Path(__file__).parent
CONFIG = """
[extensions]
amalgam =
[amalgam]
git.serve = yes
git.push = yes
git.push-tags = yes
[web]
allow-push = *
push_ssl = no
"""
TRANSPORTS = ("http", "password", "ssh")


class StepError(AssertionError):
    """A program ended with an error, or its result is wrong."""


class Visit:
    """A client with a home and a clone, at a server. The public methods are steps."""

    def __init__(
        self, command: list[str], served: Exported, url: str, **variables: str
    ) -> None:
        self._command = command
        self._served = served
        self._url = url
        self._home = served.root.parent
        self._clone = self._home / "clone"
        home = {
            "HOME": str(self._home),
            "JDK_JAVA_OPTIONS": f"-Duser.home={self._home}",
        }
        self._environment = {**ENVIRONMENT, "URL": url, **home, **variables}

    def clone(self) -> None:
        """Clone, with a checkout."""
        self._client("clone")
        self._compare()
        head = self._git("symbolic-ref", "HEAD")
        served = self._git("ls-remote", "--symref", self._url, "HEAD")
        _same("HEAD", f"ref: {head}\tHEAD", served.splitlines()[0])

    def shallow(self) -> None:
        """Clone one commit, and push from there."""
        shallow = self._home / "shallow"
        self._client("shallow", cwd=shallow)
        _same("commits", self._git("rev-list", "--count", "HEAD", cwd=shallow), "1")
        self._check(shallow)
        self._git("checkout", "-q", "-b", "shallow", cwd=shallow)
        self._commit_and_push("shallow", shallow)

    def fetch(self) -> None:
        """Fetch a changeset, a bookmark and a tag of Mercurial's users."""
        self._served.commit("by-hg")
        self._served.hg("bookmark", "-r", "tip", "new")
        self._served.hg("tag", "-r", "0", "v0", "-d", "30 0")
        self._client("fetch")
        self._compare()

    def push(self) -> None:
        """Push commits to a new branch."""
        self._git("checkout", "-q", "-b", "work", "origin/default")
        self._commit_and_push("work")

    def refused(self) -> None:
        """Fail to delete a named branch, with the reason, and to replace a commit."""
        self._fail("push", ":refs/heads/default", words="it is the Mercurial branch")
        self._git("commit", "-q", "--amend", "-m", "amended")
        self._fail("push", "refs/heads/work:refs/heads/work")

    def forced(self) -> None:
        """Replace a commit."""
        self._push("refs/heads/work", force="+")

    def tag(self) -> None:
        """Push a tag."""
        self._git("tag", "v3", "origin/stable")
        self._push("refs/tags/v3")

    def delete(self) -> None:
        """Delete a branch and a tag."""
        for ref in ("refs/heads/work", "refs/tags/v3"):
            self._client("push", f":{ref}")
            _same(ref, self._refs().get(ref), None)

    def verify(self) -> None:
        """Fetch again, and verify both sides."""
        self._client("fetch")
        self._compare()
        self._served.hg("verify", "-q")
        self._served.hg("git::verify", "--full")
        left = [path.name for path in self._served.amalgam.glob("*scratch*")]
        _same("temporary directories", left, [])

    def without_ssh(self) -> None:
        """Fail to clone over ssh."""
        self._fail("clone", words="UnknownTransportError")

    def without_at(self) -> None:
        """Fail to clone while HEAD is ``@``, which git takes; then rename it.

        Without a name for the main line, ``work`` could not be forced.
        """
        self._fail("clone", words="invalid reference name")
        self._served.hg("bookmark", "-m", "@", "main")

    def _commit_and_push(self, branch: str, clone: Path | None = None) -> None:
        """Let the client change a file, add one in a second commit, and push."""
        for name in ("file0", "new dir/näme"):
            path = (clone or self._clone) / name
            path.parent.mkdir(exist_ok=True)
            with path.open("a") as file:
                file.write(f"{name} on {branch}\n")
            self._client("commit", name, clone)
        self._push(f"refs/heads/{branch}", clone)

    def _push(self, ref: str, clone: Path | None = None, force: str = "") -> None:
        """Push a ref; fail unless git and hg see it as it is in the clone."""
        self._client("push", f"{force}{ref}:{ref}", clone)
        oid = self._git("rev-parse", ref, cwd=clone)
        _same(ref, self._refs().get(ref), oid)
        name = ref.rpartition("/")[2]
        _same(name, self._served.hg("log", "-r", name, "-T", "{gitnode}"), oid)

    def _compare(self) -> None:
        """Fail unless the clone is sound, and has the refs that real git sees."""
        served = {
            ref.replace("refs/heads/", "refs/remotes/origin/"): oid
            for ref, oid in self._refs().items()
        }
        form = "--format=%(objectname)%09%(refname)"
        _same("refs", _by_ref(self._git("for-each-ref", form, *served)), served)
        self._check(self._clone)

    def _check(self, clone: Path) -> None:
        self._git("fsck", "--strict", "--full", cwd=clone)
        _same("changed files", self._git("status", "--porcelain", cwd=clone), "")

    def _refs(self) -> dict[str, str]:
        return _by_ref(self._git("ls-remote", "--refs", self._url, cwd=self._home))

    def _git(self, *args: str, cwd: Path | None = None) -> str:
        login = f"http.extraHeader=Authorization: {passwords.EXPECTED.decode()}"
        where = str(cwd or self._clone)
        return self._run(["git", "-C", where, "-c", login, *args])

    def _client(self, step: str, argument: str = "", cwd: Path | None = None) -> None:
        self._run([*self._command, step, str(cwd or self._clone), argument])

    def _fail(self, step: str, argument: str = "", words: str = "") -> None:
        """Fail if a step succeeds, or if its error has other words."""
        try:
            self._client(step, argument)
        except StepError as exc:
            if words not in str(exc):
                raise StepError(f"expected {words!r}: {exc}") from None
        else:
            raise StepError(f"{step} {argument} succeeded")

    def _run(self, command: list[str]) -> str:
        done = subprocess.run(
            command, cwd=self._home, env=self._environment, capture_output=True
        )
        if done.returncode:
            said = (done.stdout + done.stderr).decode(errors="replace").strip()
            raise StepError(f"{shlex.join(command)}\n{said}")
        return done.stdout.decode().strip()


def _by_ref(lines: str) -> dict[str, str]:
    pairs = (line.split("\t") for line in lines.splitlines())
    return {ref: oid for oid, ref in pairs}


def _same(name: str, found: object, expected: object) -> None:
    if found != expected:
        raise StepError(f"{name}: found {found}, expected {expected}")


_ALL = (
    *(Visit.clone, Visit.shallow, Visit.fetch, Visit.push, Visit.refused),
    *(Visit.forced, Visit.tag, Visit.delete, Visit.verify),
)


def steps_of(client: str, transport: str) -> Sequence[Callable[[Visit], None]]:
    """Return all steps, or those that the client can take."""
    if (client, transport) == ("isomorphic-git", "ssh"):
        return (Visit.without_ssh,)
    return (Visit.without_at, *_ALL) if client == "go-git" else _ALL


@contextlib.contextmanager
def visiting(
    client: str, command: list[str], transport: str, template: Exported
) -> Iterator[Visit]:
    """Serve a copy of a repository to a client."""
    home = template.root.parent / f"{client}-{transport}"
    home.mkdir()
    (home / "hgrc").write_text(CONFIG)
    (home / ".gitconfig").write_text("[user]\nname = test\nemail = test@example.org\n")
    served = template.copied(home)
    environment = {**ENVIRONMENT, "HGRCPATH": str(home / "hgrc")}
    if transport == "ssh":
        server = [sys.executable, str(HERE / "sshserver.py"), str(home)]
        server += [sys.executable, "-m", "hgext3rd.amalgam.serve.ssh", "repo"]
        key = home / ".ssh" / "id_ecdsa"
        known = f"-oUserKnownHostsFile={key.with_name('known_hosts')}"
        ssh = shlex.join(
            ["ssh", "-Fnone", known, "-oIdentitiesOnly=yes", "-i", str(key)]
        )
        with started(server, home, environment) as place:
            url = f"ssh://hg@127.0.0.1:{place.port}{served.root}"
            yield Visit(command, served, url, GIT_SSH_COMMAND=ssh)
        return
    # node ends requests after 5 seconds without a byte
    option, login = "--config=hooks.pretag=sleep 12", {}
    if transport == "password":
        option = f"--config=extensions.passwords={passwords.__file__}"
        login = {"USERNAME": passwords.USER, "PASSWORD": passwords.PASSWORD}
    with serving(served.root, option, environment=environment) as place:
        yield Visit(command, served, place.url, **login)


def main() -> int:
    """Let all clients visit with all transports; return the exit status."""
    parser = argparse.ArgumentParser(prog="clients", description=__doc__)
    parser.add_argument("--go-git", help="the program, built")
    parser.add_argument("--jgit", help="class path of the program")
    parser.add_argument("--isomorphic-git", help="node_modules that have it")
    parser.add_argument("--only", default="", help="clients whose names begin so")
    options = parser.parse_args()
    python, programs = sys.executable, HERE / "programs"
    node = ["env", f"NODE_PATH={options.isomorphic_git}", "node"]
    clients = {
        "dulwich": [python, str(programs / "dulwichsteps.py")],
        "JGit": ["java", "-cp", options.jgit, "JgitSteps"],
        "go-git": [options.go_git],
        "libgit2": [python, str(programs / "pygit2steps.py")],
        "isomorphic-git": [*node, str(programs / "isomorphicsteps.js")],
    }
    problems = 0
    with tempfile.TemporaryDirectory(prefix="clients-") as directory:
        server = HgServer()
        template = Exported.make(Path(directory) / "template", server)
        for client, transport in itertools.product(clients, TRANSPORTS):
            if not client.startswith(options.only):
                continue
            done = []
            try:
                with visiting(client, clients[client], transport, template) as visit:
                    for step in steps_of(client, transport):
                        step(visit)
                        done.append(step.__name__)
            except AssertionError as exc:
                problems += 1
                print(f"wrong: {client}, {transport}: {exc}", file=sys.stderr)
            print(f"{client}, {transport}: {', '.join(done)}", flush=True)
        server.close()
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
