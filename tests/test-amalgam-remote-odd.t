Odd commits of git repositories: wishes of hg-git's users, fourth part

  $ . "$TESTDIR/testlib/amalgam.sh"

An encoding that nobody knows, an author without a name, two commits that differ in -0000 only. The first two end imports of hg-git, and
it imports the last two again with each pull:

  $ git init -q project && cd project
  $ sign() { git hash-object -w -t commit --stdin; }
  $ git commit -q --allow-empty -m root
  $ git cat-file commit HEAD > root
  $ sed "s/^tree.*/&\nparent $(git rev-parse HEAD)/; s/^author test/author /; s/^$/encoding x-none\n/; s/root/caf\xe9/" root > odd
  $ git update-ref refs/heads/main $(sign < odd)
  $ sed "s/^tree.*/&\nparent $(git rev-parse main)/; s/+0000/-0000/" root > minus
  $ sed "s/^tree.*/&\nparent $(git rev-parse main)/" root > plus
  $ git update-ref refs/heads/minus $(sign < minus)
  $ git update-ref refs/heads/plus $(sign < plus)
  $ rm root odd minus plus

A section of .gitmodules without a name ends imports of hg-git. A section whose path is no submodule ends its exports:

  $ printf '[submodule]\n\tpath = y\n\turl = ../y\n[submodule "x"]\n\tpath = x\n\turl = ../x\n' > .gitmodules
  $ git read-tree main && git add .gitmodules && git commit -q -m modules && cd ..

Here all of them are changesets, and have their ids in all clones (wishes 12 and 13):

  $ git -C project rev-list --all | sort > ids
  $ hg clone -q "file://$TESTTMP/project/.git" clone && hg clone -q clone second && cd second
  $ hg git::export -q && hg log -T '{gitnode}\n' | sort | diff - ../ids
  $ cd ../clone && hg pull
  pulling from $TESTTMP/project/.git
  no changes found
  $ cd ..

In hg-git's dialect, too. The last two are one changeset there, as with hg-git, and both ids lead to it:

  $ cat >> "$HGRCPATH" << EOF
  > [amalgam]
  > git.dialect = hggit
  > EOF
  $ hg clone -U project hggit && cd hggit
  importing 5 git commits
  new changesets d6d5a19448ac:47789d87b102 (4 drafts)
  the ids of 2 commits may be known to .hg/amalgam only (see 'hg help config.amalgam.git.push-exact')
  $ show() { hg --encoding utf-8 log -r "gitnode($1)" -T '{rev} {desc|firstline}\n'; }
  $ for id in $(cat ../ids); do show $id; done | sort
  0 root
  1 caf\xc3\xa9 (esc)
  2 root
  2 root
  3 modules
  $ hg pull
  pulling from $TESTTMP/project
  no changes found
  $ hg git::export -q
  $ cd ..

A time zone that git itself refuses, as in the history of requests. No extra keeps such a commit; in hg-git's dialect it keeps its id:

  $ git init -q zone && cd zone && git commit -q --allow-empty -m zone
  $ git cat-file commit HEAD | sed "s/+0000/+051800/" > odd
  $ git update-ref refs/heads/main $(git hash-object -w -t commit --literally --stdin < odd) && rm odd && cd ..
  $ hg clone -q --config amalgam.git.dialect=cinnabar zone refused
  abort: cannot import commit [0-9a-f]{40}: the date cannot be written back as it is: .* \+051800 (re)
  (a new clone with amalgam.git.dialect=hggit can have it, without amalgam.git.push-exact)
  [10]
  $ hg clone -q zone zoned && cd zoned && hg git::export -q
  $ hg log -T '{gitnode}\n' > ids && git -C ../zone rev-parse main | diff ids -
