"""Exports that hgweb asks for: one process, however many requests wait for it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG
from testlib.exported import Exported
from testlib.webserver import WebServer, serving, until

from hgext3rd.amalgam.gitstore.exporting import exporterlock

pytestmark = pytest.mark.slow

ON = ("--config=extensions.amalgam=", "--config=amalgam.git.serve=yes")
SERVICE = "info/refs?service=git-upload-pack"
IN_BACKGROUND = "--config=amalgam.serve.freshness=0"


class HeldExporters:
    """Exporters that note that they were started, and wait while ``held`` is there."""

    def __init__(self, place: Path) -> None:
        self.held, self._noted = place / "held", place / "noted"
        program = place / "hg"
        program.write_text(
            f"#!/bin/sh\necho started >> {self._noted}\n"
            f'while [ -e {self.held} ]; do sleep 0.05; done\nexec {HG} "$@"\n'
        )
        program.chmod(0o755)
        self.held.touch()
        self.environment = ENVIRONMENT | {"HG": str(program)}

    def count(self) -> int:
        """Return how many were started."""
        if not self._noted.exists():
            return 0
        return len(self._noted.read_text().splitlines())


@pytest.fixture
def outdated(store: Exported) -> Exported:
    """A store that lacks three changesets; amalgam is on in the background, too."""
    with (store.root / ".hg" / "hgrc").open("a") as file:
        file.write("[extensions]\namalgam =\n")
    for number in range(3):
        store.commit_nothing(f"new {number}")
    return store


def listed(web: WebServer, freshness: str = "") -> tuple[int, bytes]:
    status, _headers, body = web.ask(SERVICE, X_Amalgam_Freshness=freshness)
    return status, body


def has_exporter(store: Exported) -> bool:
    return exporterlock.is_held(exporterlock.directory_of(store.open()))


def test_requests_of_all_processes_share_one_exporter(
    outdated: Exported, tmp_path: Path
) -> None:
    exporters = HeldExporters(tmp_path)
    environment = exporters.environment
    options = (*ON, IN_BACKGROUND)
    with (
        serving(outdated.root, *options, environment=environment) as one,
        serving(outdated.root, *options, environment=environment) as other,
        ThreadPoolExecutor(8) as threads,
    ):
        found = {listed(web) for web in (one, other) * 4}
        assert len(found) == 1  # the state before
        until(exporters.count)
        waiting = [
            threads.submit(listed, web, "now") for web in (one, other) for _ in range(4)
        ]
        assert listed(one) in found
        assert listed(other) in found
        assert exporters.count() == 1
        exporters.held.unlink()
        tip = outdated.ids("tip")[1].encode()
        for future in waiting:
            status, said = future.result()
            assert status == 200
            assert tip in said
        until(lambda: not has_exporter(outdated))
        count = exporters.count()
        assert tip in listed(one)[1]
        assert exporters.count() == count


def test_exporter_that_is_killed_is_replaced(
    outdated: Exported, tmp_path: Path
) -> None:
    exporters = HeldExporters(tmp_path)
    program = Path(exporters.environment["HG"])
    whole = program.read_text()
    program.write_text(whole.replace("while", "kill -9 $$; while"))
    options = (*ON, IN_BACKGROUND)
    with serving(outdated.root, *options, environment=exporters.environment) as web:
        before = listed(web)
        until(exporters.count)
        until(lambda: not has_exporter(outdated))
        program.write_text(whole)
        exporters.held.unlink()
        until(lambda: listed(web) != before)
        assert outdated.ids("tip")[1].encode() in listed(web)[1]
