"""Follow the pages as a newcomer, in a root of debootstrap: newcomer.py ROOT WHEEL.

ROOT is of debootstrap --variant=minbase trixie, and is changed. What is typed is what
the pages have: installing.rst, tutorial.rst, hosting.rst, and adopting.rst for a mirror
of git-cinnabar. Only this is added: a user, a repository to migrate and its mirror,
what an init would start, and a second to wait for what happens in the background. Needs
root, ip(8), unshare(1) and a network. Prints a transcript with times; a command that
fails ends it.
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

from inroot import POLICY, inside

DOCS = Path(__file__).resolve().parents[2] / "docs"
WHEELS = "/srv/wheel"
BLOCK = re.compile(
    r"(?m)^(?:(?!\.\.).*::|\.\. code-block:: console)\n\n((?:    .*\n|\n)+)"
)
#: What an init would have started.
NGINX = "nginx"
MIGRATED = """
cd
git config --global user.email ann@example.org
git config --global user.name Ann
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


def main() -> None:
    """Take all pages, and print how long each took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("root", type=Path)
    parser.add_argument("wheel", type=Path)
    options = parser.parse_args()
    root: Path = options.root.resolve()
    policy = root / "usr/sbin/policy-rc.d"
    policy.write_text(POLICY)
    policy.chmod(0o755)
    (root / WHEELS.lstrip("/")).mkdir(parents=True, exist_ok=True)
    shutil.copy(options.wheel, root / WHEELS.lstrip("/"))
    packages, pip = installing()
    part(root, "packages", ["apt-get update -q", packages])
    part(root, "the wheel", [pip.replace("--user ", ""), "useradd -m ann"])
    enable = r"printf '[extensions]\namalgam =\n' > ~/.hgrc"
    tutorial = [enable, "cd", *typed("tutorial.rst")]
    part(root, "tutorial.rst", tutorial, user="ann", alone=True)
    needs, *trial = section("hosting.rst", "What you need\n", "1. The repository\n")
    part(root, "packages of hosting.rst", [noninteractive(needs)])
    part(root, "git-cinnabar", ["apt-get install -q -y git-cinnabar"])
    hosting = section("hosting.rst", "1. The repository\n", "Uploading instead\n")
    adopting = section("adopting.rst", "Adopt the mirror\n", "What is checked\n")
    migration = [line for line in adopting if "project/.hg/git" not in line]
    migration = [
        line.replace("example.org/project", "example.org/old") for line in migration
    ]
    hosting = [*trial, NGINX, *hosting]
    check = ["hg -R project git::export", "hg -R project git::verify --full"]
    both = [*hosting, MIGRATED, *migration, *check]
    part(root, "hosting.rst and adopting.rst", both, alone=True)
    print("all pages were followed")


def installing() -> tuple[str, str]:
    """Return what installing.rst has for Debian: its packages, and the line for pip."""
    text = (DOCS / "installing.rst").read_text()
    (packages,) = re.findall(r"``(apt install [^`]*)``", text)
    (pip,) = re.findall(r"Debian 13\n     - ``(pip [^`]*)``", text)
    return noninteractive(packages), pip.replace("DIR", WHEELS)


def noninteractive(command: str) -> str:
    """Return an ``apt install`` that asks nobody."""
    return command.replace("apt install", "apt-get install -q -y")


def section(page: str, start: str, end: str) -> list[str]:
    """Return what a part of a page has to type."""
    text = (DOCS / page).read_text()
    return list(steps(text[text.index(f"\n{start}===") : text.index(f"\n{end}===")]))


def typed(page: str) -> list[str]:
    """Return what a whole page has to type."""
    return list(steps((DOCS / page).read_text()))


def steps(text: str) -> Iterator[str]:
    """Yield shell commands that write the files of a page, and those that it has."""
    for found in BLOCK.finditer(text):
        block = textwrap.dedent(found[1]).strip("\n")
        first, _newline, rest = block.partition("\n")
        if first.startswith("# "):
            name = first[2:]
            content = shlex.quote(rest + "\n")
            yield f"mkdir -p $(dirname {name}); printf %s {content} > {name}"
            continue
        for line in block.split("\n"):
            if line.startswith("$ "):
                yield line[2:]
        if " commit " in block:
            yield "sleep 1"  # the page says that what follows comes a second later


def part(
    root: Path,
    name: str,
    commands: list[str],
    *,
    user: str = "root",
    alone: bool = False,
) -> None:
    """Type some commands, each printed before; end if one fails."""
    print(f"--- {name}", flush=True)
    script = "set -e\n" + "\n".join(
        f"printf '%s\\n' {shlex.quote('$ ' + line)}\n{line}" for line in commands
    )
    home = "/root" if user == "root" else f"/home/{user}"
    command = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"]
    command += ["env", f"HOME={home}", "sh", "-c", script]
    start = time.monotonic()
    inside(root, command, alone=alone)
    print(f"--- {name}: {time.monotonic() - start:.0f} seconds", flush=True)


if __name__ == "__main__":
    main()
