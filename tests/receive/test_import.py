"""Conversions in hg-git's dialect, compared with the nodes that hg-git 1.2.0 gives.

Stock hg takes each changegroup, so every node is checked.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from mercurial import error, hg as hgmod, ui as uimod
from testlib.converted import Target
from testlib.environment import ROOT, git, hg
from testlib.hggitcommits import Commits, RenamedCommits
from testlib.randomcommits import GitObjects

from hgext3rd.amalgam.files import Directory
from hgext3rd.amalgam.gitstore.git.process import Git
from hgext3rd.amalgam.receive import decoding, importing

NODES = ROOT / "tests" / "vectors" / "git-import" / "nodes.txt"
#: Nodes by name and by settings.
RENAMED_NODES: dict[str, dict[str, str]] = {}
for _row in NODES.with_name("renamed.txt").read_text().splitlines():
    _settings, _name, _node = _row.split("\t")
    RENAMED_NODES.setdefault(_settings, {})[_name] = _node


def target_in(directory: Path, name: str = "target") -> Target:
    hg(directory, "init", name)
    user = "[ui]\nusername = Lab <lab@example.org>\n"
    (directory / name / ".hg" / "hgrc").write_text(user)
    return Target(directory / name, dialect=b"hggit")


def expected() -> dict[str, str]:
    """Nodes by commit, but of commits at which hg-git stops."""
    rows = [row.split() for row in NODES.read_text().splitlines()]
    return {oid: node for _name, oid, node in rows if node != "-"}


@pytest.mark.parametrize("pushes", [1, 5])
def test_nodes_are_those_of_hg_git(pushes: int, tmp_path: Path) -> None:
    """Also if parents are changesets already, and if all caches are too small."""
    made = Commits(tmp_path / "project.git")
    target = target_in(tmp_path)
    tips = [*made.oids.values()]
    random.Random(pushes).shuffle(tips)
    for number in range(pushes):
        target.push(made.repo.path, *tips[number::pushes], memory_bytes=pushes % 2)
    nodes = expected()
    names = {oid: name for name, oid in made.oids.items()}
    found = {oid: node for oid, node in target.known.items() if oid in nodes}
    assert {names[oid] for oid in nodes if found.get(oid) != nodes[oid]} == set()
    assert target.known.keys() == names.keys()
    # what hg-git stops at
    log = "{branch} {desc}\n"
    node = target.known[made.oids["reserved"]]
    assert target.hg("log", "-r", node, "-T", log) == "default text\n"
    node = target.known[made.oids["nonsense"]]
    assert target.hg("log", "-r", node, "-T", log) == "default ðÒÉ\n"


def test_random_histories_do_not_depend_on_pushes(tmp_path: Path) -> None:
    """hg verifies all revisions that were made of stored ones."""
    draw = random.Random(7)
    repo = GitObjects(tmp_path / "project.git")
    made: list[str] = []
    trees = [
        repo.tree(*((mode, b"f%d" % at) for at in range(6) if draw.random() < 0.8))
        for mode in (b"100644", b"100755", b"100664")
        for _time in range(5)
    ]
    for _time in range(60):
        recent = made[-6:]
        parents = draw.sample(recent, min(len(recent), draw.choice([1, 1, 2, 3, 4])))
        message = b"%d\n" % draw.randrange(1000)
        made.append(repo.commit(*parents, tree=draw.choice(trees), message=message))
    whole, parts = target_in(tmp_path, "whole"), target_in(tmp_path, "parts")
    whole.push(repo.path, *made)
    for at in range(0, len(made), 4):
        parts.push(repo.path, *made[at : at + 4])
    assert parts.known == whole.known
    assert "warning" not in parts.hg("verify", "-q")


def test_batches_are_transactions(tmp_path: Path) -> None:
    """An interrupted import keeps its finished batches."""
    made = Commits(tmp_path / "project.git")
    target = target_in(tmp_path)
    repo = hgmod.repository(uimod.ui.load(), bytes(target.root))
    dialect, memory_bytes, url = b"hggit", 1 << 20, b"file:///project.git"
    settings = importing.ImportSettings(
        dialect, memory_bytes, url, batch=7, first_batch=7
    )
    pairs: dict[bytes, bytes] = {}
    batches: list[int] = []
    resumes: list[bool] = []

    def known(oids: Iterable[bytes]) -> dict[bytes, bytes]:
        return {oid: pairs[oid] for oid in oids if oid in pairs}

    def record(
        transaction: Any,
        found: Sequence[tuple[bytes, bytes]],
        _foreign: Sequence[bytes],
    ) -> None:
        assert transaction.running()
        if len(batches) == 2 and not resumes:
            raise KeyboardInterrupt
        batches.append(len(found))
        pairs.update(found)

    git = Git(b"git", Directory(bytes(made.repo.path.resolve())))
    tips = [oid.encode() for oid in made.oids.values()]
    run = (repo, git, tips, known, record, settings)
    with pytest.raises(KeyboardInterrupt):
        importing.import_commits(*run)
    assert batches == [7, 7]
    log = target.hg("log", "-T", "{node} {phase}\n").splitlines()
    assert {f"{node.decode()} draft" for node in pairs.values()} <= {*log}
    resumes.append(True)
    assert importing.import_commits(*run) == len(made.oids) - 14
    nodes = expected()
    found = {oid.decode(): node.decode() for oid, node in pairs.items()}
    assert {oid: found[oid] for oid in nodes} == nodes
    assert importing.import_commits(*run) == 0


def test_commits_before_one_that_cannot_be_imported_are_kept(tmp_path: Path) -> None:
    """The core writes the store of half of them at once, if it cannot of all."""
    made = GitObjects(tmp_path / "project.git")
    tree = made.tree((b"100644", b"file"))
    tips = [made.commit(tree=tree)]
    for number in range(8):
        tips.append(made.commit(tips[-1], tree=tree, message=b"%d" % number))
    tips.append(made.commit(tips[-1], tree=made.tree((b"100644", b".hg"))))
    target = target_in(tmp_path)
    repo = hgmod.repository(uimod.ui.load(), bytes(target.root))
    settings = importing.ImportSettings(
        *(b"cinnabar", 1 << 20, b"file:///project.git"), batch=2, is_exact=True
    )
    pairs: dict[bytes, bytes] = {}
    batches: list[int] = []

    def known(oids: Iterable[bytes]) -> dict[bytes, bytes]:
        return {oid: pairs[oid] for oid in oids if oid in pairs}

    def record(
        _transaction: Any, found: Sequence[tuple[bytes, bytes]], *_: Any
    ) -> None:
        batches.append(len(found))
        pairs.update(found)

    git = Git(b"git", Directory(bytes(made.path.resolve())))
    with pytest.raises(error.InputError):
        importing.import_commits(
            repo, git, [tips[-1].encode()], known, record, settings
        )
    assert {oid.decode() for oid in pairs} == {*tips[:-1]}
    assert batches == [5, 2, 2]


def test_a_push_refuses_commits_that_do_not_come_back(tmp_path: Path) -> None:
    """Signed commits, those with an encoding, and octopuses do."""
    made = Commits(tmp_path / "project.git")
    target = target_in(tmp_path)
    reasons = {}
    for name in ("one", "signed", "koi8", "branch", "padded", "nested-hg", "twice"):
        found = target.convert(made.repo.path, made.oids[name], round_trip=True)
        reasons[name] = [it.reason.name for it in found.refused]
    assert reasons == {
        **{name: [] for name in ("one", "signed", "koi8", "twice")},
        "branch": [b"header"],
        "padded": [b"mode"],
        "nested-hg": [b"path"],
    }


def test_a_push_refuses_metadata_that_does_not_fit_its_files(tmp_path: Path) -> None:
    """A header of Mercurial depends on its files, an octopus on those above."""
    repo = GitObjects(tmp_path / "project.git")
    before, after = repo.tree((b"100644", b"a")), repo.tree((b"100644", b"b"))
    root = repo.commit(tree=before)
    rename = b"HG:rename a:b\n"
    fits = repo.commit(root, tree=after, headers=rename)
    others = [repo.commit(root, message=b"%d\n" % at) for at in range(2)]
    octopus = repo.commit(*others, root)
    made = [root, fits, *others, octopus]
    bad = {
        repo.commit(root, tree=before, headers=rename): (b"header", rename[:-1]),
        repo.commit(*others, octopus): (b"octopus", b""),
        repo.commit(headers=b"HG:extra hg-git:octopus\n"): (b"header", b"hg-git"),
    }
    target = target_in(tmp_path)
    target.unbundle(target.convert(repo.path, *made, round_trip=True))
    for oid, expected in bad.items():
        (found,) = target.convert(repo.path, oid, round_trip=True).refused
        assert (found.oid.decode(), found.reason.name, found.detail) == (oid, *expected)


@pytest.mark.parametrize("dialect", [b"cinnabar", b"hggit"])
def test_octopuses_may_share_changesets_between(dialect: bytes, tmp_path: Path) -> None:
    """The last two parents of two octopuses are merged once, in two pushes, too."""
    repo = GitObjects(tmp_path / "project.git")
    tree = repo.tree((b"100644", b"a"))
    roots = [repo.commit(tree=tree, message=b"%d\n" % at) for at in range(5)]
    made = [repo.commit(root, *roots[-2:], tree=tree) for root in roots[:3]]
    target = target_in(tmp_path)
    target.dialect = dialect
    for tips in (made[:2], made[2:]):
        target.unbundle(
            target.convert(repo.path, *tips, round_trip=True, is_exact=True)
        )
    assert {*target.known} == {*roots, *made}
    assert len(target.hg("log", "-T", "{node}\n").splitlines()) == 9


@pytest.mark.parametrize("settings", [*RENAMED_NODES])
def test_renames_are_found_as_by_hg_git(settings: str, tmp_path: Path) -> None:
    """Also where all commits come back from their changesets."""
    made = RenamedCommits(tmp_path / "project.git")
    target = target_in(tmp_path)
    with (target.root / ".hg" / "hgrc").open("a") as hgrc:
        hgrc.write("[git]\n" + settings.replace(", ", "\n"))
    target.push(made.repo.path, *made.oids.values())
    nodes = {name: target.known[oid] for name, oid in made.oids.items()}
    expected = RENAMED_NODES[settings]
    assert {name for name in nodes if nodes[name] != expected[name]} == set()
    copies = target.hg("log", "-r", nodes["similar"], "-T", "{file_copies}")
    is_similar = "100" not in settings and "limit" not in settings
    assert copies == ("new (a)" if is_similar else "")
    hgrc_text = (target.root / ".hg" / "hgrc").read_text()
    exact = target_in(tmp_path, "exact")
    (exact.root / ".hg" / "hgrc").write_text(hgrc_text)
    tips = [oid for name, oid in made.oids.items() if name != "left-out"]
    found = exact.convert(made.repo.path, *tips, round_trip=True, is_exact=True)
    assert not found.refused


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("similarity = 101", b"git.similarity must be between 0 and 100"),
        ("similarity = x", b"git.similarity is not a valid integer ('x')"),
        ("renamelimit = -1", b"git.renamelimit must be non-negative"),
        ("findcopiesharder = x", b"git.findcopiesharder is not a boolean ('x')"),
    ],
)
def test_bad_settings_of_renames_are_refused(
    line: str, said: bytes, tmp_path: Path
) -> None:
    repo = GitObjects(tmp_path / "project.git")
    target = target_in(tmp_path)
    (target.root / ".hg" / "hgrc").write_text(f"[git]\n{line}\n")
    with pytest.raises(error.Abort) as caught:
        target.convert(repo.path, repo.commit())
    assert caught.value.message == said


@pytest.mark.parametrize(
    ("encoding", "text", "found"),
    [
        (b"koi8-r", b"\xf0\xd2\xc9", "При".encode()),
        (b"ISO-8859-1", b"\x80", "\x80".encode()),
        (b"shift_jis", b"\x81", None),
        (b"hex", b"ff", None),
        (b"a\0b", b"\xff", None),
        (b"utf-16", b"\x00\xd8", None),
    ],
)
def test_codecs_are_those_of_python(
    encoding: bytes, text: bytes, found: bytes | None
) -> None:
    assert decoding.decoded(encoding, text) == found


def test_a_long_text_goes_through_the_pipes(tmp_path: Path) -> None:
    repo = GitObjects(tmp_path / "project.git")
    text = b"\xf0\xd2\xc9 " * 100_000
    oid = repo.commit(headers=b"encoding koi8-r\n", message=text)
    target = target_in(tmp_path)
    target.push(repo.path, oid)
    assert target.hg("log", "-T", "{desc}").startswith("При")
    assert git(repo.path, "cat-file", "-t", oid) == b"commit\n"


def test_few_commits_do_not_read_long_indexes(tmp_path: Path) -> None:
    """A pull of one commit costs the same in a long history."""
    settings = importing.ImportSettings(b"hggit", 1 << 20, b"")
    packs = tmp_path / "objects/pack"
    packs.mkdir(parents=True)
    (packs / "pack-1.pack").write_bytes(bytes(1 << 20))
    (packs / "pack-1.idx").write_bytes(bytes(500_000))
    repository = Git(b"git", Directory(bytes(tmp_path)))
    found = importing._packs(repository, 2, settings)
    assert found is not None
    assert {*found.names()} == {b"pack-1.pack", b"pack-1.idx"}
    (packs / "pack-2.idx").write_bytes(bytes(500_000))
    assert importing._packs(repository, 2, settings) is None
    assert importing._packs(repository, 4, settings) == found
    # copies have to be verified
    verified = settings._replace(verify=lambda _is_done: None)
    assert importing._packs(repository, 2, verified) == found
    assert importing._packs(Git(b"git"), 2, settings) is None
