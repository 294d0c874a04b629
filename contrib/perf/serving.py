"""Time git clones from hg serve against git http-backend: serving.py --hg HG REPO.

Works on a copy of REPO, which is exported once. ``hg serve`` and lighttpd, whose
mod_cgi runs ``git http-backend``, serve the same git directory. Each round clones once
from both, and from each once more: the difference of a server from itself is noise. The
order is random. Processor time is that of the server process, and that of the git
processes below it, apart.

Prints, and writes as JSON with ``-o``:

- the ratio of the times of both servers, round by round, and of each with itself;
- processor seconds for 100 MB of packs;
- how much memory (PSS) the process of ``hg serve`` gains for each of ``--clients``
  clones at a time;
- the time until the first byte of an answer to ls-refs;
- with ``--refs N``, the processor time of ls-refs with one prefix, in a copy with N
  bookmarks, and that of ``git upload-pack`` without a server.

One module: a script that somebody reads before they believe its figures.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import bench  # noqa: F401 -- it finds the next import without Mercurial

from hgext3rd.amalgam.perf import samples

if TYPE_CHECKING:
    from collections.abc import Iterator

_MB = 1_000_000
_TICKS = os.sysconf("SC_CLK_TCK")
_STORE = ".hg/amalgam/git/cinnabar.git"
_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HGRCPATH": "",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": os.devnull,
}
_HIDDEN = ("refs/cinnabar", "refs/hg")
_SETTINGS = ("extensions.amalgam=", "amalgam.git.serve=yes")
_WITH = [word for setting in _SETTINGS for word in ("--config", setting)]
_LIGHTTPD = """
server.modules = ("mod_alias", "mod_setenv", "mod_cgi")
server.document-root = "{scratch}"
server.bind = "127.0.0.1"
server.port = {port}
server.stream-response-body = 1
alias.url = ("/git" => "{backend}")
cgi.assign = ("" => "")
setenv.add-environment = ({variables})
"""
_PREFIX = "refs/heads/bookmark-0042"


class Server:
    """A web server that runs, and what it has used."""

    def __init__(self, process: subprocess.Popen[bytes], port: int, path: str) -> None:
        self.process, self.port, self.path = process, port, path
        self.url = f"http://127.0.0.1:{port}{path}"

    def used(self) -> tuple[float, float]:
        """Return the processor seconds of the process, and of what it has awaited."""
        pid = self.process.pid
        own = time.clock_gettime((~pid << 3) | 2)  # clock_getcpuclockid(3)
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return own, (int(stat[13]) + int(stat[14])) / _TICKS

    def pss_bytes(self) -> int:
        """Return its memory, shared pages in proportion."""
        text = Path(f"/proc/{self.process.pid}/smaps_rollup").read_text()
        return 1024 * int(text.partition("Pss:")[2].split()[0])

    def ask(self, body: bytes) -> tuple[float, bytes]:
        """Send a command of version 2; return the seconds to its answer, and that."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        headers = {
            "Content-Type": "application/x-git-upload-pack-request",
            "Git-Protocol": "version=2",
        }
        start = time.perf_counter()
        connection.request("POST", f"{self.path}/git-upload-pack", body, headers)
        answer = connection.getresponse()
        first = answer.read(1)
        taken = time.perf_counter() - start
        found = first + answer.read()
        connection.close()
        if answer.status != 200:
            raise SystemExit(f"{self.url} answers {answer.status}: {found!r}")
        return taken, found


@contextlib.contextmanager
def started(command: list[str], port: int, path: str, log: Path) -> Iterator[Server]:
    """Run a server until the context ends."""
    with log.open("ab") as file:
        process = subprocess.Popen(
            command,
            env=_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
        )
    try:
        for _try in range(600):
            with contextlib.suppress(OSError):
                socket.create_connection(("127.0.0.1", port)).close()
                break
            time.sleep(0.05)
        yield Server(process, port, path)
    finally:
        process.terminate()
        process.wait()


def hg_serve(hg: str, repo: Path) -> contextlib.AbstractContextManager[Server]:
    """Run ``hg serve`` on a repository."""
    port = free_port()
    command = [hg, *_WITH, "-R", str(repo), "serve", "-a", "127.0.0.1"]
    log = repo.with_name("hg.log")
    return started([*command, "-p", str(port)], port, "", log)


