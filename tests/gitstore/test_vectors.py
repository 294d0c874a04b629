"""Two small repositories whose ids the git-cinnabar program gave.

``vectors/*.sh`` make them; changeset, commit, tree and note ids are those of
git-cinnabar 0.7.5, and so is the metadata commit, which covers all it has.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from testlib.environment import ENVIRONMENT, HG, ROOT, git, hg

VECTORS = ROOT / "tests" / "vectors"
METADATA_REF = "refs/cinnabar/metadata"

# changeset, commit, root tree (where known), note
TINY = """
7cf5203a514b008b1e2996986ea9627b44d287c1 e30cfcca32e05650b86512c3eb7b83e1e05278bc 97e78b496cd55488ded0bcd41f5188ac7d239a46 4cc31a393a223dc8e204198408f693cf15b26303
56e4157d4de849ae1ffe6c009efc6c84b28667cb bec0b94a231e960c7a150d7ae2454ad279bc394f 789fd30f4ab572142ce2a288d6fd8836f1ac96e4 7f271f8bce4b1d85b62001d80d5a67a6d9bb840e
f894da649f5597542dc50fff8bec6e579d20fece 16ecc5a719ba3923d84808b9d3b278960e722640 789fd30f4ab572142ce2a288d6fd8836f1ac96e4 aff268e338b1bafe0cd42c56b8d629076fd96eb8
160f2cfb3503c764091ad8ce10c8551a85d929ec 77da6c80155e37fd00776b23c304e4310a6324a2 fd0e815c44e63c7d78d21eabac83a33bdf539c8e b185328c09aa7e800cab87ef67b8ba41d1b71cb2
a4fd42b65822dde6d44adf2f11043006efa47a86 53c974b4f74f8aae1d099d266fb27d08a29c5db6 fd0e815c44e63c7d78d21eabac83a33bdf539c8e 5270afca65ae4b159da18f90bbc8de3bd9b7448c
b6ba704fa72ee8e709e6f774e26f3e3dde593e51 b6b8438848c8dfc64c052aa656c3617f99e40b69 789fd30f4ab572142ce2a288d6fd8836f1ac96e4 e296610dead41e20fe6c06c542a5eea18fcb9e51
f9f8d350f95476559624fa63287fc5fae8a8e841 b5ac98538d6a196dfe293b24647b1513ecee65b9 cf51de52a90970cc6f24a23f653ec1c55905fcce 0e7534f3326f1b5c6261e74bb1c0035e03b489fa
228b47e00bee8a770ce2d7154364827a7eb514b7 909cde3add17bec353f0cce72e75662db60665a4 063c642d3ee0000e6408012ea19bf0d04fa71ea8 2bde58f182b71ed9da36b0b8501aef17b1b52dcc
"""  # noqa: E501
TINY2 = """
3d04bb3be6090c94a206e75a0dc305cde9a479ed cf7b6fa16dbb03e96973928e689116ef3eb7b7d4 3501838b6051e3a46d7c3eb651b4fa853c4e217e ab53d3ef1dad40c6ba4ca609f750b01bbd823491
3a8e47221215849210cd503aee6f4f20fe27f49f 02d5374db402881497eca54e871872242230444f - dd5e21ad87bdb519128a4d5671f9a85149abe42e
69a383054fbd0aacacc88d3b5f5368c971162809 554b745f885369f3aa54a3907f91cd172ece55a0 - 254c733d659c81e6a8bf958e39b331bd84ffb406
923fe119210979cf93c9132fa9c6c5f43bf15a30 10edd3c3d4f9feaac7fb21e28f5096ea620ff848 - 23e84bbbce43f1c6ce14c72fc08d31971fe5c132
121d575c8d7ffc8961ed87cd3e2f1a2d1e572bfa df026f22fea0d4ef06c803876542f3ed46400754 - 870dc048c825d2e0cb9e350cedf2da6ff971cf76
f26d8ee29004768cb5754bbc8e3080fb0614024e 1f6ea9ef7589ced12eea6d046f587b490dd592ca - 08986defd25d721d4d2da41269e2ba11e461562e
4f8445124afdedf33b7ef3b64e9446525011bd77 b098229a02cbe2778505817331fc75d23689e8f6 4b825dc642cb6eb9a060e54bf8d69288fbee4904 9f2b64a2145236aacc705fb38dd4d0833be7b976
c99be6af0b7dfc76a6a6ab18e447be812d0d2a6d 2d97f2826a5a7e94df5a4e5ba333ae8c0deaaf3f - e08feb6bfff5b7dac95c8abced9bd3bdaa358eaa
"""  # noqa: E501


# manifest, its commit
MANIFESTS = {
    "tiny": """
b371960ec604e7eed7420846f7b1171091f92cab 1514efa9847f040422dea9341d804a646b59da30
04248d56a6939662690884cfad539d285c2790de 70596e65c0577952fce85d931ec745801bace7a6
c14b5af291200de0812fd642830563283684d011 ab73378c127859e74913eae2b12a89928f554637
644908d7432afeb9ee28c39a5f71feff08fac4ca 2f512e312a7e722962b1020b7becf42b6b72abe7
f584bfead765e5fe48e14b2c52340e25d3647ed3 37c675e24c9a723c1b27fd25bb2f69a8405f9856
""",
    "tiny2": "",
}
# the metadata commit and its parents
METADATA = {
    "tiny": """
d277c83b1c0db590748e0f3328fb7b60be149862
008757153729d10752a610c913b6d9e4fdc3b8c1 215115a03101e425ea9b9ae2f943c0f62e178b51
761733ce839da244735dd2d590bbf38e5b9d31e2 68ba2bcbb888ccc44c043bf19dde55de33ea2af1
31bfe2347559dcd6430efd684c66524cb827194d
""",
    "tiny2": """
5393209c4a04794787d7d2865c0231b3193f162c
d2f830610f252c65399ac80cf76709c9ea2f9d13 18616cc1eee64f16d44b12aae8b29a1aae89b388
b4f04fa680eec364e69fba204769f916ac92df15 08015a7d8d182430c1e57884d6b01fce23019eb3
b7ad51fa3e44ec377e6cc1a31367d6ea001c7600
""",
}


@pytest.mark.parametrize(("name", "expected"), [("tiny", TINY), ("tiny2", TINY2)])
def test_vector_gives_the_listed_objects(
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
    assert made == [
        id_ for changeset, commit, *_rest in rows for id_ in (changeset, commit)
    ]
    store = tmp_path / ".hg/amalgam/git/cinnabar.git"
    for _changeset, commit, tree, _note in rows:
        if tree != "-":
            found = git(store, "rev-parse", f"{commit}^{{tree}}").decode().strip()
            assert found == tree
    shown = git(
        store, "rev-list", "--no-walk=unsorted", *(METADATA_REF, f"{METADATA_REF}^@")
    )
    assert shown.decode().split() == METADATA[name].split()
    # a tree of up to 80 entries has no directories: names are the keys
    for _changeset, commit, _tree, note in rows:
        assert oid_of(store, f"{METADATA_REF}^4:{commit}") == note
    entries = git(store, "ls-tree", f"{METADATA_REF}^3").decode().splitlines()
    hg2git = {entry.split()[3]: entry.split()[2] for entry in entries}
    for changeset, commit, *_rest in rows:
        assert hg2git[changeset] == commit
    for line in MANIFESTS[name].strip().splitlines():
        manifest, commit = line.split()
        assert hg2git[manifest] == commit
    git(store, "fsck", "--full", "--strict")


def oid_of(store: Path, name: str) -> str:
    return git(store, "rev-parse", name).decode().strip()
