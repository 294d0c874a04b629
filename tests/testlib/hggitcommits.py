"""Commits for each rule of hg-git's import, with the same ids every time."""

from __future__ import annotations

from pathlib import Path

from .randomcommits import GITLINK, GitObjects, write_object, write_tree

#: Mode and content by path.
Files = dict[bytes, tuple[bytes, bytes]]

_GITLINK = "1" * 40
_MODULES = b'[submodule "s"]\n\tpath = s\n\turl = ../s\n[core]\n'


class Commits:
    """A git repository with one branch for each commit."""

    def __init__(self, path: Path) -> None:
        self.repo = GitObjects(path)
        self.oids: dict[str, str] = {}
        root = self.add("root", files(self, a=b"a\n", b=b"b\n"))
        self._texts(root)
        self._merges(root)
        self._submodules(root)
        self._trees(root)

    def add(self, name: str, tree: str, *parents: str, **parts: bytes) -> str:
        """Make a commit; ``parts`` as of ``GitObjects.commit``."""
        parts = {"message": b"%s\n" % name.encode(), **parts}
        oid = self.repo.commit(*parents, tree=tree, **parts)
        self.repo.branch(name, oid)
        self.oids[name] = oid
        return oid

    def _texts(self, root: str) -> None:
        tree = files(self, a=b"a\n")
        messages = {
            "blanks": b"\n one \t\r\ntwo\x0b\n\n",
            "no-end": b"text",
            "latin": b"caf\xe9 " * 60 + b"\n",
            "branch": b"text\n--HG--\nbranch : dev\nextra : k : a%0Ab\\\n",
            "reserved": b"text\n--HG--\nbranch : tip\n",
            "renamed": b"text\n--HG--\nrename : b => c\nprose\nbranch : no\n",
        }
        for name, message in messages.items():
            self.add(name, tree, root, message=message)
        headers = {
            "signed": b"gpgsig -----BEGIN\n \n line\n -----END\n",
            "unknown": b"change-id x y\nother a\n b\n",
            "hg": b"HG:extra k:%0A\nHG:rename b:c\nHG:none x\n",
            "koi8": b"encoding koi8-r\n",
            "nonsense": b"encoding x-nonsense\n",
        }
        tree = files(self, a=b"a\n", c=b"b\n")
        for name, lines in headers.items():
            message = b"\xf0\xd2\xc9\n" if lines.startswith(b"enc") else b"text\n"
            self.add(name, tree, root, headers=lines, message=message)
        people = {
            "extended": b"A ext:(%20x) <a@x> 1 +0130",
            "nobody": b" <none@none> 1 +0000",
            "author-latin": b"Caf\xe9 <c@x> -5 -0025",
            "odd-date": b"A <a@x> 0_7  --130",
        }
        for name, author in people.items():
            self.add(name, tree, root, author=author, committer=b"C <c@x> 9 +0545")

    def _merges(self, root: str) -> None:
        one = self.add("one", files(self, a=b"1\n", b=b"b\n"), root)
        two = self.add("two", files(self, a=b"2\n", b=b"b\n", n=b"n\n"), root)
        three = self.add("three", files(self, a=b"a\n"), root)
        self.add("takes-first", files(self, a=b"1\n", b=b"b\n", n=b"n\n"), one, two)
        self.add("takes-second", files(self, a=b"2\n", b=b"b\n", n=b"n\n"), one, two)
        both = self.add("both", files(self, a=b"3\n", b=b"b\n"), one, two)
        self.add("removed", files(self, a=b"1\n"), one, three)
        self.add("kept", files(self, a=b"1\n", b=b"b\n"), one, three)
        self.add("twice", files(self, a=b"4\n", b=b"b\n"), one, one)
        self.add("octopus", files(self, a=b"1\n"), one, two, three)
        self.add("octopus-again", files(self, a=b"5\n", n=b"n\n"), both, two, three)
        last = b"text\n--HG--\nrename : b => d\n"
        copied = self.add("copied", files(self, d=b"d\n"), one, message=last)
        self.add("copy-taken", files(self, d=b"d\n"), copied, two)
        other = self.add("other-d", files(self, d=b"e\n"), two)
        self.add("copy-again", files(self, d=b"d\n"), copied, other)
        lost = self.add("twin-tree", self._tree(b"100664"), root, message=b"m\n")
        self.add("twin-other", self._tree(b"100644"), root, message=b"m\n")
        self.add("of-twin", files(self, a=b"9\n"), lost)

    def _tree(self, mode: bytes) -> str:
        return self.repo.tree((mode, b"a"), (b"100644", b"b"))

    def _submodules(self, root: str) -> None:
        repo = self.repo
        modules = write_object(repo.path, "blob", _MODULES.replace(b"[core]\n", b""))
        broken = write_object(repo.path, "blob", b"path = s\n")
        link = (b"160000", b"s", _GITLINK)
        with_file = repo.tree((b"100644", b".gitmodules", modules), link)
        added = self.add("module", with_file, root)
        self.add("module-again", with_file, added, message=b"nothing\n")
        self.add("module-gone", files(self, s=b"s\n"), added)
        self.add("module-alone", repo.tree(link), root)
        entry = (b"100644", b".gitmodules", broken)
        self.add("module-broken", repo.tree(entry, link), added)
        sub = write_object(repo.path, "blob", b"# c\nh = ../h\n")
        state = write_object(repo.path, "blob", b"%s h\n" % (b"3" * 40))
        entries = ((b"100644", b".hgsub", sub), (b"100644", b".hgsubstate", state))
        first = (b"100644", b".gitmodules", modules)
        self.add("module-and-sub", repo.tree(first, *entries, link), added)

    def _trees(self, root: str) -> None:
        repo = self.repo
        inner = repo.tree((b"100644", b"f"))
        for name, *entries in (
            ("modes", (b"100755", b"a"), (b"120000", b"b"), (b"100600", b"c")),
            ("padded", (b"0100644", b"a"), (b"040000", b"d", inner)),
            ("unsorted", (b"100644", b"b"), (b"100644", b"a")),
            ("duplicate", (b"100644", b"a"), (b"100755", b"a")),
            ("nested-git", (b"40000", b".git", inner), (b"40000", b"d", inner)),
            ("nested-hg", (b"40000", b".hg", inner), (b"100644", b"a\nb")),
            ("directory", (b"40000", b"a", inner)),
            ("empty",),
        ):
            self.add(name, repo.tree(*entries), root)
        marked = write_object(repo.path, "blob", b"\1\ntext\n")
        self.add("marked", repo.tree((b"100644", b"a", marked)), root)
        self.add("empty-root", repo.tree())