def http_backend(
    lighttpd: str, repo: Path
) -> contextlib.AbstractContextManager[Server]:
    """Run lighttpd with ``git http-backend`` on a repository's git store."""
    port = free_port()
    directory = subprocess.run(
        ["git", "--exec-path"], capture_output=True, check=True, text=True
    ).stdout.strip()
    variables = {
        "GIT_PROJECT_ROOT": str(repo / _STORE),
        "GIT_HTTP_EXPORT_ALL": "1",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": os.devnull,
        "PATH": os.environ["PATH"],
        **hidden_refs(),
    }
    config = repo.with_name("lighttpd.conf")
    config.write_text(
        _LIGHTTPD.format(
            scratch=repo.parent,
            port=port,
            backend=f"{directory}/git-http-backend",
            variables=", ".join(f'"{k}" => "{v}"' for k, v in variables.items()),
        )
    )
    command = [lighttpd, "-D", "-f", str(config)]
    return started(command, port, "/git", repo.with_name("lighttpd.log"))


def hidden_refs() -> dict[str, str]:
    """Return what lets git alone hide the refs that amalgam hides."""
    found = {"GIT_CONFIG_COUNT": str(len(_HIDDEN))}
    for number, name in enumerate(_HIDDEN):
        found[f"GIT_CONFIG_KEY_{number}"] = "transfer.hideRefs"
        found[f"GIT_CONFIG_VALUE_{number}"] = name
    return found


