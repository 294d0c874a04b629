Files that git can clone

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ hg init project && cd project
  $ printf 'hello\n' > greeting && hg commit -qAm 'a greeting'
  $ printf 'hello, world\n' > greeting && hg commit -qm 'to everybody'
  $ hg tag -q -r 1 v1
  $ hg phase --public .

A bundle has what a git client would get from this repository. It is exported first:

  $ hg git::bundle ../project.bundle
  bundled 3 changesets: 9 objects, * bytes in * seconds (glob)
  $ git clone -q ../project.bundle ../clone
  $ git -C ../clone log --format='%s%d'
  Added tag v1 for changeset * (HEAD -> default, origin/default, origin/HEAD) (glob)
  to everybody (tag: v1)
  a greeting

What was added since a release:

  $ printf 'bye\n' > farewell && hg commit -qAm 'a farewell'
  $ hg git::bundle --base v1 ../newer.bundle -T '{changesets} {type}\n{refs % "{ref} {oid}\n"}'
  2 git-v2
  HEAD [0-9a-f]{40} (re)
  refs/heads/default [0-9a-f]{40} (re)
  $ git -C ../clone pull -q ../newer.bundle default && cat ../clone/farewell
  bye

A part of the history has the branches of a clone of it:

  $ hg git::bundle -q -r 0 ../old.bundle
  $ git bundle list-heads ../old.bundle
  [0-9a-f]{40} HEAD (re)
  [0-9a-f]{40} refs/heads/default (re)

git-cinnabar starts from a bundle of another type, which has what it knows of changesets:

  $ hg git::bundle -t cinnabar-v1 ../cinnabar.bundle
  bundled 4 changesets: * objects, * KB in * seconds (glob)
  $ git bundle list-heads ../cinnabar.bundle
  [0-9a-f]{40} refs/cinnabar/metadata (re)
  $ hg git::bundle -t cinnabar-v1 --base 0 ../cinnabar.bundle
  abort: bundles of type 'cinnabar-v1' cannot be based on others
  (git-cinnabar reads complete bundles only; use type 'git-v2')
  [10]

Secret changesets are in none:

  $ printf 'secret\n' > plan && hg commit -qAm 'a plan' --secret
  $ hg git::bundle -T '{changesets}\n' ../again.bundle
  4
  $ hg git::bundle -r . ../secret.bundle
  abort: changeset [0-9a-f]{12} may not be bundled (re)
  (bundles contain no secret or hidden changesets)
  [10]
  $ test -e ../secret.bundle
  [1]

Nothing is written if there is nothing to bundle, or no place for it:

  $ hg git::bundle --base 'not secret()' ../nothing.bundle
  abort: no changesets to bundle
  [10]
  $ hg git::bundle -t git-v3 ../nothing.bundle
  abort: unknown type of git bundle: 'git-v3'
  (allowed: git-v2, cinnabar-v1)
  [10]
  $ test -e ../nothing.bundle
  [1]
  $ hg git::bundle nowhere/to.bundle
  abort: * '$TESTTMP/project/nowhere/to.bundle' (glob)
  [255]
