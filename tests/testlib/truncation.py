"""A server with requests in flight, while the history under it is cut.

A request may find that file revisions it is about to show are gone. Mercurial's own
error says so; where a part of the answer was sent already, it ends the connection.
"""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import tempfile
import threading
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from .environment import ENVIRONMENT, HG

#: Requests that need the index, a part of it or all.
PATHS = (
    "shortlog?revcount=2000",
    "graph/tip?revcount=200&style=raw",
    "log?rev=branch(default)&revcount=5",
    "?cmd=heads",
    "?cmd=branchmap",
    "?cmd=known&nodes=" + "5a" * 20,
    "?cmd=getbundle&heads=" + "00" * 20,
    "rev/tip",
    "file/tip",
)
SERVER = ("extensions.amalgam=", "experimental.mmapindexthreshold=4096")
_RAISED = re.compile(r"^([\w.]+)(?:: .*)?$", re.M)  # the last line of a traceback
# Mercurial loads the changelog anew within a request, before it first reads bookmarks
# (_refreshchangelog) and whenever it takes the lock. A context that is older names a
# revision, and that is not looked for: if the changelog is shorter now, its index says
# so. Stock does the same, see test_changelog_loaded_anew_under_a_context.
_SHORTER = re.compile(
    r"""/mercurial/revlog\.py", line \d+, in \w+
 +\S.*\bself\.index\[rev\].*
(?: +[~^]+
)?(?:  File ".*/amalgam/index/nodemap\.py", line \d+, in __getitem__
 +return self\._entry\(key\)
(?: +[~^]+
)?)?IndexError: revlog index out of range$""",
    re.M,
)
_WRITER = ("extensions.strip=", "ui.rollback=yes", "phases.publish=no")


class Server:
    """``hg serve`` of one repository, threaded, at a port that is free."""

    def __init__(self, repo: Path, config: Sequence[str] = SERVER) -> None:
        # its log of requests would fill the pipe, and it would wait for ever
        quiet = ("-A", os.devnull)
        command = _command("serve", "-a", "127.0.0.1", "-p", "0", *quiet, config=config)
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            command,
            cwd=repo,
            env=ENVIRONMENT,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
        )
        assert self._process.stdout
        said = self._process.stdout.readline().decode()
        self.url = f"http://127.0.0.1:{said.split(':')[2].split('/')[0]}/"

    def ask(self, path: str) -> str:
        """Return the status of the answer; ``cut`` if it has no end, or none came."""
        try:
            with urllib.request.urlopen(self.url + path, timeout=120) as answer:
                answer.read()
                return str(answer.status)
        except urllib.error.HTTPError as exc:
            exc.read()
            return str(exc.code)
        except (OSError, http.client.HTTPException):
            return "cut"

    def failures(self) -> list[tuple[str, str]]:
        """Return the exceptions that ended requests, with what it logged of each."""
        self._stderr.seek(0)
        logged = self._stderr.read().decode(errors="replace")
        blocks = logged.split("Exception happened during processing request")[1:]
        return [(_RAISED.findall(block)[-1], block) for block in blocks]

    def exit_code(self) -> int | None:
        """Return what it ended with, ``None`` if it runs."""
        return self._process.poll()

    def close(self) -> None:
        """End it."""
        self._process.terminate()
        self._process.wait()
        assert self._process.stdout
        self._process.stdout.close()
        self._stderr.close()


def cut_under_load(
    repo: Path,
    bundle: Path,
    kept: int,
    rounds: int,
    clients: int,
    config: Sequence[str] = SERVER,
) -> Counter[str]:
    """Cut ``repo`` and restore it, ``rounds`` times, while clients ask a server.

    ``bundle`` has all changesets from ``kept`` on. Strips and rollbacks take turns, by
    processes with amalgam and without. Returns how many answers had which status, and
    which exceptions the server had; ``AssertionError`` if it dies, or ends a request
    for another reason than an error of Mercurial's, or a changelog that got shorter.
    """
    server = Server(repo, config)
    done = threading.Event()
    counts: Counter[str] = Counter()
    counting = threading.Lock()

    def keep_asking(first: int) -> None:
        number = first
        while not done.is_set():
            path = PATHS[number % len(PATHS)]
            status = server.ask(path)
            with counting:
                counts[status] += 1
            number += 1

    threads = [threading.Thread(target=keep_asking, args=(n,)) for n in range(clients)]
    try:
        # two threads that are the first to use a module get in each other's way
        assert {server.ask(path) for path in PATHS} == {"200"}
        for thread in threads:
            thread.start()
        for turn in range(rounds):
            config = [*_WRITER, *(SERVER if turn % 2 else ())]
            if turn and turn % 3 == 0:
                cut = ["rollback", "-q"]
            else:
                cut = ["debugstrip", "--no-backup", str(kept)]
            for arguments in (cut, ["unbundle", "-q", str(bundle)]):
                command = _command(*arguments, config=config)
                subprocess.run(command, cwd=repo, env=ENVIRONMENT, check=True)
            counts["cuts"] += 1
            code = server.exit_code()
            assert code is None, f"the server ended with {code} after {turn + 1} cuts"
    finally:
        done.set()
        for thread in threads:
            thread.join()
        code, failures = server.exit_code(), server.failures()
        server.close()
    assert code is None, f"the server ended with {code}"
    counts += Counter(name for name, _logged in failures)
    for name, logged in failures:
        expected = name.startswith("mercurial.error.") or (
            name == "IndexError" and _SHORTER.search(logged)
        )
        assert expected, f"{counts}{logged}"
    assert counts["cut"] <= len(failures), f"cut without a reason: {counts}"
    return counts


def _command(*arguments: str, config: Sequence[str]) -> list[str]:
    options = [word for item in config for word in ("--config", item)]
    return [str(HG), *options, *arguments]
