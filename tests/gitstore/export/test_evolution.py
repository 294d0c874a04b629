"""Names follow what history becomes: the commands of evolve and topic, and what is
only renamed, published or closed.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, add_config, git
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.hiding import has_pack
from testlib.webserver import serving

pytest.importorskip("hgext3rd.evolve")
pytestmark = pytest.mark.slow

SERVING = (
    "--config=extensions.amalgam=",
    "--config=amalgam.git.serve=yes",
    "--config=amalgam.serve.queue-timeout=1",
)
CONFIG = """
[extensions]
evolve =
topic =
rebase =
[phases]
new-commit = draft
publish = no
"""


@pytest.fixture(scope="module")
def server() -> Iterator[HgServer]:
    """Only for these tests: what evolve and topic wrap stays so in a command server."""
    server = HgServer()
    yield server
    server.close()


@pytest.fixture
def store(tmp_path: Path, server: HgServer) -> Exported:
    store = Exported.init(tmp_path / "repo", server)
    add_config(store.root, CONFIG)
    for name in ("zero", "one", "two"):
        store.commit(name)
    store.hg("phase", "--public", "0")
    store.hg("git::export")
    return store


def refs(store: Exported) -> dict[str, str]:
    """Return the refs that users see, and what git says is the subject of each."""
    kinds = ("refs/heads", "refs/tags", "refs/hg")
    lines = store.git("for-each-ref", "--format=%(refname) %(subject)", *kinds)
    return dict(line.split(" ") for line in lines.splitlines())


def objects(store: Exported) -> set[str]:
    arguments = ("--batch-all-objects", "--batch-check=%(objectname)")
    return set(store.git("cat-file", *arguments).split())


def subjects(store: Exported) -> set[str]:
    """Return the subjects of the commits of all changesets that are there.

    Named or not; without those that are for git-cinnabar.
    """
    arguments = ("--batch-all-objects", "--batch-check=%(objecttype) %(objectname)")
    listing = store.git("cat-file", *arguments)
    commits = [line.split()[1] for line in listing.splitlines() if "commit" in line]
    lines = store.git("show", "-s", "--format=<%ae> %s", *commits).splitlines()
    return {
        line.split(" ", 1)[1] for line in lines if not line.startswith("<cinnabar@git>")
    }


@pytest.mark.parametrize(
    ("commands", "there"),
    [
        ([("amend", "-m", "new")], {"zero", "one", "new"}),
        ([("metaedit", "-m", "new", "-r", ".")], {"zero", "one", "new"}),
        ([("prune", "-q", ".")], {"zero", "one"}),
        ([("fold", "-q", "--exact", "-r", "1::2", "-m", "new")], {"zero", "new"}),
        ([("rebase", "-q", "-r", "2", "-d", "0")], {"zero", "one", "two"}),
        (
            [("update", "-q", "1"), ("amend", "-q", "-m", "new")],
            {"zero", "one", "new", "two"},  # "one" has a child that is not evolved
        ),
        (
            [
                ("update", "-q", "1"),
                ("amend", "-q", "-m", "new"),
                ("evolve", "-q", "--all"),
            ],
            {"zero", "new", "two"},
        ),
    ],
    ids=lambda value: (
        "-".join(command[0] for command in value) if isinstance(value, list) else ""
    ),
)
def test_refs_lead_from_old_to_new(
    store: Exported, commands: list[tuple[str, ...]], there: set[str]
) -> None:
    for command in commands:
        store.hg(*command)
    store.hg("git::export")
    tip = store.hg("log", "-r", "default", "-T", "{desc}")
    assert refs(store)["refs/heads/default"] == tip
    assert subjects(store) == there
    assert store.run("git::verify").code == 0


def test_what_is_undone_is_back_with_its_id(store: Exported) -> None:
    before = store.git("rev-parse", "refs/heads/default")
    store.hg("prune", "-q", ".")
    store.hg("git::export")
    assert subjects(store) == {"zero", "one"}
    store.hg("debugobsolete", "--delete", "0")
    store.hg("git::export")
    assert store.git("rev-parse", "refs/heads/default") == before


def test_topic_is_exported_when_it_is_published(store: Exported) -> None:
    store.hg("topic", "work")
    store.commit("worked")
    store.commit("on")
    store.hg("git::export")
    assert subjects(store) == {"zero", "one", "two"}
    assert refs(store) == {"refs/heads/default": "two"}
    store.hg("phase", "--public", "3")
    store.hg("git::export")
    assert subjects(store) == {"zero", "one", "two", "worked"}
    assert refs(store) == {"refs/heads/default": "worked"}
    assert store.run("git::verify").code == 0


def test_draft_that_gets_a_topic_leaves(store: Exported) -> None:
    store.hg("topic", "-r", "2", "work")
    store.hg("git::export")
    assert subjects(store) == {"zero", "one"}
    assert refs(store) == {"refs/heads/default": "one"}


def test_git_is_served_what_hg_shows_to_those_without_topics(
    store: Exported, tmp_path: Path
) -> None:
    draft = store.ids("2")[1]
    gate = "--config=experimental.topic.server-gate-topic-changesets=yes"
    with serving(store.root, *SERVING, gate) as web:

        def cloned(name: str) -> set[str]:
            target = tmp_path / name
            git(tmp_path, "clone", "-q", "--mirror", web.url, str(target))
            said = git(target, "log", "--all", "--format=%s").decode()
            command = [str(HG), "clone", "-qU", web.url, f"{target}-hg"]
            subprocess.run(command, env=ENVIRONMENT, check=True)
            command = [str(HG), "-R", f"{target}-hg", "log", "-T", "{desc}\n"]
            by_hg = subprocess.check_output(command, env=ENVIRONMENT).decode()
            assert said.split() == by_hg.split()
            return set(said.split())

        assert cloned("before") == {"zero", "one", "two"}
        assert has_pack(web, draft)
        store.hg("topic", "-r", "2", "work")
        assert not has_pack(web, draft), web.said()
        assert cloned("with-topic") == {"zero", "one"}
        assert not has_pack(web, draft), web.said()
        store.hg("phase", "--public", "desc(two)")
        assert cloned("published") == {"zero", "one", "two"}


@pytest.mark.parametrize(
    ("commands", "expected"),
    [
        ([("bookmark", "-r", "0", "mark")], {"mark": "zero", "default": "two"}),
        ([("phase", "--public", "2")], {"default": "two"}),
        ([("bookmark", "-r", "1", "a b")], {"a%20b": "one", "default": "two"}),
    ],
)
def test_names_and_phases_move_refs_and_make_no_objects(
    store: Exported, commands: list[tuple[str, ...]], expected: dict[str, str]
) -> None:
    before = objects(store)
    for command in commands:
        store.hg(*command)
    store.hg("git::export")
    assert refs(store) == {f"refs/heads/{name}": to for name, to in expected.items()}
    assert objects(store) == before


def test_tag_and_closed_branch_make_the_objects_of_their_changesets_only(
    store: Exported,
) -> None:
    store.hg("tag", "-r", "1", "v1", "-m", "tagged", "-d", "0 0")
    store.hg("git::export")
    assert refs(store) == {"refs/heads/default": "tagged", "refs/tags/v1": "one"}
    store.hg("branch", "-q", "side")
    store.commit("side")
    store.hg("git::export")
    before = objects(store)
    store.hg("commit", "-q", "--close-branch", "-m", "closed", "-d", "0 0")
    store.hg("git::export", "--metadata")
    assert "refs/heads/side" not in refs(store)
    oid = store.ids("tip")[1]
    assert oid not in before
    others = store.git("rev-list", "--objects", "refs/cinnabar/metadata", f"^{oid}")
    for_cinnabar = {line.split()[0] for line in others.splitlines()}
    # the commit; its tree is that before
    assert objects(store) - before - for_cinnabar == {oid}
    assert subjects(store) >= {"side", "closed"}
