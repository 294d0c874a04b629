"""A sample of `make torture`: hostile files below ``.hg/amalgam``, by each visitor."""

from __future__ import annotations

import functools
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from testlib.forkserver import ForkServer
from testlib.hostile import Case, Scene, Servers
from testlib.needs import missing
from testlib.spoiling import Spoiling
from testlib.visiting import ONESELF, VISITORS, Command, Visitor

pytestmark = pytest.mark.slow

SEED = "sample"
SPOILINGS = 4
COMMANDS = 8

SceneOf = Callable[[Visitor], Scene]


@pytest.fixture(scope="module")
def scene_of() -> Iterator[SceneOf]:
    """Scenes where every user gets to."""
    servers = Servers.start()
    shm = Path("/dev/shm")
    scratch = tempfile.mkdtemp(prefix="hostile-", dir=shm if shm.is_dir() else None)
    Path(scratch).chmod(0o755)

    @functools.cache
    def scene_of(visitor: Visitor) -> Scene:
        return Scene(Path(scratch), visitor, servers)

    yield scene_of
    servers.close()
    shutil.rmtree(scratch)


def visited(scene: Scene, spoilings: list[Spoiling], limit: int | None) -> list[str]:
    problems = []
    for spoiling in spoilings:
        case = Case(scene, spoiling, f"{SEED} {spoiling}")
        problems += [str(problem) for problem in case.problems(limit)]
        case.close()
    return problems


@pytest.mark.sampled(1)
@pytest.mark.needs("users")
@pytest.mark.parametrize("visitor", VISITORS, ids=lambda visitor: visitor.name)
def test_hostile_files_do_no_harm(scene_of: SceneOf, visitor: Visitor) -> None:
    scene = scene_of(visitor)
    draw = random.Random(f"{SEED} {visitor.name}")
    problems = visited(scene, draw.sample(scene.spoilings, SPOILINGS), COMMANDS)
    assert not problems, "\n\n".join(problems)


def test_files_that_are_sound_are_used(scene_of: SceneOf) -> None:
    visitor = ONESELF if missing("users") else VISITORS[0]
    problems = visited(scene_of(visitor), [Spoiling("as it is", "")], None)
    assert not problems, "\n\n".join(problems)


BROKEN = """\
from mercurial import registrar
cmdtable = {}
command = registrar.command(cmdtable)
@command(b"broken")
def broken(ui, repo):
    raise RuntimeError
"""


def test_harm_is_noticed(scene_of: SceneOf) -> None:
    scene = scene_of(ONESELF)
    extension = scene.place / "broken.py"
    extension.write_text(BROKEN)
    refuse = "! grep -q ^amalgam $HGRCPATH"
    kept = scene.commands
    harm = {
        "victim changed": ("log", "--config", "hooks.pre-log=touch ../victims/file"),
        "traceback": ("broken", "--config", f"extensions.broken={extension}"),
        "signal": ("log", "--config", "hooks.pre-log=kill -SEGV $PPID"),
        "not stock's answer": ("log", "--config", f"hooks.pre-log={refuse}"),
    }
    try:
        for kind, args in harm.items():
            scene.commands = [Command(kind, args, stock=kind.startswith("not"))]
            case = Case(scene, Spoiling("as it is", ""), SEED)
            assert [problem.kind for problem in case.problems()] == [kind]
            case.close()
    finally:
        scene.commands = kept


def test_hang_is_ended(tmp_path: Path) -> None:
    server = ForkServer()
    hanging = ("version", "-q", "--config", "hooks.pre-version=sleep 1000")
    assert server.run(tmp_path, *hanging, timeout_seconds=0.5).code is None
    assert server.run(tmp_path, "version", "-q").code == 0
    server.close()
