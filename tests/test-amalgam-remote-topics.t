Topics of evolve, where the remote is a git repository

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ cat >> "$HGRCPATH" << EOF
  > [extensions]
  > evolve =
  > topic =
  > EOF
  $ git init -q project && cd project
  $ echo one > file && git add file && git commit -qm one && cd ..
  $ git clone -q --bare project host.git
  $ hg clone -q host.git work && cd work

A draft with a topic stays here, since git has no topics. The push says so, and nothing is published:

  $ hg topics -q review
  $ echo two >> file && hg commit -qm two
  $ hg push
  pushing to $TESTTMP/host.git
  abort: changeset * has a topic, or one below it has (glob)
  (hg topics --clear -r REV removes it)
  [20]
  $ hg log -T '{desc} {phase} {topic}\n'
  two draft review
  one public 
  $ git -C ../host.git log --format=%s main
  one

Without its topic, it is pushed by the bookmark:

  $ hg topics -q --clear -r .
  $ hg push -q
  $ hg log -T '{desc} {phase} {topic}\n'
  two public 
  one public 
  $ git -C ../host.git log --format=%s main
  two
  one

A push to another branch leaves it a draft, that can get a topic. A pull publishes nothing of it:

  $ hg bookmark -q side && echo three >> file && hg commit -qm three
  $ hg push -q -B side
  $ hg topics -q -r . review
  $ hg pull -q
  $ hg log -r 'desc(three)' -T '{desc} {phase} {topic}\n'
  three draft review
