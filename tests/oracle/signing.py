"""A git repository whose commits, merges and tags are signed, with keys made for it."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from testlib.environment import ENVIRONMENT, git
from testlib.randomcommits import write_object

#: Each has three signed commits, or four.
ROUNDS = 80
#: One of so many merges has three parents.
_OCTOPUS = 8
_KEY = "ssh-key"


@contextlib.contextmanager
def keys(place: Path) -> Iterator[Mapping[str, str]]:
    """Make a key of gpg and one of ssh; yield an environment for git that has them."""
    home, key, known = place / "gpg", place / _KEY, place / "known"
    home.mkdir(mode=0o700)
    user = ENVIRONMENT["GIT_COMMITTER_EMAIL"]
    config = {
        "commit.gpgSign": "true",
        "gpg.ssh.allowedSignersFile": str(known),
        "user.signingKey": user,
    }
    environment = {**ENVIRONMENT, "GNUPGHOME": str(home)}
    environment["GIT_CONFIG_COUNT"] = str(len(config))
    for at, (name, value) in enumerate(config.items()):
        environment |= {f"GIT_CONFIG_KEY_{at}": name, f"GIT_CONFIG_VALUE_{at}": value}

    def run(*command: str) -> None:
        subprocess.run(command, env=environment, capture_output=True, check=True)

    try:
        quick = ("--batch", "--passphrase", "", "--quick-generate-key")
        run("gpg", *quick, user, "ed25519", "sign", "never")
        run("gpg", "--batch", "--check-trustdb")  # which says something once
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        known.write_text(f"{user} {key.with_suffix('.pub').read_text()}")
        yield environment
    finally:
        run("gpgconf", "--kill", "all")  # the agent of gpg


def signed(place: Path, environment: Mapping[str, str]) -> Path:
    """Make the repository beside the keys.

    Merges of signed tags have them in a header. One commit has the signature of
    another.
    """
    path = place / "signed"

    def run(*args: str) -> bytes:
        command = ["git", *options, *args]
        done = subprocess.run(
            command, cwd=path, env=environment, capture_output=True, check=True
        )
        return done.stdout

    def commit(branch: str) -> None:
        run("checkout", "-q", "-B", branch, *(["main"] if number else []))
        (path / f"{branch}{number}").write_text(f"{number}\n")
        run("add", ".")
        run("commit", "-q", "-m", f"{branch} {number}")

    git(place, "init", "-q", "-b", "main", path.name)
    by_ssh = ("-c", "gpg.format=ssh", "-c", f"user.signingKey={place / _KEY}")
    for number in range(ROUNDS):
        options = by_ssh if number % 2 else ()
        sides = ["side", "other"] if number % _OCTOPUS == 1 else ["side"]
        for side in sides:
            commit(side)
            run("tag", "-s", "-m", "tagged", f"{side}{number}")
        commit("main")
        if number:
            tags = [f"{side}{number}" for side in sides]
            run("merge", "-q", "--no-ff", "-m", "merged", *tags)
    content = run("cat-file", "commit", "main")
    forged = write_object(path / ".git", "commit", content + b"and changed\n")
    run("update-ref", "refs/heads/forged", forged)
    return path
