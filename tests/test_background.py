"""Background processes: the configuration that they get, and starts that fail."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, add_config, executable
from testlib.exported import Exported
from testlib.webserver import SERVICE, WebServer, serving, until

pytestmark = pytest.mark.slow

ON = {
    "extensions.amalgam": "",
    "amalgam.git.serve": "yes",
    "amalgam.serve.freshness": "0",  # exports are made by another process
}
#: An extension of the user: the configuration of each exporter, and its command line.
NOTING = """
import sys

def reposetup(ui, repo):
    if "debug::amalgam-export" in sys.argv:
        with open({noted!r}, "wb") as file:
            for name in (b"file", b"lines", b"both"):
                file.write(repr(repo.ui.config(b"here", name)).encode() + b"\\n")
            file.write(repr(sys.argv).encode())
"""


def options(items: dict[str, str]) -> list[str]:
    return [f"--config={name}={value}" for name, value in items.items()]


def as_file(items: dict[str, str]) -> str:
    parts = [(*name.split(".", 1), value) for name, value in items.items()]
    return "".join(f"[{it[0]}]\n{it[1]} = {it[2]}\n" for it in parts)


def assert_refs(web: WebServer, repository: str = "") -> None:
    status, _headers, body = web.ask(repository + SERVICE)
    assert (status, b"refs/heads/default" in body) == (200, True), body


@pytest.fixture
def unknown(empty: Exported) -> Exported:
    """A repository that is not exported, and whose configuration lacks amalgam."""
    empty.commit_nothing("one")
    return empty


def test_exporter_has_items_of_the_command_line(unknown: Exported) -> None:
    with serving(unknown.root, *options(ON)) as web:
        assert_refs(web)


def test_exporter_has_items_of_hgweb_conf(unknown: Exported, tmp_path: Path) -> None:
    conf = tmp_path / "hgweb.conf"
    conf.write_text(f"[paths]\nhere = {unknown.root}\n{as_file(ON)}")
    with serving(tmp_path, f"--web-conf={conf}") as web:
        assert_refs(web, "here/")


def test_exporter_has_items_of_an_rc_of_the_server(
    unknown: Exported, tmp_path: Path
) -> None:
    rc = tmp_path / "rc"
    rc.write_text(as_file(ON))
    with serving(unknown.root, environment=ENVIRONMENT | {"HGRCPATH": str(rc)}) as web:
        assert_refs(web)


def test_exporter_of_the_source_has_items_of_its_share(
    unknown: Exported, tmp_path: Path
) -> None:
    share = tmp_path / "share"
    unknown.hg("share", "-q", "--config=extensions.share=", ".", str(share))
    add_config(share, "[extensions]\nshare =\n" + as_file(ON))
    with serving(share) as web:
        assert_refs(web)


def test_items_are_as_in_the_server_and_on_no_command_line(
    unknown: Exported, tmp_path: Path
) -> None:
    noted = tmp_path / "noted"
    (tmp_path / "noting.py").write_text(NOTING.format(noted=str(noted)))
    add_config(
        unknown.root, "[here]\nboth = of the repository\nfile = of the repository\n"
    )
    given = {
        "extensions.noting": str(tmp_path / "noting.py"),
        "here.lines": "one\n[two]\n three = secret",
        "here.both": "of the command",
    }
    with serving(unknown.root, *options(ON | given)) as web:
        assert_refs(web)
    own, lines, both, command = noted.read_text().split("\n", 3)
    assert own == "b'of the repository'"
    assert lines == r"b'one\n[two]\nthree = secret'"
    assert both == "b'of the command'"
    assert "secret" not in command


def test_generator_has_items_of_the_command_line(unknown: Exported) -> None:
    items = {"extensions.clonebundles": "", "clone-bundles.git.formats": "git-v2"}
    unknown.hg("admin::clone-bundles-refresh", "--background", *options(items))
    manifest = unknown.root / ".hg" / "clonebundles.manifest"
    directory = unknown.amalgam / "bundles"
    until(lambda: [*directory.glob("*.list")] or manifest.exists())


class Broken:
    """An hg that a server's processes cannot be started with."""

    def __init__(self, place: Path, script: str) -> None:
        program = executable(place / "hg", f"#!/bin/sh\n{script}\n")
        self.environment = ENVIRONMENT | {"HG": str(program)}


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo no module named mercurial >&2; exit 1", "no module named mercurial"),
        ("exit 3", "no output"),
        ('exec "$0-is-missing"', "-is-missing: not found"),
    ],
)
def test_exporter_that_does_not_begin_is_noticed(
    unknown: Exported, tmp_path: Path, script: str, reason: str
) -> None:
    broken = Broken(tmp_path, script)
    with serving(unknown.root, *options(ON), environment=broken.environment) as web:
        status, _headers, body = web.ask(SERVICE)
        assert (status, b"no exporter can be started" in body) == (503, True)
        said = web.said()
    assert re.search(f"hg debug::amalgam-export did not begin: .*{reason}", said)
    told = unknown.run("admin::amalgam", *options(ON)).out
    assert re.search(f"did not begin: .*{reason}".encode(), told)
    unknown.hg("git::export")
    assert b"did not begin" not in unknown.run("admin::amalgam").out


def test_start_that_a_link_prevents_is_noticed(
    unknown: Exported, tmp_path: Path
) -> None:
    unknown.amalgam.mkdir(exist_ok=True)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (unknown.amalgam / "background").symlink_to(elsewhere)
    with serving(unknown.root, *options(ON)) as web:
        status, _headers, body = web.ask(SERVICE)
        assert (status, b"no exporter can be started" in body) == (503, True)
    assert not [*elsewhere.iterdir()]
    told = unknown.run("admin::amalgam", *options(ON)).out
    assert b"background export failed" in told
    assert b"amalgam/background" in told


def test_generator_that_does_not_begin_is_noticed(
    unknown: Exported, tmp_path: Path
) -> None:
    broken = Broken(tmp_path, "echo no module named mercurial >&2; exit 1")
    items = ON | {
        "extensions.clonebundles": "",
        "clone-bundles.git.formats": "git-v2",
    }
    command = [str(HG), "admin::clone-bundles-refresh", "--background"]
    command += options(items)
    subprocess.run(command, cwd=unknown.root, env=broken.environment, check=True)
    log = unknown.amalgam / "background" / "bundles"
    until(lambda: log.exists() and log.read_bytes())
    old = log.stat().st_mtime - 3600  # it may begin for some time
    os.utime(log, (old, old))
    told = unknown.run("admin::amalgam", *options(items)).out
    assert b"bundles did not begin: no module named mercurial" in told
