"""What a push of git commits has to make of them: the reference, in plain Python.

``Pushed`` computes the changesets that git-cinnabar 0.7.5 makes. git gives it nothing
but objects and their order. ``unbundle`` gives all to hg, which checks each node. Only
content that begins with the marker of metadata is stored as Mercurial does it.
"""

from __future__ import annotations

import hashlib
import re
import struct
import subprocess
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from .environment import ENVIRONMENT, HG, captured, git

NULL = bytes(20)
EMPTY_BLOB = "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391"
_WHO = re.compile(rb"^(.*?) ?(?:<(.*?)>)", re.DOTALL)
_FLAGS = {b"100644": b"", b"100755": b"x", b"120000": b"l"}
_MOST_SOURCES = 100

Tree = dict[bytes, tuple[bytes, str]]
Manifest = dict[bytes, tuple[bytes, bytes]]


class Commit(NamedTuple):
    """What is taken of a commit."""

    tree: str
    parents: list[str]
    author: bytes
    committer: bytes
    body: bytes


class Revision(NamedTuple):
    """A revision of a changelog, a manifest or a file, with null for no parent."""

    node: bytes
    parents: tuple[bytes, bytes]
    text: bytes
    link: int
    """Which changeset was the first to have it."""


class Changeset(NamedTuple):
    """What became of a commit."""

    node: bytes
    manifest: bytes
    tree: str


