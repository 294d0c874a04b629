"""A repository that changes at random: changesets, phases, visibility and names."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
from typing import TYPE_CHECKING, Any

from mercurial import context, obsolete, phases, util
from mercurial.node import nullid

from .environment import add_config, git
from .exported import STRIP, Exported

if TYPE_CHECKING:
    from collections.abc import Callable

BRANCHES = [b"default", b"stable", b"b", "\N{SNOWMAN} \\".encode()]


def killed(at: int, work: Callable[[], None]) -> bool:
    """Do something in a process that dies as it makes its change ``at`` of files.

    Return whether it died.
    """
    left = at

    def counting(call: Any) -> Any:
        def called(*args: Any, **options: Any) -> Any:
            nonlocal left
            left -= 1
            if not left:
                os._exit(9)
            return call(*args, **options)

        return called

    child = os.fork()
    if not child:
        for name in ("rename", "link", "unlink", "rmdir"):
            setattr(os, name, counting(getattr(os, name)))
        for name in ("rename", "unlink"):  # Mercurial has names of its own for them
            setattr(util, name, counting(getattr(util, name)))
        with contextlib.suppress(BaseException):
            work()
        os._exit(0)
    return os.waitpid(child, 0)[1] != 0


class Repo:
    """A repository that changes at random."""

    def __init__(self, store: Exported, seed: int) -> None:
        self.store = store
        self.random = random.Random(seed)
        add_config(
            store.root,
            "[phases]\nnew-commit = draft\n"
            + "[ui]\nusername = test\n[experimental]\nevolution = all\n",
        )

    def open(self) -> Any:
        return self.store.open()

    def step(self) -> None:
        """Do one thing, mostly commit."""
        commit, hide, publish, conceal, show, strip = range(6)
        (what,) = self.random.choices(range(6), [30, 2, 2, 1, 1, 1])
        repo = self.open()
        revs = [rev for rev in repo if rev > 0]
        if what == strip and revs:
            rev = self.random.choice(revs)
            self.store.hg(*STRIP, "--hidden", "-r", str(rev))
            return
        with repo.wlock(), repo.lock():
            if what == commit or not revs:
                with repo.transaction(b"test"):
                    for _number in range(self.random.choice([1, 1, 2, 5])):
                        self._commit(repo)
                return
            rev = self.random.choice(revs)
            if what == hide and self.random.randrange(8):
                rev = repo[self.random.choice(repo.heads())].rev()  # leaves no orphan
            node = repo.changelog.node(rev)
            with repo.transaction(b"test") as tr:
                if what == hide and repo[rev].mutable():
                    obsolete.createmarkers(repo, [((repo[rev],), ())])
                elif what == publish:
                    phases.advanceboundary(repo, tr, phases.public, [node])
                elif what == conceal and repo[rev].mutable():
                    phases.retractboundary(repo, tr, phases.secret, [node])
                elif what == show:
                    phases.advanceboundary(repo, tr, phases.draft, [node])

    def _commit(self, repo: Any) -> None:
        revs = list(repo)[-8:]
        # most go on where one of the last is, some begin anew
        parents = self.random.sample(
            revs, min(len(revs), self.random.choice([1, 1, 2]))
        )
        if not self.random.randrange(20):
            parents = []
        nodes = [repo.changelog.node(rev) for rev in parents]
        nodes += [nullid] * (2 - len(nodes))
        extra = {b"branch": self.random.choice(BRANCHES)}
        if not self.random.randrange(6):
            extra[b"close"] = b"1"
        text = b"%d" % self.random.getrandbits(60)
        context.memctx(
            repo, nodes, text, [], None, user=b"test", date=b"0 0", extra=extra
        ).commit()


# alike but for case, prefixes of others, the names of branches and of what git makes
# of other names, refused by git, too long
_ODD = [
    *b"a A a/b a/b/c a/B ab b b/x default stable branches/b branches/default".split(),
    *b"%61 a%2Fb %2561 a%20b x..y x.lock x/ /x HEAD HEAD/x refs/heads/a".split(),
    *b"@ main master".split(),
    b"a b",
    b"a  b",
    "\N{SNOWMAN} \\".encode(),
    "\N{SNOWMAN}".encode(),
    "e\N{COMBINING ACUTE ACCENT}".encode(),
    b"l" * 251,
    b"l" * 252,
]
_FILES = ("names", "tips", "settled", "docket")


class NamedRepo(Repo):
    """One whose names change, too, and whose files are treated badly."""

    def __init__(self, store: Exported, seed: int, most: int = 300) -> None:
        """``most``: how many names are renamed, deleted or made at once."""
        super().__init__(store, seed)
        self.abandoned = 0
        """How many transactions had to be undone by ``hg recover``."""
        self._most = most
        self._breaks = random.Random(seed)
        self._bookmarks_path = store.root / ".hg" / "bookmarks"
        self._old: dict[str, bytes] = {}
        self._whole = store.root.with_name("whole")

    def step(self) -> None:
        """Do one thing, mostly with names."""
        kinds: list[tuple[Callable[[], None], int]] = [
            (self._move, 30),
            (self._delete, 12),
            (self._many, 4),
            (self._spoil, 5),
            (self._tag, 3),
            (self._strangers, 3),
            (self._files, 6),
            (super().step, 25),
        ]
        (do,) = self.random.choices([it[0] for it in kinds], [it[1] for it in kinds])
        do()

    def _set(self, names: list[tuple[bytes, bytes | None]]) -> None:
        repo = self.open().unfiltered()
        with repo.wlock(), repo.lock(), repo.transaction(b"test") as tr:
            known = repo._bookmarks
            names = [it for it in names if it[1] is not None or it[0] in known]
            known.applychanges(repo, tr, names)

    def _node(self) -> bytes:
        repo = self.open().unfiltered()
        node: bytes = repo.changelog.node(self.random.randrange(len(repo)))
        return node

    def _some_name(self) -> bytes:
        if self.random.randrange(3):
            return b"plain/%02d/%d" % divmod(self.random.randrange(60), 7)
        return self.random.choice(_ODD)

    def _move(self) -> None:
        node = self._node()
        count = self.random.choice([1, 1, 1, 2, 4, 20])
        self._set([(self._some_name(), node) for _number in range(count)])

    def _delete(self) -> None:
        there = [*self.open().unfiltered()._bookmarks.keys()]
        count = min(len(there), self.random.choice([1, 1, 3]))
        self._set([(name, None) for name in self.random.sample(there, count)])

    def _many(self) -> None:
        """Rename, delete or make hundreds at once."""
        there = [*self.open().unfiltered()._bookmarks.items()]
        old = [(name, node) for name, node in there if name.startswith(b"many/")]
        gone = [(name, None) for name, _node in old]
        prefix = b"many/%d" % self.random.randrange(3)
        if not old:
            node, count = self._node(), self.random.choice([300, self._most])
            self._set([(b"%s/%05d" % (prefix, at), node) for at in range(count)])
        elif self.random.randrange(2):
            new = [(b"%s/%s" % (prefix, it[0][-5:]), it[1]) for it in old]
            self._set([*gone, *new])
        else:
            self._set([*gone])

    def break_off(self, export: Callable[[], None]) -> None:
        """Let a transaction die or be rolled back, and export before and after that.

        It dies before, between or after the files of changelog and bookmarks. What is
        done here is drawn apart, and leaves the repository as it was.
        """
        at = self._breaks.randrange(25)

        def work() -> None:
            repo = self.open().unfiltered()
            with repo.wlock(), repo.lock(), repo.transaction(b"test") as tr:
                self._commit(repo)
                new = [(name, repo[b"tip"].node()) for name in (b"a/b", b"plain/00/1")]
                repo._bookmarks.applychanges(repo, tr, new)

        if not killed(at, work):
            export()
            self.store.hg("rollback", "-q", "--force")
        elif (self.store.root / ".hg" / "store" / "journal").exists():
            self.abandoned += 1
            if self._breaks.randrange(2):
                done = self.store.run("git::export")
                assert b"abandoned transaction found" in done.err, done
            self.store.hg("recover")
        export()

    def settle(self) -> None:
        """Let nobody see an obsolete changeset any more, until the next one."""
        self.store.run("update", "-qC", "null")
        repo = self.open()
        pinned = {repo[rev].node() for rev in repo.revs(b"obsolete() or orphan()")}
        names = [it for it, node in repo._bookmarks.items() if node in pinned]
        self._set([(name, None) for name in names])
        repo = self.open()
        with repo.wlock(), repo.lock(), repo.transaction(b"test"):
            gone = [((repo[rev],), ()) for rev in repo.revs(b"orphan()")]
            obsolete.createmarkers(repo, gone)

    def _spoil(self) -> None:
        """Write the file of bookmarks as Mercurial never would, or whole again."""
        if not self._bookmarks_path.exists():
            return
        content = self._bookmarks_path.read_bytes()
        lines = content.splitlines(keepends=True)
        node = self._node().hex().encode()
        line = self.random.choice(
            [
                b"garbage\n",
                b"%s unknown\n" % (b"1" * 40),
                b"%s null\n" % (b"0" * 40),
                b"%s upper\n" % node.upper(),
                b"%s trailing \n" % node,
                b"%s latin\xe9\n" % node,
                b"%s a\n" % node,
                b"\n",
                b"# comment\n",
                b"%s cut" % node,
            ]
        )
        lines.insert(self.random.choice([0, len(lines) // 2, len(lines)]), line)
        if not self.random.randrange(3):
            self.random.shuffle(lines)
        new = self._bookmarks_path.with_name("bookmarks.new")
        new.write_bytes(b"".join(lines))
        if self.random.randrange(2):
            new.rename(self._bookmarks_path)
        else:  # in place
            self._bookmarks_path.write_bytes(new.read_bytes())

    def _tag(self) -> None:
        repo = self.open()
        revs = [*repo][-9:]
        name = self.random.choice(["t", "T", "t/u", "t u", "v1", "l" * 260])
        remove = ["--remove"] if self.random.randrange(4) == 0 else []
        rev = [] if remove else ["-r", str(self.random.choice(revs))]
        self.store.run("update", "-qC", "-r", str(self.random.choice(revs)))
        self.store.run("tag", "-f", *remove, *rev, name)

    def _strangers(self) -> None:
        """Do to the store what others do."""
        path = self.store.git_dir
        if not (path / "refs").is_dir():
            return
        what = self.random.randrange(5)
        if what == 0:
            git(path, "pack-refs", "--all")
        elif what == 1:
            loose = path / "refs" / "heads" / "stranger"
            loose.write_text("1" * 40 + "\n")
        elif what == 2:
            (path / "packed-refs").unlink(missing_ok=True)
        elif what == 3:
            for file in [*(path / "refs").rglob("*")]:
                if file.is_file():
                    file.unlink()
                    break
        else:
            (path / "HEAD").write_text("ref: refs/heads/x\n")

    def _files(self) -> None:
        """Remove files of amalgam, or put older ones in their place."""
        amalgam = self.store.root / ".hg" / "amalgam"
        what = self.random.randrange(4)
        if what == 0 and amalgam.exists():
            shutil.rmtree(self._whole, ignore_errors=True)
            shutil.copytree(amalgam, self._whole, symlinks=True)
        elif what == 1 and self._whole.exists():
            shutil.rmtree(amalgam)
            shutil.copytree(self._whole, amalgam, symlinks=True)
        else:
            for name in _FILES:
                path = self.store.map_dir / f"cinnabar.{name}"
                if self.random.randrange(3) or not path.exists():
                    continue
                old = self._old.get(name)
                self._old[name] = path.read_bytes()
                if old is not None and self.random.randrange(2):
                    path.write_bytes(old)
                else:
                    os.unlink(path)
