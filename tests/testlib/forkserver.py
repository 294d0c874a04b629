"""A process that forks for each hg command: python -m testlib.forkserver.

A command starts in milliseconds, in a process of its own, with what Mercurial has
imported and nothing else. How it ends, a signal or a hang included, is told exactly.
Requests and answers are lines of JSON. A request names a job, ``hg`` or one of those in
``webjobs``, its directory and its arguments.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import gc
import importlib
import json
import os
import pkgutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from .environment import ENVIRONMENT, HG
from .needs import missing
from .users import User, reachable

_PAUSE_SECONDS = 0.002


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a command ended: with a code, by a signal (negative), or not in time."""

    code: int | None
    out: bytes
    err: bytes


class ForkServer:
    """The process. If root starts it, commands can be those of other users."""

    def __init__(self, *, imports: Sequence[str] = ()) -> None:
        command = [sys.executable, "-m", "testlib.forkserver"]
        command += imports
        if not missing("users"):
            command = reachable(command, Path("/"))
        self._process = subprocess.Popen(
            command,
            cwd="/",
            env=ENVIRONMENT
            | {
                "PYTHONPATH": str(Path(__file__).parents[1]),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PATH": f"{HG.parent}:{ENVIRONMENT['PATH']}",
            },
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def run(
        self,
        cwd: Path,
        *args: str,
        job: str = "hg",
        user: User | None = None,
        environment: Mapping[str, str] | None = None,
        timeout_seconds: float = 120,
    ) -> Ending:
        """Run ``job`` in ``cwd`` as ``user``, else as ourselves; wait for its end."""
        requests, answers = self._process.stdin, self._process.stdout
        assert requests
        assert answers
        request: dict[str, Any] = {"job": job, "cwd": str(cwd), "args": args}
        request["user"] = dataclasses.astuple(user) if user else None
        request["environment"] = dict(environment or {})
        request["seconds"] = timeout_seconds
        requests.write(json.dumps(request).encode() + b"\n")
        requests.flush()
        answer = json.loads(answers.readline())
        out, err = (base64.b64decode(answer[name]) for name in ("out", "err"))
        return Ending(answer["code"], out, err)

    def close(self) -> None:
        """End the process."""
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe
            pipe.close()
        self._process.wait()


def import_hg(names: Sequence[str]) -> None:
    """Import what commands of hg need, and packages as a whole."""
    from mercurial import commands, dispatch, hg, localrepo

    assert commands, (dispatch, hg, localrepo)
    for name in names:
        package = importlib.import_module(name)
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            with contextlib.suppress(ImportError):
                importlib.import_module(module.name)


def _jobs() -> dict[str, Callable[[list[str]], int]]:
    from mercurial import dispatch

    from . import webjobs

    def run(args: list[str]) -> int:
        become_hg(args)
        dispatch.run()  # does not return
        return 0

    return {"hg": run, "web": webjobs.requests, "clone": webjobs.clone}


def become_hg(args: Sequence[str]) -> None:
    """Give this process the arguments of ``hg``; what it reads at its start, too."""
    from mercurial import pycompat

    sys.argv = ["hg", *args]
    pycompat.sysargv = [os.fsencode(arg) for arg in sys.argv]


def _fork(job: Callable[[list[str]], int], request: Any, out: IO[bytes]) -> int:
    """Start a process that does ``job``, with ``out`` as its output."""
    child = os.fork()
    if child:
        return child
    code = 255
    try:
        os.setsid()
        _become(request["user"], request["environment"])
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(out.fileno(), 1)
        os.chdir(request["cwd"])
        try:
            code = job(request["args"])
        except SystemExit as exc:
            code = exc.code if isinstance(exc.code, int) else 255
        except BaseException:
            traceback.print_exc()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
    finally:
        os._exit(code & 255)


def _become(user: Any, environment: dict[str, str]) -> None:
    os.environ.update(environment)
    if user:
        uid, gid, groups = user
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        os.environ["HOME"] = "/nonexistent"
        os.umask(0o077)


def _wait(child: int, seconds: float) -> int | None:
    """Wait for a process, and end it and what it started if that takes too long."""
    deadline = time.monotonic() + seconds
    while True:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        if time.monotonic() > deadline:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return None
        time.sleep(_PAUSE_SECONDS)
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # a server that somebody left
    return os.waitstatus_to_exitcode(status)


def main() -> None:
    """Answer requests until there are no more."""
    import_hg(sys.argv[1:])
    jobs = _jobs()
    gc.freeze()
    requests, answers = os.fdopen(os.dup(0)), os.fdopen(os.dup(1), "w")
    for line in requests:
        request = json.loads(line)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            kept = os.dup(2)
            os.dup2(err.fileno(), 2)
            child = _fork(jobs[request["job"]], request, out)
            os.dup2(kept, 2)
            os.close(kept)
            code = _wait(child, request["seconds"])
            answer: dict[str, Any] = {"code": code}
            for name, file in (("out", out), ("err", err)):
                file.seek(0)
                answer[name] = base64.b64encode(file.read()).decode()
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
