"""Seeds: python -m fuzz.seeds, in ``tests``, writes all of them anew.

Each is a small real file, taken from a repository that hg, git and amalgam have made
here, or is laid out from such files as its target reads it.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import shutil
import struct
import tempfile
import zlib
from pathlib import Path

from testlib import revlogs
from testlib.converted import Target
from testlib.environment import ROOT, add_config, git, hg
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.randomcommits import GitObjects, write_object

from hgext3rd.amalgam.clonebundles.register import Entry, Register
from hgext3rd.amalgam.index import nodemapfile
from hgext3rd.amalgam.index.snapshot import FileStat, SnapshotDocket
from hgext3rd.amalgam.serve import pktlines

RUST = ROOT / "rust" / "fuzz" / "seeds"
PYTHON = ROOT / "tests" / "fuzz" / "seeds"

_SURE = "enable-unstable-format-and-corrupt-my-data"
_FORMATS = {
    "zstd": [],
    "zlib": ["format.revlog-compression=zlib"],
    "plain": ["format.revlog-compression=none"],
    "chains": ["format.usegeneraldelta=no", "format.sparse-revlog=no"],
    "flags": ["format.use-delta-info-flags=yes"],
    "changelog-v2": [f"format.exp-use-changelog-v2={_SURE}"],
    "revlog-v2": [f"experimental.revlogv2={_SURE}"],
}
_LINES = b"".join(b"line %d of a text that compresses\n" % (n % 9) for n in range(60))


def cut(part: bytes) -> bytes:
    """Return a part as targets with several of them read it."""
    return struct.pack(">H", len(part)) + part


def main() -> None:
    """Write the seeds of all targets."""
    for directory in (RUST, PYTHON):
        shutil.rmtree(directory, ignore_errors=True)
    server = HgServer()
    with tempfile.TemporaryDirectory() as scratch:
        for name, config in _FORMATS.items():
            repo = _history(server, Path(scratch, name), config)
            _of_store(name, repo / ".hg" / "store")
        exported = Exported.make(Path(scratch, "exported"), server)
        _of_exported(exported)
        _of_conversion(Path(scratch))
    server.close()
    _records()
    _pushes()
    _nodemaps()
    _requests()
    _requests_of_git()


def _put(root: Path, target: str, name: str, content: bytes) -> None:
    directory = root / target
    directory.mkdir(parents=True, exist_ok=True)
    (directory / name).write_bytes(content)


def _history(server: HgServer, repo: Path, config: list[str]) -> Path:
    config = [*config, "storage.all-slow-path=allow"]
    options = [part for item in config for part in ("--config", item)]
    server.hg(repo.parent, "init", str(repo), *options)
    add_config(repo, "[storage]\nall-slow-path = allow\n")
    for step in range(5):
        (repo / "f").write_bytes(_LINES.replace(b"line 3", b"step %d" % step))
        (repo / f"g{step}").write_bytes(b"%d\n" % step)
        if step == 4:
            server.hg(repo, "rename", "g0", "renamed", *options)
        server.hg(repo, "commit", "-qAm", f"step {step}", "-d", f"{step} 3600")
    return repo


def _of_store(name: str, store: Path) -> None:
    index = (store / "00changelog.i").read_bytes()
    dockets = list(store.glob("00changelog-*.idx"))
    if dockets:
        # one file stands for index and data, so texts are not what they were
        other = dockets[0].read_bytes()
        _put(RUST, "revlog", name, cut(index) + other)
        return
    filelog = (store / "data" / "f.i").read_bytes()
    manifest = (store / "00manifest.i").read_bytes()
    _put(RUST, "revlog", name, cut(index))
    _put(RUST, "revlog", f"{name}-filelog", cut(filelog))
    _put(RUST, "export", name, cut(index) + cut(manifest) + filelog)
    (length,) = struct.unpack(">i", filelog[8:12])
    (text_length,) = struct.unpack(">I", filelog[12:16])
    chunk = filelog[64 : 64 + length]
    _put(RUST, "chunk", name, struct.pack(">I", text_length) + chunk)
    revlogs.restore(store, plain=False, split=True)
    split = (store / "data" / "f.i").read_bytes()
    data = (store / "data" / "f.d").read_bytes()
    _put(RUST, "revlog", f"{name}-split", cut(split) + data)


def _of_exported(exported: Exported) -> None:
    for path in exported.map_dir.iterdir():
        content = path.read_bytes()
        if path.suffix == ".map":
            _put(RUST, "segment", f"{len(content)}", content)
        elif path.suffix == ".docket":
            _put(PYTHON, "git_docket", "exported", _unsealed(content))
            tips = exported.docket_path.with_suffix(".tips").read_bytes()
            _put(PYTHON, "branch_tips", "exported", _unsealed(tips))
    for path in exported.packs_dir.glob("*.idx"):
        content = path.read_bytes()
        _put(PYTHON, "pack_idx", f"{len(content)}", content)
        pack = path.with_suffix(".pack").read_bytes()
        _put(RUST, "packs", f"{len(pack)}", cut(content) + pack)
    for rev in ("stable", "tip"):
        oid = exported.hg("log", "-r", rev, "-T", "{gitnode}")
        tree = git(exported.git_dir, "cat-file", "tree", f"{oid}^{{tree}}")
        _put(RUST, "git_tree", rev, tree)
    for name in ("packed-refs", "config", "HEAD"):
        content = (exported.git_dir / name).read_bytes()
        _put(PYTHON, "git_files", name, content)


def _of_conversion(scratch: Path) -> None:
    """A branch with a file that is copied and changed, and a merge of another one."""
    repo = GitObjects(scratch / "project.git")
    changed = write_object(repo.path, "blob", b"text\nmore\n")
    below = repo.tree((b"100755", b"run"))
    trees = [
        repo.tree((b"100644", b"a"), (b"40000", b"d", below)),
        repo.tree((b"100644", b"a", changed), (b"100644", b"b"), (b"120000", b"c")),
        repo.tree((b"40000", b"d", below)),
        repo.tree((b"100644", b"a", changed), (b"40000", b"d", below)),
    ]
    root = repo.commit(tree=trees[0])
    sides = [repo.commit(root, tree=tree) for tree in trees[1:3]]
    merge = repo.commit(*sides, tree=trees[3])
    hg(scratch, "init", "target")
    target = Target(scratch / "target")
    for name, tip in {"two": sides[0], "merge": merge}.items():
        assert target.convert(repo.path, tip).version == b"02"
        _put(RUST, "round_trip", name, b"\0" + target.chunks)
        _put(RUST, "round_trip", f"{name}-flags", b"\1" + _with_flags(target.chunks))


def _with_flags(changegroup: bytes) -> bytes:
    """Return the same changegroup in version 03."""
    rest = io.BytesIO(changegroup)

    def chunk() -> bytes:
        (length,) = struct.unpack(">I", rest.read(4))
        return rest.read(max(length - 4, 0))

    def group() -> bytes:
        revisions = (it[:100] + bytes(2) + it[100:] for it in iter(chunk, b""))
        return b"".join(map(_chunk, revisions)) + bytes(4)

    made = group() + group() + bytes(4)
    for name in iter(chunk, b""):
        made += _chunk(name) + group()
    return made + bytes(4)


def _chunk(data: bytes) -> bytes:
    return struct.pack(">I", len(data) + 4) + data


def _records() -> None:
    base = b"".join(b"%d\n" % n for n in range(30))
    deltas = [
        revlogs.delta((0, 2, b"first\n"), (10, 10, b"between\n"), (20, 24, b"")),
        revlogs.delta((0, 0, b"again\n")),
        revlogs.delta((5, 30, b"x" * 40), (50, 60, b"end")),
    ]
    _put(RUST, "patch", "hunks", cut(base) + deltas[0])
    _put(RUST, "patch", "empty", cut(base))
    _put(RUST, "chain", "three", cut(base) + b"".join(map(cut, deltas)))
    hunks = b"\x80\x01\x12\x90\x10\x05hello\x91\x20\x08"
    _put(RUST, "git_delta", "copies", cut(base + bytes(128 - len(base))) + hunks)
    node = hashlib.sha1(base).hexdigest().encode()
    lines = [b"a\0%s\n", b"dir/b\0%sx\n", b"dir/link\0%sl\n"]
    _put(RUST, "manifest", "flat", b"".join(line % node for line in lines))
    lines = [b"a\0%s\n", b"dir\0%st\n", b"run\0%sx\n"]
    _put(RUST, "manifest", "directory", b"".join(line % node for line in lines))
    changesets = {
        "usual": b"%s\nJane Doe <jane@example.org>\n12 -3600\na\nb\n\nwhat and why",
        "extras": b"%s\nme\n1.5 EST branch:x\0close:1\0committer:he <h> 3 0\na\n\ntext",
        "no-files": b"%s\n\n-1 0 \n\n\nx",
    }
    for name, text in changesets.items():
        _put(RUST, "changeset", name, text % node)
    _put(RUST, "filelog", "copy", b"\1\ncopy: a\ncopyrev: %s\n\1\ntext\n" % node)
    _put(RUST, "filelog", "marked", b"\1\n\1\n\1\ntext")
    _put(RUST, "path", "odd", b"Dir.i/aux/com1.txt/.hid/trail. /caf\xc3\xa9/_x~:*")
    _put(RUST, "path", "long", b"Some.Directory/" * 12 + b"NAME.c")
    zeros = zlib.compress(bytes(1 << 17), 9)
    _put(RUST, "chunk", "zeros", struct.pack(">I", 1 << 17) + zeros)


def _pushes() -> None:
    blob = bytes.fromhex("e69de29bb2d1d6434b8b29ae775ad8c2e48c5391")
    tree = b"100644 a\0%s120000 b\0%s40000 c\0%s" % (blob, blob, bytes(20))
    oid = _git_id(b"tree", tree)
    who = b"author A <a@x> 1 +0100\ncommitter B\\C <b@x> 2 -0330\n"
    plain = who.replace(b"\\", b"")
    commits = {
        "plain": b"tree %s\n%s\nmessage\n" % (oid, plain),
        "signed": b"tree %s\n%sgpgsig a\n b\n\nmessage\n" % (oid, who),
        "merge": b"tree %s\nparent %s\nparent %s\n%s\n" % (oid, oid, oid, plain),
    }
    for name, content in commits.items():
        _put(RUST, "pushed_commit", name, content)
        _put(RUST, "exact_commit", name, content)
        history = _answer(b"commit", content)
        _put(RUST, "pushed_history", name, cut(history) + _answer(b"tree", tree))
    extra = b"git.commit:1 %s 0 9 %sgpgsig a\n b\n\n" % (oid, who)
    stored = extra.replace(b"\\", b"\\\\").replace(b"\n", b"\\n")
    changeset = b"%s\nA <a@x>\n1 -3600 %s\n\nmessage\n" % (b"0" * 40, stored)
    _put(RUST, "exact_commit", "changeset", changeset)
    _hggit(b"tree %s\n" % oid)
    _put(RUST, "pushed_tree", "three", tree)
    odd = b"160000 .hg\0%s100664 a\nb\0%s" % (blob, blob)
    _put(RUST, "pushed_tree", "odd", odd)


def _hggit(tree: bytes) -> None:
    who = b"author A  B <a@x> 1 +0000\ncommitter C <c@x> -2 -0130\n"
    hg = b"HG:rename a:b\nHG:extra k:%0A\nchange-id x\n\ntext \r\n\n--HG--\n"
    koi8 = b"encoding koi8-r\ngpgsig a\n b\n\n\xf0\xd2\xc9\n"
    odd = b"author \xe9 ext:(%20x) <a@x> 0_7  --130\ncommitter  <none@none> 1 +9999\n"
    commits = {
        "metadata": who + hg + b"branch : b\nrename : c => d\n",
        "encoding": b"parent " + b"1" * 40 + b"\n" + who + koi8,
        "person": odd + b"\nm",
    }
    for name, content in commits.items():
        _put(RUST, "hggit_commit", name, tree + content)
    modules = b'[submodule "a"]\n\tpath = a\n\turl = "x # y" \\\n z\n[core]\nbare\n'
    state = b"3" * 40 + b" h\n"
    _put(RUST, "submodules", "files", cut(modules) + cut(b"# c\nh = ../h\n") + state)
    _put(RUST, "submodules", "broken", cut(b"a=") + cut(b"\xff"))
    _put(RUST, "decoder", "answers", struct.pack(">I", 2) + b"ab" + b"\xff" * 4)
    _put(RUST, "decoder", "cut", struct.pack(">I", 1 << 31) + b"ab")


def _git_id(kind: bytes, content: bytes) -> bytes:
    head = b"%s %d\0" % (kind, len(content))
    return hashlib.sha1(head + content).hexdigest().encode()


def _answer(kind: bytes, content: bytes) -> bytes:
    """Return what git cat-file --batch writes."""
    return b"%s %s %d\n%s\n" % (_git_id(kind, content), kind, len(content), content)


def _nodemaps() -> None:
    nodes = bytes(range(0, 240, 5))
    # docs/formats/nodemap.rst; checksums are the target's
    keys = [bytes([first]) + bytes([first * 31 % 256]) * 3 for first in nodes]
    fences = (bytes(4) + keys[0]).ljust(4096, b"\0")
    revs = b"".join(struct.pack(">I", rev) for rev in range(len(nodes)))
    halves = b"".join(keys).ljust(511 * 4, b"\0") + revs.ljust(511 * 4, b"\0")
    run = struct.pack(">III", 0, 0, len(nodes))
    file = fences + bytes(4) + halves + bytes(4)
    _put(RUST, "nodemap", "one-run", cut(nodes) + cut(run) + file)
    half = len(nodes) // 2
    runs = struct.pack(">IIIIII", 0, 0, half, 8192, half, len(nodes) - half)
    _put(RUST, "nodemap", "two-runs", cut(nodes) + cut(runs) + file + file)

    # mercurial/revlogutils/nodemap.py: a root whose children are leaves
    firsts = bytes(range(3, 256, 16))
    leaves = [-(rev + 2) for rev in range(len(firsts))]
    root = struct.pack(">16i", *leaves)
    _put(RUST, "upstream_nodemap", "leaves", cut(firsts) + root)
    below = struct.pack(">16i", 0, *leaves[1:])
    first = struct.pack(">16i", *[leaves[0] if n == 3 else -1 for n in range(16)])
    _put(RUST, "upstream_nodemap", "two-levels", cut(firsts) + first + below)


def _unsealed(docket: bytes) -> bytes:
    return docket.rpartition(b"sum ")[0]


def _requests() -> None:
    for name, text in {
        "first": b"bytes=0-99",
        "rest": b"bytes=100-",
        "last": b"bytes=-5",
        "two": b"bytes=1-2,4-5",
    }.items():
        _put(PYTHON, "http_range", name, text)
    _put(PYTHON, "lock", "usual", b"host/4026531836:12345")
    uid, state = b"0123456789abcdef", FileStat(1, 2, 640, 4, 5)
    docket = SnapshotDocket(b"00changelog.i", uid, 640, state, state)
    _put(PYTHON, "index_docket", "usual", _unsealed(docket.format()))
    runs = nodemapfile.SortedRun(0, 0, 40), nodemapfile.SortedRun(8192, 40, 3)
    nodes = nodemapfile.NodeMapDocket(uid, uid[::-1], state, runs)
    _put(PYTHON, "nodemap_docket", "usual", _unsealed(nodes.to_bytes()))
    digest = hashlib.sha256(b"").hexdigest()
    entry = Entry(
        name=f"{digest}.bundle",
        type="git-v2",
        url=f"peer-bundle-cache://{digest}",
        path=".",
        bytes=100,
        changesets=4,
        revs=4,
        tip_rev=3,
        tip_node="0" * 40,
        heads=digest,
        made=1.5,
    )
    register = Register(
        entries={entry.name: entry}, last_token=3, others={"x": "0" * 32}
    )
    _put(PYTHON, "register", "usual", _unsealed(register.format()))
    _put(PYTHON, "headset", "two", bytes(range(40)))
    line = b"https://example.org/x.hg BUNDLESPEC=zstd-v2 REQUIRESNI=true\n"
    _put(PYTHON, "hg_manifest", "usual", line + b"clonebundle://local TITLE=x\n")
    asked = b'{"ids": ["%s", "1ea73414a91b", "tip", "\\u20ac"]}' % (b"0123456789" * 4)
    _put(PYTHON, "asked_ids", "usual", asked)
    head = b"HG20\0\0\0\x0eCompression=ZS\x28\xb5\x2f\xfd\x04\x58" + bytes(12)
    _put(PYTHON, "bundle_head", "zstd", head)


def _requests_of_git() -> None:
    """What clients send to a server."""
    refs = b"0014command=ls-refs\n00010009peel\n0000"
    want = b"0032want %s\n" % (b"1" * 40)
    fetch = b"0012command=fetch\n0001" + want + b"0009done\n0000"
    for name, lines in {"refs": refs, "fetch": fetch, "old": want + b"0000"}.items():
        _put(PYTHON, "pkt_lines", name, lines)
        _put(PYTHON, "gzip_body", name, gzip.compress(lines, mtime=0))
    zeros = gzip.compress(bytes(1 << 20), mtime=0)
    _put(PYTHON, "gzip_body", "zeros", zeros)
    chunked = b"%x;a=b\r\n%s\r\n0\r\nTrailer: x\r\n\r\n" % (len(refs), refs)
    _put(PYTHON, "chunked_body", "one", chunked + b"GET / HTTP/1.1\r\n\r\n")
    _put(PYTHON, "chunked_body", "two", b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n")
    head = (
        b"POST /git-upload-pack HTTP/1.1\r\nHost: x\r\nContent-Type: application/"
        b"x-git-upload-pack-request\r\nGit-Protocol: version=2\r\n"
    )
    in_chunks = head + b"Transfer-Encoding: chunked\r\n\r\n" + chunked
    length = b"Content-Length: %d\r\n" % len(refs)
    smart = b"GET /info/refs?service=git-upload-pack HTTP/1.1\r\nHost: x\r\n\r\n"
    for name, request in {
        "length": head + length + b"\r\n" + refs,
        "waits": head + length + b"Expect: 100-continue\r\n\r\n" + refs,
        "zipped": head + b"Content-Encoding: gzip\r\n" + length + b"\r\n" + refs,
        "chunks": in_chunks,
        "refs": smart,
    }.items():
        _put(PYTHON, "http_head", name, request)
    wanted = b'{"oid": "%s", "size": 3}' % (b"a" * 64)
    batch = b'{"operation": "download", "transfers": ["basic"], "objects": [%s]}'
    _put(PYTHON, "lfs_batch", "one", batch % wanted)
    _put(PYTHON, "lfs_batch", "upload", batch.replace(b"down", b"up") % wanted)
    _put(PYTHON, "lfs_route", "git", b"/in/a.git/info/lfs/objects/batch")
    _put(PYTHON, "lfs_route", "hg", b"/in/a/.git/info/lfs/objects/batch")
    for name, text in {
        "fetch": b"git-upload-pack 'two'",
        "space": b"git upload-pack /srv/hg/one",
        "home": b"git-upload-pack '~/three'",
        "push": b"git-receive-pack two",
        "hg": b"hg -R two serve --stdio",
    }.items():
        _put(PYTHON, "ssh_command", name, text)
    version = pktlines.line(b"version=1\0push-options atomic\n") + pktlines.FLUSH
    pair = b"%s %s " % (b"0" * 40, b"1" * 40)
    names = (b"refs/heads/main", b"refs/heads/\xff", b"refs/" + b"a" * 2000)
    lines = b"".join(pktlines.line(pair + ref_name) for ref_name in names)
    _put(PYTHON, "proc_receive", "three", version + lines + pktlines.FLUSH)
    _put(PYTHON, "proc_receive", "none", version + pktlines.FLUSH)


if __name__ == "__main__":
    main()
