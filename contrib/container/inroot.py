"""Take the steps of the Containerfile in a root of debootstrap: inroot.py ROOT.

ROOT stands in for the image that FROM names, and should have nothing more: debootstrap
--variant=minbase trixie ROOT. Its suite has to be the same. COPY and RUN change ROOT.
CMD runs in namespaces of its own, with clients of hg and git beside it, so it takes no
port of this machine. Needs root, ip(8) and unshare(1), and for RUN a network. Does not
know any builder of containers: what such a builder adds is not tried.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from roots import Debian

TREE = Path(__file__).resolve().parents[2]
CONTAINERFILE = Path(__file__).with_name("Containerfile")
#: Instructions that say how to run the image; there is nothing to do for them here.
DECLARATIONS = {"EXPOSE", "VOLUME"}
#: What users of the server do, beside it.
CLIENTS = """
set -e
as_hg() { setpriv --reuid hg --regid hg --init-groups env HOME=/home/hg "$@"; }
as_hg hg init /srv/hg/project
as_hg sh -c 'echo hello > /srv/hg/project/README'
as_hg hg -R /srv/hg/project commit -q -A -m first -u hg
"$@" > /tmp/server.log 2>&1 & server=$!
trap 'cat /tmp/server.log; kill $server 2> /dev/null' EXIT
url=http://127.0.0.1:8080/project
get() { python3 -c 'import sys, urllib.request as r; r.urlopen(sys.argv[1])' "$1"; }
for _try in $(seq 100); do get "$url" 2> /dev/null && break; sleep 0.2; done
cd /tmp
hg clone -q "$url" by-hg
git clone -q "$url" by-git
cmp by-hg/README by-git/README
as_hg sh -c 'echo more >> /srv/hg/project/README'
as_hg hg -R /srv/hg/project commit -q -m second -u hg
hg -R by-hg pull -q -u
git -C by-git pull -q
grep -q more by-hg/README
grep -q more by-git/README
get "$url/rev/tip"
hg -R /srv/hg/project admin::amalgam
trap - EXIT
kill -TERM $server
wait $server
echo 'clones by hg and git have all changes, and the server has ended'
"""


def main() -> None:
    """Take each step, and print how long it took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("root", type=Path)
    root: Path = parser.parse_args().root.resolve()
    for instruction, rest in instructions(CONTAINERFILE.read_text()):
        print(f"--- {instruction} {rest.splitlines()[0]}", flush=True)
        start = time.monotonic()
        take(root, instruction, rest)
        print(f"{time.monotonic() - start:.1f} seconds")
    print(
        "all steps were taken; not run: a builder of containers, and the image of FROM"
    )


def instructions(text: str) -> Iterator[tuple[str, str]]:
    """Yield the instructions of a Containerfile, each with its argument."""
    text = re.sub(r"(?m)^#.*\n", "", text)
    for line in re.sub(r"\\\n\s*", " ", text).splitlines():
        instruction, _space, rest = line.partition(" ")
        yield instruction, rest


def take(root: Path, instruction: str, rest: str) -> None:
    """Take one step; ends the script if it fails, or is not known."""
    if instruction == "FROM":
        check_suite(root, rest)
    elif instruction == "RUN":
        inside(root, ["sh", "-c", rest])
    elif instruction == "COPY":
        copy(root, *rest.split())
    elif instruction == "CMD":
        inside(root, ["bash", "-c", CLIENTS, "bash", *json.loads(rest)], alone=True)
    elif instruction not in DECLARATIONS:
        raise SystemExit(f"unknown instruction: {instruction}")


def check_suite(root: Path, image: str) -> None:
    """Compare the root with the image that it stands in for."""
    release = (root / "etc/os-release").read_text()
    found = re.search(r"(?m)^VERSION_CODENAME=(\w+)", release)
    if not found or f"debian:{found[1]}-slim" not in image:
        raise SystemExit(f"{root} is not the Debian of {image}")


def copy(root: Path, source: str, target: str) -> None:
    """Copy files, or what is in a directory, as builders of containers do."""
    inside_target = root / target.lstrip("/")
    files = sorted(TREE.glob(source))
    if not files:
        raise SystemExit(f"there is no {source}; run 'make wheel'")
    for file in files:
        if file.is_dir():
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(file, inside_target, dirs_exist_ok=True, ignore=ignored)
        else:
            shutil.copy2(file, inside_target)


def inside(root: Path, command: list[str], *, alone: bool = False) -> None:
    """Run a command in the root; end the script if it fails."""
    if code := Debian(root).run(command, alone=alone):
        raise SystemExit(f"{command[0]} ended with {code}")


if __name__ == "__main__":
    main()
