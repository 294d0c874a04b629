"""The dialect of hg-git in all rooms: ids, refs, serving, bundles, verification.

``vectors/hggit.sh`` makes the repository; changeset and commit ids are those of hg-git
1.2.0 with Mercurial 7.1.2. ``make oracle`` compares more of them.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from testlib import oddstore
from testlib.environment import ENVIRONMENT, HG, ROOT, captured, git, hg
from testlib.oddstore import Edit, Step
from testlib.webserver import serving

pytestmark = pytest.mark.slow

VECTOR = """
d85a7980de0b6de573f0165cde3db6066df1cff2 5851954698c4d7ceed2af78d9f45cd2aa47041e5
9f85ef6e4fa903b0973c5fefe1e819ed839ed54f 889f738c43aa0a91f3fd45c64930e121f03473b1
4389476da83b53801e265e307eb838c544e51280 9a84cbf0cec14e9b8348f344bfd2ffde4a405724
5e0e4aae6a4ac27a34148c24177661cb466cc848 aaf4e9dbe0c6dbc785b5ca0dc83f8d1180bc8dc1
94dc03a32d2291cb1ecb1fc3051547e730efb059 72b754d64c4686bba319e3894e0e1c107413b797
8fe4eb55dd974642e9f15072b11a48b30b127fa1 776830dbdba6da224b1d07e274bc88ee99b873dc
189d6b2f52b35ad66cdf7a4a6712e7987b05a591 341fdb6e965a2d31cd781dec218892625a09095d
4749f9bfe145c65b06d5d382b60c87cae77faf98 897d54d3f0a8beb4c462730da2b19ac91729cc49
fa9c59e32874b327e79a3ed9a1896cef07ab9792 ae82ec6fbe4e88498050d89573415963728a1625
545e6b1dda635bb23f0479326cca31a30f52bcc5 d08e48ead5e5fc3bc98d894c61507cf852df3fb1
977c98059e3a0ac33fa5ea57099f3f1add696f37 84b1790e8d96bed3a4e2054b11c1cb5d36496614
8fa41efdb29db920c788879d9d991d7622b00557 5a3f6c9e530052afa12b05844e3951c60cba12ec
"""
IDS = VECTOR.split()
#: What hg-git does in ways of its own, each changeset in a run of its own.
ODD = (
    Step(
        0,
        edits=(
            Edit("write", b".hgsub", b"lib = [git]u\nx = [git]v\n", b"x"),
            Edit("write", b".hgsubstate", b"%040x lib\n%040x x\n" % (1, 2)),
            Edit("write", b".gitmodules", b'[submodule "N"]\npath = x\nurl = old\n'),
            Edit("write", b"a", b"1\n"),
        ),
    ),
    # keeps .gitmodules of the only parent, which is stored as the second one
    Step(1, p2=0, edits=(Edit("clear"),)),
    Step(
        2,
        0,
        extra=b"committer:two\\n\\0lines <e@e> 5 0",
        edits=(Edit("rename", b"git~1", source=b"a"),),
    ),
    Step(3, 2, edits=(Edit("write", b"/b", b"1\n"), Edit("write", b"c//d", b"2\n"))),
    Step(4, 3, extra=b"message:\\x01", description=b""),
)
ODD_IDS = """
d8944f91c5b6a24e4791230c01d4b2c9ef69977f dc9e0bf1ccfa1ce0f2bcc56618cd70e9173c7045
dbfbc363b56f30236f1dc4af2660bb63c73fed4f 0d9810ee77b4e25878610e134469613d5ed6dcb7
19ad9b69fe99e35bc4cbfe264c1203aa8281525a 870b45470e0ce1527b1b3ae938cfbacf3d3ba1d6
19ac9ca9c232292c82130fe6fb1cdac562f0d859 5dc6e5f3000909407686fe11463cd62cfa134223
7f4ae43194f55fdfa3d44f7fa06b0ca61da1a0b4 0b95572c642b391266b55f62fec8d46a2650e0b2
"""
DIALECT = ("--config", "amalgam.git.dialect=hggit")


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A repository whose ids hg-git was asked for."""
    root = tmp_path / "repo"
    root.mkdir()
    environment = ENVIRONMENT | {
        "PATH": f"{HG.parent}:{ENVIRONMENT['PATH']}",
        "TZ": "UTC",
    }
    script = ROOT / "tests" / "vectors" / "hggit.sh"
    subprocess.run(["sh", "-e", script], cwd=root, env=environment, check=True)
    return root


def store(repo: Path, dialect: str = "hggit") -> Path:
    return repo / f".hg/amalgam/git/{dialect}.git"


def ids(repo: Path, *options: str) -> list[str]:
    log = hg(repo, "log", "-r", "all()", "-T", "{node} {gitnode}\n", *options)
    return log.decode().split()


def said(repo: Path, *args: str) -> str:
    """Return the first line of a refusal."""
    done = captured([HG, "--config", "extensions.amalgam=", *args], repo)
    assert done.returncode
    return str(done.stderr.decode().splitlines()[0])


def test_ids_are_those_of_hg_git_also_beside_another_dialect(repo: Path) -> None:
    hg(repo, "git::export")
    cinnabar = ids(repo)
    # in parts, which gives the same
    for rev in ("4", "7", "8", "tip"):
        hg(repo, "git::export", "--dialect", "hggit", "-r", rev)
    hg(repo, "git::export", *DIALECT)

    assert ids(repo, *DIALECT) == IDS
    assert ids(repo) == cinnabar
    assert not set(cinnabar[1::2]) & set(IDS[1::2])
    for options, dialect in (((), "cinnabar"), (DIALECT, "hggit")):
        hg(repo, "git::verify", "--full", *options)
        git(store(repo, dialect), "fsck", "--full", "--strict")
    assert not git(store(repo), "for-each-ref", "refs/cinnabar")
    assert said(repo, "git::export", "--metadata", *DIALECT) == (
        "abort: no metadata in dialect 'hggit': git-cinnabar gives other commit ids"
    )


