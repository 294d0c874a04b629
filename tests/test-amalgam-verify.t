The git repository against the history: what differs is named, and can be mended

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ hg init repo && cd repo

Before the first export there is nothing to check:

  $ hg git::verify
  abort: nothing is exported yet
  (run 'hg git::export')
  [20]

  $ for n in 0 1 2; do echo $n > file; hg commit -qAm "change $n" -d "$n 0"; done
  $ hg bookmark -r 1 work
  $ hg git::export
  exported 3 changesets: 18 objects, * in * seconds (glob)
  2 refs changed
  git repository: $TESTTMP/repo/.hg/amalgam/git/cinnabar.git
  $ hg git::verify
  checked 3 changesets, 15 objects, 2 refs, 2 packs
  no differences
  $ hg git::verify --full
  checked 3 changesets, 15 objects, 2 refs, 2 packs
  no differences

  $ hg git::verify -T json
  [
   {
    "changesets": 3,
    "differences": [],
    "full": false,
    "notes": [],
    "objects": 15,
    "packs": 2,
    "path": "$TESTTMP/repo/.hg/amalgam/git/cinnabar.git",
    "refs": 2,
    "unreachable": 0
   }
  ]

A push into the git repository is refused:

  $ git clone -q .hg/amalgam/git/cinnabar.git ../clone && cd ../clone
  $ git checkout -q work && echo theirs > file && git commit -qam theirs
  $ git push -q origin work 2>&1 | grep remote: | sed 's/ *$//'
  remote: this repository is read-only for git
  remote: (push with Mercurial to '$TESTTMP/repo' instead)

Somebody fetches into it instead. That hides a branch of ours, and brings objects that we have not
written:

  $ cd ../repo
  $ git -C .hg/amalgam/git/cinnabar.git fetch -q ../../../../../clone work:work
  $ hg git::verify
  object 365ffec33a7fcf1dad793368e3f08f781ecd8a41: found a file that amalgam did not write, expected nothing
  object 82c78a0da5368a5eb5f2af8eee1ffb7870cdc516: found a file that amalgam did not write, expected nothing
  object 950b81b7eee953d050aa05a641f8e056c85dd1bd: found a file that amalgam did not write, expected nothing
  loose ref refs/heads/work: found '82c78a0da5368a5eb5f2af8eee1ffb7870cdc516', expected no file of that name
  checked 3 changesets, 15 objects, 2 refs, 2 packs
  4 differences
  (run 'hg admin::amalgam --repair')
  [1]
  $ hg git::verify -T '{differences % "{what} {id}\n"}'
  object 365ffec33a7fcf1dad793368e3f08f781ecd8a41
  object 82c78a0da5368a5eb5f2af8eee1ffb7870cdc516
  object 950b81b7eee953d050aa05a641f8e056c85dd1bd
  loose ref refs/heads/work
  [1]

It goes away with a repair:

  $ hg admin::amalgam --repair | sed '/^$/,$d'
  repaired: object 365ffec33a7fcf1dad793368e3f08f781ecd8a41: found a file that amalgam did not write, expected nothing
  repaired: object 82c78a0da5368a5eb5f2af8eee1ffb7870cdc516: found a file that amalgam did not write, expected nothing
  repaired: object 950b81b7eee953d050aa05a641f8e056c85dd1bd: found a file that amalgam did not write, expected nothing
  repaired: loose ref refs/heads/work: found '82c78a0da5368a5eb5f2af8eee1ffb7870cdc516', expected no file of that name
  $ hg git::verify
  checked 3 changesets, 15 objects, 2 refs, 2 packs
  no differences

