The git store follows the repository by itself

  $ . "$TESTDIR/testlib/amalgam.sh"

It takes a moment, so whoever wants to see it waits:

  $ settled() {
  >   until hg admin::amalgam -T '{exporter} {behind} {gone} {refs_behind}\n' |
  >     grep -q '^idle 0 0 0$'; do sleep 0.1; done
  > }
  $ hg init project && cd project
  $ cat >> .hg/hgrc << EOS
  > [amalgam]
  > git.export-on-change = yes
  > EOS

A commit is all there is to do:

  $ echo one > file && hg commit -qAm 'first change' -d '0 0'
  $ settled
  $ git clone -q .hg/amalgam/git/cinnabar.git ../clone
  $ git -C ../clone log --format='%an: %s'
  test: first change

Bookmarks, amended and stripped changesets need no more than that:

  $ hg bookmark feature
  $ echo two > file && hg commit -qm 'second change' -d '1 0'
  $ hg commit -q --amend -m 'second change, amended' -d '1 0'
  $ settled
  $ git -C ../clone fetch -q && git -C ../clone log --format='%s' origin/feature
  second change, amended
  first change
  $ hg debugstrip -q --no-backup tip
  $ settled
  $ git -C ../clone fetch -q && git -C ../clone log --format='%s' origin/feature
  first change

What is pushed by ssh or HTTP comes to git in the same way:

  $ hg clone -q . ../other && cd ../other
  $ echo three > file && hg commit -qm 'third change' -d '2 0'
  $ hg push -q && cd ../project
  $ settled
  $ git -C ../clone fetch -q && git -C ../clone log --format='%s' -1 origin/default
  third change

An operator sees that it is on:

  $ hg admin::amalgam | sed -n '/^git repository/,$p'
  git repository $TESTTMP/project/.hg/amalgam/git/cinnabar.git
    exported      2 of 2 changesets, up to date
    refs          2
    objects       * (glob)
    disk          * (glob)
    map           * (glob)
    metadata      1 changeset behind (updated when git-cinnabar needs it)
    lock          * (glob)
    on change     exported in the background
  
  nothing is wrong

If exports fail, commits go on. The reason is shown until an export succeeds, and the
next attempt comes by itself:

  $ cat >> .hg/hgrc << EOS
  > git.path = $TESTTMP/file
  > EOS
  $ echo 'no directory' > "$TESTTMP/file"
  $ echo four > file && hg commit -qm 'fourth change' -d '3 0'
  $ until hg admin::amalgam | grep -q 'background export failed'; do sleep 0.1; done
  $ hg admin::amalgam > told
  [1]
  $ sed -n '/^wrong/,$p' told
  wrong
    '$TESTTMP/file/cinnabar.git' is not a directory
    (remove what is in its place)
    background export failed*: *$TESTTMP/file* (glob)
    (next attempt *) (glob)
  $ rm "$TESTTMP/file"
  $ settled
  $ git -C "$TESTTMP/file/cinnabar.git" log --format='%s' -1 default
  fourth change
  $ hg admin::amalgam | tail -1
  nothing is wrong

A mistake in the item stops no commit, either:

  $ echo five > file
  $ hg commit -qm 'fifth change' -d '4 0' --config amalgam.git.export-on-change=perhaps
  $ hg admin::amalgam --config amalgam.git.export-on-change=perhaps | sed -n '/^wrong/,$p'
  wrong
    invalid value 'perhaps' for amalgam.git.export-on-change (expected yes or no)
    (see 'hg help config.amalgam')
