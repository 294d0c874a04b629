"""Takes the steps of docs/hosting.rst, and checks whence clients got what they have.

The web server is nginx. Where there is none, Python's http.server stands in for the one
that serves files, and that is said: it shows that the guide works, not that its nginx
configuration does. git-cinnabar and the object store, versitygw, are left out where
there is none, and that is said, too.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

from page import blocks
from walk import DOCS, Walk

_CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
_SECRETS = {
    "AWS_ACCESS_KEY_ID": "guide",
    "AWS_SECRET_ACCESS_KEY": "guides-secret",
    "AWS_REGION": "us-east-1",
}
# what everybody may do, as the guide says
_MAKE_BUCKET = """
import boto3, json
rules = [("s3:GetObject", "bundles/*"), ("s3:ListBucket", "bundles")]
statement = [
    {"Effect": "Allow", "Principal": "*", "Action": action,
     "Resource": "arn:aws:s3:::" + what} for action, what in rules
]
client = boto3.client("s3")
client.create_bucket(Bucket="bundles")
client.put_bucket_policy(Bucket="bundles", Policy=json.dumps({"Statement": statement}))
"""
_BUNDLE = re.compile(r'"GET /(\w+)/[0-9a-f]{64}\.(bundle|hg) HTTP/1\.\d" 200')
_FULL = re.compile(r"cmd=getbundle.*common=0{40}(?!\w)")


class BundleHosting(Walk):
    """One run: the place, the programs, and what was found so far."""

    page = "hosting.rst"
    hosts = ("hg.example.org", "bundles.example.org", "s3.example.org")

    def __init__(self, scratch: Path, hg: Path, nginx: str | None) -> None:
        super().__init__(scratch, hg, nginx)
        self.cinnabar = shutil.which("git-cinnabar") is not None
        if nginx is None:  # nothing is in front of hgweb
            self.ports["hg.example.org"] = self.ports["8000"]
        if "TMPDIR" in os.environ:
            self.environment["TMPDIR"] = os.environ["TMPDIR"]
        self._made: set[str] = set()
        self.python = hg.parent / "python3"
        self.s3 = _versitygw()
        if self.s3:
            endpoint = f"http://127.0.0.1:{self.ports['s3.example.org']}"
            self.environment |= _SECRETS | {"AWS_ENDPOINT_URL": endpoint}

    def local(self, text: str) -> str:
        """Return ``text`` of the page with the names of this run, and a log."""
        port = self.ports["8000"]
        text = text.replace("-p 8000", f"-p {port} -A {self.scratch}/hgweb.log")
        return super().local(text)

    def prepare(self) -> None:
        """Make all repositories: hgweb looks for new ones every 20 seconds only."""
        (self.scratch / "srv/www/bundles").mkdir(parents=True)
        for block in blocks((DOCS / self.page).read_text()):
            if block[0].endswith("/hgrc") and "/project/" not in block[0]:
                root = str(Path(self.local(block[0][2:])).parents[1])
                subprocess.run(["hg", "init", root], env=self.environment, check=True)
                self._made.add(root)

    def replaced(self, command: str) -> bool:
        """Start servers in the place of nginx's reload; leave out what is not here."""
        if command == "nginx -s reload":
            self._serve_files()
            return True
        if command.startswith("hg init") and self.local(command[8:]) in self._made:
            return True
        if "project-cinnabar" in command and not self.cinnabar:
            print("left out: there is no git-cinnabar")
            return True
        if "stored" in command and not self.s3:
            print("left out: there is no S3 server")
            return True
        return False

    def _serve_files(self) -> None:
        log = self.scratch / "files.log"
        if self.nginx is None:
            print("web server: python's http.server in place of nginx")
            port = str(self.ports["bundles.example.org"])
            command = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1"]
            command.append(port)
            self.servers.start(command, cwd=self.scratch / "srv/www/bundles", log=log)
        else:
            self.start_nginx(str(log))
        if self.s3:
            self._serve_objects(self.s3)
        for name in ("bundles.example.org", "8000"):
            self.servers.wait(self.ports[name])

    def _serve_objects(self, program: str) -> None:
        (self.scratch / "s3").mkdir()
        port = self.ports["s3.example.org"]
        user, secret = list(_SECRETS.values())[:2]
        command = [program, "--quiet", "--port", f"127.0.0.1:{port}"]
        command += ["--access", user, "--secret", secret]
        command += ["posix", str(self.scratch / "s3")]
        self.servers.start(command, cwd=self.scratch, log=self.scratch / "s3.log")
        self.servers.wait(port)
        make = [str(self.python), "-c", _MAKE_BUCKET]
        subprocess.run(make, env=self.environment, check=True)

    def check(self) -> None:
        """See that all clients have everything, and whence they had it."""
        clones = ["project-hg", "project-git"]
        if self.cinnabar:
            clones.append("project-cinnabar")
        for name in clones:
            text = self.scratch / name / "README"
            found = text.read_text() if text.exists() else "nothing"
            self.servers.expect(f"README of {name}", found, "hello\nmore\n")
        if self.cinnabar:
            self.run("git -C project-cinnabar cinnabar fsck --full")
        if self.s3:
            for name in ("stored-hg", "stored-git"):
                found = (self.scratch / name / "README").read_text()
                self.servers.expect(f"README of {name}", found, "hello\n")
            refs = ["git", "-C", "stored-git", "for-each-ref", "refs/bundles"]
            done = subprocess.run(refs, cwd=self.scratch, capture_output=True)
            self.servers.expect("bundles used from the store", bool(done.stdout), True)
        sent = (self.scratch / "hgweb.log").read_text()
        self.servers.expect("full getbundle", bool(_FULL.search(sent)), False)
        self.servers.expect("bundles sent by hgweb", sent.count("amalgam/bundles"), 0)
        served = _BUNDLE.findall((self.scratch / "files.log").read_text())
        # each was read once to be checked, and once by its client
        for repository, suffix, least in (
            ("project", "hg", 2),
            ("project", "bundle", 4 if self.cinnabar else 3),
            ("uploaded", "hg", 2),
        ):
            count = served.count((repository, suffix))
            label = f"downloads of {suffix} of {repository}, at least {least}"
            self.servers.expect(label, count >= least, True)
            print(f"{count} downloads of {suffix} of {repository}")
        if self.nginx:
            self._check_web_server()

    def _check_web_server(self) -> None:
        """See what nginx makes of its configuration."""
        base = f"http://127.0.0.1:{self.ports['bundles.example.org']}/project"
        path = next((self.scratch / "srv/www/bundles/project").glob("*.hg"))
        for what, options, expected in (
            (path.name, ["-r", "5-9"], "206"),
            (path.name, [], "200"),
            (f"{path.name}/info/refs", [], "404"),
            ("", [], "404"),
            ("bundles.list", [], "200"),
        ):
            command = ["curl", "-s", "-o", os.devnull, "-w", "%{http_code}", *options]
            done = subprocess.run([*command, f"{base}/{what}"], capture_output=True)
            self.servers.expect(f"status of {what}", done.stdout.decode(), expected)
        partial = self.scratch / "partial"
        partial.write_bytes(path.read_bytes()[:100])
        command = ["curl", "-sf", "-C", "-", "-o", str(partial), f"{base}/{path.name}"]
        subprocess.run(command, check=True)
        resumed = partial.read_bytes() == path.read_bytes()
        self.servers.expect("download that was interrupted", resumed, True)

    def close(self) -> None:
        """End what was started, and wait for what that left in the background."""
        super().close()
        path = self.scratch / "srv" / "hg" / "hgweb.pid"
        if path.exists():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(path.read_text()), 15)
        for _try in range(100):
            if not self._has_processes():
                return
            time.sleep(0.1)
        self.problems.append("something still runs in the background")

    def _has_processes(self) -> bool:
        """Look for processes with this home: nobody waits for generators."""
        home = f"HOME={self.scratch}".encode()
        for environment in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if home in environment.read_bytes().split(b"\0"):
                    return True
        return False


def _versitygw() -> str | None:
    places = map(str, _CACHE.glob("hg-amalgam/versitygw-*"))
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), *places])
    return shutil.which("versitygw", path=path)
