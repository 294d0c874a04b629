Bundles for hg, git-cinnabar and git, made and taken back by Mercurial's commands

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ hg init server && cd server
  $ cat >> .hg/hgrc << EOS
  > [phases]
  > new-commit = public
  > [clone-bundles]
  > git.formats = git-v2, cinnabar-v1
  > EOS

Who asks for formats for git needs the extension that makes bundles:

  $ echo 0 > file && hg commit -qAm 'change 0' -d '0 0'
  warning: bundles are not renewed: clone-bundles.git.formats needs the extension clonebundles
  (enable it with '[extensions] clonebundles =')
  $ hg admin::amalgam | sed -n '/^wrong/,$p'
  wrong
    clone-bundles.git.formats needs the extension clonebundles
    (enable it with '[extensions] clonebundles =')
  $ cat >> .hg/hgrc << EOS
  > [extensions]
  > clonebundles =
  > EOS
  $ for n in 1 2; do echo $n > file; hg commit -qAm "change $n" -d "$n 0"; done

An unknown format is told before anything is done:

  $ hg admin::clone-bundles-refresh --config clone-bundles.git.formats=git-v2,git-v9
  config error: invalid value 'git-v9' for clone-bundles.git.formats (expected git-v2 or cinnabar-v1)
  (did you mean 'git-v2'?)
  [30]
  $ hg admin::clone-bundles-refresh --config clone-bundles.auto-generate.formats=git-v2
  config error: invalid value 'git-v2' for clone-bundles.auto-generate.formats
  (it belongs in clone-bundles.git.formats)
  [30]
  $ test -e .hg/amalgam/bundles
  [1]

All formats are made by one command:

  $ cat >> .hg/hgrc << EOS
  > [clone-bundles]
  > auto-generate.formats = gzip-v2
  > EOS
  $ hg admin::clone-bundles-refresh
  3 changesets found
  made cinnabar-v1: 3 changesets, * (glob)
  made git-v2: 3 changesets, * bytes (glob)
  made gzip-v2: 3 changesets, * bytes (glob)
  $ hg admin::amalgam | sed -n '/^bundles/,$p'
  bundles, for 3 public changesets
    cinnabar-v1   3 changesets, *, * ago, up to date (glob)
                  by hgweb, at amalgam/bundles/*.bundle (glob)
    git-v2        3 changesets, *, * ago, up to date (glob)
                  by hgweb, at amalgam/bundles/*.bundle (glob)
    gzip-v2       3 changesets, *, * ago, up to date (glob)
                  by hgweb, at amalgam/bundles/*.hg (glob)
  
  nothing is wrong
  $ hg admin::amalgam -T '{bundles % "{format} {state} {changesets} {covered} {token}\n"}'
  cinnabar-v1 live 3 1.0 0
  git-v2 live 3 1.0 1
  gzip-v2 live 3 1.0 0
  $ cat .hg/amalgam/bundles/bundles.list
  [bundle]
  	version = 1
  	mode = all
  	heuristic = creationToken
  [bundle "base-1"]
  	uri = *.bundle (glob)
  	creationToken = 1
  $ cat .hg/clonebundles.manifest
  amalgam/bundles/*.hg BUNDLESPEC=gzip-v2 DIGEST=sha256:* (glob)
  $ cat .hg/cinnabar.manifest
  amalgam/bundles/*.bundle (glob)

What is new comes as an increment for git, and replaces the others:

  $ echo 3 > file && hg commit -qm 'change 3' -d '3 0'
  $ hg admin::clone-bundles-refresh --config clone-bundles.trigger.below-bundled-ratio=0.5
  cinnabar-v1 lacks 1 newer changesets, too few for a new bundle
  git-v2 lacks 1 newer changesets, too few for a new bundle
  gzip-v2 lacks 1 newer changesets, too few for a new bundle
  (see clone-bundles.trigger.revs and .below-bundled-ratio)
  $ hg admin::amalgam | grep "newer changesets"
    cinnabar-v1   3 changesets, *, * ago, without 1 newer changesets (glob)
    git-v2        3 changesets, *, * ago, without 1 newer changesets (glob)
    gzip-v2       3 changesets, *, * ago, without 1 newer changesets (glob)
  $ hg admin::clone-bundles-refresh
  4 changesets found
  made cinnabar-v1: 4 changesets, * (glob)
  made git-v2+2: 1 changeset, * bytes (glob)
  made gzip-v2: 4 changesets, * bytes (glob)
  $ hg admin::clone-bundles-refresh
  cinnabar-v1 is up to date
  git-v2 is up to date
  gzip-v2 is up to date
  $ hg admin::clone-bundles-refresh --background
  cinnabar-v1 is up to date
  git-v2 is up to date
  gzip-v2 is up to date
  $ hg admin::clone-bundles-refresh --quiet
  $ hg admin::amalgam | grep git-v2
    git-v2        3 changesets, *, * ago, continued by git-v2+2 (glob)
    git-v2+2      1 changeset, *, * ago, up to date (glob)
  $ hg admin::amalgam -T '{bundles % "{format} {state} {changesets} {covered} {token}\n"}'
  cinnabar-v1 live 4 1.0 0
  git-v2 live 3 0.75 1
  git-v2+2 live 1 0.25 2
  gzip-v2 live 4 1.0 0
  cinnabar-v1 kept 3 0.75 0
  gzip-v2 kept 3 0.75 0

Clients get them from hgweb, each at the address that it knows the server by:

  $ hg serve -d -p $HGPORT --pid-file hg.pid -A access.log -E errors.log
  $ cat hg.pid >> $DAEMON_PIDS
  $ hg clone http://localhost:$HGPORT ../client
  applying clone bundle from http://localhost:$HGPORT/amalgam/bundles/*.hg (glob)
  adding changesets
  adding manifests
  adding file changes
  added 4 changesets with 4 changes to 1 files
  finished applying clone bundle
  searching for changes
  no changes found
  4 local changesets published
  updating to branch default
  1 files updated, 0 files merged, 0 files removed, 0 files unresolved
  $ "$PYTHON" -c 'import sys, urllib.request as http
  > print(http.urlopen(sys.argv[1]).read().decode(), end="")
  > ' "http://localhost:$HGPORT/?cmd=cinnabarclone"
  http://localhost:$HGPORT/amalgam/bundles/*.bundle (glob)
  $ git clone -q --bundle-uri=http://localhost:$HGPORT/amalgam/bundles/bundles.list \
  >   .hg/amalgam/git/cinnabar.git ../git-client
  $ git -C ../git-client log --format=%s
  change 3
  change 2
  change 1
  change 0
  $ grep -c 'amalgam/bundles/.*bundle HTTP/1.1" 200' access.log
  2

All of it is taken back at once:

  $ hg admin::clone-bundles-clear
  $ hg admin::amalgam | sed -n '/^bundles/,$p'
  $ ls .hg/amalgam/bundles
  bundles.list
  register
  $ cat .hg/clonebundles.manifest
  $ test -e .hg/cinnabar.manifest
  [1]
