"""Follow the pages as a newcomer, with their requirements: newcomer.py ROOT WHEEL.

ROOT is of debootstrap --variant=minbase trixie, and is changed. What is typed is what
the pages have. Only this is added: a user, contents and names of people, repositories
to migrate or to serve, what an init would start, and time for what happens in the
background. Needs root, ip(8), unshare(1) and a network. Prints a transcript with times;
a command that fails ends it. ``make test`` follows the pages that need no packages, in
a root that is made of its machine.
"""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

from roots import Debian

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
WHEELS = "/srv/wheel"
BLOCK = re.compile(
    r"(?m)^(?:(?!\.\.).*::|\.\. code-block:: console)\n\n((?:    .*\n|\n)+)"
)
#: A login shell of a user, who has told git his name.
LOGIN = """
cd
test ! -e .profile || . ./.profile
git config --global user.name Ann
git config --global user.email ann@example.org
"""
PROJECT = """
hg init project
cd project
echo hello > README
hg commit -A -m first
"""
PUSHED = """
echo pushed >> ../my-clone/README
git -C ../my-clone commit -q -a -m 'from git'
git -C ../my-clone push
hg log -r tip -T '{desc}\\n' | grep 'from git'
"""
MIGRATED = """
hg init /srv/hg/old
printf '%s\\n' '[phases]' 'new-commit = public' '[web]' 'allow-push = *' \\
  'push_ssl = no' '[extensions]' 'amalgam =' '[amalgam]' 'git.serve = yes' \\
  > /srv/hg/old/.hg/hgrc
ln -s /srv/hg/old project
echo one > project/file
hg -R project commit -A -q -m one -u ann
sleep 21
git clone -q hg::https://hg.example.org/old project-mirror
git clone -q hg::https://hg.example.org/old clone
git -C clone commit -q --allow-empty -m pushed
"""
#: hgweb finds a new repository within 20 seconds.
WAIT = "sleep 21"


class ScriptError(Exception):
    """A command of a page failed."""


def main() -> None:
    """Take all pages, and print how long each took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("wheel", type=Path)
    options = parser.parse_args()
    newcomer = Newcomer(Debian(options.root), options.wheel)
    newcomer.part("lists of packages", ["apt-get update -q"])
    newcomer.first_minutes()
    newcomer.serve_git()
    newcomer.start_again()
    newcomer.install_beside_debian()
    newcomer.host()
    print("all pages were followed")


class Newcomer:
    """Somebody who follows pages in one root, from the first to the last."""

    def __init__(self, root: Debian, wheel: Path) -> None:
        self._root = root
        wheels = root.path / WHEELS.lstrip("/")
        wheels.mkdir(parents=True, exist_ok=True)
        shutil.copy(wheel, wheels)
        self._user = "ann" if root.has_users else "root"

    def first_minutes(self) -> None:
        """Follow installing.rst without Mercurial, README and tutorial.rst."""
        install = section("docs/installing.rst", "From a wheel")
        self.part("packages", packages_in("docs/installing.rst")[:1])
        if self._root.has_users:
            self.part("a user", [f"useradd --create-home {self._user}"])
        self.part("installing.rst", [LOGIN, *install], user=self._user)
        first, serve, push = (
            [*typed(block("README.rst", has), prompt="")]
            for has in ("git.serve", "hg serve", "git.push")
        )
        # README has the file in two parts
        push = ["mv .hg/hgrc ../hgrc", *push, "cat ../hgrc >> .hg/hgrc"]
        shown = [LOGIN, PROJECT, *first, *push, *serve, PUSHED]
        self.part("README.rst", shown, user=self._user, alone=True)
        tutorial = [LOGIN, "mkdir tutorial; cd tutorial", *section("docs/tutorial.rst")]
        self.part("tutorial.rst", tutorial, user=self._user, alone=True)

    def serve_git(self) -> None:
        """Follow serving-git.rst with all its servers; without packages, gunicorn."""
        page = "docs/serving-git.rst"
        for packages in packages_in(page):
            self.part("packages", [packages])
        self.part("serving-git.rst, what you need", section(page, "What you need"))
        served = section(page, "1. Users", "2. hgweb", "3. gunicorn")
        urls = ["http://127.0.0.1:8000"]
        if self._root.has_packages:
            served += section(page, "4. Apache", "5. uWSGI", "6. nginx")
            served = [*trial(), "nginx", *served]
            urls += ["http://127.0.0.1:8001", "https://uwsgi.example.org"]
        served.append("sleep 3")  # for servers that start
        if self._root.has_packages:
            served += section(page, "7. Clients")
        for number, url in enumerate(urls):
            served.append(f"git clone {url}/alice/project by-{number}")
            served.append(f"! git ls-remote {url}/bob/closed")
        served = ["mkdir /clients; cd /clients", *served]
        self.part("serving-git.rst", served, alone=True)

    def start_again(self) -> None:
        """Remove users and files of serving-git.rst, for another page."""
        removed = "/etc/nginx/conf.d/* /etc/mercurial /srv/hg /usr/local/bin/hg"
        removed += " /etc/apache2/sites-enabled/* /etc/uwsgi/apps-enabled/*"
        self.part("start again", [f"rm -rf /clients {removed}"])

    def install_beside_debian(self) -> None:
        """Install Debian's packages and the wheel, for all users."""
        packages, pip = installing()
        self.part("packages", [packages])
        self.part("the wheel", [pip.replace("--user ", "")])

    def host(self) -> None:
        """Follow hosting.rst, and the pages that go on from there."""
        page = "docs/hosting.rst"
        self.part("packages", packages_in(page)[:1])
        self.part("git-cinnabar", ["apt-get install -q -y git-cinnabar"])
        hosting = section(page, "1.", "2.", "3.", "4.", "5.", "6. What", "Uploading")
        clone = "hg clone https://hg.example.org/uploaded"
        hosting = [f"{WAIT}; {it}" if it.startswith(clone) else it for it in hosting]
        public = section("docs/public-servers.rst", "1.", "2.", "3.")
        public.insert(0, "mkdir /public; cd /public")
        settings = block("docs/taking-pushes.rst", "git.push = yes")
        pushes = [
            f"cat >> /srv/hg/project/.hg/hgrc <<'END'\n{settings}\nEND",
            LOGIN,
            *pushing(),
            "hg -R /srv/hg/project log -r tip -T '{desc}\\n' | grep parser",
            "cd /clients",
        ]
        adopting = section("docs/adopting.rst", "Adopt the mirror", "Move existing")
        migration = [
            line.replace("example.org/project", "example.org/old") for line in adopting
        ]
        check = ["hg -R project git::export", "hg -R project git::verify --full"]
        pushes += [MIGRATED, *migration, *check]
        served = [*trial(), "mkdir /clients; cd /clients", "nginx", *hosting]
        name = "hosting.rst, public-servers.rst, taking-pushes.rst, adopting.rst"
        self.part(name, [*served, *public, *pushes], alone=True)

    def part(
        self, name: str, commands: list[str], *, user: str = "root", alone: bool = False
    ) -> None:
        """Type some commands, each printed before; raise if one fails.

        Without packages in the root, ``apt`` is not run.
        """
        print(f"--- {name}", flush=True)
        commands = [it for it in commands if not it.startswith("apt install ")]
        if not self._root.has_packages:
            commands = [it for it in commands if not it.startswith("apt-get ")]
        script = "set -e\n" + "\n".join(
            f"printf '%s\\n' {shlex.quote('$ ' + line)}\n{line}" for line in commands
        )
        home = "/root" if user == "root" else f"/home/{user}"
        command = ["env", f"HOME={home}", "sh", "-c", script]
        if user != "root":
            become = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
            command = [*become, *command]
        start = time.monotonic()
        if code := self._root.run(command, alone=alone):
            raise ScriptError(f"{name}: a command ended with {code}")
        print(f"--- {name}: {time.monotonic() - start:.0f} seconds", flush=True)


