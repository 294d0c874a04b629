"""Takes the steps of docs/adopting.rst, with mirrors of the programs that are here.

git-cinnabar and hg-git may be those of the Makefile. FAST_EXPORT names
hg-fast-export.sh, HGGIT another hg that has hg-git. A mirror that nobody here can make
is left out, and that is said.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

from page import blocks
from walk import DOCS, Walk

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_CINNABAR = [*_CACHE.glob("hg-amalgam/git-cinnabar-*/bin")]
_HGGIT = Path(__file__).parents[2] / "build" / "venv-hg-git" / "bin" / "hg"
_CONFIG = """
[extensions]
amalgam =
[phases]
new-commit = public
[amalgam]
git.serve = yes
[web]
allow-push = *
push_ssl = no
"""


class Migration(Walk):
    """One run of the page for each kind of mirror."""

    page = "adopting.rst"

    def __init__(self, scratch: Path, hg: Path, nginx: str | None) -> None:
        super().__init__(scratch, hg, nginx)
        self._python = hg.with_name("python3")

    def follow(self) -> None:
        """Migrate from each program that is here."""
        path = os.pathsep.join([self.environment["PATH"], *map(str, _CINNABAR)])
        self.environment["PATH"] = path
        hggit = os.environ.get("HGGIT", str(_HGGIT))
        there = {
            "git-cinnabar": shutil.which("git-cinnabar", path=path),
            "hg-fast-export": os.environ.get("FAST_EXPORT"),
            "hg-git": shutil.which(hggit),
        }
        print(f"migration: {len([*filter(None, there.values())])} of 3 programs")
        for name, program in there.items():
            if program is None:
                print(f"left out: there is no {name}")
                continue
            print(f"--- {name}")
            self._migrate(name, program)

    def _migrate(self, name: str, program: str) -> None:
        self.here = self.scratch / name
        self.here.mkdir()
        self._make_history()
        self._serve()
        self._make_mirror(name, program)
        adopt, from_hggit, move, push = blocks((DOCS / self.page).read_text())
        chosen = [from_hggit if name == "hg-git" else adopt, move]
        tip = self.run("git -C clone rev-parse HEAD").strip()
        self._take(chosen[0])
        self._commit("after")
        self.run("hg -R project git::export")
        self._take(move)
        parent = self.run("git -C clone rev-parse HEAD^").strip()
        self.servers.expect(f"parent of a new commit, {name}", parent, tip)
        self.servers.expect("new file", (self.here / "clone/after").exists(), True)
        if name == "git-cinnabar":
            self.run("git -C clone commit -q --allow-empty -m pushed")
            self._take(push)
            said = self.run("hg -R project log -r tip -T '{desc}'")
            self.servers.expect("changeset that was pushed", said, "pushed")
            self.run("hg -R project git::export")
        said = self.run("hg -R project git::verify --full")
        self.servers.expect("verified", "no differences" in said, True)

    def _take(self, block: list[str]) -> None:
        for line in block:
            self.run(line.removeprefix("$ "))

    def _commit(self, name: str) -> None:
        self.run(f"echo {name} > project/{name}")
        self.run(f"hg -R project commit -A -q -m {name}")

    def _make_history(self) -> None:
        """Make two branches, a merge, a tag and a bookmark."""
        self.run("hg init project")
        (self.here / "project/.hg/hgrc").write_text(_CONFIG)
        self._commit("one")
        self._commit("two")
        self.run("hg -R project tag v1")
        self.run("hg -R project update -q 0")
        self.run("hg -R project branch -q side")
        self._commit("three")
        self.run("hg -R project update -q default")
        self.run("hg -R project merge -q side")
        self.run("hg -R project commit -q -m merged")
        self.run("hg -R project bookmark -r 1 feature")

    def _serve(self) -> None:
        self.servers.stop()
        config = f"[paths]\n/project = {self.here}/project\n{_CONFIG}"
        (self.here / "hgweb.conf").write_text(config)
        port = self.ports["hg.example.org"]
        serve = ["hg", "serve", "--webdir-conf", "hgweb.conf", "-a", "127.0.0.1"]
        self.servers.start([*serve, "-p", str(port)], self.here, self.here / "log")
        self.servers.wait(port)

    def _make_mirror(self, name: str, program: str) -> None:
        """Let the program make the mirror, and a user clone it."""
        if name == "git-cinnabar":
            for clone in ("project-mirror", "clone"):
                self.run(f"git clone -q hg::https://hg.example.org/project {clone}")
            return
        if name == "hg-git":
            self.run("hg -R project bookmark -r tip master")  # else it has no branch
            command = [program, "--config", "extensions.hggit="]
            command += ["--config", "extensions.amalgam=!", "gexport"]
            environment = self.environment
            subprocess.run(
                command, cwd=self.here / "project", env=environment, check=True
            )
            self.run("git clone -q -b master project/.hg/git clone")
            return
        self.run("git init -q -b master project-mirror")
        environment = self.environment | {"PYTHON": str(self._python)}
        subprocess.run(
            ["sh", program, "--quiet", "-r", "../project"],
            cwd=self.here / "project-mirror",
            env=environment,
            check=True,
        )
        self.run("git clone -q project-mirror clone")
