Pushes to git repositories: what hg-git's users wish for, second part

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ cat >> "$HGRCPATH" << EOF
  > [experimental]
  > evolution = all
  > EOF
  $ git init -q --bare project.git
  $ TREE=$(git -C project.git mktree < /dev/null)
  $ git -C project.git update-ref refs/heads/main $(git -C project.git commit-tree -m one $TREE)
  $ refs() { git -C $TESTTMP/project.git for-each-ref --format='%(refname) %(subject)'; }
  $ hg clone -q project.git clone && cd clone

Only branches that the remote has are pushed, and none that nobody has named (wishes 4 and 5):

  $ echo 1 > a && hg commit -qAm two
  $ hg bookmark private && echo 2 > a && hg commit -qm three
  $ hg push
  pushing to $TESTTMP/project.git
  updating branch main
  $ refs
  refs/heads/main two
  $ hg push -B private
  pushing to $TESTTMP/project.git
  adding branch private
  $ hg push -b private
  pushing to $TESTTMP/project.git
  abort: unknown branch 'private'
  (branches of git are bookmarks here: hg push -B private)
  [10]

What was amended replaces what it was, without force, and without losing anything of others (9):

  $ echo 3 > a && hg commit -q --amend -m 'three again'
  $ hg outgoing -q -T '{desc}\n'
  three again
  $ hg push
  pushing to $TESTTMP/project.git
  updating branch private
  $ git -C ../project.git update-ref refs/heads/private $(git -C ../project.git commit-tree -m theirs -p private $TREE)
  $ hg commit -q --amend -m 'three at last'
  $ hg push
  pushing to $TESTTMP/project.git
  branch 'private' is not pushed: the remote has commit 5387203e068d, which is not here
  (pull first, and merge or rebase)
  [2]

Secret changesets stay here, with their tags (9):

  $ hg update -q main && echo 4 > a && hg commit -q --secret -m hidden && hg tag -l seen
  $ hg push -B main
  pushing to $TESTTMP/project.git
  branch 'main' is not pushed: changeset 236befb39adc is secret
  (hg phase --draft -r 236befb39adc, if others may see it)
  [2]
  $ refs
  refs/heads/main two
  refs/heads/private theirs

Tags are pushed where asked, and do not move (6):

  $ hg phase -d . && hg tag v1 -m 'a tag' && hg push -q --config amalgam.git.push-tags=yes
  branch 'private' is not pushed: the remote has commit 5387203e068d, which is not here
  (pull first, and merge or rebase)
  [2]
  $ refs
  refs/heads/main a tag
  refs/heads/private theirs
  refs/tags/v1 hidden
  $ hg push --config amalgam.git.push-tags=yes
  pushing to $TESTTMP/project.git
  branch 'private' is not pushed: the remote has commit 5387203e068d, which is not here
  (pull first, and merge or rebase)
  [2]
  $ git -C ../project.git tag -f v1 main~3
  Updated tag 'v1' (was f37c2f5)
  $ hg push --config amalgam.git.push-tags=yes
  pushing to $TESTTMP/project.git
  branch 'private' is not pushed: the remote has commit 5387203e068d, which is not here
  (pull first, and merge or rebase)
  tag 'v1' is not pushed: the remote has it on commit bf1a26f59bc6
  (tags of git do not move; use another name)
  [2]

A branch goes when its bookmark is gone, by name only (19):

  $ hg bookmark -d private
  $ hg push
  pushing to $TESTTMP/project.git
  no changes found
  [1]
  $ hg push -f -B private
  pushing to $TESTTMP/project.git
  deleting branch private
  $ refs
  refs/heads/main a tag
  refs/tags/v1 one

A path that hosts refuse is named (15):

  $ git -C ../project.git config receive.fsckObjects true
  $ mkdir -p x/.git && echo 5 > x/.git/config && hg commit -qAm nested
  $ hg push
  pushing to $TESTTMP/project.git
  branch 'main' is not pushed: *hasDotgit* (glob)
  (git servers refuse x/.git/config, which changeset * has) (glob)
  [2]
  $ hg --config extensions.strip= strip -q --no-backup .

A repository with a working copy refuses in its own words (16):

  $ git clone -q ../project.git ../work
  $ echo 5 > a && hg commit -qm five
  $ hg push ../work
  pushing to ../work
  branch 'main' is not pushed: branch is currently checked out
  (the remote does not allow it; ask who runs it)
  [2]