def test_odd_changesets_have_the_ids_of_hg_git(tmp_path: Path) -> None:
    repo = tmp_path / "odd"
    oddstore.write(repo, ODD)
    hg(repo, "git::export", *DIALECT)
    assert ids(repo, *DIALECT) == ODD_IDS.split()


def test_blobs_of_another_dialect_are_copied(repo: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    hg(tmp_path, "init", str(other))
    for content in "a\n", "a\nb\n", "a\nb\nc\n":
        (other / "f").write_text(content)
        hg(other, "commit", "-qAm", "change", "-d", "0 0")
    hg(other, "git::export")
    filelog = other / ".hg/store/data/f.i"
    damaged = bytearray(filelog.read_bytes())
    damaged[-1] ^= 1
    filelog.write_bytes(damaged)
    hg(other, "git::export", "--dialect", "hggit")  # the text is not needed
    git(store(other), "fsck", "--full", "--strict")
    assert git(store(other), "show", "refs/heads/default:f") == b"a\nb\nc\n"
    assert said(other, "git::export", "--rebuild", *DIALECT).startswith("abort: ")

    hg(repo, "git::export")
    for pack in (store(repo, "cinnabar") / "objects/pack").glob("*.pack"):
        size = pack.stat().st_size
        pack.chmod(0o644)
        pack.write_bytes(bytes(size))
    hg(repo, "git::export", *DIALECT)
    assert ids(repo, *DIALECT) == IDS
    hg(repo, "git::verify", "--full", *DIALECT)


def test_drafts_that_are_hidden_leave_the_store(repo: Path) -> None:
    hg(repo, "git::export", *DIALECT)
    hg(repo, "phase", "--secret", "--force", "-r", "9:")

    hg(repo, "git::export", *DIALECT)

    for at, commit in enumerate(IDS[1::2]):
        found = captured(["git", "cat-file", "-e", commit], store(repo))
        assert (found.returncode == 0) == (at < 9), commit
    hg(repo, "git::verify", "--full", *DIALECT)


def test_no_secret_leaves_and_names_are_those_of_the_other_dialect(
    tmp_path: Path,
) -> None:
    repo = tmp_path / "repo"
    hg(tmp_path, "init", str(repo))
    for name, bookmark, *options in (
        ("public", "one"),
        ("secret", "hidden", "--secret"),
        ("draft", "two words"),
    ):
        hg(repo, "update", "-qr", "null" if name == "public" else "0")
        (repo / name).write_text(f"{name}\n")
        hg(repo, "commit", "-qAm", name, *options)
        hg(repo, "bookmark", "-i", bookmark)
    hg(repo, "phase", "--public", "-r", "0")
    hg(repo, "tag", "-r", "1", "hidden too")
    hg(repo, "tag", "-r", "0", "of public")
    # a merge with it is as secret as it is
    hg(repo, "merge", "-q", "-r", "1")
    hg(repo, "commit", "-qm", "merged")

    refs = []
    for dialect in ("cinnabar", "hggit"):
        hg(repo, "git::export", "--dialect", dialect)
        found = git(
            store(repo, dialect), "for-each-ref", "--format=%(refname) %(subject)"
        )
        refs.append([it for it in found.splitlines() if b"refs/cinnabar" not in it])
    assert refs[0] == refs[1]
    assert b"refs/heads/one public" in refs[1]
    kinds = "--batch-check=%(objecttype) %(objectname)"
    objects = git(store(repo), "cat-file", "--batch-all-objects", kinds).split()
    contents = [
        git(store(repo), "cat-file", "-p", oid.decode())
        for kind, oid in zip(objects[::2], objects[1::2], strict=True)
        if kind != b"tree"
    ]
    assert not [it for it in contents if it.endswith((b"secret\n", b"merged\n"))]


def test_clones_and_bundles_have_the_same_ids(repo: Path, tmp_path: Path) -> None:
    (repo / ".hg" / "hgrc").write_text(
        "[extensions]\namalgam =\n"
        "[amalgam]\ngit.dialect = hggit\ngit.serve = yes\ngit.push = yes\n"
        "[web]\nallow-push = *\npush_ssl = no\n"
    )
    clone, unbundled = tmp_path / "clone", tmp_path / "unbundled"
    with serving(repo) as server:
        git(tmp_path, "clone", "-q", server.url, str(clone))
        git(clone, "push", "-q", "origin", "HEAD:refs/heads/new")
    marks = hg(repo, "bookmarks", "-T", "{bookmark} {gitnode}\n").decode()
    assert f"new {IDS[-1]}" in marks
    hg(repo, "phase", "--public", "-r", "all()")
    hg(repo, "git::bundle", str(tmp_path / "all.bundle"))
    git(tmp_path, "clone", "-q", "all.bundle", str(unbundled))
    for cloned in (clone, unbundled):
        assert git(cloned, "rev-parse", "HEAD").decode().strip() == IDS[-1]
    assert said(repo, "git::bundle", "-", "-t", "cinnabar-v1") == (
        "abort: git-cinnabar would give some changesets other commit ids"
    )
    surveyed = captured([HG, *DIALECT, "git::survey", str(clone)], repo).stdout
    assert surveyed.startswith(b"10 of 11 commits would survive a push")
    assert b"11 with amalgam.git.push-exact: 1 need git.commit" in surveyed