class Pushed:
    """The changesets of the commits ``revs`` and their ancestors in ``root``."""

    def __init__(self, root: Path, *revs: str) -> None:
        self._objects = _Objects(root)
        self.changesets: dict[str, Changeset] = {}
        self.log: list[Revision] = []
        self.manifests: dict[bytes, tuple[Manifest, tuple[bytes, bytes]]] = {}
        self.manifest_log: list[Revision] = []
        self.files: dict[bytes, dict[bytes, Revision]] = {}
        self._contents: dict[bytes, str] = {}
        order = ("--topo-order", "--full-history", "--reverse")
        for oid in git(root, "rev-list", *order, *revs).decode().split():
            self._add(oid)
        self._objects.close()

    def _add(self, oid: str) -> None:
        commit = parsed(self._objects.read(oid))
        parents = [self.changesets[parent] for parent in commit.parents]
        if not parents:
            tree = self._objects.tree(commit.tree)
            made = {
                path: (self._file(path, blob), _FLAGS[mode])
                for path, (mode, blob) in tree.items()
            }
            manifest, files = self._manifest(made), sorted(made)
        elif len(parents) == 1 or parents[0].manifest == parents[1].manifest:
            manifest, files = self._simple(commit, parents[0])
        else:
            first, second = parents
            manifest, files = self._merge(commit, first, second)
        user, date = ident(commit.author)
        lines = [manifest.hex().encode(), user, date]
        if commit.author != commit.committer:
            lines[-1] += b" committer:" + b" ".join(ident(commit.committer))
        text = b"\n".join([*lines, *files]) + b"\n\n" + commit.body
        pair = _pair(parent.node for parent in parents)
        made_of = Revision(_node(pair, text), pair, text, len(self.log))
        self.log.append(made_of)
        self.changesets[oid] = Changeset(made_of.node, manifest, commit.tree)

    def _file(
        self, path: bytes, blob: str, parents: Iterable[bytes] = (), source: bytes = b""
    ) -> bytes:
        content, pair = self._objects.read(blob), _pair(parents)
        text = source + content
        if not source and content.startswith(b"\1\n"):
            text = b"\1\n\1\n" + content
        node = _node(pair, text)
        revisions = self.files.setdefault(path, {})
        revisions.setdefault(node, Revision(node, pair, text, len(self.log)))
        self._contents[node] = blob
        return node

    def _manifest(self, made: Manifest, parents: Iterable[bytes] = ()) -> bytes:
        text, pair = _text(made), _pair(parents)
        node = _node(pair, text)
        if node not in self.manifests:
            self.manifests[node] = made, pair
            self.manifest_log.append(Revision(node, pair, text, len(self.log)))
        return node

    def _simple(self, commit: Commit, parent: Changeset) -> tuple[bytes, list[bytes]]:
        old = self._objects.tree(parent.tree)
        new = self._objects.tree(commit.tree)
        if old == new:
            return parent.manifest, []
        before = self.manifests[parent.manifest][0]
        made, files, sources = dict(before), [], copies(old, new)
        for path in sorted({*old, *new}):
            if path not in new:
                del made[path]
            elif new[path] == old.get(path):
                continue
            else:
                mode, blob = new[path]
                if path in old:
                    node = before[path][0]
                    if old[path][1] != blob:
                        node = self._file(path, blob, [node])
                elif path in sources:
                    source = sources[path]
                    data = (source, before[source][0].hex().encode())
                    head = b"\1\ncopy: %s\ncopyrev: %s\n\1\n" % data
                    node = self._file(path, blob, source=head)
                else:
                    node = self._file(path, blob)
                made[path] = node, _FLAGS[mode]
            files.append(path)
        return self._manifest(made, [parent.manifest]), files

    def _merge(
        self, commit: Commit, p1: Changeset, p2: Changeset
    ) -> tuple[bytes, list[bytes]]:
        edges = self._edges(p1.manifest, p2.manifest)
        one, two = self.manifests[p1.manifest][0], self.manifests[p2.manifest][0]
        new = self._objects.tree(commit.tree)
        made: Manifest = {}
        files = []
        for path in sorted({*new, *one, *two}):
            if path not in new:
                files += [path] if path in one else []
                continue
            mode, blob = new[path]
            having = [it[path][0] for it in (one, two) if path in it]
            parents = _heads(edges.get(path, {}), list(dict.fromkeys(having)))
            same = len(parents) == 1 and self._contents[parents[0]] == blob
            node = parents[0] if same else self._file(path, blob, parents)
            made[path] = node, _FLAGS[mode]
            if not same or (path in one and one[path][1] != _FLAGS[mode]):
                files.append(path)
        if _text(made) == _text(one):
            return p1.manifest, []
        return self._manifest(made, [p1.manifest, p2.manifest]), files

    def _edges(self, one: bytes, two: bytes) -> dict[bytes, dict[bytes, list[bytes]]]:
        """Return what each path's nodes have as parents between two manifests."""
        between = self._ancestors(one) ^ self._ancestors(two)
        edges: dict[bytes, dict[bytes, list[bytes]]] = {}
        for node in (it for it in self.manifests if it in between):
            manifest, pair = self.manifests[node]
            before = [self.manifests[it][0] for it in pair if it != NULL]
            for path in {*manifest}.union(*before):
                own = manifest.get(path, (NULL,))[0]
                parents = [it.get(path, (NULL,))[0] for it in before]
                if own in parents or (not before and own == NULL):
                    continue
                of_path = edges.setdefault(path, {})
                for parent in parents:
                    if parent != NULL:
                        of_path.setdefault(parent, [])
                of_path.setdefault(own, [it for it in parents if it != NULL])
        return edges

    def _ancestors(self, node: bytes) -> set[bytes]:
        seen: set[bytes] = set()
        pending = [node]
        while pending:
            if (node := pending.pop()) not in seen and node != NULL:
                seen.add(node)
                pending += self.manifests[node][1]
        return seen

    def unbundle(self, repo: Path) -> None:
        """Add all to an hg repository: stock hg checks each node."""
        bundle = repo.parent / f"{repo.name}.hg"
        links = [it.node for it in self.log]
        with bundle.open("wb") as file:
            file.write(b"HG10UN")
            file.writelines(_group(self.log, links))
            file.writelines(_group(self.manifest_log, links))
            for path, revisions in sorted(self.files.items()):
                file.write(_chunk(path))
                file.writelines(_group(revisions.values(), links))
            file.write(_chunk(b""))
        command = [str(HG), "-R", str(repo), "unbundle", "-q", str(bundle)]
        done = captured(command)
        assert done.returncode == 0, done.stderr.decode()


