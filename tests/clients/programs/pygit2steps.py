"""The steps, with libgit2."""

from __future__ import annotations

import os
import sys
from typing import Any

import pygit2
from pygit2.enums import CredentialType

step, directory, argument = sys.argv[1:]
url = os.environ["URL"]


class Callbacks(pygit2.RemoteCallbacks):
    def credentials(self, _url: str, user: str | None, kinds: CredentialType) -> Any:
        if kinds & CredentialType.USERPASS_PLAINTEXT:
            return pygit2.UserPass(os.environ["USERNAME"], os.environ["PASSWORD"])
        key = os.path.expanduser("~/.ssh/id_ecdsa")
        return pygit2.Keypair(user or "", f"{key}.pub", key, "")

    def push_update_reference(self, name: str, message: str | None) -> None:
        if message:
            sys.exit(f"{name}: {message}")


if step in ("clone", "shallow"):
    depth = 1 if step == "shallow" else 0
    pygit2.clone_repository(url, directory, callbacks=Callbacks(), depth=depth)
    sys.exit()
repo = pygit2.Repository(directory)
if step == "fetch":
    repo.remotes["origin"].fetch(callbacks=Callbacks())
elif step == "commit":
    repo.index.add(argument)
    repo.index.write()
    who = pygit2.Signature("test", "test@example.org")
    tree = repo.index.write_tree()
    repo.create_commit("HEAD", who, who, argument, tree, [repo.head.target])
elif step == "push":
    repo.remotes["origin"].push([argument], callbacks=Callbacks())
