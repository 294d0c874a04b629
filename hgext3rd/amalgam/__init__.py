"""connect Mercurial and git, both ways, at native speed

amalgam lets a Mercurial server speak git. Developers stay with Mercurial. Everybody
else clones and fetches with plain git, and pushes if you allow it. Commits have the
ids that git-cinnabar computes, so users of git-cinnabar and of plain git can work
together. And it lets Mercurial users clone from, pull from and push to git hosts.

The history is only read, unless you pull from git or allow ``git push``. All else that
amalgam writes is in ``.hg/amalgam``. You may delete that directory at any time,
because it can be made again. Only ids that you adopted from another mirror
(``.hg/amalgam/adopted``) need a backup.

Quick start
===========

Export the history, then clone the result with git::

  $ hg git::export
  $ git clone .hg/amalgam/git/cinnabar.git ../my-clone

Run :hg:`git::export` again to convert new changesets. To enable the extension, add
to your configuration file (:hg:`config --edit`)::

  [extensions]
  amalgam =

To export after each change, by itself and in the background, add to the
``.hg/hgrc`` of the repository::

  [amalgam]
  git.export-on-change = yes

What git users see
==================

Each bookmark is a git branch. The tip of each open Mercurial branch ``N`` is the
git branch ``N``, or ``branches/N`` if there is a bookmark ``N``. Tags are tags. A
clone checks out the bookmark ``@``, else ``default``, else the branch of the tip.

Other heads have no ref. If ``heads`` is in ``amalgam.git.refs``, they are below
``refs/hg/heads``. Drafts with a topic are left out until they are published.
Files in LFS are exported as pointers of git-lfs, largefiles as standins.
Subrepositories are not exported, only the files that name them. git refuses to
check out a commit that has a file such as ``.GIT/x``. :hg:`git::export` warns of all
these.

Secret and hidden changesets never leave. The template keyword ``{gitnode}`` is
the id of a changeset's commit, if it is exported::

  $ hg log -r tip -T '{node|short} is {gitnode|short} in git\\n'

The revset ``gitnode(id)`` is the changeset of a commit. :hg:`git::id` translates
any number of ids, both ways.

Maintenance
===========

Show what is exported, how fresh it is, and what is wrong::

  $ hg admin::amalgam

:hg:`git::verify` compares the git repository with the history and names each
difference. :hg:`admin::amalgam --repair` repairs them. You may remove
``.hg/amalgam`` at any time, even while servers run, unless commits were adopted:
make a backup of ``.hg/amalgam/adopted``.

A censored text (:hg:`help -e censor`) leaves the git repository with the next
export. A process without amalgam leaves no mark when it censors. After that, run::

  $ hg git::export --rebuild
  $ hg admin::clone-bundles-clear
  $ hg admin::clone-bundles-refresh

Bundles to start from
=====================

Mercurial's extension clonebundles lets clients start from static files, which
costs the server next to no work. amalgam adds formats for git. hgweb serves the
files, unless a command uploads them::

  [extensions]
  clonebundles =

  [clone-bundles]
  # which bundles to generate for git: any of git-v2, cinnabar-v1
  git.formats = git-v2, cinnabar-v1
  # and for Mercurial, see 'hg help -e clonebundles'
  auto-generate.formats = zstd-v2
  auto-generate.on-change = yes

Mercurial and git-cinnabar find bundles by themselves. Tell git where the list is::

  $ git clone --bundle-uri=https://example.org/repo/amalgam/bundles/bundles.list ...

:hg:`admin::clone-bundles-refresh` generates missing bundles,
:hg:`admin::clone-bundles-clear` withdraws all, and :hg:`admin::amalgam` lists them.

Git clients
===========

hgweb answers git at the URL of the repository, with the permissions of ``pull``::

  [amalgam]
  git.serve = yes

  $ git clone https://example.org/repo

Developers may push with git, too, if they may push with Mercurial. Their commits
become changesets, and keep their ids in git::

  [amalgam]
  git.push = yes

git servers
===========

Mercurial's commands take git repositories as remotes: clone, pull, push,
incoming, outgoing and identify. git connects, with your own configuration::

  $ hg clone git@example.org:group/project.git
  $ hg clone git+https://example.org/project

A branch becomes a bookmark. ``default/NAME`` is the branch NAME at the last pull.
A push moves branches of the remote; ``-B NAME`` makes a new one::

  $ hg push -B NAME

Configuration
=============

:hg:`admin::amalgam` names every unknown item and every invalid value. Mistakes in
``git.*`` stop exports, and mistakes about bundles stop their generation. Commit,
push, pull and log go on.

List all items with their defaults, or show one::

  $ hg help config.amalgam
  $ hg help config.amalgam.git.memory
"""

from __future__ import annotations

import os

from mercurial.configitems import coreitems

from . import commands, configitems, hooks

hooks.collect_garbage_less_often()

__version__ = b"0.1.0"
testedwith = b"6.9 7.0 7.1 7.2"
# 6.9 maps indexes by default. To compare versions at each start would take a module and
# a pattern of Mercurial, more than all tables here.
minimumhgversion = None
if b"revlog.mmap.index" not in coreitems[b"storage"]:
    minimumhgversion = b"6.9"
# "please report the bug to ...": there is no tracker yet
buglink = b"the place where you got hg-amalgam from"

cmdtable = commands.cmdtable
colortable = commands.colortable
configtable = configitems.configtable
uisetup = hooks.uisetup
extsetup = hooks.extsetup
reposetup = hooks.reposetup
debuginstall = hooks.debuginstall

_LONGEST_COMMIT = 80


def getversion() -> bytes:
    """Return the version, and after a ``+`` the commit that was built.

    setup.py writes that into a file. Another ``+`` at the end: of changed files.
    """
    try:
        with open(os.path.join(os.path.dirname(__file__), "COMMIT"), "rb") as file:
            commit = file.read(_LONGEST_COMMIT).strip()
    except OSError:
        return __version__
    digits = commit.removesuffix(b"+")
    # not by a pattern: slow
    if not 7 <= len(digits) <= 64 or digits.strip(b"0123456789abcdef"):
        return __version__
    return b"%s+%s" % (__version__, commit)