class _Objects:
    """git's objects, and trees as flat dictionaries."""

    def __init__(self, root: Path) -> None:
        self._process = subprocess.Popen(
            ["git", "cat-file", "--batch"],
            cwd=root,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def read(self, oid: str) -> bytes:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(oid.encode() + b"\n")
        self._process.stdin.flush()
        _oid, _kind, size = self._process.stdout.readline().split()
        return self._process.stdout.read(int(size) + 1)[:-1]

    def tree(self, oid: str, prefix: bytes = b"") -> Tree:
        content, found = self.read(oid), {}
        while content:
            head, _nul, rest = content.partition(b"\0")
            mode, name = head.split(b" ", 1)
            inner, content = rest[:20].hex(), rest[20:]
            if mode == b"40000":
                found.update(self.tree(inner, prefix + name + b"/"))
            else:
                found[prefix + name] = mode, inner
        return found

    def close(self) -> None:
        self._process.communicate()


def parsed(content: bytes) -> Commit:
    """Take what a push takes of a commit; other headers are lost."""
    head, body = content.split(b"\n\n", 1)
    pairs = [line.split(b" ", 1) for line in head.split(b"\n") if line[:1] != b" "]
    values = {line[0]: line[1] for line in pairs}
    parents = [value.decode() for name, value in pairs if name == b"parent"]
    tree = values[b"tree"].decode()
    return Commit(tree, parents, values[b"author"], values[b"committer"], body)


def ident(value: bytes) -> tuple[bytes, bytes]:
    """Return user and date, as a changeset has them."""
    who, seconds, zone = value.rsplit(b" ", 2)
    match = _WHO.match(who)
    assert match, value
    name, mail = match.groups()
    clock = abs(int(zone))
    offset = (clock // 100 * 60 + clock % 100) * 60
    if int(zone) > 0:
        offset = -offset
    user = b"%s <%s>" % (name, mail) if name and mail else name or b"<%s>" % mail
    assert int(seconds) >= 0
    return user, b"%d %d" % (int(seconds), offset)


def copies(old: Tree, new: Tree) -> dict[bytes, bytes]:
    """Return what added files are exact copies of, as git finds it."""
    used = {path: int(path in new) for path in old}
    having: dict[str, list[bytes]] = {}
    for path in sorted(old):
        having.setdefault(old[path][1], []).append(path)
    found: dict[bytes, bytes] = {}
    for target in sorted({*new} - {*old}):
        mode, blob = new[target]
        best, best_score = None, -1
        for source in having.get(blob, [])[:_MOST_SOURCES]:
            modes = old[source][0], mode
            if modes[0] != modes[1] and any(it[:3] != b"100" for it in modes):
                continue
            same_name = source.rsplit(b"/", 1)[-1] == target.rsplit(b"/", 1)[-1]
            score = (not used[source]) + same_name
            if score > best_score:
                best, best_score = source, score
            if score == 2:
                break
        if best is not None:
            used[best] += 1
            if blob != EMPTY_BLOB:
                found[target] = best
    return found


def _heads(edges: dict[bytes, list[bytes]], nodes: list[bytes]) -> list[bytes]:
    """Drop of two nodes the one that is an ancestor of the other."""
    if len(nodes) == 2:
        one, two = nodes
        if _is_ancestor(edges, one, two):
            return [two]
        if _is_ancestor(edges, two, one):
            return [one]
    return nodes


def _is_ancestor(edges: dict[bytes, list[bytes]], node: bytes, of: bytes) -> bool:
    seen: set[bytes] = set()
    pending = [of] if of in edges else []
    while pending:
        if (at := pending.pop()) == node:
            return True
        if at not in seen:
            seen.add(at)
            pending += edges[at]
    return False


def _pair(parents: Iterable[bytes]) -> tuple[bytes, bytes]:
    first, second = [*parents, NULL, NULL][:2]
    return first, second


def _node(pair: tuple[bytes, bytes], text: bytes) -> bytes:
    return hashlib.sha1(b"".join(sorted(pair)) + text).digest()


def _text(manifest: Manifest) -> bytes:
    return b"".join(
        b"%s\0%s%s\n" % (path, node.hex().encode(), flag)
        for path, (node, flag) in sorted(manifest.items())
    )


def _chunk(data: bytes) -> bytes:
    return struct.pack(">l", len(data) + 4 if data else 0) + data


def _group(revisions: Iterable[Revision], links: list[bytes]) -> Iterator[bytes]:
    """Yield changegroup 01: each text in place of the one before."""
    before = b""
    for node, pair, text, link in revisions:
        delta = struct.pack(">lll", 0, len(before), len(text)) + text
        yield _chunk(node + b"".join(pair) + links[link] + delta)
        before = text
    yield _chunk(b"")
