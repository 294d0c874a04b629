"""Take the steps of the guides, and check what clients got: guide.py --hg PATH.

The guides are docs/hosting.rst, docs/serving-git.rst, for which ``gitservers`` is,
docs/public-servers.rst (``publicserver``), and docs/adopting.rst (``migration``).
Every file and command is used as it is printed there; only addresses and directories
become those of a scratch directory and of the loopback. The web server is
nginx. Where there is none, Python's http.server stands in for the one that serves
files, and that is said: it shows that the guide works, not that its nginx configuration
does. git-cinnabar and the object store, versitygw, are left out where there is none,
and that is said, too. Ends with 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gitservers import GitServers
from migration import Migration
from page import Servers, blocks, free_port
from publicserver import PublicServer

GUIDE = Path(__file__).parents[2] / "docs" / "hosting.rst"
_HOSTS = ("hg.example.org", "bundles.example.org", "s3.example.org")
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


class Guide:
    """One run: the place, the programs, and what was found so far."""

    def __init__(self, scratch: Path, hg: Path, nginx: str | None) -> None:
        self.scratch = scratch
        self.nginx = nginx
        self.cinnabar = shutil.which("git-cinnabar") is not None
        self.ports = {host: free_port() for host in _HOSTS}
        self.behind = free_port()
        if nginx is None:  # nothing is in front of hgweb
            self.ports["hg.example.org"] = self.behind
        kept = {name: os.environ[name] for name in ("TMPDIR",) if name in os.environ}
        self.environment = kept | {
            "PATH": f"{hg.parent}:{os.environ['PATH']}",
            "HOME": str(scratch),
            "HGRCPATH": "",
            "HGUSER": "guide",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CONFIG_GLOBAL": str(scratch / "gitconfig"),
            "GIT_CINNABAR_CHECK": "no-version-check",
        }
        self.python = hg.parent / "python3"
        self.s3 = _versitygw()
        if self.s3:
            endpoint = f"http://127.0.0.1:{self.ports['s3.example.org']}"
            self.environment |= _SECRETS | {"AWS_ENDPOINT_URL": endpoint}
        self._servers = Servers(self.environment)
        self.problems = self._servers.problems
        (scratch / "gitconfig").write_text("[pull]\n\tff = only\n")
        (scratch / "srv" / "www" / "bundles").mkdir(parents=True)
        (scratch / "srv" / "hg").mkdir()

    def local(self, text: str) -> str:
        """Return ``text`` of the guide with the addresses of this run."""
        text = re.sub(r"\s*ssl_certificate\S* .*", "", text)
        for host, port in self.ports.items():
            text = text.replace(
                f"listen 443 ssl;\n    server_name {host};",
                f"listen 127.0.0.1:{port};\n    server_name {host};",
            )
            text = re.sub(rf"https?://{host}", f"http://127.0.0.1:{port}", text)
        text = text.replace("127.0.0.1:8000", f"127.0.0.1:{self.behind}")
        text = text.replace("-p 8000", f"-p {self.behind} -A {self.scratch}/hgweb.log")
        return re.sub(r"/(srv|etc)/", rf"{self.scratch}/\1/", text)

    def follow(self) -> None:
        """Take all steps."""
        steps = list(blocks(GUIDE.read_text()))
        for block in steps:
            # hgweb looks for new repositories every 20 seconds only
            if block[0].endswith("/hgrc") and "/project/" not in block[0]:
                root = Path(self.local(block[0][2:])).parents[1]
                subprocess.run(["hg", "init", root], env=self.environment, check=True)
        for block in steps:
            if block[0].startswith("# /"):
                self._write(block[0][2:], "\n".join(block))
            for line in block:
                if line.startswith("$ "):
                    self._run(line[2:])

    def _write(self, name: str, text: str) -> None:
        path = Path(self.local(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(self.local(text).rstrip() + "\n")
        print(f"wrote {name}")

    def _run(self, command: str) -> None:
        print(f"$ {command}", flush=True)
        if command == "nginx -s reload":
            self._serve_files()
            return
        if "project-cinnabar" in command and not self.cinnabar:
            print("left out: there is no git-cinnabar")
            return
        if "stored" in command and not self.s3:
            print("left out: there is no S3 server")
            return
        self._servers.shell(self.local(command), self.scratch)

    def _serve_files(self) -> None:
        log = self.scratch / "files.log"
        if self.nginx is None:
            print("web server: python's http.server in place of nginx")
            port = str(self.ports["bundles.example.org"])
            command = [sys.executable, "-u", "-m", "http.server", "--bind", "127.0.0.1"]
            command.append(port)
            self._servers.start(command, cwd=self.scratch / "srv/www/bundles", log=log)
        else:
            said = subprocess.run([self.nginx, "-v"], capture_output=True, text=True)
            print(f"web server: {said.stderr.strip()}")
            config = self.scratch / "nginx.conf"
            config.write_text(
                f"daemon off; pid {self.scratch}/nginx.pid;\n"
                f"error_log {self.scratch}/nginx.err;\nevents {{ }}\nhttp {{\n"
                f"  access_log {log};\n"
                + "".join(
                    f"  {what}_temp_path {self.scratch}/{what};\n"
                    for what in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
                )
                + f"  include {self.scratch}/etc/nginx/conf.d/*.conf;\n}}\n"
            )
            command = [self.nginx, "-p", str(self.scratch), "-c", str(config)]
            self._servers.start(
                command, cwd=self.scratch, log=self.scratch / "nginx.out"
            )
        if self.s3:
            self._serve_objects(self.s3)
        for port_number in (self.ports["bundles.example.org"], self.behind):
            self._servers.wait(port_number)

    def _serve_objects(self, program: str) -> None:
        (self.scratch / "s3").mkdir()
        port = self.ports["s3.example.org"]
        user, secret = list(_SECRETS.values())[:2]
        command = [program, "--quiet", "--port", f"127.0.0.1:{port}"]
        command += ["--access", user, "--secret", secret]
        command += ["posix", str(self.scratch / "s3")]
        self._servers.start(command, cwd=self.scratch, log=self.scratch / "s3.log")
        self._servers.wait(port)
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
            self._servers.expect(f"README of {name}", found, "hello\nmore\n")
        if self.cinnabar:
            self._run("git -C project-cinnabar cinnabar fsck --full")
        if self.s3:
            for name in ("stored-hg", "stored-git"):
                found = (self.scratch / name / "README").read_text()
                self._servers.expect(f"README of {name}", found, "hello\n")
            refs = ["git", "-C", "stored-git", "for-each-ref", "refs/bundles"]
            done = subprocess.run(refs, cwd=self.scratch, capture_output=True)
            self._servers.expect("bundles used from the store", bool(done.stdout), True)
        sent = (self.scratch / "hgweb.log").read_text()
        self._servers.expect("full getbundle", bool(_FULL.search(sent)), False)
        self._servers.expect("bundles sent by hgweb", sent.count("amalgam/bundles"), 0)
        served = _BUNDLE.findall((self.scratch / "files.log").read_text())
        # each was read once to be checked, and once by its client
        for repository, suffix, least in (
            ("project", "hg", 2),
            ("project", "bundle", 4 if self.cinnabar else 3),
            ("uploaded", "hg", 2),
        ):
            count = served.count((repository, suffix))
            label = f"downloads of {suffix} of {repository}, at least {least}"
            self._servers.expect(label, count >= least, True)
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
            self._servers.expect(f"status of {what}", done.stdout.decode(), expected)
        partial = self.scratch / "partial"
        partial.write_bytes(path.read_bytes()[:100])
        command = ["curl", "-sf", "-C", "-", "-o", str(partial), f"{base}/{path.name}"]
        subprocess.run(command, check=True)
        resumed = partial.read_bytes() == path.read_bytes()
        self._servers.expect("download that was interrupted", resumed, True)

    def close(self) -> None:
        """End what was started, and wait for what that left in the background."""
        self._servers.stop()
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


def main() -> int:
    """Follow the guides, and return the exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--hg", type=Path, required=True)
    parser.add_argument("--nginx", default=shutil.which("nginx", path=_PATHS))
    parser.add_argument("--only", choices=_KINDS)
    options = parser.parse_args()
    problems = []
    for page, kind in _KINDS.items():
        if options.only in (None, page):
            problems += followed(kind, options.hg.absolute(), options.nginx)
    print("wrong" if problems else "all is as the guides say")
    return 1 if problems else 0


_Kind = type[Guide] | type[GitServers] | type[PublicServer] | type[Migration]


def followed(kind: _Kind, hg: Path, nginx: str | None) -> list[str]:
    """Follow one guide in a place of its own; return and print what is wrong."""
    with tempfile.TemporaryDirectory(prefix="hosting-") as directory:
        scratch = Path(directory)
        scratch.chmod(0o755)  # the web server runs as somebody else
        guide = kind(scratch, hg, nginx)
        try:
            guide.follow()
            guide.check()
        finally:
            guide.close()
        for problem in guide.problems:
            print(f"wrong: {problem}")
        return guide.problems


_KINDS: dict[str, _Kind] = {
    "hosting": Guide,
    "serving-git": GitServers,
    "public-servers": PublicServer,
    "adopting": Migration,
}
_PATHS = f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin"

if __name__ == "__main__":
    sys.exit(main())
