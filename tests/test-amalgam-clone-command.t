What a git user has to type

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ hg init project && cd project
  $ echo one > file && hg commit -qAm 'public work' -d '0 0' && hg phase --public .

Before the first export there is nothing to clone:

  $ hg git::clone-command
  abort: there is nothing that git could clone
  (run 'hg git::export', or set amalgam.git.serve = yes)
  [20]

Then users of this machine can clone, and others are not served. The command works:

  $ hg git::export -q
  $ hg git::clone-command > ../command
  warning: git clients of other machines are not served
  (set amalgam.git.serve = yes in .hg/hgrc)
  $ cat ../command
  git clone $TESTTMP/project/.hg/amalgam/git/cinnabar.git project
  $ cd .. && mkdir here && cd here && sh -c "$(cat ../command)" 2> /dev/null && ls && cd ../project
  project
  $ hg git::clone-command https://example.org/project
  abort: git clients are not served from this repository
  (set amalgam.git.serve = yes in its .hg/hgrc)
  [20]

hgweb knows its address only when somebody asks for a page, so the command needs it:

  $ cat >> .hg/hgrc << EOS
  > [amalgam]
  > git.serve = yes
  > EOS
  $ hg git::clone-command
  warning: the address for users of other machines is not known
  (add it, or --web-conf FILE; see 'hg help git::clone-command')
  git clone $TESTTMP/project/.hg/amalgam/git/cinnabar.git project
  $ hg git::clone-command https://example.org/project
  git clone https://example.org/project

An address of Mercurial's over ssh is relative to a home directory, git's is not. A
password is nobody else's business:

  $ hg git::clone-command ssh://hg@example.org:22//srv/project
  git clone ssh://hg@example.org:22/srv/project
  $ hg git::clone-command ssh://hg@example.org/project
  git clone 'ssh://hg@example.org/~/project'
  $ hg git::clone-command https://me:secret@example.org/project
  git clone https://example.org/project
  $ hg git::clone-command "https://example.org/it's here"
  git clone 'https://example.org/it'"'"'s%20here'

  $ hg git::clone-command /srv/project
  abort: not an address that git can clone from: '/srv/project'
  (name one with http://, https:// or ssh://)
  [10]

web.baseurl is the address of this repository only where no other one reads it:

  $ cat >> $HGRCPATH << EOS
  > [web]
  > baseurl = https://everything.example.org/
  > EOS
  $ hg git::clone-command -q 2>&1 | grep warning
  warning: the address for users of other machines is not known
  $ cat >> .hg/hgrc << EOS
  > [web]
  > baseurl = https://example.org/code/project/
  > EOS
  $ hg git::clone-command
  git clone https://example.org/code/project

The configuration of an hgweb with many repositories has the address, too:

  $ cat > ../hgweb.conf << EOS
  > [paths]
  > /in = $TESTTMP/*
  > [web]
  > baseurl = https://hg.example.org/root
  > EOS
  $ hg git::clone-command --web-conf ../hgweb.conf
  git clone https://hg.example.org/root/in/project

Elsewhere, it prints all that git clients may clone there:

  $ hg clone -q . ../unserved && hg clone -q -U . ../second
  $ cp .hg/hgrc ../second/.hg/
  $ cd .. && hg git::clone-command --web-conf hgweb.conf
  warning: nothing is exported yet
  (run 'hg git::export', or the first clone has to wait)
  warning: 'in/unserved' is left out: git clients are not served from this repository
  git clone https://hg.example.org/root/in/project
  git clone https://hg.example.org/root/in/second
  $ hg git::clone-command https://example.org/project
  abort: there is no Mercurial repository here (.hg not found)
  (name one with -R, or the configuration of hgweb with --web-conf)
  [10]
  $ printf '[web]\nbaseurl = https://hg.example.org\n[paths]\n/unserved = %s\n' "$TESTTMP/unserved" > none.conf
  $ hg git::clone-command --web-conf none.conf
  warning: 'unserved' is left out: git clients are not served from this repository
  [1]
  $ rm -r unserved second && cd project

  $ hg git::clone-command --web-conf ../hgweb.conf https://example.org/
  abort: cannot specify both --web-conf and an address
  [10]
  $ printf '[paths]\n/ = %s\n' "$TESTTMP/here/*" > ../hgweb.conf
  $ hg git::clone-command --web-conf ../hgweb.conf
  abort: hgweb with this configuration does not serve this repository: '../hgweb.conf'
  (see [paths] in it, and 'hg help hgweb')
  [10]
  $ printf '[paths]\n/ = %s\n' "$TESTTMP/*" > ../hgweb.conf
  $ HGRCPATH=/dev/null hg git::clone-command --web-conf ../hgweb.conf --config extensions.amalgam= --config ui.detailed-exit-code=yes
  config error: web.baseurl is not set in '../hgweb.conf'
  (set it to the address of hgweb)
  [30]

With bundles, there are commands that start with them:

  $ cat >> .hg/hgrc << EOS
  > [extensions]
  > clonebundles =
  > [clone-bundles]
  > git.formats = git-v2
  > EOS
  $ hg admin::clone-bundles-refresh -q > /dev/null
  $ hg git::clone-command
  git clone https://example.org/code/project
  git clone --bundle-uri=https://example.org/code/project/amalgam/bundles/bundles.list https://example.org/code/project
  $ hg git::clone-command --config amalgam.serve.bundle-uri=yes -T json
  [
   {
    "bundles_url": "",
    "command": "git clone https://example.org/code/project",
    "transport": "https",
    "url": "https://example.org/code/project"
   },
   {
    "bundles_url": "https://example.org/code/project/amalgam/bundles/bundles.list",
    "command": "git clone --bundle-uri=https://example.org/code/project/amalgam/bundles/bundles.list https://example.org/code/project",
    "transport": "https",
    "url": "https://example.org/code/project"
   },
   {
    "bundles_url": "",
    "command": "git -c transfer.bundleURI=true clone https://example.org/code/project",
    "transport": "https",
    "url": "https://example.org/code/project"
   }
  ]

What is printed before the first export does not work at once:

  $ rm -r .hg/amalgam
  $ hg git::clone-command
  warning: nothing is exported yet
  (run 'hg git::export', or the first clone has to wait)
  git clone https://example.org/code/project
