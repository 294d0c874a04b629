"""Faults that are planted in a store, each for ``git::verify`` to name."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from .exported import (
    Exported,
    cut,
    edit,
    forge,
    pack_objects,
    remove_pack,
    replace,
)

Fault = Callable[[Exported], str]
"""Damages a store, and returns the line that tells so, as a regular expression."""

QUICK: list[Fault] = []
FULL: list[Fault] = []


def quick(fault: Fault) -> Fault:
    """Mark what the quick form finds."""
    QUICK.append(fault)
    return fault


def only_full(fault: Fault) -> Fault:
    """Mark what only the full form finds."""
    FULL.append(fault)
    return fault


@quick
def a_lost_blob(store: Exported) -> str:
    oid = store.git("rev-parse", "refs/heads/default:last")
    store.repack_without(oid)
    return rf"blob {oid}: found nothing, expected that of file revision \w{{40}}"


@quick
def a_lost_root_tree(store: Exported) -> str:
    oid = store.git("rev-parse", "refs/heads/stable^{tree}")
    store.repack_without(oid)
    return rf"tree {oid}: found nothing, expected that of manifest \w{{40}}"


@quick
def a_lost_commit(store: Exported) -> str:
    node, oid = store.ids("3")
    store.repack_without(oid)
    return rf"commit {oid}: found nothing, expected that of changeset {node}"


@quick
def a_wrong_ref(store: Exported) -> str:
    _node, oid = store.ids("0")
    right = store.git("rev-parse", "refs/heads/stable")
    packed = store.git_dir / "packed-refs"
    content = packed.read_text()
    assert f"{right} refs/heads/stable" in content
    packed.write_text(
        content.replace(f"{right} refs/heads/stable", f"{oid} refs/heads/stable")
    )
    return rf"ref refs/heads/stable: found {oid}, expected {right}"


@quick
def a_missing_ref(store: Exported) -> str:
    right = store.git("rev-parse", "refs/tags/v1")
    packed = store.git_dir / "packed-refs"
    packed.write_text(packed.read_text().replace(f"{right} refs/tags/v1\n", ""))
    return rf"ref refs/tags/v1: found nothing, expected {right}"


@quick
def a_stale_ref(store: Exported) -> str:
    _node, oid = store.ids("1")
    with (store.git_dir / "packed-refs").open("a") as file:
        file.write(f"{oid} refs/tags/v0\n")
    return rf"ref refs/tags/v0: found {oid}, expected nothing"


@quick
def a_truncated_packed_refs(store: Exported) -> str:
    cut(store.git_dir / "packed-refs", 20)
    return r"packed-refs line \d+: found '[0-9a-f]{20,40}', expected an id and a ref"


@quick
def a_missing_packed_refs(store: Exported) -> str:
    right = store.git("rev-parse", "refs/heads/stable")
    (store.git_dir / "packed-refs").unlink()
    return rf"ref refs/heads/stable: found nothing, expected {right}"


@quick
def an_unsorted_packed_refs(store: Exported) -> str:
    packed = store.git_dir / "packed-refs"
    header, *refs = packed.read_text().splitlines(keepends=True)
    packed.write_text(header + "".join(reversed(refs)))
    return r"file packed-refs: found the right refs, not as an export writes them, .*"


@quick
def a_loose_ref_that_hides_ours(store: Exported) -> str:
    _node, oid = store.ids("0")
    loose = store.git_dir / "refs/heads/stable"
    loose.parent.mkdir(parents=True, exist_ok=True)
    loose.write_text(f"{oid}\n")
    return rf"loose ref refs/heads/stable: found '{oid}', expected no file of that name"


@quick
def a_wrong_head(store: Exported) -> str:
    (store.git_dir / "HEAD").write_text("ref: refs/heads/stable\n")
    return r"ref HEAD: found 'ref: refs/heads/stable', expected 'ref: refs/heads/@'"


@quick
def a_detached_head(store: Exported) -> str:
    _node, oid = store.ids("1")
    (store.git_dir / "HEAD").write_text(f"{oid}\n")
    return rf"ref HEAD: found '{oid}', expected 'ref: refs/heads/@'"


@quick
def a_changed_map_entry(store: Exported) -> str:
    node, _oid = store.ids("2")
    (segment,) = (
        path for path in store.segments() if bytes.fromhex(node) in path.read_bytes()
    )
    edit(segment, segment.read_bytes().index(bytes.fromhex(node)) + 7)
    return rf"map segment {segment.name}: found a damaged file \(its checksum .*\), .*"


@quick
def a_map_entry_of_an_object_that_is_not_there(store: Exported) -> str:
    _node, oid = store.ids("2")
    forge(store.segments()[0], oid, "12" * 20)
    return rf"commit {'12' * 20}: found nothing, expected that of changeset \w+"


@quick
def a_map_entry_of_the_wrong_kind(store: Exported) -> str:
    node, oid = store.ids("2")
    tree = store.git("rev-parse", f"{oid}^{{tree}}")
    forge(store.segments()[0], oid, tree)
    return rf"commit {tree}: found a tree, expected that of changeset {node}"


@quick
def a_missing_segment(store: Exported) -> str:
    segment = store.segments()[-1]
    segment.unlink()
    return rf"map segment {segment.name}: found nothing, expected a whole file"


@quick
def a_cut_segment(store: Exported) -> str:
    segment = store.segments()[0]
    cut(segment, 33)
    return rf"map segment {segment.name}: found a damaged file \(its length .*\), .*"


@quick
def a_segment_that_is_something_else(store: Exported) -> str:
    segment = store.segments()[0]
    replace(segment, b"x" * segment.stat().st_size)
    return (
        rf"map segment {segment.name}: found a damaged file \(it is not a map .*\), .*"
    )


@quick
def a_segment_with_two_changesets_of_one_commit(store: Exported) -> str:
    segment = store.segments()[0]
    forge(segment, store.ids("2")[1], store.ids("1")[1])
    return rf"map segment {segment.name}: found a damaged file \(its commits .*\), .*"


@quick
def a_docket_that_lacks_the_last_export(store: Exported) -> str:
    node, _oid = store.ids("tip")
    packs, segments = store.named("packs"), store.named("segments")
    store.write_docket(packs=packs[:2], segments=segments[:1])
    return rf"changeset {node}: found nothing, expected a commit"


@quick
def a_missing_docket(store: Exported) -> str:
    store.docket_path.unlink()
    return r"docket cinnabar.docket: found nothing, expected a finished export"


@quick
def a_damaged_docket(store: Exported) -> str:
    cut(store.docket_path, 30)
    return (
        r"docket cinnabar.docket: found an unreadable file, expected a finished export"
    )


@quick
def a_docket_that_names_a_missing_pack(store: Exported) -> str:
    name = f"pack-{'34' * 20}"
    store.write_docket(packs=[*store.named("packs"), name])
    return rf"pack {name}.pack: found nothing, expected a whole file"


@quick
def a_missing_pack(store: Exported) -> str:
    pack = store.packs()[0]
    remove_pack(pack)
    return rf"pack {pack.name}: found nothing, expected a whole file"


@quick
def a_missing_idx(store: Exported) -> str:
    idx = store.packs()[0].with_suffix(".idx")
    idx.unlink()
    return rf"pack {idx.name}: found nothing, expected a whole file"


@quick
def a_missing_rev(store: Exported) -> str:
    rev = store.packs()[1].with_suffix(".rev")
    rev.unlink()
    return rf"pack {rev.name}: found nothing, expected a whole file"


@quick
def a_corrupt_pack(store: Exported) -> str:
    pack = store.packs()[0]
    edit(pack, pack.stat().st_size // 2)
    return rf"pack {pack.name}: found a damaged file, expected a whole file"


@quick
def a_corrupt_idx(store: Exported) -> str:
    idx = store.packs()[0].with_suffix(".idx")
    edit(idx, 1100)
    return rf"pack {idx.name}: found a damaged file, expected a whole file"


@quick
def a_corrupt_rev(store: Exported) -> str:
    rev = store.packs()[0].with_suffix(".rev")
    edit(rev, 20)
    return rf"pack {rev.name}: found a damaged file, expected a whole file"


@quick
def a_cut_pack(store: Exported) -> str:
    pack = store.packs()[1]
    cut(pack, 1)
    return rf"pack {pack.name}: found a damaged file, expected a whole file"


@quick
def an_empty_pack(store: Exported) -> str:
    pack = store.packs()[1]
    replace(pack, b"")
    return rf"pack {pack.name}: found a damaged file, expected a whole file"


@quick
def the_idx_of_another_pack(store: Exported) -> str:
    first, second, *_others = (pack.with_suffix(".idx") for pack in store.packs())
    replace(first, second.read_bytes())
    return rf"pack {first.name}: found the index of another pack, expected a whole file"


@quick
def a_pack_under_the_name_of_another(store: Exported) -> str:
    first, second, *_others = store.packs()
    for suffix in (".pack", ".idx", ".rev"):
        replace(first.with_suffix(suffix), second.with_suffix(suffix).read_bytes())
    return rf"pack {first.name}: found another pack, expected a whole file"


@quick
def a_foreign_pack(store: Exported) -> str:
    oid = store.git("hash-object", "-w", str(store.docket_path))
    name = f"pack-{pack_objects(store, [oid])}"
    shutil.rmtree(store.git_dir / "objects" / oid[:2])
    return rf"pack {name}: found a file that amalgam did not write, expected nothing"


@quick
def a_foreign_object(store: Exported) -> str:
    oid = store.git("hash-object", "-w", str(store.docket_path))
    return rf"object {oid}: found a file that amalgam did not write, .*"


@quick
def alternates(store: Exported) -> str:
    path = store.git_dir / "objects/info/alternates"
    path.parent.mkdir(exist_ok=True)
    path.write_text("/nowhere/objects\n")
    return r"file objects/info/alternates: found a file that amalgam did not write, .*"


@quick
def a_commit_of_a_changeset_that_is_secret_now(store: Exported) -> str:
    node, oid = store.ids("tip")
    store.hg("phase", "--force", "--secret", "tip")
    return (
        rf"changeset {node}: found commit {oid}, expected nothing, because it is not .*"
    )


@quick
def a_commit_of_a_changeset_that_was_stripped(store: Exported) -> str:
    node, oid = store.ids("tip")
    options = ["--config", "extensions.strip=", "strip", "--no-backup", "tip"]
    store.hg(*options)
    return (
        rf"changeset {node}: found commit {oid}, expected nothing, because it is not .*"
    )


@quick
def a_repository_without_head(store: Exported) -> str:
    (store.git_dir / "HEAD").unlink()
    return rf"directory {store.git_dir}: found nothing, expected a git repository"


@quick
def a_missing_repository(store: Exported) -> str:
    shutil.rmtree(store.git_dir)
    return rf"directory {store.git_dir}: found nothing, expected a git repository"


@quick
def a_missing_map(store: Exported) -> str:
    shutil.rmtree(store.map_dir)
    return r"docket cinnabar.docket: found nothing, expected a finished export"


@quick
def a_changeset_that_is_not_exported(store: Exported) -> str:
    store.commit_nothing("more")
    node = store.hg("log", "-r", "tip", "-T", "{node}")
    return rf"changeset {node}: found nothing, expected a commit"


@only_full
def a_map_entry_of_another_commit(store: Exported) -> str:
    """Three entries go round, so that all is in order."""
    segment = store.segments()[0]
    (node, first), (_, second), (_, third) = (store.ids(rev) for rev in "013")
    spare = "56" * 20
    for oid, other in (
        (first, spare),
        (second, first),
        (third, second),
        (spare, third),
    ):
        forge(segment, oid, other)
    return rf"changeset {node}: found commit {third}, expected commit {first}"


@only_full
def a_map_entry_of_another_blob(store: Exported) -> str:
    right, wrong = (
        store.git("rev-parse", f"refs/heads/default:{name}")
        for name in ("fix", "file0")
    )
    forge(store.segments()[0], right, wrong)
    return rf"file revision \w+: found blob {wrong}, expected blob {right}"


@only_full
def a_lost_tree_that_is_no_root(store: Exported) -> str:
    oid = store.git("rev-parse", "refs/heads/stable:dir/below")
    store.repack_without(oid)
    return rf"object {oid}: found nothing, expected one in a pack"


@only_full
def an_object_of_nothing_in_our_pack(store: Exported) -> str:
    oid = store.git("hash-object", "-w", str(store.docket_path))
    store.repack_without("")
    shutil.rmtree(store.git_dir / "objects" / oid[:2])
    return rf"object {oid}: found one in a pack, expected nothing that is not .*"