def installing() -> tuple[str, str]:
    """Return what installing.rst has for Debian: its packages, and the line for pip."""
    text = (DOCS / "installing.rst").read_text()
    (packages,) = re.findall(r"``(apt install mercurial [^`]*)``", text)
    (pip,) = re.findall(r"Debian 13\n     - ``(pip [^`]*)``", text)
    return noninteractive(packages), pip.replace("DIR", WHEELS)


def packages_in(page: str) -> list[str]:
    """Return the commands of a page that install packages, in their order."""
    text = (ROOT / page).read_text()
    found = re.findall(r"(?:``|    \$ )(apt install [^`\n]*)", text)
    return [noninteractive(command) for command in found]


def noninteractive(command: str) -> str:
    """Return an ``apt install`` that asks nobody."""
    return command.replace("apt install", "apt-get install -q -y")


def trial() -> list[str]:
    """Return the lines of hosting.rst for names and certificates to try."""
    needs = section("docs/hosting.rst", "What you need")
    return [line for line in needs if not line.startswith("apt ")]


def pushing() -> list[str]:
    """Return how pushing.rst begins, with something to commit."""
    clone, into, commit, push, _wait = typed(block("docs/pushing.rst", "git clone "))
    return [clone, into, "echo mended >> README", commit, push]


def block(page: str, has: str) -> str:
    """Return the first literal block of a page that has a text."""
    for found in BLOCK.finditer((ROOT / page).read_text()):
        if has in found[1]:
            return textwrap.dedent(found[1]).strip("\n")
    raise ScriptError(f"{page} has no block with {has}")


def section(page: str, *titles: str) -> list[str]:
    """Return the lines to type of sections of a page; of the whole page if none."""
    text = (ROOT / page).read_text()
    parts = re.split(r"(?m)^(?=\S.*\n(?:=+|-+)\n)", text)
    commands: list[str] = []
    for title in titles or [""]:
        chosen = [it for it in parts if it.startswith(title)]
        if not chosen:
            raise ScriptError(f"{page} has no section '{title}'")
        for part in chosen if titles else parts:
            commands += steps(part)
    return commands


def steps(text: str) -> Iterator[str]:
    """Yield the lines to type of the blocks of a text."""
    for found in BLOCK.finditer(text):
        yield from typed(textwrap.dedent(found[1]).strip("\n"))


def typed(block: str, prompt: str = "$ ") -> Iterator[str]:
    """Yield shell commands that write a file of a page, or those that it has."""
    first, _newline, rest = block.partition("\n")
    if first.startswith("# "):
        name = first[2:]
        content = shlex.quote(rest)
        yield f"mkdir -p $(dirname {name}); printf '%s\\n' {content} > {name}"
        return
    for line in block.split("\n"):
        if line.startswith(prompt):
            yield line.removeprefix(prompt)
    if " commit " in block:
        yield "sleep 1"  # the page says that the next lines come a second later


if __name__ == "__main__":
    main()
