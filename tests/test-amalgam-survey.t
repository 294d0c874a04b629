Which commits of a git repository could be pushed into Mercurial

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ git init -q -b main project && cd project
  $ printf 'hello\n' > greeting && git add greeting
  $ git commit -qm 'a greeting'
  $ printf 'bye\n' > farewell && git add farewell
  $ git commit -qm 'a farewell'
  $ cd ..

Nothing stands in the way here. The command needs no Mercurial repository:

  $ hg git::survey project
  2 of 2 commits would survive a push into Mercurial

A submodule cannot be pushed. What comes after it cannot, either, since its parent would have another id:

  $ git -C project update-index --add --cacheinfo 160000,1111111111111111111111111111111111111111,vendor/lib
  $ git -C project commit -qm 'a submodule'
  $ git -C project update-index --force-remove vendor/lib
  $ git -C project commit -qm 'without it'
  $ hg git::survey project
  2 of 4 commits would survive a push into Mercurial
  4 with amalgam.git.push-exact: 0 need git.commit, 2 git.tree
         1 submodule: the tree has a submodule
           first: 653ee32340556bc54d3769277fa059a73af8a6f5 (vendor/lib)
         1 ancestor: an ancestor cannot be pushed
           first: [0-9a-f]{40} (re)
  [1]

Each of them is listed on request:

  $ hg git::survey project main~1..main
  1 of 1 commit would survive a push into Mercurial
  $ hg git::survey --commits project main~2..main
  0 of 2 commits would survive a push into Mercurial
  2 with amalgam.git.push-exact: 0 need git.commit, 2 git.tree
         1 submodule: the tree has a submodule
           first: 653ee32340556bc54d3769277fa059a73af8a6f5 (vendor/lib)
         1 ancestor: an ancestor cannot be pushed
           first: [0-9a-f]{40} (re)
  653ee32340556bc54d3769277fa059a73af8a6f5 submodule
  [0-9a-f]{40} ancestor (re)
  [1]

Programs read JSON, or what a template makes:

  $ hg git::survey -T json project main~2 | grep -v -E 'seconds|path'
  [
   {
    "commit_extras": 0,
    "commits": 2,
    "exact_survivors": 2,
    "findings": [],
    "refused": 0,
    "survivors": 2,
    "tree_extras": 0,
    "trees": 2
   }
  ]
  $ hg git::survey -T '{survivors}/{commits}{findings % " {reason} {commits} {detail}"}\n' project
  2/4 submodule 1 vendor/lib ancestor 1 
  [1]

Revisions are those of git, and nothing else:

  $ hg git::survey project -- --all
  abort: '--all' is not a revision of git
  (see gitrevisions(7))
  [10]
  $ hg git::survey project nothing
  abort: git cannot read 'project': bad revision 'nothing'
  [10]
  $ hg git::survey nowhere
  abort: 'nowhere' is not a git repository
  (name the directory that has 'objects' and 'HEAD')
  [10]
