"""Takes the steps of docs/serving-git.rst, and checks what git gets from each server.

Files and commands are used as they are printed there; only addresses, directories and
users become those of this run. What cannot be done here is left out, and that is said:
a server that is not installed, or other users if root does not run this.

Over 350 lines: it follows one page, from the first step to the last.
"""

from __future__ import annotations

import contextlib
import gzip
import http.client
import os
import pwd
import random
import re
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from page import PATHS
from walk import Walk

# Apache wants an account, and every system has this one
_USERS = {"alice": 20001, "bob": 20002, "hg": pwd.getpwnam("nobody").pw_uid}
_SYSTEM_PYTHON = "/usr/bin/python3"
_MOD_WSGI = Path("/usr/lib/apache2/modules/mod_wsgi.so")
_CHANGESETS = 1600
_KERNEL = Path("/proc/sys/net/ipv4")
_BUFFERS = ("tcp_wmem", "tcp_rmem")
_MOST_FETCHES = 4
_MOST_CONNECTIONS = 12
_QUEUE_SECONDS = 2
_V2 = {"Git-Protocol": "version=2"}
_POST = {"Content-Type": "application/x-git-upload-pack-request", **_V2}
_APACHE = """
ServerRoot {scratch}
PidFile {scratch}/apache.pid
ErrorLog {scratch}/apache.log
LoadModule mpm_event_module /usr/lib/apache2/modules/mod_mpm_event.so
LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
LoadModule wsgi_module {mod_wsgi}
WSGISocketPrefix {scratch}/wsgi
{user}
Include {scratch}/etc/apache2/sites-enabled/*.conf
"""


def pkt(line: str) -> bytes:
    """Return one line of a request."""
    return f"{len(line) + 4:04x}{line}".encode()


LS_REFS = pkt("command=ls-refs\n") + b"0001" + pkt("ref-prefix refs/heads/\n") + b"0000"


