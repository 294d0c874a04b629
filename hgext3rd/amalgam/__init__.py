"""give git users a Mercurial repository, at native speed

amalgam turns the history of a Mercurial repository into a real git repository
that any git tool can clone, fetch from or inspect. Its commits have the ids that
git-cinnabar computes, so users of git-cinnabar and of plain git can work
together.

The history is only read, unless you allow ``git push``. Everything else that
amalgam writes is in ``.hg/amalgam``. You may delete that directory at any time,
because it can be made again. Only ids that you adopted from another mirror
(``.hg/amalgam/adopted``) need a backup.

Quick start
===========

Export the history, then clone the result with git::

  $ hg git::export
  $ git clone .hg/amalgam/git/cinnabar.git ../my-clone

Run :hg:`git::export` again to convert what is new. To enable the extension, add
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
Subrepositories are not exported, only the files that name them. :hg:`git::export`
warns of all these.

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

Developers may push with git, too, if they may push with Mercurial. What they push
becomes changesets, and they keep the commits that they have::

  [amalgam]
  git.push = yes

Configuration
=============

:hg:`admin::amalgam` names every unknown item and every invalid value. Mistakes in
``git.*`` stop exports, and mistakes about bundles stop their generation. Commit,
push, pull and log go on.

What is exported, and where to::

  [amalgam]
  # which changesets to export: those that a server shows to clients
  # (served), or only public ones (public)
  git.export = served

  # export in the background after each transaction
  git.export-on-change = no

  # what becomes a git ref: any of bookmarks, tips, tags, heads
  git.refs = bookmarks, tips, tags

  # the rules that decide the commit ids
  git.dialect = cinnabar

  # verify the SHA-1 of every file and changeset while exporting; manifests over
  # 64 KiB are sampled (git::verify --full verifies all of them)
  git.check-texts = yes

  # how much memory an export may take; the rest goes to temporary files
  git.memory = 192 MB

  # the directory of the git repositories; .hg/amalgam/git if not set
  git.path =

  # the git program
  git.program = git

Whether hgweb serves git, and within what limits::

  [amalgam]
  # whether git clients may clone and fetch
  git.serve = no

  # whether pushes of git are taken: no, yes, or locked, which refuses them
  # with a message
  git.push = no

  # that message
  git.push-message =

  # whether a push may make named branches: git push -o branch=NAME
  git.push-branches = no

  # whether pushed tags become a commit to .hgtags
  git.push-tags = no

  # up to how many missing changesets a request exports before it is answered
  serve.freshness = 1000

  # how many git processes may make packs at the same time
  serve.max-fetches = 4

  # a directory in which all processes of a host share that limit
  serve.run-directory =

  # how many seconds a request waits for its turn
  serve.queue-timeout = 30

  # how many seconds a request lasts without progress
  serve.timeout = 300

  # the largest request, after decompression
  serve.max-body = 32 MB

  # the largest push
  serve.max-push = 512 MB

  # how many objects a push may send, how many new commits it may have, and the
  # largest file in one
  serve.max-push-objects = 1000000
  serve.max-push-commits = 100000
  serve.max-push-file = 100 MB

  # whether git clients are told of bundles
  serve.bundle-uri = no

How changegroups are written::

  [amalgam]
  # whether the native core writes what bundles, pulls and pushes send
  bundles.native = yes

Where bundles are kept, and for how long::

  [amalgam]
  # the directory for bundles; .hg/amalgam/bundles if not set
  bundles.directory =

  # an object store to upload to (s3://BUCKET/PREFIX, gs://... or az://...), or
  # where a web server serves that directory; if not set, hgweb serves it
  bundles.url =

  # where everybody can read what is in the object store
  bundles.public-url =

  # for how many seconds a link to a bundle in a private object store is valid
  bundles.link-seconds = 0

  # how many seconds to keep a bundle after another has replaced it
  bundles.retention = 604800

  # how much bundles for hg are compressed: the level of zstd
  bundles.level = 5

  # by how many threads; 0: one for each core, at most 4
  bundles.threads = 0

  # how far back in a bundle repetitions are found
  bundles.window = 64 MB

  # whether bundles may be put where hgweb's permissions do not hold; if not
  # set, only bundles of repositories that everyone may read
  bundles.external =

Whether hg memory-maps the indexes of changelog and manifest. If neither item is
set, Mercurial's own ``storage.revlog.mmap.*`` decide::

  [experimental]
  # map indexes of at least the threshold (yes), or none (no)
  mmapindex = yes

  # the threshold; setting it alone means yes, and 0 maps every index
  mmapindexthreshold = 1 MB

A strip shortens an index that other processes may have mapped, and those would end
with a bus error. So amalgam maps a snapshot of the index, in
``.hg/amalgam/index``. Where it cannot have a snapshot, it reads the index::

  [amalgam]
  # what of an index to read ahead when it is mapped: none, willneed (all, in
  # the background) or populate (all, before hg continues)
  index.prefault = none

  # keep a node-to-revision map on disk for memory-mapped indexes
  index.node-map = yes
"""

from __future__ import annotations

from . import commands, configitems, hooks, metadata

__version__ = metadata.__version__
testedwith = metadata.testedwith
minimumhgversion = metadata.minimumhgversion
buglink = metadata.buglink

getversion = metadata.getversion
debuginstall = hooks.debuginstall

cmdtable = commands.cmdtable
colortable = commands.colortable
configtable = configitems.configtable
revsetpredicate = commands.revsetpredicate
templatekeyword = commands.templatekeyword
uisetup = hooks.uisetup
extsetup = hooks.extsetup
reposetup = hooks.reposetup
