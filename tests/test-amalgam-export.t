A Mercurial repository, and what a git user sees of it

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ hg init project && cd project
  $ printf 'hello\n' > greeting && hg commit -qAm 'a greeting'
  $ hg branch -q stable
  $ printf 'hello, world\n' > greeting && hg commit -qm 'to everybody'
  $ hg tag -q -r 0 v1 && hg update -q default
  $ printf '#!/bin/sh\n' > run && chmod +x run && hg commit -qAm 'a script'
  $ hg bookmark -i feature/x
  $ hg git::export
  exported 4 changesets: 24 objects, * in * seconds (glob)
  4 refs changed
  git repository: $TESTTMP/project/.hg/amalgam/git/cinnabar.git

Any git clones it:

  $ git clone -q .hg/amalgam/git/cinnabar.git ../clone
  $ git -C ../clone log --all --format='%s (%an)' --date-order
  a script (test)
  Added tag v1 for changeset [0-9a-f]{12} \(test\) (re)
  to everybody (test)
  a greeting (test)
  $ git -C ../clone branch -r
    origin/HEAD -> origin/default
    origin/default
    origin/feature/x
    origin/stable
  $ git -C ../clone tag
  v1
  $ ls -l ../clone/run | cut -c1-4
  -rwx

Mercurial knows git's ids:

  $ test "`hg log -r default -T '{gitnode}'`" = "`git -C ../clone rev-parse HEAD`"

A second time there is nothing to do:

  $ hg git::export
  nothing new to export
  $ hg git::export -q

What is new is added:

  $ printf 'more\n' >> greeting && hg commit -qm 'more'
  $ hg git::export -T '{changesets} {objects} {refs} {dialect}\n'
  1 6 1 cinnabar
  $ git -C ../clone pull -q && cat ../clone/greeting
  hello
  more

A secret stays home:

  $ printf 'secret\n' > plan && hg commit -qAm 'a plan' --secret
  $ hg git::export
  nothing new to export
  $ hg log -r . -T '[{gitnode}]\n'
  []

Each export is one line in the log of hg, whoever started it:

  $ cat >> .hg/hgrc << EOS
  > [extensions]
  > blackbox =
  > [blackbox]
  > track = amalgam
  > EOS
  $ hg git::export
  nothing new to export
  $ hg phase --draft .
  $ hg git::export -q
  $ hg phase --public .
  $ hg blackbox | grep -c 00changelog
  0
  [1]
  $ hg blackbox | sed -n 's/.*> \(exported.*\) in .*/\1/p'
  exported 0 changesets: 0 objects, 0 bytes, 0 refs changed, 0 drafts gone,
  exported 1 changesets: * objects, * bytes, 1 refs changed, 0 drafts gone, (glob)

hg summary tells whether git users get what is served. That runs no git:

  $ hg summary --config amalgam.git.program=/nowhere/git | grep git
  git:    up to date
  $ echo more >> plan && hg commit -qm 'more'
  $ hg summary | grep git
  git:    1 changeset behind (run 'hg git::export')
  $ hg git::export -q
  $ hg phase --force --secret . && hg summary | grep git
  git:    changesets are gone since (run 'hg git::export')
  $ hg git::export -q && hg summary --color debug | grep git
  [ ui.status|git:    ][amalgam.good ui.status|up to date]
  $ hg summary --config amalgam.git.dialect=nothing | grep git
  git:    not known (see 'hg admin::amalgam')
  $ mkdir -p .hg/amalgam/exporter
  $ printf 'amalgam exporter failure 1\nreason boom\nattempts 3\nsum c4e057fd\n' > .hg/amalgam/exporter/failure
  $ hg summary | grep git
  git:    exports fail, 0 changesets behind (see 'hg admin::amalgam')
  $ rm -r .hg/amalgam
  $ hg summary | grep git
  [1]

A repository of an unknown format is left alone:

  $ echo from-the-future >> .hg/requires
  $ hg git::export
  abort: repository requires features unknown to this Mercurial: from-the-future
  (see https://mercurial-scm.org/wiki/MissingRequirement for more information)
  [255]

Bad options get one line and a hint:

  $ cd .. && hg init other && cd other
  $ hg git::export --dialect fluent
  abort: unknown dialect 'fluent'
  (allowed: cinnabar, hggit)
  [10]
  $ hg git::export --config amalgam.git.refs=everything
  config error: invalid value 'everything' for amalgam.git.refs (expected bookmarks, tips, heads or tags)
  [30]
  $ hg git::export --config amalgam.git.exports=public
  config error: unknown config item amalgam.git.exports
  (did you mean amalgam.git.export?)
  [30]
