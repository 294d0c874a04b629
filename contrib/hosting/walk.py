"""A walk through a page: its files and commands, in a scratch directory.

Owns what all walks have in common: names of the page become those of this run. Does not
know any page.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

from page import Servers, blocks, free_ports

DOCS = Path(__file__).parents[2] / "docs"
_NGINX = """
daemon off;
pid {scratch}/nginx.pid;
error_log {scratch}/nginx.log;
events {{ }}
http {{
  access_log {log};
  {temporary}
  include {scratch}/etc/nginx/conf.d/*.conf;
}}
"""


class Walk:
    """One run: the place, the environment of all commands, and what is wrong."""

    page = ""
    """The page, below ``docs``."""
    hosts: tuple[str, ...] = ("hg.example.org",)
    """What is on the page in the place of addresses of this host."""
    numbers: tuple[str, ...] = ("8000",)
    """Its ports of servers that are behind another."""

    def __init__(self, scratch: Path, hg: Path, nginx: str | None) -> None:
        self.scratch = self.here = scratch
        self.nginx = nginx
        names = (*self.hosts, *self.numbers)
        self.ports = dict(zip(names, free_ports(len(names)), strict=True))
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
        text = re.sub(r"\s*ssl_certificate\S* .*", "", text)
        for host in self.hosts:
            text = text.replace(
                f"listen 443 ssl;\n    server_name {host};",
                f"listen 127.0.0.1:{self.ports[host]};\n    server_name {host};",
            )
            address = f"http://127.0.0.1:{self.ports[host]}"
            text = re.sub(rf"https?://{host}", address, text)
        for number in self.numbers:
            here = f"127.0.0.1:{self.ports[number]}"
            text = text.replace(f"127.0.0.1:{number}", here)
        return re.sub(r"/(srv|etc|run|opt)/", rf"{self.scratch}/\1/", text)

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

    def start_nginx(self, log: str = "off") -> None:
        """Start it with the configuration of the page; ``log`` is of requests."""
        temporary = "".join(
            f"{what}_temp_path {self.scratch}/{what};\n"
            for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config = self.scratch / "nginx.conf"
        config.write_text(
            _NGINX.format(scratch=self.scratch, temporary=temporary, log=log)
        )
        command = [str(self.nginx), "-p", str(self.scratch), "-c", str(config)]
        self.servers.start(command, self.scratch, self.scratch / "nginx.out")
        said = subprocess.run([str(self.nginx), "-v"], capture_output=True, text=True)
        print(f"web server: {said.stderr.strip()}")

    def close(self) -> None:
        """End what was started."""
        self.servers.stop()
