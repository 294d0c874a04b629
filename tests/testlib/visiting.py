"""Who visits a repository whose owner may be hostile, and with which commands."""

from __future__ import annotations

import dataclasses
import os

from .users import User

GROUP = 21000
OWNER = User(20001, 20001, (GROUP,))
MEMBER = User(20002, 20002, (GROUP,))
STRANGER = User(20003, 20003)


@dataclasses.dataclass(frozen=True)
class Visitor:
    """Who runs the commands, and who may write the repository."""

    name: str
    user: User | None
    """Whose process it is; ours, if it is nobody's."""
    mode: str
    """Of files in the repository, as chmod(1) has it."""
    trusts: bool = False
    """Whether trusted.users names the owner."""

    @property
    def uid(self) -> int:
        return self.user.uid if self.user else os.geteuid()

    @property
    def may_use(self) -> bool:
        """Whether amalgam may write and map its files."""
        return self.trusts or self.user in (OWNER, MEMBER) or self is ONESELF


OPEN = "a+rwX"
VISITORS = (
    Visitor("owner", OWNER, "a+rX"),
    Visitor("member", MEMBER, "g+rwX,a+rX"),
    Visitor("stranger", STRANGER, "a+rX"),
    Visitor("stranger who may write", STRANGER, OPEN),
    Visitor("stranger who trusts", STRANGER, OPEN, trusts=True),
    Visitor("root", None, "a+rX"),
    Visitor("root who trusts", None, "a+rX", trusts=True),
)
#: Where only one user is to be had.
ONESELF = Visitor("oneself", None, "a+rX")


@dataclasses.dataclass(frozen=True)
class Command:
    """A command of hg, or another job of the forkserver."""

    name: str
    args: tuple[str, ...]
    stock: bool = True
    """Whether stock Mercurial answers the same."""
    where: str = "repo"
    job: str = "hg"


def _ours(name: str, *args: str, job: str = "hg") -> Command:
    return Command(name, args or tuple(name.split()), stock=False, job=job)


def _stock(name: str, *args: str, where: str = "repo", job: str = "hg") -> Command:
    return Command(name, args or tuple(name.split()), where=where, job=job)


_LOG = ("log", "-T", "{rev} {node} {phase} {desc|firstline} {bookmarks} {tags}\\n")
_STOCK_ROUTES = (
    *("?cmd=capabilities", "shortlog", "log/2", "rev/tip", "bookmarks"),
    *("?cmd=branchmap", "?cmd=heads", "?cmd=lookup&key=tip"),
)
_OUR_ROUTES = (
    *("?cmd=clonebundles", "?cmd=cinnabarclone", "?cmd=clonebundles_manifest"),
    *("amalgam/bundles/bundles.list", "amalgam/bundles/register"),
    *("amalgam/bundles/..%2f..%2fhgrc", "amalgam/bundles/lock"),
)


def commands(names: dict[str, str]) -> list[Command]:
    """Return all commands. ``names`` has a ``node``, an ``oid`` and a ``bundle``."""
    node, oid = names["node"], names["oid"]
    bundle = f"amalgam/bundles/{names['bundle']}"
    routes = ("--show", *_STOCK_ROUTES)
    page = ("shortlog", "--truncate", ".hg/amalgam/index", "log/1", "rev/tip")
    return [
        _stock("log", *_LOG),
        _stock("log -r PREFIX", *_LOG, "-r", node[:9]),
        _stock("log -r UNKNOWN", *_LOG, "-r", "f" * 40),
        _stock("status"),
        _stock("verify", "verify", "-q"),
        _stock("debugupdatecaches"),
        _stock("commit", "commit", "-m", "new", "-d", "9 0"),
        _stock("amend", "commit", "--amend", "-m", "amended", "-d", "10 0"),
        _stock("strip", "strip", "-q", "--no-backup", "draft()"),
        _stock("push", "push", "-f", "../repo", where="mine"),
        _stock("pull", "pull", "-q", "../repo", where="mine"),
        _stock(
            "clone", "clone", "-q", "--pull", "-U", "../repo", "local", where="mine"
        ),
        _stock("clone by HTTP", "-q", "-U", "../mine/http", job="clone"),
        _stock("pages", *routes, job="web"),
        _stock("pages while truncated", *page, job="web"),
        _ours("bundles by HTTP", *_OUR_ROUTES, bundle, job="web"),
        _ours("git::export"),
        _ours("git::export --rebuild"),
        _ours("git::export --estimate"),
        _ours("git::verify"),
        _ours("git::verify --full"),
        _ours("git::id NODE", "git::id", node, node[:8]),
        _ours("git::id OID", "git::id", oid),
        _ours("git::bundle", "git::bundle", "../mine/some.bundle"),
        _ours("git::bundle -", "git::bundle", "-t", "cinnabar-v1", "-"),
        _ours("admin::amalgam"),
        _ours("admin::amalgam JSON", "admin::amalgam", "-T", "json"),
        _ours("admin::amalgam --repair"),
        _ours("admin::clone-bundles-refresh"),
        _ours("admin::clone-bundles-clear"),
        _ours("log -T {gitnode}", "log", "-T", "{rev} {gitnode}\\n"),
        _ours("log -r gitnode()", "log", "-r", f"gitnode({oid})"),
    ]