class RenamedCommits(Commits):
    """Commits whose files are moved and copied, on one that has all of them.

    Those in which hg-git and dulwich follow rules of their own; others are random
    (``hggithistories.RenamedHistory``).
    """

    def __init__(self, path: Path) -> None:
        self.repo = GitObjects(path)
        self.oids = {}
        lines = [b"line %d\n" % at for at in range(40)]
        (a, edited), b = (
            (b"".join(lines[:end]) for end in (20, 24)),
            b"".join(lines[9:]),
        )
        rest: Files = {
            b"b": (b"100644", b),
            b"d.x/f": (b"100644", b"twice\n"),
            b"d/f": (b"100644", b"twice\n"),
            b"empty": (b"100644", b""),
            b"long": (b"100644", b"x" * 64 + b"y" * 70),
            b"sub": (GITLINK, _GITLINK.encode()),
        }
        whole = {b"a": (b"100644", a), **rest}
        root = self._of(b"root", whole)
        without = {path: file for path, file in rest.items() if path[:2] != b"d."}
        of_a, of_edited = (b"100644", a), (b"100644", edited)
        cases: dict[bytes, Files] = {
            b"equal": {**rest, b"new": of_a},
            b"similar": {**rest, b"new": of_edited},
            b"two": {**rest, b"n1": of_a, b"n2": of_edited, b"n3": of_a},
            b"of-modified": {**rest, b"a": of_edited, b"new": of_a},
            b"of-unchanged": {**whole, b"n1": of_a, b"n2": (b"100644", b + b"end\n")},
            b"link": {**rest, b"new": (b"120000", a)},
            # a link has the name of the source, and others its content, on either side
            b"now-link": {**rest, b"a": (b"120000", a), b"A": of_a, b"z": of_a},
            b"left-out": {**rest, b"x/.hg": of_a, b"new": of_edited},
            b"order": {**without, b"e/f": (b"100644", b"twice\n")},
            b"links": {**whole, b"moved": rest[b"sub"], b"sub": of_a},
            b"long": {**rest, b"new": (b"100644", b"x" * 64 + b"y" * 64)},
            b"empty": {**rest, b"empty": of_a, b"e1": (b"100644", b"")},
            b"many": {b"n%d" % at: of_edited for at in range(9)},
        }
        made = {name: self._of(name, tree, root) for name, tree in cases.items()}
        del cases[b"order"][b"d/f"]
        self._of(b"both-gone", cases[b"order"], root)
        merged = {**rest, b"n2": of_edited}
        self._of(b"merged", merged, made[b"equal"], made[b"two"])
        self._of(b"octopus", merged, root, made[b"two"], made[b"similar"])
        headers = b"HG:rename-source hg\n"
        self._of(b"of-hg", {**rest, b"new": of_a}, root, headers=headers)

    def _of(self, name: bytes, tree: Files, *parents: str, **parts: bytes) -> str:
        return self.add(name.decode(), write_tree(self.repo, tree), *parents, **parts)


def files(commits: Commits, **contents: bytes) -> str:
    """Write a tree of regular files."""
    repo = commits.repo
    return repo.tree(
        *(
            (b"100644", name.encode(), write_object(repo.path, "blob", content))
            for name, content in sorted(contents.items())
        )
    )
