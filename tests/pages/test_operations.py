"""What the page about operations has: units, script, rules, and how to restore."""

from __future__ import annotations

import gzip
import os
import re
import shutil
import subprocess
import textwrap
from pathlib import Path

import pytest
from mercurial.commands import table
from testlib import needs
from testlib.environment import ENVIRONMENT, HG, ROOT, captured
from testlib.exported import Exported
from testlib.exposition import parsed
from testlib.webserver import serving

from hgext3rd.amalgam.commands.table import cmdtable

UNITS = ROOT / "contrib" / "systemd"
PAGE = (ROOT / "docs" / "operations.rst").read_text()
KINDS = ("bundles", "export", "maintenance", "metrics")
LINES = re.compile(r"(?m)^(?!#)([A-Za-z]+)=(.*)$")


def block(start: str) -> str:
    """Return the literal block that begins with ``start``."""
    inner = PAGE[PAGE.index(f"::\n\n    {start}") + 4 :]
    found = re.match(r"(?:    .*\n|\n)+", inner)
    assert found
    return textwrap.dedent(found[0]).rstrip("\n") + "\n"


def test_each_service_has_a_timer_and_a_row() -> None:
    suffixes = (".service", ".timer")
    expected = {f"amalgam-{kind}@{suffix}" for kind in KINDS for suffix in suffixes}
    there = {path.name for path in UNITS.iterdir()}
    assert there == expected | {"amalgam-metrics"}
    assert set(re.findall(r"\* - ``amalgam-(\w+)@``", PAGE)) == set(KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_command_of_a_service_exists(kind: str) -> None:
    values = dict(LINES.findall((UNITS / f"amalgam-{kind}@.service").read_text()))
    program, *arguments = values["ExecStart"].split()
    if kind == "metrics":
        assert program == "/usr/local/bin/amalgam-metrics"
        assert arguments == ["%f", f"/var/lib/{values['StateDirectory']}/%i.prom"]
    else:
        assert (program, *arguments[:2]) == ("/usr/bin/hg", "-R", "%f")
        command = arguments[2].encode()
        of_clonebundles = (b"admin::clone-bundles-refresh",)
        assert command in {*cmdtable, *table, *of_clonebundles}


@pytest.mark.needs("systemd")
def test_systemd_finds_nothing_wrong(tmp_path: Path) -> None:
    assert verified(tmp_path) == (0, "")


@pytest.mark.needs("systemd")
def test_systemd_finds_what_is_wrong(tmp_path: Path) -> None:
    code, said = verified(tmp_path, "OnCalendar=", "OnCalendar=quux")
    assert code
    assert "quux" in said


def verified(tmp_path: Path, old: str = "", new: str = "") -> tuple[int, str]:
    """Let systemd look at instances of the units; programs are those of the tests."""
    paths = []
    for path in UNITS.glob("*@.*"):
        text = path.read_text().replace(old, new) if old else path.read_text()
        text = text.replace("=/usr/bin/hg", f'="{HG}"')
        text = text.replace(
            "=/usr/local/bin/amalgam-metrics", f'="{UNITS}/amalgam-metrics"'
        )
        (tmp_path / path.name).write_text(text)
        paths.append(tmp_path / path.name.replace("@", "@srv-hg-project"))
        paths[-1].write_text(text)
    command = ["systemd-analyze", "verify", "--man=no", *map(str, paths)]
    done = captured(command, text=True)
    return done.returncode, done.stdout + done.stderr


def test_script_is_the_one_on_the_page() -> None:
    assert block("#!/bin/sh") == (UNITS / "amalgam-metrics").read_text()


def test_script_replaces_the_file_only_if_it_has_a_new_one(
    store: Exported, tmp_path: Path
) -> None:
    file = tmp_path / "metrics" / "srv-hg\\x2dproject.prom"
    file.parent.mkdir()
    environment = ENVIRONMENT | {"HG": str(HG)}
    (store.root / ".hg" / "hgrc").write_text("[extensions]\namalgam =\n")
    command = [str(UNITS / "amalgam-metrics"), str(store.root), str(file)]
    subprocess.run(command, env=environment, check=True, umask=0o077)
    content = file.read_bytes()
    assert parsed(content)["amalgam_changesets_served"]
    assert file.stat().st_mode & 0o777 == 0o644
    (store.root / ".hg" / "requires").write_text("quux\n")
    done = subprocess.run(command, env=environment, stderr=subprocess.DEVNULL)
    assert done.returncode
    assert file.read_bytes() == content
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.needs("logrotate")
def test_logs_of_a_server_are_rotated_while_it_writes(
    store: Exported, tmp_path: Path
) -> None:
    program = needs.logrotate()
    assert program
    logs = tmp_path / "logs"
    logs.mkdir(mode=0o755)
    text = block("# /etc/logrotate.d/hg-serve").replace("/var/log/hg", str(logs))
    rules = tmp_path / "hg-serve"
    rules.write_text(text)
    rules.chmod(0o644)
    rotate = [program, "--force", "--state", str(tmp_path / "state"), str(rules)]
    access, errors = logs / "access.log", logs / "error.log"
    option = ("--accesslog", str(access), "--errorlog", str(errors))
    with serving(store.root, *option) as web:
        for name in ("first", "second", "third"):
            assert web.ask(f"raw-file/tip/{name}")[0] == 404
            # no hole where the first lines were, which the server would leave
            assert names_in(access) == [name]
            subprocess.run(rotate, check=True, env=ENVIRONMENT)
            assert access.read_bytes() == b""
    assert names_in(logs / "access.log.1") == ["third"]
    older = gzip.decompress((logs / "access.log.2.gz").read_bytes()).decode()
    assert re.findall(r"tip/(\w+)", older) == ["second"]


def names_in(log: Path) -> list[str]:
    """Return which files are asked for by the requests in a log."""
    return re.findall(r"tip/(\w+)", log.read_text())


def test_rules_ask_for_metrics_that_there_are() -> None:
    rows = re.findall(r"(?m)^   \* - (``.*)", PAGE)
    names = {f"amalgam_{it}" for row in rows for it in re.findall(r"``(\w+)``", row)}
    rules = re.findall(r"(?m)^ *expr: (.*)$", block("groups:"))
    assert len(rules) > 5
    asked = {it for rule in rules for it in re.findall(r"\bamalgam_\w+", rule)}
    assert asked
    assert asked <= names


@pytest.mark.parametrize("is_adopted", [False, True])
def test_backup_can_be_restored(
    store: Exported, tmp_path: Path, is_adopted: bool
) -> None:
    (store.root / ".hg" / "hgrc").write_text("[extensions]\namalgam =\n")
    places = {"/srv/hg": str(tmp_path / "srv"), "/backup": str(tmp_path / "backup")}
    for place in places.values():
        os.mkdir(place)
    project = tmp_path / "srv" / "project"
    store.root.rename(project)
    kept = Exported(project, store.server)
    before = kept.git("for-each-ref")
    adopted = kept.amalgam / "adopted"
    if is_adopted:
        adopted.mkdir()
        (adopted / "note").write_text("kept\n")
    run(block("$ cd /srv/hg\n    $ tar -cf"), places)
    shutil.rmtree(project)
    restored, *commands = block("$ cd /srv/hg\n    $ tar -xf").split("$ hg", 1)
    run(restored, places)
    assert kept.amalgam.exists() == is_adopted
    if is_adopted:
        assert [it.name for it in kept.amalgam.iterdir()] == ["adopted"]
        assert (adopted / "note").read_text() == "kept\n"
    run("cd /srv/hg\n$ hg" + commands[0], places)
    assert kept.git("for-each-ref") == before


def run(commands: str, places: dict[str, str]) -> None:
    """Run the commands of a block, with other places."""
    for place, own in places.items():
        commands = re.sub(rf"(?<!\w){place}\b", own, commands)
    script = "set -e\n" + re.sub(r"(?m)^\$ ", "", commands)
    environment = ENVIRONMENT | {"PATH": f"{HG.parent}:{os.environ['PATH']}"}
    subprocess.run(["sh", "-c", script], env=environment, check=True)
