"""What the generators of contrib/perf promise, asked of Mercurial itself."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from testlib.environment import ROOT

pytestmark = pytest.mark.slow

GENERATE = ROOT / "contrib" / "perf" / "generate.py"
HG = Path(sys.executable).with_name("hg")

SIZES = {
    "realistic": ["--changesets=600"],
    "linear": ["--changesets=4000", "--files=5"],
    "merges": ["--changesets=300", "--files=20"],
    "topics": ["--changesets=1500", "--files=30", "--topics=40"],
    "wide-topics": ["--changesets=600", "--files=100", "--lines=20", "--topics=40"],
    "criss-cross": ["--changesets=600", "--files=30", "--pairs=20"],
    "many-files": ["--changesets=10", "--files=2000"],
    "deep-directories": ["--changesets=100", "--files=60"],
    "many-heads": ["--changesets=400", "--heads=300"],
    "heads": ["--changesets=100", "--heads=300"],
    "names": ["--changesets=100", "--names=300"],
    "names-and-heads": ["--changesets=100", "--names=300"],
    "large-files": ["--changesets=8", "--megabytes=1"],
    "monorepo": ["--changesets=400", "--files=600", "--directories=50", "--topics=6"],
}
# The same with each Mercurial and Python. Whoever changes a generator changes these.
TIPS = {
    "realistic": "fbf6a750127d67c150a1237329ffb49bf3369d37",
    "linear": "6f7fb24e861162b947ef7d3abb906728a52c4d15",
    "merges": "8c0d68a3a0ecd4f74eacbf62d26fe7d5e9d7d8ea",
    "topics": "c7b3674fbe56ffb1ac9c36d314cfe2e169fa24b5",
    "wide-topics": "29aceda165d35ea05c5659ff23e2c70ad96cf9fb",
    "criss-cross": "bf0ddd6a510a3784da47b5bd61c13310a14abdb1",
    "many-files": "ca609c20196719fce5219e0dd9447b5570039531",
    "deep-directories": "982c1224406f4265b4a469f9abc3adc760e666a3",
    "many-heads": "6f7680e66d042c80c6f4bb3418b5ac63d156c373",
    "heads": "b6cdebd402cee26ce546174541f4b19eb3a572b0",
    "names": "efec1c7ea4a4f5875c0d66445f4c7c4caba6065e",
    "names-and-heads": "b6cdebd402cee26ce546174541f4b19eb3a572b0",
    "large-files": "08abf93fedd9da4ddbb9a4b7914475bcbf203a66",
    "monorepo": "c8b824cae0c9186a9c1a5255ceb4664d7ec5e2bc",
}


def generate(path: Path, profile: str, *options: str, hash_seed: int = 0) -> Path:
    """Write a repository of the profile's small size at ``path``."""
    command = [sys.executable, str(GENERATE), profile, str(path), *SIZES[profile]]
    # the order of sets of bytes follows PYTHONHASHSEED: none may reach a result
    environment = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    subprocess.run([*command, *options], check=True, env=environment)
    return path


def hg(repository: Path, *arguments: str) -> bytes:
    """Run hg without anybody's configuration and return its stdout."""
    environment = {**os.environ, "HGRCPATH": "", "HGPLAIN": "1", "HGENCODING": "UTF-8"}
    command = [str(HG), "--cwd", str(repository), *arguments]
    done = subprocess.run(command, capture_output=True, env=environment)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def log(repository: Path, revset: str, template: str) -> list[str]:
    """The lines that ``template`` gives for the changesets of a revset."""
    return hg(repository, "log", "-r", revset, "-T", template).decode().splitlines()


@pytest.fixture(scope="module", params=SIZES)
def profile(request: pytest.FixtureRequest) -> str:
    """Each profile in turn."""
    return str(request.param)


