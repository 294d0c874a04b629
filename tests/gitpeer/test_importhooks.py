"""Hooks that run as with hg-git, in its dialect."""

from __future__ import annotations

from pathlib import Path

import pytest
from testlib.hggitproject import Project

pytestmark = pytest.mark.slow

KINDS = (
    "preoutgoing",
    "gitexport",
    "prechangegroup",
    "outgoing",
    "gitimport",
    "pretxncommit",
    "pretxnchangegroup",
    "incoming",
    "changegroup",
)


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.clone()
    script = tmp_path / "note"
    names = ("GIT", "SOURCE", "NODE", "GIT_NODE", "NODE_LAST", "NODES", "NAMES")
    values = " ".join(f"{name}=$HG_{name}" for name in names)
    script.write_text(f'#!/bin/sh\necho "$HG_HOOKNAME {values}" >> {tmp_path}/told\n')
    script.chmod(0o755)
    with (made.root / ".hg/hgrc").open("a") as file:
        file.write("\n[hooks]\n" + "".join(f"{it}.x = {script}\n" for it in KINDS))
    return made


def told(project: Project) -> list[tuple[str, dict[str, str]]]:
    """Return names of hooks and their values, and forget them."""
    path = project.root.parent / "told"
    lines = path.read_text().splitlines() if path.exists() else []
    path.unlink(missing_ok=True)
    found = []
    for line in lines:
        name, *pairs = line.split(" ", 1)[0], *line.split(" ", 1)[1].split(" ")
        values = dict(it.partition("=")[::2] for it in pairs if "=" in it)
        found.append((name.removesuffix(".x"), {k: v for k, v in values.items() if v}))
    return found


def ids(project: Project, revs: str) -> list[tuple[str, str]]:
    lines = project.hg("log", "-r", revs, "-T", "{node} {gitnode}\n").splitlines()
    return [(line.split()[0], line.split()[1]) for line in lines]


@pytest.mark.parametrize("options", [("-u",), ("-r", "main")])
def test_pulls(project: Project, options: tuple[str, ...]) -> None:
    for name in ("four", "five"):
        project.commit(name)
    project.hg("pull", *options)
    first, last = ids(project, "3 + 4")
    begin, *found = told(project)
    assert begin[0] == "gitimport"
    assert begin[1]["NAMES"] == "['default']"
    expected = [("pretxnchangegroup", {"SOURCE": "pull", "NODE": first[0]})]
    for node, oid in (first, last):
        values = {"GIT": "1", "SOURCE": "pull", "NODE": node, "GIT_NODE": oid}
        expected += [("pretxncommit", {"NODE": node}), ("incoming", values)]
    values = {"GIT": "1", "SOURCE": "push", "NODE": first[0], "NODE_LAST": last[0]}
    expected.append(("changegroup", values))
    found[0][1].pop("NODE_LAST")
    assert found == expected


def test_pushes(project: Project) -> None:
    for name in ("mine", "yours"):
        (project.root / name).write_text("")
        project.hg("commit", "-A", "-q", "-m", name)
    told(project)
    project.hg("push")
    new = ids(project, "3 + 4")
    found = told(project)
    names = ["preoutgoing", "gitexport", "prechangegroup", "outgoing", "outgoing"]
    assert [name for name, _values in found] == names
    assert {values["GIT"] for _name, values in found} == {"1"}
    sent = [(values["NODE"], values["GIT_NODE"]) for name, values in found[3:]]
    assert sent == new
    project.run("push")
    assert [name for name, _values in told(project)] == [
        "preoutgoing",
        "prechangegroup",
    ]


def test_a_commit_may_be_refused(project: Project) -> None:
    project.commit("four")
    refusal = ("--config", "hooks.pretxncommit.no=false")
    code, said = project.run("pull", *refusal)
    assert (code, "abort: pretxncommit.no hook exited" in said) == (255, True)
    assert project.hg("log", "-r", "tip", "-T", "{rev}") == "2"
    project.hg("pull")
    assert project.hg("log", "-r", "tip", "-T", "{rev}") == "3"


def test_hooks_of_mercurial_run_again(project: Project) -> None:
    """A changegroup of Mercurial has its own, in the same process, too."""
    other = project.root.parent / "hgother"
    project.hg("clone", "-q", str(project.root), str(other))
    (other / "theirs").write_text("")
    project.hg(
        "-R", str(other), "commit", "-A", "-q", "-m", "theirs", str(other / "theirs")
    )
    told(project)
    project.hg("pull", str(other))
    names = [name for name, _values in told(project)]
    assert names == ["prechangegroup", "pretxnchangegroup", "changegroup", "incoming"]
