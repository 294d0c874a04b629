"""Random sequences of what happens to a repository and to its git store.

Changesets come, go and are hidden, texts are censored; packs are repacked late, copies
of the store are restored, git leaves its locks, exports are killed. At every moment, if
something may be answered, nothing is there that may not be read. After the last export
nothing of it is left, and the ids are those of an export from nothing.
"""

from __future__ import annotations

import itertools
import random
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from testlib.environment import ENVIRONMENT, HG, add_config, captured
from testlib.exported import Exported
from testlib.hgserver import HgServer
from testlib.planted import traces

CONFIG = """
[extensions]
strip =
censor =
clonebundles =
[censor]
policy = ignore
[experimental]
evolution = all
[phases]
new-commit = draft
publish = no
[clone-bundles]
git.formats = git-v2, cinnabar-v1
trigger.revs = 0
"""
EXPORTS = "cinnabar.git"
LOCKS = ("packed-refs.lock", "HEAD.lock", "config.lock")


class Sequence:
    """One repository, and what may be read of it."""

    def __init__(
        self, root: Path, server: HgServer, seed: int, base: Path | None = None
    ) -> None:
        """``base``: a repository to copy, on which all stands; else there is none."""
        self.draw = random.Random(seed)
        self.store = Exported(root, server)
        self.numbers = itertools.count()
        self.words: set[str] = set()
        self.censored: set[str] = set()
        self.bundle = root.parent / "stripped.hg"
        self.copy = root.parent / "copy"
        self.counts: Counter[str] = Counter()
        self.done: list[str] = []
        if base:
            shutil.copytree(base, root, symlinks=True)
            self.store.hg("update", "-q", "tip")
        else:
            server.hg(root.parent, "init", str(root))
        add_config(root, CONFIG)
        self.commit()
        self.store.hg("phase", "--public", ".")
        self.first = self.store.hg("log", "-r", ".", "-T", "{rev}")

    # what happens to the history

    def commit(self, clone: Exported | None = None) -> None:
        """Add a changeset whose description is the word that only it has."""
        store = clone or self.store
        word = f"w{next(self.numbers)}secret"
        self.words |= {word, f"{word}text"}
        (store.root / word).write_text(f"{word}text\n" * 9)
        store.hg("commit", "-qAm", word, "-u", word, "-d", "0 0")

    def branch(self) -> None:
        """Add one on top of any other."""
        self.store.run("update", "-qC", self.any())
        self.commit()

    def any(self) -> str:
        """Return a revision that is not hidden."""
        revs = self.store.hg("log", "-r", f"{self.first}:", "-T", "{rev} ").split()
        return self.draw.choice(revs)

    def publish(self) -> None:
        """Publish a changeset, and its ancestors."""
        self.store.run("phase", "--public", self.any())

    def secret(self) -> None:
        """Make a changeset secret, be it public."""
        if (rev := self.any()) != self.first:
            self.store.run("phase", "--force", "--secret", rev)

    def draft(self) -> None:
        """Let a secret changeset be served again."""
        self.store.run("phase", "--draft", self.any())

    def strip(self) -> None:
        """Strip, and keep what others may push again."""
        if (rev := self.any()) != self.first:
            self.store.run(
                "bundle", "-q", "--base", self.first, "-r", rev, str(self.bundle)
            )
            self.store.run("strip", "-q", "--no-backup", rev)

    def push_again(self) -> None:
        """Bring back what was stripped."""
        if self.bundle.exists():
            self.store.run("unbundle", "-q", str(self.bundle))

    def hide(self) -> None:
        """Make a changeset obsolete."""
        if (rev := self.any()) != self.first:
            node = self.store.hg("log", "-r", rev, "-T", "{node}")
            self.store.run("update", "-qC", self.first)
            self.store.run("debugobsolete", node)

    def amend(self) -> None:
        """Amend, so that the file and the description go."""
        if self.store.hg("log", "-r", ".", "-T", "{rev}{phase}").endswith("draft"):
            word = f"w{next(self.numbers)}secret"
            self.words |= {word, f"{word}text"}
            old = self.store.hg("log", "-r", ".", "-T", "{desc}")
            if (self.store.root / old).exists():
                self.store.hg("rename", old, word)
            (self.store.root / word).write_text(f"{word}text\n" * 9)
            self.store.hg("commit", "-qA", "--amend", "-m", word, "-u", word)

    def censor(self) -> None:
        """Censor the file of a changeset."""
        rev = self.any()
        word = self.store.hg("log", "-r", rev, "-T", "{desc}")
        self.store.run("update", "-qC", "null")
        done = self.store.run("censor", "--no-check-heads", "-r", rev, word)
        if done.code == 0:
            self.censored.add(f"{word}text")
            self.counts["censored"] += 1

    # what happens to the store

    def export(self) -> None:
        """Export, all or a part; it may stop at a lock."""
        options = self.draw.choice([[]] * 4 + [["-r", self.any()], ["--rebuild"]])
        done = self.store.run("git::export", *options)
        assert b"Traceback" not in done.err, done.err.decode()
        locked = any(map(Path.exists, self.locks()))
        # 1: what -r asked for is secret
        assert done.code in (0, 1) or (done.code == 20 and locked), done
        self.counts["exports"] += 1
        if done.code < 20:
            self.check_gone()

    def kill(self) -> None:
        """Kill an export at any moment."""
        command = [str(HG), "--config", "extensions.amalgam=", "git::export"]
        process = subprocess.Popen(
            command,
            cwd=self.store.root,
            env=ENVIRONMENT,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(self.draw.uniform(0.1, 1.5))
        process.kill()
        process.wait()
        self.counts["killed" if process.returncode < 0 else "not killed"] += 1

    def take_copy(self) -> None:
        """Take a copy of what is exported."""
        if self.store.git_dir.exists():
            shutil.rmtree(self.copy, ignore_errors=True)
            shutil.copytree(self.store.amalgam, self.copy, symlinks=True)

    def restore_packs(self) -> None:
        """Let a repack end that began when the copy was taken."""
        packs = self.copy / "git" / EXPORTS / "objects/pack"
        if packs.exists() and self.store.packs_dir.exists():
            for path in packs.iterdir():
                target = self.store.packs_dir / path.name
                if not target.exists():
                    shutil.copy(path, target)
            self.counts["late packs"] += 1

    def restore_store(self) -> None:
        """Put the copy of the git repository over it."""
        if self.copy.exists():
            source = self.copy / "git"
            if self.draw.random() < 0.5:
                shutil.rmtree(self.store.amalgam / "git", ignore_errors=True)
            copy_over(source, self.store.amalgam / "git")
            self.counts["restored"] += 1

    def restore_all(self) -> None:
        """Put all of the copy in the place of what is exported."""
        if self.copy.exists():
            if self.draw.random() < 0.5:
                shutil.rmtree(self.store.amalgam, ignore_errors=True)
            copy_over(self.copy, self.store.amalgam)
            self.counts["restored"] += 1

    def lock(self) -> None:
        """Leave a lock as a git that was killed."""
        if self.store.git_dir.exists():
            (self.store.git_dir / self.draw.choice(LOCKS)).write_text("")
            self.counts["locks"] += 1

    def unlock(self) -> None:
        """Remove the locks, as somebody has to."""
        for lock in self.locks():
            lock.unlink(missing_ok=True)

    def locks(self) -> list[Path]:
        """Return the locks that may be there."""
        return [self.store.git_dir / name for name in LOCKS]

    def git(self) -> None:
        """Let git do as somebody might want it to."""
        args = self.draw.choice(
            [
                ["gc", "-q"],
                ["gc", "-q", "--prune=now"],
                ["repack", "-q", "-a", "-d"],
                ["repack", "-q", "-a", "-d", "-k", "--pack-kept-objects"],
                ["repack", "-q", "-a", "--pack-kept-objects"],
                ["commit-graph", "write", "--reachable"],
                ["multi-pack-index", "write"],
                ["pack-refs", "--all"],
                ["update-ref", "ORIG_HEAD", "HEAD"],
            ]
        )
        if self.store.git_dir.exists():
            command = ["git", "-C", str(self.store.git_dir), *args]
            captured(command)
            self.counts["git"] += 1

    def refresh(self) -> None:
        """Generate bundles."""
        done = self.store.run("admin::clone-bundles-refresh")
        assert b"Traceback" not in done.err, done.err.decode()
        if done.code == 0 and not any(map(Path.exists, self.locks())):
            self.check_bundles()
            self.counts["refreshed"] += 1

    # what has to be so

    def forbidden(self) -> list[bytes]:
        """Return the words that may not be read."""
        revs = f"{self.first}: and not secret()"
        served = self.store.hg("log", "-r", revs, "-T", "{desc}\n").split()
        readable = {*served, *(f"{word}text" for word in served)} - self.censored
        return [word.encode() for word in sorted(self.words - readable)]

    def found(self, directory: Path) -> list[str]:
        """Return where in a directory there is a word that may not be read."""
        return [
            f"{word.decode()} in {where}"
            for word in self.forbidden()
            for where in traces(directory, word)
        ]

    def check_answer(self) -> None:
        """See that nothing is answered that may not be read."""
        if self.store.git_dir.exists() and self.answers():
            self.counts["answers"] += 1
            # git reads no unfinished pack; one in a copy stays until the next export
            found = [where for where in self.objects() if " in pack/tmp_" not in where]
            assert not found, found

    def check_gone(self) -> None:
        """See that no object may not be read, not even in an unfinished pack."""
        assert not self.objects(), self.objects()

    def objects(self) -> list[str]:
        """Return where in the objects there is a word that may not be read."""
        return self.found(self.store.git_dir / "objects")

    def check_bundles(self) -> None:
        """See that no bundle that is advertised may not be read."""
        directory = self.store.amalgam / "bundles"
        dot_hg = self.store.root / ".hg"
        lists = [dot_hg / "clonebundles.manifest", dot_hg / "cinnabar.manifest"]
        lists.append(directory / "bundles.list")
        text = "".join(path.read_text() for path in lists if path.exists())
        alone = self.store.root.parent / "bundle"
        for path in [*directory.iterdir()] if directory.exists() else []:
            if path.is_file() and path.name in text and path != lists[-1]:
                content = path.read_bytes()
                alone.mkdir()
                (alone / "pack").write_bytes(content[content.index(b"PACK") :])
                assert not self.found(alone), f"{path.name}: {self.found(alone)}"
                shutil.rmtree(alone)
                self.counts["bundles"] += 1

    def answers(self) -> bool:
        """Tell whether a server would answer."""
        return self.store.git_store().may_answer()

    def finish(self) -> None:
        """Export for the last time, and see that all is right."""
        self.unlock()
        done = self.store.run("git::export")
        assert done.code == 0, done
        self.check_gone()
        found = self.found(self.store.map_dir)
        assert not found, found
        done = self.store.run("git::verify")
        assert done.code == 0, done
        assert self.answers()
        self.store.git("fsck", "--strict", "--full")
        other = self.store.copied(self.store.root.parent, "fresh")
        shutil.rmtree(other.amalgam)
        other.hg("git::export")
        assert ids(self.store) == ids(other)
        refs = "--format=%(objectname) %(refname)"
        assert self.store.git("for-each-ref", refs) == other.git("for-each-ref", refs)
        shutil.rmtree(other.root)

    def run(self, steps: int) -> Counter[str]:
        """Take so many steps, and finish."""
        kinds: dict[Callable[[], None], int] = {
            self.commit: 4,
            self.branch: 2,
            self.publish: 2,
            self.secret: 1,
            self.draft: 1,
            self.strip: 2,
            self.push_again: 1,
            self.hide: 1,
            self.amend: 1,
            self.censor: 1,
            self.export: 6,
            self.kill: 1,
            self.take_copy: 2,
            self.restore_packs: 2,
            self.restore_store: 1,
            self.restore_all: 1,
            self.lock: 1,
            self.unlock: 2,
            self.git: 2,
            self.refresh: 1,
        }
        for _step in range(steps):
            (step,) = self.draw.choices([*kinds], [*kinds.values()])
            self.done.append(step.__name__)
            step()
            self.check_answer()
            self.counts["steps"] += 1
        self.done.append("finish")
        self.finish()
        return self.counts


def ids(store: Exported) -> str:
    """Return the ids of all that is served."""
    return store.hg("log", "-r", "not secret()", "-T", "{node} {gitnode}\n")


def copy_over(source: Path, target: Path) -> None:
    """Copy files one by one over those that are there, as a backup is restored."""
    for path in sorted(source.rglob("*")):
        to = target / path.relative_to(source)
        if path.is_dir():
            to.mkdir(parents=True, exist_ok=True)
        elif not path.is_symlink():
            to.parent.mkdir(parents=True, exist_ok=True)
            to.unlink(missing_ok=True)
            shutil.copy2(path, to)


def run(
    scratch: Path, server: HgServer, count: int, steps: int, seed: int
) -> Counter[str]:
    """Run ``count`` sequences; an error names the seed that repeats it."""
    counts: Counter[str] = Counter()
    for number in range(seed, seed + count):
        place = scratch / f"sequence-{number}"
        place.mkdir(parents=True)
        sequence = Sequence(place / "repo", server, number)
        try:
            counts += sequence.run(steps)
        except AssertionError as exc:
            steps_done = " ".join(sequence.done)
            raise AssertionError(f"seed {number}: {steps_done}\n{exc}") from exc
        counts["sequences"] += 1
        shutil.rmtree(place)
    return counts
