Long histories of git repositories: wishes of hg-git's users, third part

  $ . "$TESTDIR/testlib/amalgam.sh"

A program that prints the peak of memory, in MB, and the seconds of CPU that a command has taken with its children:

  $ cat > cost.py << EOF
  > import resource, subprocess, sys
  > subprocess.run(sys.argv[1:], check=True)
  > used = resource.getrusage(resource.RUSAGE_CHILDREN)
  > print(used.ru_maxrss >> 10, round(used.ru_utime + used.ru_stime, 1))
  > EOF
  $ cat > history.py << EOF
  > import sys
  > commits, size = map(int, sys.argv[1:])
  > for number in range(commits):
  >     text = b"%d\n" % number * (size // 5)
  >     who = b"test <test@example.org> %d +0000" % number
  >     sys.stdout.buffer.write(b"commit refs/heads/main\nauthor %s\ncommitter %s\n" % (who, who))
  >     sys.stdout.buffer.write(b"data 4\ntext\nM 100644 inline f%d\ndata %d\n%s\n" % (number % 9, len(text), text))
  > EOF
  $ made() { git init -q --bare $1 && "$PYTHON" history.py $2 $3 | git -C $1 fast-import --quiet; }

hg-git imports 65 to 134 commits a second, so 3,000 take 22 seconds of CPU at least. Here they take a few (wish 2):

  $ made many.git 3000 10
  $ "$PYTHON" cost.py hg clone -q -U many.git many > cost
  $ "$PYTHON" -c 'print(float(open("cost").read().split()[1]) < 10)'
  True
  $ hg -R many log -r tip -T '{rev}\n'
  2999

With too little memory for the ids of all objects, these are read from the index of the pack. The store is the same:

  $ hg clone -q -U many.git few --config amalgam.git.memory=1MB
  $ diff -r many/.hg/store few/.hg/store

A pull of nothing starts git once, to list the refs, and converts nothing:

  $ printf '#!/bin/sh\necho "$@" | grep -o "ls-remote\|fetch\|cat-file\|pack-objects" >> "$TESTTMP/calls"\nexec git "$@"\n' > traced
  $ chmod +x traced
  $ hg -R many pull -q && hg -R many pull -q --config "amalgam.git.program=$TESTTMP/traced"
  $ cat calls
  ls-remote

Memory does not grow with the history: 200 revisions of 1 MB, each with a new text (3):

  $ made large.git 200 1000000
  $ "$PYTHON" cost.py hg clone -q -U large.git large --config amalgam.git.memory=32MB > cost
  $ "$PYTHON" -c 'print(int(open("cost").read().split()[0]) < 120)'
  True
  $ hg -R large verify -q

A pull that ends early keeps whole batches. The next one goes on after them (3). A batch is 10,000 commits, here 1,000:

  $ cat > batches.py << EOF
  > from hgext3rd.amalgam.receive import importing
  > importing.ImportSettings._field_defaults.update(batch=1000, first_batch=1000)
  > EOF
  $ hg init parts && cd parts
  $ hg pull -q ../many.git --config extensions.batches=../batches.py \
  >   --config 'hooks.pretxnclose.second=echo >> ../begun; test $(wc -l < ../begun) -lt 2'
  transaction abort!
  rollback completed
  abort: pretxnclose.second hook exited with status 1
  [40]
  $ hg log -r tip -T '{rev}\n'
  999
  $ hg pull -q ../many.git && hg log -r tip -T '{node}\n'  > ../nodes
  $ hg -R ../many log -r tip -T '{node}\n' | diff ../nodes -

More commits than the limit are refused as a whole, and hg says which item to set. The next run goes on (3):

  $ cd ..
  $ hg clone -q -U many.git most --config amalgam.git.max-pull-commits=2999
  abort: more than 2999 commits are new
  (see 'hg help config.amalgam.git.max-pull-commits')
  [10]
  $ hg init most && cd most
  $ hg incoming -q ../many.git --config amalgam.git.max-pull-commits=2999
  abort: more than 2999 commits are new
  (see 'hg help config.amalgam.git.max-pull-commits')
  [10]
  $ hg pull -q ../many.git --config amalgam.git.max-pull-commits=2999
  abort: more than 2999 commits are new
  (see 'hg help config.amalgam.git.max-pull-commits')
  [10]
  $ hg pull -q ../many.git --config amalgam.git.max-pull-commits=3000
  $ hg log -r tip -T '{node}\n' | diff ../nodes -
  $ cd ..
  $ git -C many.git tag -a -m more more && hg -R most pull -q many.git --config amalgam.git.max-pull-commits=1
  $ "$PYTHON" history.py 3002 10 | git -C many.git fast-import --quiet --force
  $ hg -R most pull -q many.git --config amalgam.git.max-pull-commits=1
  abort: more than 1 commits are new
  (see 'hg help config.amalgam.git.max-pull-commits')
  [10]
  $ hg -R most pull -q many.git --config amalgam.git.max-pull-commits=2

Commits that change more files than the memory allows are imported some at a time (3):

  $ cat > broad.py << EOF
  > for commit in range(300):
  >     print(f"commit refs/heads/main\\ncommitter a <a@example.org> {commit} +0000\\ndata 0")
  >     for number in range(40):
  >         print(f"M 100644 inline {number}\\ndata <<.\\n{commit}\\n.")
  > EOF
  $ git init -q --bare broad.git && "$PYTHON" broad.py | git -C broad.git fast-import --quiet
  $ hg clone -q -U broad.git broad
  $ cat > begun.py << EOF
  > from hgext3rd.amalgam.receive import importing
  > def begin(orig, repo, git, oids, *args):
  >     count = orig(repo, git, oids, *args)
  >     repo.ui.write(b"%d commits\n" % count)
  >     return count
  > from mercurial import extensions
  > def extsetup(ui):
  >     extensions.wrapfunction(importing, "_import", begin)
  > EOF
  $ hg clone -U broad.git halves --config amalgam.git.memory=1MB --config extensions.begun=begun.py | grep -c commits
  2
  $ hg -R broad log -T '{node}\n' > nodes && hg -R halves log -T '{node}\n' | diff nodes -
  $ hg -R halves verify -q

One commit that does is refused:

  $ cat > wide.py << EOF
  > print("commit refs/heads/main\\ncommitter a <a@example.org> 1 +0000\\ndata 0")
  > for number in range(30000):
  >     print(f"M 100644 inline {number}\\ndata 0")
  > EOF
  $ git init -q --bare wide.git && "$PYTHON" wide.py | git -C wide.git fast-import --quiet
  $ hg clone -q -U wide.git wide --config amalgam.git.memory=1MB
  abort: commit * changes more files than amalgam.git.memory allows (glob)
  (raise amalgam.git.memory where hg runs)
  [10]
  $ hg init wide
  $ hg -R wide incoming -q wide.git --config amalgam.git.memory=1MB
  abort: commit * changes more files than amalgam.git.memory allows (glob)
  (raise amalgam.git.memory where hg runs)
  [10]
  $ hg -R wide pull -q wide.git
