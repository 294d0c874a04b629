Ids of changesets and of git commits, translated both ways

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ hg init repo && cd repo
  $ hg debugbuilddag +12

Nothing is exported yet, and that is what one is told:

  $ hg git::id 1ea73414a91b
  abort: unknown revision '1ea73414a91b'
  (nothing is exported yet: run 'hg git::export')
  [10]

  $ hg git::export
  exported 12 changesets: 25 objects, * in * seconds (glob)
  1 ref changed
  git repository: $TESTTMP/repo/.hg/amalgam/git/cinnabar.git
  $ hg log -r '0:3' -T '{node} {gitnode}\n'
  1ea73414a91b0920940797d8fc6a11e447f8ea1e cfffb15dae120b4db84a37e6a51e248fa48130f4
  66f7d451a68b85ed82ff5fcc254daf50c74144bd 95959c8f0bfdefe2a344a9709707a468cd253203
  01241442b3c2bf3211e593b549c655ea65b295e3 b9a2eb3ab12d657b080c07af6e4dbb3166906067
  2dc09a01254db841290af0538aa52f6f52c776e3 16d2f4e17ba8fbb06c06b3f52fc18726b73a1465

The id of a changeset gives that of its commit, and the other way round. Both may be
abbreviated:

  $ hg git::id 1ea73414a91b
  cfffb15dae120b4db84a37e6a51e248fa48130f4
  $ hg git::id cfffb15dae12
  1ea73414a91b0920940797d8fc6a11e447f8ea1e
  $ hg git::id -T '{id}: {node|short} {gitnode|short}\n' 1ea cff
  1ea: 1ea73414a91b cfffb15dae12
  cff: 1ea73414a91b cfffb15dae12
  $ hg git::id -T json 1ea
  [
   {
    "gitnode": "cfffb15dae120b4db84a37e6a51e248fa48130f4",
    "id": "1ea",
    "node": "1ea73414a91b0920940797d8fc6a11e447f8ea1e",
    "status": "found"
   }
  ]

What is unknown or ambiguous is told as hg tells it, and does not withhold the others:

  $ hg git::id 1ea 123456
  cfffb15dae120b4db84a37e6a51e248fa48130f4
  warning: unknown revision '123456'
  [1]
  $ hg git::id 123456
  abort: unknown revision '123456'
  [10]
  $ hg log -r 123456
  abort: unknown revision '123456'
  [10]
  $ hg git::id 6
  abort: ambiguous revision identifier: 6
  (it may be changeset 66f7d451a68b85ed82ff5fcc254daf50c74144bd or commit 668cc0c1d00d2472477af5dc6998e5866ba7740c)
  [10]
  $ hg git::id
  abort: no id given
  (name some, or use --stdin; see 'hg help git::id')
  [10]
  $ hg git::id --stdin 0
  abort: cannot specify both --stdin and ids
  [10]

Many ids go through standard input, one a line, and answers come in their order:

  $ printf '1ea\n6\nnonsense\n' | hg git::id --stdin
  cfffb15dae120b4db84a37e6a51e248fa48130f4
  6 ambiguous
  nonsense unknown
  [1]
  $ hg log -T '{node}\n' > nodes
  $ hg git::id --stdin < nodes | hg git::id --stdin | cmp - nodes

In revsets, gitnode() finds the changeset of a commit:

  $ hg log -r 'gitnode(cfffb15dae12)' -T '{rev}\n'
  0
  $ hg log -r 'gitnode(1234)'
  $ hg log -r 'gitnode(b)'
  abort: ambiguous revision identifier: b
  (it may be commit b6712e42b36f037f65726ecb61e9d568e04c6749 or commit b695038ec41f47030bd18d2377aed11c08ac00dc)
  [10]
  $ hg log -r 'gitnode()'
  hg: parse error: gitnode requires one argument
  [10]

Secret changesets are not exported, and have no id in git:

  $ hg update -q tip
  $ echo secret > file && hg commit -qAm secret --secret -d '1 0'
  $ hg git::export
  nothing new to export
  $ hg git::id tip
  abort: unknown revision 'tip'
  (to translate a name, run 'hg log -r tip -T {gitnode}')
  [10]
  $ hg git::id `hg log -r tip -T '{node|short}'`
  abort: unknown revision '22948b6fd67c'
  (changeset 22948b6fd67c may not be exported)
  [10]
  $ hg log -r tip -T '{rev} "{gitnode}"\n'
  12 ""

Nor has the working directory:

  $ hg log -r 'wdir()' -T '"{gitnode}"\n'
  ""

hg-git has names that are the same. When it is there, they are its own; who uses them is
told so, once:

  $ cat > ../hggit.py << EOS
  > from mercurial import exthelper
  > eh = exthelper.exthelper()
  > revsetpredicate = eh.revsetpredicate
  > templatekeyword = eh.templatekeyword
  > @eh.revsetpredicate(b'gitnode')
  > def revset(repo, subset, x):
  >     return subset & [1]
  > @eh.templatekeyword(b'gitnode', requires={b'ctx'})
  > def keyword(context, mapping):
  >     return b'hg-git knows'
  > EOS
  $ hg log -r 'gitnode(0)' -T '{rev}: {gitnode}, {gitnode}\n' --config extensions.hggit=../hggit.py
  warning: {gitnode} and gitnode() are those of hg-git, not of amalgam
  (use 'hg git::id' for the ids of amalgam's git repository)
  1: hg-git knows, hg-git knows
  $ hg id --config extensions.hggit=../hggit.py
  22948b6fd67c tip
  $ hg git::id 1ea7 --config extensions.hggit=../hggit.py
  cfffb15dae120b4db84a37e6a51e248fa48130f4
  $ hg log -r 0 -T '{gitnode}\n' --config extensions.hggit=!
  cfffb15dae120b4db84a37e6a51e248fa48130f4
