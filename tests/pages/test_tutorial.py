"""Pages for users: their commands and files as they are printed, and the answers."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from page import blocks, ended, free_port
from testlib.bundled import Bundled
from testlib.environment import ENVIRONMENT, HG, ROOT
from testlib.hgserver import HgServer


class Reader:
    """Somebody who types what a page has, in a directory of his own."""

    def __init__(self, page: str, here: Path, names: dict[str, str]) -> None:
        self._text = (ROOT / "docs" / page).read_text()
        self.here = here
        self._home = str(here)
        self._names = names
        self._environment = ENVIRONMENT | {
            "PATH": f"{HG.parent}:{os.environ['PATH']}",
            "HOME": str(here),
        }

    def steps(self) -> Iterator[str]:
        """Take the steps; yield each command that was run."""
        for block in blocks(self._text):
            if block[0].startswith("# "):
                (self.here / block[0][2:]).write_text("\n".join(block[1:]) + "\n")
                continue
            for step in re.split(r"(?m)^\$ ", "\n".join(block))[1:]:
                command, *expected = step.splitlines()
                if command.startswith("cd "):
                    self.here = self.here / command[3:]
                    continue
                said = self.run(command).replace(self._home, "/home")
                if expected:
                    assert masked(said.splitlines()) == masked(expected), command
                yield command

    def run(self, command: str, code: int = 0) -> str:
        """Run a command; return what it says."""
        for name, own in self._names.items():
            command = command.replace(name, own)
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.here,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == code, f"{command}\n{done.stdout}"
        return done.stdout


def masked(lines: list[str]) -> list[str]:
    """Return the lines without what differs from run to run."""
    text = re.sub(r"\b[0-9a-f]{7,40}\b", "ID", "\n".join(lines))
    text = re.sub(r"/\S+(?=/project/)", "HOME", text)
    return re.sub(r"\d+(\.\d+)?", "N", text).splitlines()


@pytest.mark.slow
def test_tutorial_answers_as_it_is_printed(tmp_path: Path) -> None:
    reader = Reader("tutorial.rst", tmp_path, {"8000": str(free_port())})
    with ended(tmp_path / "hg.pid"):
        assert len([*reader.steps()]) > 15


@pytest.mark.slow
@pytest.mark.needs("curl")
def test_files_bring_a_repository_and_what_is_new(
    tmp_path: Path, server: HgServer
) -> None:
    project = Bundled.init(tmp_path / "project", server, hg=["zstd-v2"])
    project.configure("amalgam", git__serve="yes")
    project.hg("git::export")
    with project.served() as served:
        names = {"https://hg.example.org/project": served.url.rstrip("/")}
        reader = Reader("bundle-files.rst", tmp_path, names)
        for command in reader.steps():
            if command.startswith("hg clone -q carried"):
                assert_refused_if_damaged(reader)
                project.commit("carried later")
            if command.startswith("hg -R project-hg pull"):
                for clone in ("project-git", "project-hg"):
                    assert_has_tip(reader, clone)
                project.refresh()
                project.commit("after the bundles")
            if "-C -" in command:
                assert_goes_on(reader, command)
        for clone in ("finished-git", "finished-hg"):
            assert_has_tip(reader, clone)
        assert reader.run("git -C finished-git for-each-ref refs/bundles")


def assert_has_tip(reader: Reader, clone: str) -> None:
    oid, node = reader.run("hg -R project log -r . -T '{gitnode} {node}'").split()
    if clone.endswith("git"):
        assert reader.run(f"git -C {clone} rev-parse HEAD").strip() == oid
    else:
        assert reader.run(f"hg -R {clone} log -r . -T '{{node}}'") == node


def assert_refused_if_damaged(reader: Reader) -> None:
    for suffix, clone in (("bundle", "git clone"), ("hg", "hg clone")):
        content = bytearray((reader.here / f"carried/project.{suffix}").read_bytes())
        content[len(content) * 3 // 4] ^= 1
        (reader.here / f"damaged.{suffix}").write_bytes(content)
        command = f"{clone} -q damaged.{suffix} damaged"
        with pytest.raises(AssertionError, match=clone):
            reader.run(command)


def assert_goes_on(reader: Reader, command: str) -> None:
    """Assert that a download continues a file, and leaves one that is complete."""
    file = reader.here / command.split(" -o ")[1].split()[0]
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])
    said = reader.run(f"{command} -w '%{{http_code}}'")
    assert said == "206"
    assert file.read_bytes() == content
    assert reader.run(f"{command} -w '%{{http_code}}'", 22) == "416"
    assert file.read_bytes() == content
