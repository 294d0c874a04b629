"""Two small repositories whose ids the git-cinnabar program gave.

``vectors/*.sh`` make them; changeset, commit and tree ids are those of git-cinnabar
0.7.5.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, git, hg

VECTORS = Path(__file__).parent / "vectors"

# changeset, commit, root tree (where known)
TINY = """
7cf5203a514b008b1e2996986ea9627b44d287c1 e30cfcca32e05650b86512c3eb7b83e1e05278bc 97e78b496cd55488ded0bcd41f5188ac7d239a46
56e4157d4de849ae1ffe6c009efc6c84b28667cb bec0b94a231e960c7a150d7ae2454ad279bc394f 789fd30f4ab572142ce2a288d6fd8836f1ac96e4
f894da649f5597542dc50fff8bec6e579d20fece 16ecc5a719ba3923d84808b9d3b278960e722640 789fd30f4ab572142ce2a288d6fd8836f1ac96e4
160f2cfb3503c764091ad8ce10c8551a85d929ec 77da6c80155e37fd00776b23c304e4310a6324a2 fd0e815c44e63c7d78d21eabac83a33bdf539c8e
a4fd42b65822dde6d44adf2f11043006efa47a86 53c974b4f74f8aae1d099d266fb27d08a29c5db6 fd0e815c44e63c7d78d21eabac83a33bdf539c8e
b6ba704fa72ee8e709e6f774e26f3e3dde593e51 b6b8438848c8dfc64c052aa656c3617f99e40b69 789fd30f4ab572142ce2a288d6fd8836f1ac96e4
f9f8d350f95476559624fa63287fc5fae8a8e841 b5ac98538d6a196dfe293b24647b1513ecee65b9 cf51de52a90970cc6f24a23f653ec1c55905fcce
228b47e00bee8a770ce2d7154364827a7eb514b7 909cde3add17bec353f0cce72e75662db60665a4 063c642d3ee0000e6408012ea19bf0d04fa71ea8
"""  # noqa: E501
TINY2 = """
3d04bb3be6090c94a206e75a0dc305cde9a479ed cf7b6fa16dbb03e96973928e689116ef3eb7b7d4 3501838b6051e3a46d7c3eb651b4fa853c4e217e
3a8e47221215849210cd503aee6f4f20fe27f49f 02d5374db402881497eca54e871872242230444f -
69a383054fbd0aacacc88d3b5f5368c971162809 554b745f885369f3aa54a3907f91cd172ece55a0 -
923fe119210979cf93c9132fa9c6c5f43bf15a30 10edd3c3d4f9feaac7fb21e28f5096ea620ff848 -
121d575c8d7ffc8961ed87cd3e2f1a2d1e572bfa df026f22fea0d4ef06c803876542f3ed46400754 -
f26d8ee29004768cb5754bbc8e3080fb0614024e 1f6ea9ef7589ced12eea6d046f587b490dd592ca -
4f8445124afdedf33b7ef3b64e9446525011bd77 b098229a02cbe2778505817331fc75d23689e8f6 4b825dc642cb6eb9a060e54bf8d69288fbee4904
c99be6af0b7dfc76a6a6ab18e447be812d0d2a6d 2d97f2826a5a7e94df5a4e5ba333ae8c0deaaf3f -
"""  # noqa: E501


@pytest.mark.parametrize(("name", "expected"), [("tiny", TINY), ("tiny2", TINY2)])
def test_vector_gives_the_listed_commits_and_trees(
    tmp_path: Path, name: str, expected: str
) -> None:
    rows = [line.split() for line in expected.strip().splitlines()]
    environment = ENVIRONMENT | {
        "PATH": f"{HG.parent}:{ENVIRONMENT['PATH']}",
        "TZ": "UTC",
    }
    script = VECTORS / f"{name}.sh"
    subprocess.run(["sh", "-e", script], cwd=tmp_path, env=environment, check=True)

    hg(tmp_path, "git::export")

    made = (
        hg(tmp_path, "log", "-r", "all()", "-T", "{node} {gitnode}\n").decode().split()
    )
    assert made == [id_ for changeset, commit, _ in rows for id_ in (changeset, commit)]
    store = tmp_path / ".hg/amalgam/git/cinnabar.git"
    for _changeset, commit, tree in rows:
        if tree != "-":
            found = git(store, "rev-parse", f"{commit}^{{tree}}").decode().strip()
            assert found == tree
    git(store, "fsck", "--full", "--strict")
