"""give git users a Mercurial repository, at native speed

amalgam turns the history of a Mercurial repository into a real git repository
that any git tool can clone, fetch from or inspect. Its commits have the same
ids that git-cinnabar computes on the client's side, so both ways of working
with git can be mixed.

Nothing in the Mercurial repository changes: all that amalgam writes is derived
from the history and lies in ``.hg/amalgam``. Delete that directory at any time;
the next export makes it anew.

Quick start
===========

Export the history that the repository serves, then clone the result with git::

  $ hg git::export
  $ git clone .hg/amalgam/git/cinnabar.git ../my-clone

Run :hg:`git::export` again whenever there is something new: it converts only
the new changesets. To enable the extension for good, add to your
configuration file (:hg:`config --edit`)::

  [extensions]
  amalgam =

What git users see
==================

Bookmark ``B`` is the git branch ``B``. The tip of each open Mercurial branch
``N`` is the git branch ``N``, or ``branches/N`` if a bookmark has that name. Tags
are tags. The git branch that a clone checks out is that of bookmark ``@``, else
``default``, else the branch of the tip.

Heads that are neither have no ref, unless ``heads`` is in ``amalgam.git.refs``: then
they are below ``refs/hg/heads``. Drafts with a topic are left out until they are
published. Files in LFS or largefiles are exported as their pointers or standins, and
subrepositories as the files that name them. :hg:`git::export` says what of all this
there is.

Secret and hidden changesets never leave. The keyword ``{gitnode}`` shows the id
of a changeset's commit in templates, if it is exported::

  $ hg log -r tip -T '{node|short} is {gitnode|short} in git\\n'

The other way round there is the revset ``gitnode(id)``; :hg:`git::id` translates
any number of ids, both ways.

Looking after it
================

What is exported, how fresh it is, and what is wrong with it, is on one screen::

  $ hg admin::amalgam

:hg:`git::verify` checks the git repository against the history and names each
difference; :hg:`admin::amalgam --repair` mends them. Removing ``.hg/amalgam`` is
safe at any time, even while servers run.

A text that is censored (:hg:`help -e censor`) leaves the git repository with the
next export. If a process without amalgam censored it, run :hg:`git::export
--rebuild`, and make bundles anew::

  $ hg git::export --rebuild
  $ hg admin::clone-bundles-clear
  $ hg admin::clone-bundles-refresh

Bundles to start from
=====================

With Mercurial's own extension clonebundles, a server makes files that clients start
from, and hands them out with next to no work. amalgam adds formats for git to those of
Mercurial, and serves them all by hgweb, if they are not uploaded elsewhere::

  [extensions]
  clonebundles =

  [clone-bundles]
  # which bundles to make for git: any of git-v2, cinnabar-v1
  git.formats = git-v2, cinnabar-v1
  # and for Mercurial, see 'hg help -e clonebundles'
  auto-generate.formats = zstd-v2
  auto-generate.on-change = yes

Mercurial and git-cinnabar find them by themselves. git is told where the list is::

  $ git clone --bundle-uri=https://example.org/repo/amalgam/bundles/bundles.list ...

:hg:`admin::clone-bundles-refresh` makes what is missing, and
:hg:`admin::clone-bundles-clear` takes everything back. :hg:`admin::amalgam` shows what
there is.

Configuration
=============

:hg:`admin::amalgam` names every item that is misspelt or has an invalid value. If
it is one of ``git.*``, nothing is exported until it is mended; if it is about
bundles, none are made. Commit, push, pull and log go on.

Most items are in the section ``[amalgam]``. ``git.export`` decides what may
leave, the others how it looks::

  [amalgam]
  # which changesets to export: those that a server shows to clients
  # (served), or only public ones (public)
  git.export = served

  # what becomes a git ref: any of bookmarks, tips, tags, heads
  git.refs = bookmarks, tips, tags

  # whose commit ids to make
  git.dialect = cinnabar

  # check texts against their Mercurial nodes while exporting: each, but of large
  # manifests so many that each is, or one made from it (git::verify --full: each)
  git.check-texts = yes

  # how much memory an export may take; what exceeds it goes to temporary files
  git.memory = 192 MB

  # the directory of the git repositories, .hg/amalgam/git if not set
  git.path =

  # the git program
  git.program = git

Where bundles are kept, and for how long::

  [amalgam]
  # the directory that bundles are put in, .hg/amalgam/bundles if not set
  bundles.directory =

  # where a web server serves that directory; if not set, hgweb does
  bundles.url =

  # seconds to keep a bundle that was replaced
  bundles.retention = 604800

  # whether bundles may be where the permissions of the repository do not hold; if
  # not set, only if anybody may read the repository
  bundles.external =

Two items say whether Mercurial maps the indexes of changelog and manifest into
memory, or reads them. If neither is set, Mercurial's own ``storage.revlog.mmap.*``
do::

  [experimental]
  # map indexes of at least the threshold (yes), or none (no)
  mmapindex = yes

  # the threshold; setting it alone means yes, and 0 is every index
  mmapindexthreshold = 1 MB

Which revision has a node is kept on disk, for indexes that are mapped, and found
there::

  [amalgam]
  index.node-map = yes

A strip shortens an index that another process may have mapped, which ends that
process with a bus error. So amalgam maps a snapshot of it, in
``.hg/amalgam/index``; where there can be none, the index is read::

  [amalgam]
  # what of an index to read ahead when it is mapped: none, willneed (all, in
  # the background) or populate (all, before going on)
  index.prefault = none
"""

from __future__ import annotations

from . import commands, configitems, hooks, metadata

__version__ = metadata.__version__
testedwith = metadata.testedwith
minimumhgversion = metadata.minimumhgversion
buglink = metadata.buglink

cmdtable = commands.cmdtable
configtable = configitems.configtable
revsetpredicate = commands.revsetpredicate
templatekeyword = commands.templatekeyword
uisetup = hooks.uisetup
extsetup = hooks.extsetup
reposetup = hooks.reposetup
