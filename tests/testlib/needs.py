"""What a machine must have for some tests, which are skipped where it is missing.

A test says what it needs: ``@pytest.mark.needs("mounts")``. ``tests/SKIPS`` lists each
such test; a run fails if another is skipped, or if list and marks differ. So nothing
is skipped that nobody knows of.
"""

from __future__ import annotations

import functools
import io
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from mercurial import policy
from mercurial.hgweb import common

from . import azureserver, freshroot, lfs, residency, s3server

SKIPS = Path(__file__).parents[1] / "SKIPS"


def _root() -> str:
    return "" if os.geteuid() == 0 else "not root"


def _mounts() -> str:
    if _root():
        return _root()
    if not shutil.which("unshare"):
        return "no unshare(1)"
    done = subprocess.run(
        ["unshare", "--mount", "mount", "-t", "tmpfs", "tmpfs", "/tmp"],
        capture_output=True,
    )
    return f"cannot mount: {done.stderr.decode().strip()}" if done.returncode else ""


def _users() -> str:
    return _mounts() or ("" if shutil.which("setpriv") else "no setpriv(1)")


def _maps() -> str:
    return "" if Path("/proc/self/maps").exists() else "no /proc/self/maps"


def _c_index() -> str:
    if not hasattr(policy.importmod("parsers"), "index"):
        return "the index is written in Python"
    return "the index is written in Rust" if policy.importrust("revlog") else ""


def _cold() -> str:
    if _c_index():
        return _c_index()
    if not hasattr(os, "posix_fadvise"):
        return "no posix_fadvise(2)"
    with tempfile.NamedTemporaryFile() as file:
        file.write(bytes(residency.PAGE_BYTES))
        file.flush()
        residency.drop(Path(file.name))
        kept = residency.resident(Path(file.name))
    return "its file system keeps files in memory" if kept else ""


def _fresh_root_users() -> str:
    return _root() or freshroot.missing()


def _curl() -> str:
    return "" if shutil.which("curl") else "no curl(1)"


def _valgrind() -> str:
    return "" if shutil.which("valgrind") else "no valgrind(1)"


def _s3_server() -> str:
    return "" if s3server.versitygw() else "no versitygw; see 'make s3-server'"


def _azure_server() -> str:
    return "" if azureserver.azurite() else "no azurite; see 'make azure-server'"


def _git_lfs() -> str:
    return "" if lfs.git_lfs() else "no git-lfs(1); see 'make git-lfs'"


def _systemd() -> str:
    return "" if shutil.which("systemd-analyze") else "no systemd-analyze(1)"


def _logrotate() -> str:
    return "" if logrotate() else "no logrotate(8)"


def logrotate() -> str | None:
    """Return the program, which is not for everybody's ``PATH``."""
    return shutil.which("logrotate", path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


def _git_2_40() -> str:
    said = subprocess.run(["git", "version"], capture_output=True).stdout.decode()
    major, minor = map(int, said.split()[2].split(".")[:2])
    return "" if (major, minor) >= (2, 40) else said.strip()


def _continue() -> str:
    reader = common.continuereader(io.BytesIO(), lambda _line: None)
    has = hasattr(reader, "readline")
    return "" if has else "Mercurial fails if a client waits to continue"


_NEEDS: dict[str, Callable[[], str]] = {
    "root": _root,  # to give files to another user
    "mounts": _mounts,  # of its own, or for all to see
    "users": _users,  # to become another user, who reaches the checkout
    "maps": _maps,  # to be told what is mapped
    "c-index": _c_index,  # to look nodes up in our map
    "cold": _cold,  # to have files that are not in memory
    "fresh-root": freshroot.missing,  # to follow pages where nothing is installed
    "fresh-root-users": _fresh_root_users,  # the same, with several users
    "valgrind": _valgrind,  # to count instructions
    "curl": _curl,  # as a client that goes on with a download
    "continue": _continue,  # as a server for clients that wait before they send
    "git-2.40": _git_2_40,  # as a client that takes bundles which a server names
    "s3-server": _s3_server,  # as an object store
    "azure-server": _azure_server,  # the same
    "systemd": _systemd,  # to check units
    "logrotate": _logrotate,  # to rotate logs of servers
    "git-lfs": _git_lfs,  # as a client of what is in LFS
}


@functools.cache
def missing(need: str) -> str:
    """Return why this machine has not what ``need`` names; nothing if it has."""
    return _NEEDS[need]()


def listed() -> dict[str, str]:
    """Return the tests in SKIPS, or files of them, each with its need."""
    lines = [line.partition("#")[0].split() for line in SKIPS.read_text().splitlines()]
    return {line[0]: line[1] for line in lines if line}


class Skips:
    """What a run of pytest collected and skipped, to be compared with SKIPS."""

    def __init__(self) -> None:
        self._needs: dict[str, str | None] = {}
        self._skipped: dict[str, str] = {}
        self._found_by_workers: dict[str, None] = {}

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Skip what needs something that is missing."""
        for item in items:
            mark = item.get_closest_marker("needs")
            need = mark.args[0] if mark else None
            self._needs[_name(item.nodeid)] = need
            if need and missing(need):
                item.add_marker(pytest.mark.skip(reason=missing(need)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note what was skipped, by whomever."""
        if report.skipped:
            reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else ""
            self._skipped[_name(report.nodeid)] = reason

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Fail if skips are others than SKIPS says."""
        problems = self.problems()
        if (output := getattr(session.config, "workeroutput", None)) is not None:
            output["problems"] = problems
        if problems and not session.exitstatus:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        yield

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Take over what a worker of pytest-xdist has found."""
        output = getattr(node, "workeroutput", {})
        self._found_by_workers |= dict.fromkeys(output.get("problems", ()))

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        """Print them."""
        for test, reason in self._skipped.items():
            terminalreporter.write_line(f"skipped: {test}: {reason}")
        for problem in self.problems():
            terminalreporter.write_line(f"tests/SKIPS: {problem}", red=True)

    def problems(self) -> list[str]:
        """Return what is wrong, a line each."""
        expected = listed()
        found = list(self._found_by_workers)
        for test, need in self._needs.items():
            file, function = test.partition("::")[0], test.partition("[")[0]
            known = expected.get(test, expected.get(function, expected.get(file)))
            if need != known:
                found.append(f"{test} needs {need}, and {known} is listed")
            elif test in self._skipped and not (known and missing(known)):
                found.append(f"{test} was skipped for another reason")
        return found


def _name(node_id: str) -> str:
    """Return ``room/test_file.py::test_name[case]``."""
    return node_id.removeprefix("tests/")
