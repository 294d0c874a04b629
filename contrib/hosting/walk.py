"""A walk through a page: its files and commands, in a scratch directory.

Owns what all walks have in common: names of the page become those of this run. Does not
know any page.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from page import Servers, blocks, free_port

DOCS = Path(__file__).parents[2] / "docs"


class Walk:
    """One run: the place, the environment of all commands, and what is wrong."""

    page = ""
    """The page, below ``docs``."""

    def __init__(self, scratch: Path, hg: Path) -> None:
        self.scratch = self.here = scratch
        self.ports = {"hg.example.org": free_port(), "127.0.0.1:8000": free_port()}
        self.environment = {
            "PATH": f"{hg.parent}:{os.environ['PATH']}",
            "HOME": str(scratch),
            "HGRCPATH": "",
            "HGUSER": "guide",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(scratch / "gitconfig"),
            "GIT_CINNABAR_CHECK": "no-version-check",
        }
        (scratch / "gitconfig").write_text(
            "[pull]\n\tff = only\n[user]\n\tname = guide\n\temail = guide@example.org\n"
        )
        self.servers = Servers(self.environment)
        self.problems = self.servers.problems

    def local(self, text: str) -> str:
        """Return ``text`` of the page with the names of this run."""
        public = self.ports["hg.example.org"]
        text = re.sub(r"\s*ssl_certificate\S* .*", "", text)
        text = text.replace("listen 443 ssl;", f"listen 127.0.0.1:{public};")
        text = text.replace("https://hg.example.org", f"http://127.0.0.1:{public}")
        behind = self.ports["127.0.0.1:8000"]
        text = text.replace("127.0.0.1:8000", f"127.0.0.1:{behind}")
        return re.sub(r"/(srv|etc)/", rf"{self.scratch}/\1/", text)

    def follow(self) -> None:
        """Take all steps."""
        self.prepare()
        for block in blocks((DOCS / self.page).read_text()):
            if block[0].startswith("# /"):
                self.write(block[0][2:], "\n".join(block))
            for line in block:
                if line.startswith("$ ") and not self.replaced(line[2:]):
                    self.run(line[2:])

    def prepare(self) -> None:
        """Make what the page takes for granted."""

    def replaced(self, command: str) -> bool:
        """Do something else, or nothing, in the place of a command; tell whether."""
        return False

    def check(self) -> None:
        """See whether all is as it should be at the end."""

    def write(self, name: str, text: str) -> None:
        """Write a file of the page."""
        path = Path(self.local(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.local(text).rstrip() + "\n")
        print(f"wrote {name}")

    def run(self, command: str, code: int = 0) -> str:
        """Run a command; return what it says."""
        print(f"$ {command}", flush=True)
        return self.servers.shell(self.local(command), self.here, code)

    def close(self) -> None:
        """End what was started."""
        self.servers.stop()
