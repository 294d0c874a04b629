"""Takes the steps of docs/public-servers.rst, and checks who gets what."""

from __future__ import annotations

import contextlib
import http.client
import socket
import urllib.request

from walk import Walk

_REQUESTS = 60
_MOST_CLONES = 4
_POST = (
    b"POST /project/git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n"
)


class PublicServer(Walk):
    """One run, with nginx; without it, nothing is done."""

    page = "public-servers.rst"

    def follow(self) -> None:
        """Take all steps, if there is nginx."""
        if self.nginx is None:
            print("web server: left out, because there is no nginx")
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
        port = self.ports["8000"]
        serve = ["hg", "serve", "--webdir-conf", f"{self.scratch}/srv/hg/hgweb.conf"]
        serve += ["-a", "127.0.0.1", "-p", str(port)]
        self.servers.start(serve, self.scratch, self.scratch / "hgweb.log")
        self.servers.wait(port)

    def replaced(self, command: str) -> bool:
        """Start nginx in the place of its reload."""
        if command != "nginx -s reload":
            return False
        self.start_nginx()
        self.servers.wait(self.ports["hg.example.org"])
        return True

    def check(self) -> None:
        """See what the limits hold up, and what they do not."""
        if self.nginx is None:
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