def free_port() -> int:
    """Return the number of a port that nobody uses."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Clone:
    """One clone: how long it took, and how much was sent."""

    def __init__(self, url: str, scratch: Path) -> None:
        target = Path(tempfile.mkdtemp(prefix="clone-", dir=scratch))
        command = ["git", "clone", "-q", "--mirror", url, str(target)]
        start = time.perf_counter()
        subprocess.run(command, env=_ENVIRONMENT, check=True)
        self.seconds = time.perf_counter() - start
        packs = (target / "objects/pack").glob("*.pack")
        self.sent_bytes = sum(pack.stat().st_size for pack in packs)
        show = ["git", "-C", str(target), "for-each-ref"]
        self.refs = subprocess.run(show, capture_output=True, check=True).stdout
        shutil.rmtree(target)


def clones(servers: dict[str, Server], rounds: int, scratch: Path) -> dict[str, Any]:
    """Clone from each server, twice in each round; return times and costs."""
    sides = [side for name in servers for side in (name, f"{name} again")]
    expected = {Clone(server.url, scratch).refs for server in servers.values()}
    seconds: dict[str, list[float]] = {side: [] for side in sides}
    costs = {name: [0.0, 0.0, 0.0] for name in servers}
    for _round in range(rounds):
        for side in random.sample(sides, len(sides)):
            name = side.removesuffix(" again")
            before = servers[name].used()
            clone = Clone(servers[name].url, scratch)
            after = servers[name].used()
            expected.add(clone.refs)
            seconds[side].append(clone.seconds)
            gained = (
                after[0] - before[0],
                after[1] - before[1],
                clone.sent_bytes / _MB,
            )
            costs[name] = [a + b for a, b in zip(costs[name], gained, strict=True)]
    if len(expected) != 1:
        raise SystemExit("the servers sent different refs: nothing is compared")
    ours, theirs = servers
    ratios = {
        f"{one} / {other}": statistics.median(
            a / b for a, b in zip(seconds[one], seconds[other], strict=True)
        )
        for one, other in (
            (ours, theirs),
            (f"{ours} again", f"{theirs} again"),
            (ours, f"{ours} again"),
            (theirs, f"{theirs} again"),
        )
    }
    return {
        "median seconds": {side: statistics.median(it) for side, it in seconds.items()},
        "median ratio of seconds": ratios,
        "core-seconds for 100 MB": {
            name: {"server": 100 * own / sent, "git": 100 * below / sent}
            for name, (own, below, sent) in costs.items()
        },
        "MB sent by each": {name: sent for name, (_o, _b, sent) in costs.items()},
        "samples": seconds,
    }


def memory(server: Server, clients: int, scratch: Path) -> dict[str, float]:
    """Return how the process of a server grows by clones at the same time."""
    idle = server.pss_bytes()
    threads = [
        threading.Thread(target=Clone, args=(server.url, scratch))
        for _client in range(clients)
    ]
    for thread in threads:
        thread.start()
    most = idle
    while any(thread.is_alive() for thread in threads):
        most = max(most, server.pss_bytes())
        time.sleep(0.02)
    return {
        "MB before": idle / _MB,
        "MB at most": most / _MB,
        "MB for each clone": (most - idle) / clients / _MB,
    }


def ls_refs(prefix: str = "") -> bytes:
    """Return the request of version 2 that lists refs."""
    lines = ["command=ls-refs\n", "", "peel\n", "symrefs\n"]
    lines += [f"ref-prefix {prefix}\n"] if prefix else []
    framed = (f"{len(line) + 4:04x}{line}" if line else "0001" for line in lines)
    return "".join(framed).encode() + b"0000"


def first_bytes(server: Server, requests: int) -> dict[str, float]:
    """Return after how many milliseconds answers to ls-refs begin."""
    server.ask(ls_refs())
    taken = sorted(1000 * server.ask(ls_refs())[0] for _number in range(requests))
    return {
        "median": statistics.median(taken),
        "95 % within": taken[int(0.95 * (requests - 1))],
        "most": taken[-1],
    }


def many_refs(server: Server, repo: Path, requests: int) -> dict[str, Any]:
    """Return the processor time of ls-refs with a prefix, and of git alone."""
    body = ls_refs(_PREFIX)
    found = server.ask(body)[1]
    before = server.used()
    for _number in range(requests):
        server.ask(body)
    own, below = (a - b for a, b in zip(server.used(), before, strict=True))
    command = ["git", "upload-pack", "--stateless-rpc", str(repo / _STORE)]
    environment = {**_ENVIRONMENT, **hidden_refs(), "GIT_PROTOCOL": "version=2"}
    alone = 0.0
    for _number in range(requests):
        cost, answer = samples.run(command, body, environment)
        if answer != found:
            raise SystemExit("git alone answers otherwise: nothing is compared")
        alone += cost.comb
    return {
        "refs in the answer": found.count(b"refs/"),
        "milliseconds of processor for each": {
            "server": 1000 * own / requests,
            "git below it": 1000 * below / requests,
            "git alone": 1000 * alone / requests,
        },
    }


def prepared(hg: str, source: Path, target: Path, refs: int = 0) -> Path:
    """Return an exported copy of a repository, with so many more bookmarks."""
    shutil.copytree(source, target, symlinks=True)
    if refs:
        node = subprocess.run(
            [hg, "-R", str(target), "log", "-r", "0", "-T", "{node}"],
            env=_ENVIRONMENT,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        with (target / ".hg/bookmarks").open("a") as file:
            file.writelines(f"{node} bookmark-{number:06}\n" for number in range(refs))
    command = [hg, *_WITH, "-R", str(target), "git::export", "-q"]
    subprocess.run(command, env=_ENVIRONMENT, check=True)
    return target


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("repo", type=Path)
    parser.add_argument("--hg", required=True)
    parser.add_argument("--lighttpd", default="lighttpd")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--clients", type=int, default=4)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--refs", type=int, default=0)
    parser.add_argument("--scratch", type=Path, help="a directory to work in")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    found: dict[str, Any] = {"repository": options.repo.name}
    with tempfile.TemporaryDirectory(prefix="serving-", dir=options.scratch) as name:
        scratch = Path(name)
        repo = prepared(options.hg, options.repo, scratch / "repo")
        found["load before"] = os.getloadavg()[0]
        with hg_serve(options.hg, repo) as ours:
            ours.ask(ls_refs())
            found["memory"] = memory(ours, options.clients, scratch)
        with (
            hg_serve(options.hg, repo) as ours,
            http_backend(options.lighttpd, repo) as theirs,
        ):
            servers = {"hg serve": ours, "http-backend": theirs}
            if options.rounds:
                found["clones"] = clones(servers, options.rounds, scratch)
            found["milliseconds to the first byte of ls-refs"] = {
                name: first_bytes(server, options.requests)
                for name, server in servers.items()
            }
        if options.refs:
            repo = prepared(options.hg, options.repo, scratch / "many", options.refs)
            with hg_serve(options.hg, repo) as ours:
                found["many refs"] = many_refs(ours, repo, options.requests)
        found["load after"] = os.getloadavg()[0]
    if options.output:
        options.output.write_text(json.dumps(found, indent=1) + "\n")
    found.get("clones", {}).pop("samples", None)
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
