"""An account on a server whose keys are for ``hg-amalgam-ssh``, without ssh."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

from .environment import ENVIRONMENT, executable

PROGRAM = f"{shlex.quote(sys.executable)} -m hgext3rd.amalgam.serve.ssh"
ON = "[extensions]\namalgam =\n[amalgam]\ngit.serve = yes\n"
Done = subprocess.CompletedProcess[bytes]


class Account:
    """An account on a server: its directory, and the command of a key."""

    def __init__(self, home: Path, *arguments: str) -> None:
        self.home = home
        self.ssh = home / "ssh"
        self.environment = home / "environment"
        config = home / "hgrc"
        config.write_text(ON)
        # as sshd: the last argument is the command; one variable is accepted
        executable(
            self.ssh,
            "#!/bin/sh\n"
            'for last; do :; done\nSSH_ORIGINAL_COMMAND="$last"\n'
            f"export SSH_ORIGINAL_COMMAND HGRCPATH='{config}'\n"
            f"cd '{home}'\nexec {PROGRAM} {' '.join(arguments)}\n",
        )

    def git(self, *args: str, version: str = "2") -> Done:
        """Run git as a client."""
        command = ["git", "-c", f"protocol.version={version}", *args]
        return self.client(command)

    def client(self, command: list[str], **variables: str) -> Done:
        environment = {**ENVIRONMENT, "GIT_SSH_COMMAND": str(self.ssh), **variables}
        return subprocess.run(
            command, cwd=self.home, env=environment, capture_output=True
        )

    def ask(self, command: str, **variables: str) -> Done:
        """Ask for a command, and say nothing more."""
        return subprocess.run(
            [str(self.ssh), "host", command],
            cwd=self.home,
            env={**ENVIRONMENT, **variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
        )