A disk has lost some bytes of a pack. What depends on them is not looked at:

  $ chmod u+w .hg/amalgam/git/cinnabar.git/objects/pack/*.pack
  $ printf 'oops' | dd of=`ls .hg/amalgam/git/cinnabar.git/objects/pack/*.pack | head -n 1` bs=1 seek=40 conv=notrunc 2> /dev/null
  $ hg git::verify
  pack pack-*.pack: found a damaged file, expected a whole file (glob)
  note: objects: not compared, because something they depend on is damaged
  checked 3 changesets, 0 objects, 2 refs, 2 packs
  1 difference
  (run 'hg admin::amalgam --repair')
  [1]
  $ hg admin::amalgam --repair | sed '/^$/,$d'
  repaired: pack pack-*.pack: found a damaged file, expected a whole file (glob)
  $ hg git::verify --full
  checked 3 changesets, 15 objects, 2 refs, 2 packs
  no differences

A changeset that is served but not exported differs, too. That takes an export only:

  $ echo 3 > file && hg commit -qm 'change 3' -d '3 0'
  $ hg git::verify
  changeset 9d3176e3efd3bce9e8a2b64e08531bf5b26954fe: found nothing, expected a commit
  ref refs/heads/default: found 1e305612e690c9064d854cc9d5b3ad568152f845, expected the commit of changeset 9d3176e3efd3bce9e8a2b64e08531bf5b26954fe, which is not exported yet
  checked 4 changesets, 15 objects, 2 refs, 2 packs
  2 differences
  (run 'hg git::export')
  [1]
  $ hg git::export
  exported 1 changeset: 6 objects, * in * seconds (glob)
  1 ref changed
  git repository: $TESTTMP/repo/.hg/amalgam/git/cinnabar.git
  $ hg git::verify
  checked 4 changesets, 20 objects, 2 refs, 3 packs
  no differences

One that is secret by now should no longer be there:

  $ hg phase --force --secret tip
  $ hg git::verify
  changeset 9d3176e3efd3bce9e8a2b64e08531bf5b26954fe: found commit 37781a850ae84f9f2da053a16b44ca2c58bffb03, expected nothing, because it is not served
  ref refs/heads/default: found 37781a850ae84f9f2da053a16b44ca2c58bffb03, expected 1e305612e690c9064d854cc9d5b3ad568152f845
  checked 3 changesets, 20 objects, 2 refs, 3 packs
  2 differences
  (run 'hg git::export')
  [1]
  $ hg admin::amalgam --repair | sed '/^$/,$d'
  repaired: changeset 9d3176e3efd3bce9e8a2b64e08531bf5b26954fe: found commit 37781a850ae84f9f2da053a16b44ca2c58bffb03, expected nothing, because it is not served
  repaired: ref refs/heads/default: found 37781a850ae84f9f2da053a16b44ca2c58bffb03, expected 1e305612e690c9064d854cc9d5b3ad568152f845
  $ hg git::verify
  checked 3 changesets, 15 objects, 2 refs, 2 packs
  no differences

Names that git refuses are exported, since the ids depend on them. They are noted, and so
are changesets that no ref leads to:

  $ hg update -q 0
  $ mkdir .git && echo config > .git/config && hg commit -qAm 'odd name' -d '4 0'
  $ hg update -q 1
  $ echo 5 > file && hg commit -qm 'change 5' -d '5 0'
  $ hg git::export
  exported 2 changesets: * (glob)
  1 ref changed
  no ref leads to 1 changeset in 1 head
  (add 'heads' to amalgam.git.refs to name them)
  warning: git refuses to check out commits with 1 file, because of the names: .git/config
  (rename them; until then, git users type: git clone -c core.protectNTFS=false --no-checkout URL clone && git -C clone checkout HEAD -- . ':(exclude,icase,glob)**/.git' ':(exclude,icase,glob)**/.git/**')
  git repository: $TESTTMP/repo/.hg/amalgam/git/cinnabar.git
  $ hg git::verify --full
  note: refs: no ref leads to 2 changesets in 2 heads
  note: file .git/config: git refuses to check out this name
  note: tree 22f7f0a141f786326481a25ff725bbecd94673bf: hasDotgit: contains '.git'
  checked 5 changesets, 25 objects, 2 refs, 3 packs
  no differences
