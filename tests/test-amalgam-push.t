A git repository elsewhere follows this one

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ hg init repo && cd repo
  $ printf 'hello\n' > greeting && hg commit -qAm 'a greeting' -d '0 0'
  $ hg bookmark -i feature
  $ git init -q --bare ../mirror.git

The first push needs a repository without branches and tags:

  $ hg git::push ../mirror.git
  $TESTTMP/mirror.git: 2 new
    new      refs/heads/default * (glob)
    new      refs/heads/feature * (glob)

Only changes are sent, and nothing is asked without one:

  $ printf 'bye\n' > farewell && hg commit -qAm 'a farewell' -d '1 0'
  $ hg git::push ../mirror.git
  $TESTTMP/mirror.git: 1 moved
    moved    refs/heads/default *..* (glob)
  $ mv ../mirror.git ../away.git
  $ hg git::push ../mirror.git
  $TESTTMP/mirror.git: up to date
  $ mv ../away.git ../mirror.git

A bookmark that is gone here stays there, unless it is pruned:

  $ hg bookmark -d feature
  $ hg git::push ../mirror.git
  $TESTTMP/mirror.git: 1 kept
    kept     refs/heads/feature * (glob)
  $ hg git::push --dry-run --prune ../mirror.git
  $TESTTMP/mirror.git: would be: 1 deleted
    deleted  refs/heads/feature * (glob)
  $ hg git::push --prune ../mirror.git
  $TESTTMP/mirror.git: 1 deleted
    deleted  refs/heads/feature * (glob)

Remotes have names in the configuration. Refs of others are refused:

  $ git init -q --bare ../taken.git
  $ git -C .hg/amalgam/git/cinnabar.git push -q $TESTTMP/taken.git refs/heads/default:refs/heads/theirs
  $ cat >> .hg/hgrc << EOF
  > [amalgam]
  > replicate.mirror = ../mirror.git
  > replicate.taken = ../taken.git
  > EOF
  $ hg git::push taken
  $TESTTMP/taken.git: nothing was pushed
  push to taken failed: the remote has 1 ref that this repository did not write: refs/heads/theirs
  (run 'hg git::push --adopt taken' to take over those that are equal or behind, if nobody else writes them)
  [2]
  $ hg git::push ../nowhere.git
  $TESTTMP/nowhere.git: nothing was pushed
  push to $TESTTMP/nowhere.git failed: '$TESTTMP/nowhere.git' does not appear to be a git repository; Could not read from remote repository.
  (try 'git ls-remote' with the same URL, as the same user)
  [2]
  $ hg git::push --adopt taken
  $TESTTMP/taken.git: 1 new
    new      refs/heads/default * (glob)
  $ hg git::push --all -T '{remote} {status}\n'
  mirror equal
  taken equal

A remote is compared without writing to it:

  $ git -C ../taken.git update-ref -d refs/heads/default
  $ hg git::push --check taken
  $TESTTMP/taken.git: 1 differs
    differs  refs/heads/default * (glob)
  [1]

Secrets do not belong in URLs:

  $ hg git::push https://me:secret@example.org/project
  abort: the URL contains a password
  (leave it out; keep it in a credential helper of git (see 'git help credentials'))
  [10]
  $ hg git::push elsewhere
  abort: unknown remote 'elsewhere'
  (known names: mirror, taken)
  [10]
