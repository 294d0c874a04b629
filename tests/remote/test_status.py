"""Replication as ``admin::amalgam`` and its metrics show it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from testlib.exported import Exported
from testlib.githost import Behaviour, GitHost

pytestmark = pytest.mark.slow


def test_lag_failures_and_refusals_are_shown(store: Exported, host: GitHost) -> None:
    remote = host.add("mirror")
    with (store.root / ".hg" / "hgrc").open("a") as file:
        file.write(f"\n[amalgam]\nreplicate.mirror = {remote.url}\n")

    def shown() -> tuple[dict[str, Any], list[str]]:
        (found,) = json.loads(store.run("admin::amalgam", "-T", "json").out)
        (mirror,) = found["remotes"]
        return mirror, [it["text"] for it in found["problems"]]

    def metric(name: str) -> float:
        lines = store.run("admin::amalgam", "--metrics").out.decode().splitlines()
        (line,) = [it for it in lines if it.startswith(f"amalgam_replicate_{name}{{")]
        assert 'remote="mirror"' in line
        return float(line.rpartition(" ")[2])

    assert shown()[0]["succeeded"] == 0
    assert (
        b"never pushed (run 'hg git::push mirror')" in store.run("admin::amalgam").out
    )
    remote.behaviour = Behaviour(protected=("refs/heads/default",))
    store.run("git::push", "mirror")
    mirror, problems = shown()
    assert (mirror["refused"], mirror["lag"], mirror["failures"]) == (1, 0, 0)
    assert "GH006" in problems[0]
    assert metric("refs_refused") == 1
    remote.behaviour = Behaviour(status=403)
    store.commit("more")
    for _number in range(2):
        store.run("git::push", "mirror")
    mirror, problems = shown()
    assert mirror["failures"] == metric("failures") == 2
    assert "needs a person" in problems[0]
    assert "403" in problems[0]
    remote.behaviour = Behaviour()
    assert store.run("git::push", "mirror").code == 0
    mirror, problems = shown()
    assert (mirror["refused"], mirror["failures"], problems) == (0, 0, [])
    assert metric("lag_seconds") == 0
    assert metric("last_success_timestamp_seconds") > 0
    assert metric("refs_written_total") >= 5


def test_a_remote_that_follows_has_changes_exported(store: Exported) -> None:
    """And asks for it without ``export-on-change``."""

    def exporter(*options: str) -> str:
        done = store.run("admin::amalgam", "-T", "json", *options)
        (found,) = json.loads(done.out)
        return str(found["exporter"])

    remote = ("--config", "amalgam.replicate.mirror=../mirror")
    follows = ("--config", "amalgam.replicate.mirror.on-change=yes")
    assert exporter(*remote) == "off"
    assert exporter(*remote, *follows) == "idle"


def test_a_wrong_url_is_a_problem_without_its_secret(store: Exported) -> None:
    url = "amalgam.replicate.mirror=https://me:secret@example.org/x"
    done = store.run("admin::amalgam", "--config", url)
    assert done.code == 1
    assert b"the URL contains a password" in done.out
    assert b"secret@" not in done.out + done.err
    done = store.run("git::push", "--all", "--config", url)
    assert done.code == 30
    assert b"secret@" not in done.out + done.err
