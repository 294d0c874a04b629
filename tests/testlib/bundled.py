"""A repository with bundles for hg and git, and the hgweb that serves it."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from .environment import HG, add_items
from .hgserver import HgServer, Outcome
from .webserver import serving

REFRESH = "admin::clone-bundles-refresh"
CLEAR = "admin::clone-bundles-clear"
FORMATS = ("git-v2", "cinnabar-v1")
NAME = re.compile(r"[0-9a-f]{64}\.(bundle|hg)")
_OWN = {"register", "bundles.list", "lock"}


class Bundled:
    """A repository on a server, and what is published of it."""

    def __init__(self, root: Path, server: HgServer) -> None:
        self.root = root
        self.dot_hg = root / ".hg"
        self.directory = self.dot_hg / "amalgam" / "bundles"
        self._server = server
        self.environment = dict(server.environment)

    @classmethod
    def init(
        cls,
        root: Path,
        server: HgServer,
        *,
        git: Sequence[str] = FORMATS,
        hg: Sequence[str] = ("gzip-v2",),
        changesets: int = 3,
    ) -> Bundled:
        """Make a repository with some public changesets and no bundle."""
        made = cls(root, server)
        server.hg(root.parent, "init", str(root))
        made.configure("extensions", amalgam="", clonebundles="")
        made.configure("phases", new_commit="public")
        made.configure(
            "clone-bundles",
            git__formats=", ".join(git),
            auto_generate__formats=", ".join(hg),
        )
        for _number in range(changesets):
            made.commit()
        return made

    def copied(self, directory: Path) -> Bundled:
        """Copy the repository, and all that was made of it."""
        shutil.copytree(self.root, directory / "repo", symlinks=True)
        return Bundled(directory / "repo", self._server)

    def configure(self, section: str, **items: object) -> None:
        """Add to the configuration; ``__`` is a dot in the name of an item."""
        add_items(self.root, section, **items)

    def run(self, *args: str) -> Outcome:
        return self._server.run(self.root, *args)

    def hg(self, *args: str) -> str:
        return self._server.hg(self.root, *args).decode()

    def commit(self, text: str | None = None, *args: str) -> str:
        """Commit a file with ``text``, and return the node."""
        number = len(list(self.root.glob("file*")))
        (self.root / f"file{number}").write_text((text or f"text {number}") + "\n")
        message = f"change {number}"
        self.hg("commit", "-qAm", message, "-d", f"{number} 0", *args)
        return self.hg("log", "-r", ".", "-T", "{node}")

    def refresh(self) -> None:
        self.hg("admin::clone-bundles-refresh")

    def start_refresh(self, **options: Any) -> subprocess.Popen[bytes]:
        """Start a process that generates."""
        return subprocess.Popen(
            [str(HG), "admin::clone-bundles-refresh"],
            cwd=self.root,
            # where the size of files is limited, Python would leave half of a module
            env=self.environment | {"PYTHONDONTWRITEBYTECODE": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )

    def rows(self, state: str | None = None) -> list[dict[str, Any]]:
        """Return the rows of ``admin::amalgam``."""
        done = self.run("admin::amalgam", "-T", "json")
        (shown,) = json.loads(done.out)
        rows = shown["bundles"]
        return [row for row in rows if state in (None, row["state"])]

    def problems(self) -> list[dict[str, str]]:
        """Return what ``admin::amalgam`` says is wrong."""
        (shown,) = json.loads(self.run("admin::amalgam", "-T", "json").out)
        return list(shown["problems"])

    def live(self, bundle_format: str) -> Path:
        """Return the file of the one bundle of a format that is advertised."""
        (row,) = (r for r in self.rows("live") if r["format"] == bundle_format)
        return self.directory / row["name"]

    def read(self, name: str) -> str:
        """Return a file below ``.hg``; nothing if it is not there."""
        path = self.dot_hg / name
        return path.read_text() if path.exists() else ""

    def manifests(self) -> str:
        """Return all that names bundles to clients."""
        listed = self.read("amalgam/bundles/bundles.list")
        return self.manifests_of_clients() + listed

    def manifests_of_clients(self) -> str:
        """Return what Mercurial and git-cinnabar are told, as it is on disk."""
        names = ("clonebundles.manifest", "cinnabar.manifest")
        return "".join(map(self.read, names))

    def live_names(self) -> set[str]:
        return {row["name"] for row in self.rows("live")}

    def named(self) -> set[str]:
        """Return the names of the bundles that the manifests name."""
        return {found[0] for found in NAME.finditer(self.manifests())}

    def tokens(self) -> list[tuple[str, int]]:
        """Return what ``bundles.list`` has: kind and token of each, in its order."""
        text = self.read("amalgam/bundles/bundles.list")
        kinds = re.findall(r'\[bundle "(\w+)-\d+"\]', text)
        return list(
            zip(kinds, map(int, re.findall(r"Token = (\d+)", text)), strict=True)
        )

    def bundles(self) -> set[str]:
        """Return the names of the bundles that are there."""
        names = {path.name for path in self.directory.iterdir()} - _OWN
        return {name for name in names if not name.endswith(".heads")}

    def debris(self) -> set[str]:
        """Return what generators left and should not have."""
        left = {name for name in self.bundles() if not NAME.fullmatch(name)}
        left |= {row["name"] for row in self.rows() if row["state"] == "dead"}
        left |= {path.name for path in self.dot_hg.glob("tmp-bundles/*")}
        for name in ("amalgam/bundles/lock", "clonebundleslock"):
            if (self.dot_hg / name).is_symlink():
                left.add(name)
        sets = list(self.directory.glob("*.heads"))
        register = self.read("amalgam/bundles/register")
        left |= {path.name for path in sets if path.stem not in register}
        if "PENDING" in self.read("clonebundles.auto-gen"):
            left.add("PENDING")
        return left

    def wait(self, seconds: float = 300) -> None:
        """Wait until no generator runs in the background, nor is about to.

        Who starts one does not end before it is there. It may be missed only if it
        starts while processes are listed, so they are listed again.
        """
        deadline = time.monotonic() + seconds
        quiet = 0
        while quiet < 3:
            assert time.monotonic() < deadline, "a generator does not end"
            time.sleep(0.02)
            quiet = 0 if generators(self.dot_hg) else quiet + 1

    @contextlib.contextmanager
    def served(self, **web: str) -> Iterator[Served]:
        """Serve it on the loopback, as any hgweb would."""
        aliases = {"allow_pull": "allow-pull"}
        settings = [f"web.{aliases.get(name, name)}={web[name]}" for name in web]
        with self.served_by(*(f"--config={setting}" for setting in settings)) as found:
            yield found

    @contextlib.contextmanager
    def served_by(self, *options: str) -> Iterator[Served]:
        """Serve it with options of ``hg serve``."""
        log = self.root.parent / f"{self.root.name}.access"
        log.unlink(missing_ok=True)
        # some clients send arguments in headers that do not get into the access log
        sent = self.root.parent / f"{self.root.name}.sent"
        sent.write_text("")
        hook = f'hooks.outgoing=echo $HG_NODE >> "{sent}"'
        settings = ("-A", str(log), "--config", hook, *options)
        environment = self._server.environment
        with serving(self.root, *settings, environment=environment) as web:
            yield Served(web.url, log, sent, web.process.pid)


class Served:
    """A repository as clients see it."""

    def __init__(self, url: str, log: Path, sent: Path, pid: int = 0) -> None:
        self.url = url
        self.pid = pid
        self.log = log
        self.sent = sent

    @property
    def port(self) -> int:
        return int(self.url.rstrip("/").rpartition(":")[2])

    def get(self, path: str) -> bytes:
        """Return what is there."""
        with urllib.request.urlopen(self.url + path) as response:
            return bytes(response.read())

    def status(self, path: str) -> int:
        """Return the status of what is there; a request ends in the end."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=300) as response:
                return int(response.status)
        except urllib.error.HTTPError as exc:
            with exc:
                return exc.code

    def capabilities(self) -> set[str]:
        return set(self.get("?cmd=capabilities").decode().split())

    def requests(self) -> list[str]:
        """Return the lines of the access log."""
        return self.log.read_text().splitlines()

    def check_offloaded(self, bundled: Bundled) -> None:
        """See that Mercurial has sent the first changesets to nobody."""
        for line in self.requests():
            if "cmd=getbundle" in line and "common=" in line:
                common = re.search(r"common=([0-9a-f]+)", line)
                assert common, line
                assert common[1].strip("0"), line
        # all of it would begin with the first changeset
        first = bundled.hg("log", "-r", "0", "-T", "{node}")
        assert first not in self.sent.read_text().split(), "all of it was sent"


def generators(dot_hg: Path) -> list[int]:
    """Return the processes that generate in the background for a repository."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            line = (process / "cmdline").read_bytes()
            if b"debug::amalgam-bundles" in line and bytes(dot_hg) in line:
                found.append(int(process.name))
    return found


def uploading(bundled: Bundled, command: str = "") -> Path:
    """Let bundles be copied to a directory, and be read from there."""
    host = bundled.root.parent / "host"
    host.mkdir(exist_ok=True)
    copy = f'cp "$HGCB_BUNDLE_PATH" "{host}/$HGCB_BUNDLE_BASENAME"'
    bundled.configure(
        "clone-bundles",
        upload_command=command or copy,
        url_template=f"file://{host}/{{basename}}",
        delete_command=f'rm -f "{host}/$HGCB_BASENAME"',
    )
    return host