@pytest.fixture(scope="module")
def repository(profile: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small repository of the profile."""
    return generate(tmp_path_factory.mktemp(profile) / "repository", profile)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small repository of the profile `realistic`."""
    return generate(tmp_path_factory.mktemp("project") / "repository", "realistic")


@pytest.mark.sampled(2)
def test_hg_verify_accepts_each_profile(repository: Path) -> None:
    output = hg(repository, "verify", "--full")
    assert b"warning" not in output


@pytest.mark.sampled(2)
def test_nodes_depend_on_the_seed_alone(
    repository: Path, profile: str, tmp_path: Path
) -> None:
    assert log(repository, "tip", "{node}") == [TIPS[profile]]
    again = generate(tmp_path / "again", profile, hash_seed=1)
    assert log(again, "tip", "{node}") == [TIPS[profile]]
    other = generate(tmp_path / "other", profile, "--seed=2")
    assert log(other, "tip", "{node}") != [TIPS[profile]]


def test_zlib_changes_bytes_but_no_node(tmp_path: Path) -> None:
    repository = generate(tmp_path / "zlib", "realistic", "--compression=zlib")
    assert b"revlog-compression-zstd" not in hg(repository, "debugrequires")
    assert log(repository, "tip", "{node}") == [TIPS["realistic"]]
    hg(repository, "verify")


def test_all_is_public_but_what_is_asked_to_be_draft(
    project: Path, tmp_path: Path
) -> None:
    assert log(project, "not public()", "{rev}\n") == []
    repository = generate(tmp_path / "draft", "realistic", "--draft=37")
    drafts = log(repository, "draft()", "{rev}\n")
    assert drafts == [str(rev) for rev in range(600 - 37, 600)]


def test_an_existing_repository_is_left_alone(project: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError):
        generate(project, "linear")
    assert log(project, "tip", "{node}") == [TIPS["realistic"]]


def test_linear_has_one_head_and_both_kinds_of_revlog(tmp_path: Path) -> None:
    repository = generate(tmp_path / "linear", "linear")
    assert log(repository, "heads(all()) or merge()", "{rev}\n") == ["3999"]
    store = repository / ".hg" / "store"
    assert (store / "00changelog.d").exists()
    assert (store / "00manifest.d").exists()
    assert list(store.glob("data/*/*.i"))
    assert not list(store.glob("data/*/*.d"))


def test_merges_merge_files_in_both_directions(tmp_path: Path) -> None:
    repository = generate(tmp_path / "merges", "merges")
    assert len(log(repository, "merge()", "{rev}\n")) > 60
    assert len(log(repository, "merge() and file('**')", "{rev}\n")) > 20
    assert log(repository, "merge() and p2(merge())", "{rev}\n")


def distances(repository: Path) -> list[int]:
    """How far back the base of each manifest's delta is, sorted."""
    lines = hg(repository, "debugdeltachain", "-m", "-T", "{rev} {prevrev}\n").split(
        b"\n"
    )
    pairs = [[int(number) for number in line.split()] for line in lines if line]
    return sorted(rev - base for rev, base in pairs if base >= 0)


def test_topics_wait_long_for_their_merge(tmp_path: Path) -> None:
    repository = generate(tmp_path / "topics", "topics")
    back = distances(repository)
    # in proportion to the topics: by default there are six times as many
    assert back[len(back) // 2] == 1
    assert 25 < back[len(back) * 9 // 10] < 50
    assert 200 < back[len(back) * 99 // 100] < 350
    merges = [int(rev) for rev in log(repository, "merge()", "{rev}\n")]
    assert len(merges) > 300
    waited = log(repository, "merge()", "{rev - p2.rev}\n")
    assert sorted(map(int, waited))[len(waited) // 2] > 40


def test_criss_cross_merges_have_both_parents_far_back(tmp_path: Path) -> None:
    repository = generate(tmp_path / "pairs", "criss-cross")
    merges = log(repository, "merge()", "{rev} {p1.rev} {p2.rev}\n")
    waited = [[int(number) for number in line.split()] for line in merges]
    nearer = sorted(rev - max(parents) for rev, *parents in waited)
    assert len(nearer) > 80
    assert nearer[len(nearer) // 2] > 20


@pytest.mark.sampled(1)
@pytest.mark.parametrize("profile", ["topics", "wide-topics", "criss-cross"])
def test_the_same_edits_come_in_one_line(tmp_path: Path, profile: str) -> None:
    branches = generate(tmp_path / "branches", profile)
    line = generate(tmp_path / "line", profile, "--straight=1")
    assert len(log(line, "heads(all()) or merge()", "{rev}\n")) == 1
    counts = [len(log(one, "all()", "{rev}\n")) for one in (branches, line)]
    assert counts[0] == counts[1]
    assert max(distances(line)) == 1


def test_many_heads_each_have_a_bookmark(tmp_path: Path) -> None:
    repository = generate(tmp_path / "heads", "many-heads")
    assert len(log(repository, "heads(all())", "{rev}\n")) == 300
    assert len(log(repository, "bookmark()", "{rev}\n")) == 301
    assert log(repository, "bookmark('@')", "{bookmarks}") == ["@"]


@pytest.mark.parametrize(
    ("profile", "changesets", "heads", "names"),
    [
        ("heads", 400, 301, 20),
        ("names", 400, 1, 300),
        ("names-and-heads", 400, 301, 300),
    ],
)
def test_names_and_heads_are_many_and_their_dates_are_drawn(
    tmp_path: Path, profile: str, changesets: int, heads: int, names: int
) -> None:
    repository = generate(tmp_path / profile, profile)
    dates = [float(date) for date in log(repository, "all()", "{date}\n")]
    assert len(dates) == changesets
    later = sum(a < b for a, b in itertools.pairwise(dates))
    assert 0.4 < later / changesets < 0.6
    assert len(log(repository, "heads(all())", "{rev}\n")) == heads
    assert len(hg(repository, "bookmarks", "-q").splitlines()) == names


@pytest.mark.torture
def test_large_things_are_large(tmp_path: Path) -> None:
    files = generate(tmp_path / "files", "many-files")
    assert hg(files, "manifest", "-r", "tip").count(b"\n") == 2000
    deep = generate(tmp_path / "deep", "deep-directories")
    depths = [name.count(b"/") for name in hg(deep, "manifest", "-r", "tip").split()]
    assert max(depths) > 40
    assert (deep / ".hg" / "store" / "dh").is_dir()
    large = generate(tmp_path / "large", "large-files")
    assert len(hg(large, "files", "-r", "tip", "set:size('>= 1000k')").split()) == 4
    assert len(hg(large, "files", "-r", "tip", "set:binary()").split()) == 2


def test_project_has_people_of_all_kinds(project: Path) -> None:
    users = set(log(project, "all()", "{author}\n"))
    assert {"bob", "carol@example.net", "Dave Doe<dave@example.com>"} <= users
    assert "李雷 <li.lei@example.cn>" in users
    rene = log(project, "user('re:^ren')", "{rev}\n")
    assert b"\nRen\xe9 Dupont <" in hg(project, "debugdata", "-c", rene[0])
    offsets = {line.split()[1] for line in log(project, "all()", "{date|hgdate}\n")}
    assert {"0", "-19800", "-45900", "12600"} <= offsets
    assert len(offsets) > 8


def test_project_has_branches_that_were_merged_closed_and_left(project: Path) -> None:
    assert len(log(project, "merge()", "{rev}\n")) > 20
    assert log(project, "merge() and branch('re:.-[0-9]+$')", "{rev}\n")
    assert len(set(log(project, "all()", "{branch}\n"))) > 8
    assert len(log(project, "closed()", "{rev}\n")) > 4
    assert log(project, "closed() and head()", "{rev}\n")
    assert len(log(project, "heads(all()) and branch(default)", "{rev}\n")) > 1


def test_project_renames_copies_and_removes(project: Path) -> None:
    template = "{file_dels % '-{file}\\n'}{file_copies % '{source} {name}\\n'}"
    lines = log(project, "not merge()", template)
    removed = {line[1:] for line in lines if line.startswith("-")}
    copies = [line.split() for line in lines if not line.startswith("-")]
    assert any(source in removed for source, _name in copies)
    assert any(source not in removed for source, _name in copies)
    assert removed - {source for source, _name in copies}


def test_project_has_files_of_all_kinds(project: Path) -> None:
    for fileset in ("symlink()", "exec()", "binary()", "size(0)"):
        assert hg(project, "files", "-r", "0", f"set:{fileset}"), fileset
    assert hg(project, "cat", "-r", "0", "data/firmware.bin").startswith(b"\1\n")
    patches = hg(project, "log", "--git", "-p", "-r", "not merge()")
    assert re.search(rb"new mode 100755\n(?!---)", patches), "a mode alone"
    store = project / ".hg" / "store"
    assert list(store.glob("dh/**/*.i"))
    assert list(store.glob("data/docs/_guide/au~78.rst.i"))


def test_project_tags_releases_and_moves_a_tag(project: Path) -> None:
    assert len(log(project, "tag()", "{rev}\n")) > 2
    lines = hg(project, "cat", "-r", "stable", ".hgtags").split(b"\n")
    names = [line.split()[1] for line in lines if line]
    assert len(set(names)) < len(names)
    assert log(project, "bookmark('@')", "{branch}") == ["default"]
    assert log(project, "bookmark('archive/first-release')", "{tags}")


@pytest.mark.torture
def test_project_grafts_give_two_changesets_one_file_revision(project: Path) -> None:
    grafts = log(project, "extra('source')", "{rev} {get(extras, 'source')}\n")
    shared = 0
    for rev, source in (line.split() for line in grafts[:4]):
        of_graft, of_source = (
            set(log(project, one, "{files % '{file}\\n'}")) for one in (rev, source)
        )
        assert of_graft <= of_source
        entries = [
            hg(project, "manifest", "--debug", "-r", one).splitlines()
            for one in (rev, source)
        ]
        shared += bool(set(entries[0]) & set(entries[1]))
    assert shared


def test_project_change_log_grows(project: Path) -> None:
    sizes = [len(hg(project, "cat", "-r", r, "ChangeLog")) for r in ("0", "300", "@")]
    assert sizes == sorted(set(sizes))
    assert sizes[0] == 0


def test_a_monorepo_has_much_of_everything(tmp_path: Path) -> None:
    repository = generate(tmp_path / "monorepo", "monorepo")
    assert len(log(repository, "merge()", "{rev}\n")) > 20
    assert len(log(repository, "merge() and file('**')", "{rev}\n")) > 5
    assert any(log(repository, "all()", "{file_copies}\n"))
    assert len(log(repository, "branch(r're:v')", "{rev}\n")) > 10
    assert log(repository, "sort(all(), date)", "{rev} ") != log(
        repository, "all()", "{rev} "
    )
    files = log(repository, "tip", "{files('set:**') % '{path}\n'}")
    directories = Counter(name.rpartition("/")[0] for name in files)
    assert len(directories) > 40
    sizes = log(repository, "tip", "{files('set:**') % '{size}\n'}")
    assert max(map(int, sizes)) > 100 * min(map(int, sizes)) > 50_000
    edits = log(repository, "all()", "{files % '{file}\n'}")
    hot = Counter(name.rpartition("/")[0] for name in edits)
    assert hot.most_common(1)[0][1] > len(edits) / 8
