Clones of git repositories: what hg-git's users wish for, first part

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ cat >> "$HGRCPATH" << EOF
  > [extensions]
  > strip =
  > share =
  > [alias]
  > names = log -r 'sort(all(), desc)' -T '{desc} {phase}: {bookmarks} {gitbranches} {gittags}\n'
  > EOF

A project has what changesets do not express: a signed commit, another encoding, a message without a line feed, a submodule, a
file of git-lfs. And a tag object, a note, and a branch.

  $ git init -q project && cd project
  $ printf 'hello\n' > greeting && git add greeting && git commit -qm 'a greeting'
  $ git tag -m 'the first' v1
  $ sign() { git hash-object -w -t commit --stdin; }
  $ (git cat-file commit HEAD | sed '/^$/,$d'; printf 'gpgsig -----BEGIN\n here\n -----END\n\nb signed') > signed
  $ sed -i "s/^tree.*/&\nparent $(git rev-parse HEAD)/" signed
  $ git update-ref refs/heads/main $(sign < signed) && rm signed
  $ printf 'version https://git-lfs.github.com/spec/v1\noid sha256:%064d\nsize 5\n' 0 > large
  $ printf '[submodule "x"]\n\tpath = x\n\turl = ../x\n' > .gitmodules
  $ git add large .gitmodules && git update-index --add --cacheinfo 160000,$(git rev-parse v1^{}),x
  $ git -c i18n.commitEncoding=ISO-8859-1 commit -qm "$(printf 'c caf\351')"
  $ git notes add -m 'a note' v1^{}
  $ git branch topic main~1
  $ cd ..

Nothing but amalgam and git is needed (wishes 1 and 17). Names of git are names here (4, 6, 12):

  $ hg clone -q project clone && cd clone
  $ hg --encoding utf-8 names
  a greeting public:   v1
  b signed public: topic default/topic 
  c caf\xc3\xa9 public: main default/main  (esc)
  $ cat large
  version https://git-lfs.github.com/spec/v1
  oid sha256:0000000000000000000000000000000000000000000000000000000000000000
  size 5
  $ git -C ../project rev-parse 'v1^{}' > ../id
  $ hg log -r v1 -T '{gitnode}\n' | diff - ../id

All ids come back, from the changesets alone (10, 13). So they do in a clone of the clone, which converts nothing (11):

  $ hg clone -q . ../second && cd ../second
  $ hg git::export -q && hg log -r 'sort(all(), desc)' -T '{gitnode}\n' > ../ids
  $ git -C ../project rev-list --reverse main | diff - ../ids
  $ cd ../clone

A pull after a strip brings the same changesets again (8):

  $ hg log -T '{node}\n' > ../before
  $ hg strip -q --no-backup main && hg pull -q && hg log -T '{node}\n' | diff - ../before
  $ hg update -q main

A share pulls and pushes as its source, and both see it:

  $ hg share -q . ../shared && cd ../shared
  $ git -C ../project commit -q --allow-empty -m 'd later'
  $ hg pull -q && hg log -r main -T '{desc} {gitbranches}\n'
  d later default/main
  $ hg -R ../clone log -r default/main -T '{desc} {gitnode|short}\n'
  d later 15ad1d38e899
  $ cd ../clone

A part of a history would have other nodes (14):

  $ git clone -q --depth 1 "file://$TESTTMP/project" ../shallow
  $ hg clone -q ../shallow ../part
  abort: '$TESTTMP/shallow' has only a part of its history
  (complete it there: git fetch --unshallow)
  [10]

Passwords do not belong into addresses; git's helpers have them, and its ssh command is used (7):

  $ hg identify 'git+https://me:secret@localhost/x'
  abort: the URL contains a password
  (leave it out; keep it in a credential helper of git (see 'git help credentials'))
  [10]
  $ GIT_SSH_COMMAND='echo reached >&2; false' hg identify git@localhost:x
  abort: git cannot read 'git@localhost:x': reached; Could not read from remote repository
  (see whether 'git ls-remote git@localhost:x' works)
  [100]

A path that is none is named as such:

  $ hg identify git+file://$TESTTMP/nothing
  abort: git cannot read 'file://$TESTTMP/nothing': '$TESTTMP/nothing' does not appear to be a git repository; Could not read from remote repository
  (see whether 'git ls-remote file://$TESTTMP/nothing' works)
  [100]

The map may be lost: the next pull makes it again, with the same nodes (3, 8).

  $ rm -r .hg/amalgam && hg pull -q && git -C ../project rev-parse main > ../id
  $ hg log -r main -T '{gitnode}\n' | diff - ../id

A branch that the remote has deleted takes its bookmark along, but no changesets. A branch that was wiped moves its bookmark back (19):

  $ git -C ../project checkout -q --orphan empty && git -C ../project commit -q -m 'e wiped'
  $ git -C ../project branch -q -f main empty && git -C ../project branch -q -D topic
  $ hg pull -q
  $ hg log -T '{desc|firstline} {bookmarks}\n' --encoding utf-8
  e wiped empty main
  d later 
  c caf\xc3\xa9  (esc)
  b signed 
  a greeting 

Beside hg-git, it has the git remotes, and one is told:

  $ echo > $TESTTMP/hggit.py
  $ hg --config extensions.hggit=$TESTTMP/hggit.py pull
  (git remotes are those of the extension hggit, not of amalgam)
  pulling from $TESTTMP/project
  abort: repository $TESTTMP/project not found
  [255]