class GitServers(Walk):
    """One run: the place, the programs, and the servers."""

    page = "serving-git.rst"
    hosts = ("hg.example.org", "uwsgi.example.org")
    numbers = ("8000", "8001", "8002")

    def __init__(self, scratch: Path, hg: Path, nginx: str | None) -> None:
        super().__init__(scratch, hg, nginx)
        self._site = Path(
            subprocess.run(
                [str(hg.with_name("python3")), "-c", _SITE],
                capture_output=True,
                check=True,
                text=True,
            ).stdout.strip()
        )
        self._python = self._choose_python(hg)
        (scratch / "tmp").mkdir()
        (scratch / "tmp").chmod(0o1777)
        self.environment |= {
            "TMPDIR": str(scratch / "tmp"),
            "PATH": f"{scratch}/opt/hg/bin:{PATHS}",
            "HGRCPATH": str(scratch / "etc/mercurial/hgrc"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        self._bases: dict[str, str] = {}
        self._make_venv()
        self._has_users = self._reaches_others()

    def _choose_python(self, hg: Path) -> str:
        """Return the system's Python, if this hg works with it."""
        own = str(hg.with_name("python3"))
        ask = ["-c", "import sys; print(sys.version_info[:2])"]
        versions = [
            subprocess.run([python, *ask], capture_output=True).stdout
            for python in (own, _SYSTEM_PYTHON)
            if Path(python).exists()
        ]
        if len(versions) == 2 and versions[0] == versions[1]:
            return _SYSTEM_PYTHON
        print("left out: mod_wsgi and uWSGI have another Python than this hg")
        return own

    def _make_venv(self) -> None:
        """Make /opt/hg of what is installed beside hg, instead of downloading it."""
        venv = self.scratch / "opt/hg"
        command = [self._python, "-m", "venv", "--without-pip", str(venv)]
        subprocess.run(command, check=True)
        site = next(venv.glob("lib/python*/site-packages"))
        path = f"import site; site.addsitedir({str(self._site)!r})\n"
        (site / "beside.pth").write_text(path)
        for name, module in (("hg", "mercurial.dispatch"), ("gunicorn", "")):
            script = venv / "bin" / name
            what = _HG if module else _GUNICORN
            script.write_text(f"#!{venv}/bin/python3\n{what}")
            script.chmod(0o755)

    def _reaches_others(self) -> bool:
        """Tell whether there can be other users, who reach what is needed here."""
        if os.geteuid() or not shutil.which("setpriv"):
            print("left out: other users, because root does not run this")
            return False
        self.scratch.chmod(0o755)
        command = [
            *_become("hg"),
            str(self.scratch / "opt/hg/bin/hg"),
            "version",
            "-q",
        ]
        config = ["--config", "extensions.amalgam="]
        environment = self.environment | {"HGRCPATH": ""}
        done = subprocess.run(
            [*command, *config], env=environment, capture_output=True, cwd="/"
        )
        if done.returncode or b"failed to import" in done.stderr:
            print("left out: other users, because they do not reach this checkout")
            return False
        return True

    def local(self, text: str) -> str:
        """Return ``text`` of the page with the names of this run."""
        text = super().local(text)
        # whoever waits for his turn waits as long
        text = re.sub("queue-timeout = .*", f"queue-timeout = {_QUEUE_SECONDS}", text)
        return self._with_users(text)

    def _with_users(self, text: str) -> str:
        for name, uid in _USERS.items():
            if self._has_users:
                text = text.replace(f"-o {name} -g {name}", f"-o {uid} -g {uid}")
                text = text.replace(f"sudo -u {name}", shlex.join(_become(name)))
                text = re.sub(rf"(users = .*)\b{name}\b", rf"\g<1>{uid}", text)
                text = re.sub(rf'(?m)^((?:user|group) = )"{name}"', rf'\1"{uid}"', text)
                text = re.sub(rf"(?m)^([ug]id = ){name}$", rf"\g<1>{uid}", text)
                text = text.replace(
                    f"user={name} group={name}", f"user=#{uid} group=#{uid}"
                )
            else:
                text = text.replace(f"-o {name} -g {name} ", "")
                text = text.replace(f"sudo -u {name} ", "")
                text = re.sub(rf'(?m)^(user|group) = "{name}"\n', "", text)
                text = re.sub(rf"(?m)^[ug]id = {name}\n", "", text)
                text = text.replace(f"user={name} group={name} ", "")
        return text

    def write(self, name: str, text: str) -> None:
        """Write a file of the page, for the owner of its directory."""
        super().write(name, text)
        path = Path(self.local(name))
        owner = path.parent.stat()
        os.chown(path, owner.st_uid, owner.st_gid)

    def replaced(self, command: str) -> bool:
        """Start a server in the place of a command that does; leave some out."""
        starts = {
            "/opt/hg/bin/gunicorn": self._start_gunicorn,
            "apachectl graceful": self._start_apache,
            "service uwsgi start": self._start_uwsgi,
            "nginx -s reload": self._start_nginx,
        }
        for beginning, start in starts.items():
            if command.startswith(beginning):
                print(f"$ {command}", flush=True)
                start(command)
                return True
        if re.match(r"useradd |python3 -m venv |\S*/pip install |ln -s ", command):
            print(f"made of what is installed already: {command}")
            return True
        if not self.nginx and ("example.org" in command or "project-git" in command):
            print(f"left out: there is no nginx: {command}")
            return True
        return False

    def run(self, command: str, code: int = 0) -> str:
        """Run a command; what alice commits first comes with more of hers."""
        said = super().run(command, code)
        if command.endswith("'first change'"):
            self._add_contents()
        return said

    def _add_contents(self) -> None:
        """Give alice repositories: of many commits, and of more than sockets hold."""
        root = "/srv/hg/alice"
        large = self.scratch / "large"
        large.write_bytes(random.Random(0).randbytes(_bytes_in_sockets() + (8 << 20)))
        steps = [
            f"hg init {root}/large",
            f"cp large {root}/large",
            f"hg -R {root}/large commit -A -q -m large",
            f"hg init {root}/many",
            f"hg -R {root}/many debugbuilddag +{_CHANGESETS}",
            f"hg -R {root}/many log -T '{{node}} b{{rev}}\\n' > {root}/bookmarks",
            f"mv {root}/bookmarks {root}/many/.hg/bookmarks",
            f"hg -R {root}/many phase -p 'all()'",
            f"hg -R {root}/many git::export -q",
            f"hg -R {root}/large git::export -q",
            f"hg -R {root}/project git::export -q",
        ]
        for step in steps:
            super().run(f"sudo -u alice sh -c {shlex.quote(step)}")

    def _start_gunicorn(self, command: str) -> None:
        words = shlex.split(self.local(command.removesuffix(" --daemon")))
        if not (self._site / "gunicorn").exists():
            print("left out: there is no gunicorn")
            return
        self._serve("gunicorn", words, self.ports["8000"])

    def _start_apache(self, _command: str) -> None:
        apache = shutil.which("apache2", path=PATHS)
        if not apache or not _MOD_WSGI.exists() or self._python != _SYSTEM_PYTHON:
            print("left out: there is no Apache with mod_wsgi for this Python")
            return
        user = f"User #{_USERS['hg']}\nGroup #{_USERS['hg']}" if self._has_users else ""
        config = self.scratch / "apache.conf"
        text = _APACHE.format(scratch=self.scratch, user=user, mod_wsgi=_MOD_WSGI)
        config.write_text(text)
        command = [apache, "-f", str(config), "-DFOREGROUND"]
        self._serve("mod_wsgi", command, self.ports["8001"])

    def _start_uwsgi(self, _command: str) -> None:
        uwsgi = shutil.which("uwsgi", path=PATHS)
        if not uwsgi or not self.nginx or self._python != _SYSTEM_PYTHON:
            print("left out: there is no uWSGI for this Python, or no nginx")
            return
        config = str(self.scratch / "etc/uwsgi/apps-enabled/hg.ini")
        self._serve("uWSGI", [uwsgi, "--ini", config], self.ports["8002"])
        self._bases["uWSGI"] = self.local("https://uwsgi.example.org")

    def _serve(self, name: str, command: list[str], port: int) -> None:
        log = self.scratch / f"{name}.log"
        self.servers.start(command, cwd=self.scratch, log=log)
        self.servers.wait(port)
        self._bases[name] = f"http://127.0.0.1:{port}"

    def _start_nginx(self, _command: str) -> None:
        if not self.nginx:
            print("left out: there is no nginx")
            return
        parameters = Path("/etc/nginx/uwsgi_params")
        if "uWSGI" in self._bases and parameters.exists():
            shutil.copy(parameters, self.scratch / "etc/nginx/uwsgi_params")
        else:
            (self.scratch / "etc/nginx/conf.d/uwsgi.conf").unlink()
        self.start_nginx()
        self.servers.wait(self.ports["hg.example.org"])
        self._bases["nginx"] = self.local("https://hg.example.org")

    def check(self) -> None:
        """See what clients get from each server."""
        if "nginx" in self._bases:
            for name in ("project-hg", "project-git"):
                readme = self.scratch / name / "README"
                text = readme.read_text() if readme.exists() else "nothing"
                # hg has pulled nothing since
                expected = "hello\n" if name == "project-hg" else "hello\nmore\n"
                self.servers.expect(f"README of {name}", text, expected)
        for name, base in self._bases.items():
            print(f"{name}: clones, requests, and limits", flush=True)
            try:
                self._check_clones(name, base)
                self._check_requests(name, base)
                self._check_abort(name, base)
                self._check_limits(name, base)
                if name == "nginx":
                    self._check_connections(base)
            except OSError as exc:  # no answer in time
                self.problems.append(f"{name}: {exc!r}")

    def _check_clones(self, name: str, base: str) -> None:
        url, many = f"{base}/alice/project", f"{base}/alice/many"
        for version, words in (
            ("2", ["--mirror", url]),
            ("2", ["--depth=1", url]),
            ("2", ["--filter=blob:none", url]),
            # what is wanted fills more than this, and goes in chunks
            ("0", ["--mirror", "-c", "http.postBuffer=65537", many]),
            ("2", ["--mirror", "-c", "http.postBuffer=65537", many]),
        ):
            target = self.scratch / f"clone-of-{name}"
            command = ["git", "-c", f"protocol.version={version}", "clone", "-q"]
            what = f"{name}: {' '.join(words[:-1])} by version {version}"
            done = self._git(*command[1:], *words, str(target))
            self.servers.expect(what, (done.returncode, done.stderr), (0, ""))
            done = self._git("-C", str(target), "fsck", "--strict")
            self.servers.expect(f"{what}: fsck", done.returncode, 0)
            shutil.rmtree(target, ignore_errors=True)
        if self._has_users:
            done = self._git("ls-remote", f"{base}/bob/closed")
            self.servers.expect(f"{name}: denied", done.returncode, 128)

    def _git(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["git", *words],
            env=self.environment | {"GIT_TERMINAL_PROMPT": "0"},
            capture_output=True,
            text=True,
        )

    def _check_requests(self, name: str, base: str) -> None:
        """See that large and compressed requests arrive whole."""
        status, _headers, refs = _post(base, LS_REFS)
        self.servers.expect(f"{name}: ls-refs", status, 200)
        for what, headers, body in (
            ("gzip", {"Content-Encoding": "gzip"}, gzip.compress(LS_REFS)),
            ("chunked", {}, iter([LS_REFS])),
            (
                "chunked gzip",
                {"Content-Encoding": "gzip"},
                iter([gzip.compress(LS_REFS)]),
            ),
        ):
            found = _post(base, body, **headers)
            self.servers.expect(f"{name}: {what}", (found[0], found[2]), (200, refs))
        known = b"".join(pkt(f"have {number:040x}\n") for number in range(1, 30_000))
        asked = self._fetch(refs, known)
        for what, sent in (("whole", asked), ("chunked", iter(_parts(asked)))):
            status, _headers, answer = _post(base, sent)
            label = f"{name}: {len(asked)} bytes, {what}"
            self.servers.expect(label, (status, b"NAK" in answer[:100]), (200, True))

    def _fetch(self, refs: bytes, known: bytes = b"") -> bytes:
        """Return a request for all that ``refs`` name."""
        oids = sorted(set(re.findall(rb"([0-9a-f]{40}) refs/", refs)))
        wanted = b"".join(pkt(f"want {oid.decode()}\n") for oid in oids)
        end = b"" if known else pkt("done\n")
        return pkt("command=fetch") + b"0001" + wanted + known + end + b"0000"

    def _check_abort(self, name: str, base: str) -> None:
        """See that no process of git stays when its client leaves."""
        with self._stuck(base, 1):
            self.servers.expect(f"{name}: git runs", bool(self._gits()), True)
        self._expect_no_git(name)

    def _expect_no_git(self, name: str) -> None:
        for _try in range(200):
            if not self._gits():
                return
            time.sleep(0.1)
        self.servers.expect(f"{name}: processes of git that stay", self._gits(), [])

    def _check_limits(self, name: str, base: str) -> None:
        """See that who comes too late is told so, and that all others are served."""
        refs = _post(base, LS_REFS)[2]
        with self._stuck(base, _MOST_FETCHES):
            status, headers, _body = _post(base, self._fetch(refs))
            found = (status, headers.get("Retry-After"))
            self.servers.expect(f"{name}: one fetch too many", found, (503, "10"))
            self.servers.expect(f"{name}: ls-refs", _post(base, LS_REFS)[0], 200)
            served = (_get(base, "?cmd=capabilities"), len(self._gits()) > 0)
            self.servers.expect(f"{name}: hg meanwhile", served, (200, True))
        self._expect_no_git(name)

    def _check_connections(self, base: str) -> None:
        """See that nginx refuses what would take all threads."""
        with self._stuck(base, _MOST_CONNECTIONS, answered=_MOST_FETCHES):
            status, headers, _body = _post(base, LS_REFS)
            found = (status, headers.get("Retry-After"))
            self.servers.expect("one connection too many", found, (503, "10"))
            answered_hg = _get(base, "?cmd=capabilities")
            self.servers.expect("hg meanwhile", answered_hg, 200)
        self._expect_no_git("nginx")

    @contextlib.contextmanager
    def _stuck(
        self, base: str, count: int, answered: int | None = None
    ) -> Iterator[None]:
        """Let clients ask for a large file, and read only how the answer begins.

        ``answered``: how many of them get one.
        """
        body = self._fetch(_post(base, LS_REFS, "large")[2])
        port = int(base.rpartition(":")[2])
        lines = [f"{key}: {value}" for key, value in _POST.items()]
        lines += ["Host: x", f"Content-Length: {len(body)}"]
        head = "POST /alice/large/git-upload-pack HTTP/1.1\r\n" + "\r\n".join(lines)
        with contextlib.ExitStack() as stack:
            clients = []
            for _number in range(count):
                client = socket.socket()
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
                stack.enter_context(client)
                client.connect(("127.0.0.1", port))
                client.settimeout(60)
                client.sendall(f"{head}\r\n\r\n".encode() + body)
                clients.append(client)
                if answered is None or len(clients) <= answered:
                    client.recv(1000)
            if answered is not None:
                time.sleep(_QUEUE_SECONDS / 4)  # nginx has taken the last of them
            yield

    def _gits(self) -> list[int]:
        """Return the processes that send packs of the repositories here."""
        found = []
        store = f"GIT_DIR={self.scratch}".encode()
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                variables = (process / "environ").read_bytes()
                if store in variables and b"upload-pack" in _words(process):
                    found.append(int(process.name))
        return found

    def close(self) -> None:
        """End all servers, and show what they said if something is wrong."""
        super().close()
        for log in sorted(self.scratch.glob("*.log")) if self.problems else ():
            print(f"{log.name}:\n{log.read_text(errors='replace')[-2000:]}")


def _words(process: Path) -> list[bytes]:
    return (process / "cmdline").read_bytes().split(b"\0")


def _become(name: str) -> list[str]:
    number = str(_USERS[name])
    return ["setpriv", "--reuid", number, "--regid", number, "--clear-groups", "--"]


def _parts(body: bytes) -> Iterator[bytes]:
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]


def _bytes_in_sockets() -> int:
    """Return how much a kernel takes between git and a client that does not read.

    A server sends to nginx, and nginx to the client: two times two buffers.
    """
    largest = [(_KERNEL / name).read_text().split()[-1] for name in _BUFFERS]
    return 2 * sum(map(int, largest))


def _post(
    base: str,
    body: bytes | Iterator[bytes],
    repository: str = "project",
    **headers: str,
) -> tuple[int, dict[str, str], bytes]:
    """Send a request for a repository of alice, in chunks if it comes in pieces."""
    sent = _POST | {name.replace("_", "-"): value for name, value in headers.items()}
    connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=60)
    with contextlib.closing(connection):
        path = f"/alice/{repository}/git-upload-pack"
        connection.request("POST", path, body, sent)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read()


def _get(base: str, path: str) -> int:
    connection = http.client.HTTPConnection(base.removeprefix("http://"), timeout=5)
    with contextlib.closing(connection):
        connection.request("GET", f"/alice/project/{path}")
        return connection.getresponse().status


_SITE = "import sysconfig; print(sysconfig.get_path('purelib'))"
_HG = "from mercurial import dispatch\ndispatch.run()\n"
_GUNICORN = "from gunicorn.app.wsgiapp import run\nrun()\n"
