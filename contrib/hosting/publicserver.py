"""Takes the steps of docs/public-servers.rst, and checks who gets what."""

from __future__ import annotations

import contextlib
import http.client
import socket
import urllib.request
from pathlib import Path

from walk import Walk

_REQUESTS = 60
_MOST_CLONES = 4
_POST = (
    b"POST /project/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
)


class PublicServer(Walk):
    """One run, with nginx; without it, nothing is done."""

    page = "public-servers.rst"

    def __init__(self, scratch: Path, hg: Path, nginx: str | None) -> None:
        super().__init__(scratch, hg)
        self._nginx = nginx

    def follow(self) -> None:
        """Take all steps, if there is nginx."""
        if self._nginx is None:
            print("nginx: left out, because there is none")
            return
        super().follow()

    def prepare(self) -> None:
        """Make the repository, and start hgweb, as hosting.rst has it."""
        for command in (
            "mkdir -p /srv/hg",
            "hg init /srv/hg/project",
            "echo hello > /srv/hg/project/README",
            "hg -R /srv/hg/project commit -Aqm first --config phases.new-commit=public",
        ):
            self.run(command)
        extensions = "[extensions]\namalgam =\nclonebundles =\n"
        config = "[paths]\n/ = /srv/hg/*\n[web]\nbaseurl = https://hg.example.org\n"
        config += extensions
        self.write("/srv/hg/hgweb.conf", config)
        port = self.ports["127.0.0.1:8000"]
        serve = ["hg", "serve", "--webdir-conf", f"{self.scratch}/srv/hg/hgweb.conf"]
        serve += ["-a", "127.0.0.1", "-p", str(port)]
        self.servers.start(serve, self.scratch, self.scratch / "hgweb.log")
        self.servers.wait(port)

    def replaced(self, command: str) -> bool:
        """Start nginx in the place of its reload."""
        if command != "nginx -s reload":
            return False
        config = self.scratch / "nginx.conf"
        temporary = "".join(
            f"{what}_temp_path {self.scratch}/{what};\n"
            for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        config.write_text(
            f"daemon off; pid {self.scratch}/nginx.pid;\n"
            f"error_log {self.scratch}/nginx.err;\nevents {{ }}\nhttp {{\n"
            f"access_log off;\n{temporary}"
            f"include {self.scratch}/etc/nginx/conf.d/*.conf;\n}}\n"
        )
        start = [str(self._nginx), "-p", str(self.scratch), "-c", str(config)]
        self.servers.start(start, self.scratch, self.scratch / "nginx.out")
        self.servers.wait(self.ports["hg.example.org"])
        print("nginx: started with the configuration of the page")
        return True

    def check(self) -> None:
        """See what the limits hold up, and what they do not."""
        if self._nginx is None:
            return
        base = self.local("https://hg.example.org")
        with urllib.request.urlopen(f"{base}/robots.txt") as answer:
            robots = answer.read().decode().splitlines()
        expected = ["User-agent: *", "Disallow: /*/*/", "Disallow: /*?"]
        self.servers.expect("robots.txt", robots, expected)
        page = "/project/annotate/tip/README"
        own = [self._status(page, "127.0.0.1") for _time in range(_REQUESTS)]
        self.servers.expect("pages for one address", set(own), {200, 429})
        self._expect_limit_of_all(page)
        # users of hg and git are not held up meanwhile
        asked = [
            self._status("/project?cmd=capabilities") for _time in range(_REQUESTS)
        ]
        self.servers.expect("requests of hg", set(asked), {200})
        refs = "/project/info/refs?service=git-upload-pack"
        asked = [self._status(refs) for _time in range(_REQUESTS // 4)]
        self.servers.expect("lists of refs", set(asked), {200})
        self._expect_limit_of_clones()
        clone = "hg clone -q https://hg.example.org/project"
        self.run(f"{clone} later-hg")
        self.run("git clone -q https://hg.example.org/project later-git")
        said = self.run(f"{clone} --config ui.clonebundles=no full-hg", 255)
        refused = "server has pull-based clones disabled" in said
        self.servers.expect("refusal of a full clone", refused, True)

    def _status(self, path: str, address: str = "127.0.0.1") -> int:
        port = self.ports["hg.example.org"]
        source = (address, 0)
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", port, source_address=source)
        ) as connection:
            connection.request("GET", path)
            return connection.getresponse().status

    def _expect_limit_of_all(self, page: str) -> None:
        """Let each of many addresses send a request, all at once."""
        port = self.ports["hg.example.org"]
        with contextlib.ExitStack() as stack:
            connections = [
                stack.enter_context(
                    contextlib.closing(
                        http.client.HTTPConnection(
                            "127.0.0.1", port, source_address=(f"127.0.1.{it}", 0)
                        )
                    )
                )
                for it in range(1, _REQUESTS)
            ]
            for connection in connections:
                connection.request("GET", page)
            found = {connection.getresponse().status for connection in connections}
        self.servers.expect("pages for many addresses", found, {200, 429})

    def _expect_limit_of_clones(self) -> None:
        """Begin some requests for packs, and send another one."""
        port = self.ports["hg.example.org"]
        with contextlib.ExitStack() as stack:
            for _number in range(_MOST_CLONES):
                connection = socket.create_connection(("127.0.0.1", port))
                stack.enter_context(connection)
                connection.sendall(_POST)
            # nginx has seen these, if it answers one that came later
            self._status("/robots.txt")
            another = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
            another.sendall(_POST)
            status = another.recv(64).split(b" ")[1]
        self.servers.expect("one pack more for an address", status, b"429")
