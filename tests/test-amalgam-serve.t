hgweb serves git beside Mercurial

  $ . "$TESTDIR/testlib/amalgam.sh"
  $ hg init project && cd project
  $ echo one > file && hg commit -qAm 'public work' -d '0 0' && hg phase --public .
  $ echo two > file && hg commit -qm 'secret work' -d '1 0' --secret

A git user who tries it gets a sentence that says what to ask for:

  $ hg serve -d -a localhost -p $HGPORT --pid-file=hg.pid
  listening at http://localhost:$HGPORT/ (bound to 127.0.0.1:$HGPORT) (?)
  $ cat hg.pid >> $DAEMON_PIDS
  $ git clone -q http://localhost:$HGPORT/ ../clone
  remote: this server does not serve git from this repository; its operator enables that with amalgam.git.serve = yes
  fatal: unable to access 'http://localhost:$HGPORT/': The requested URL returned error: 403
  [128]

The repository's own configuration is enough:

  $ cat >> .hg/hgrc << EOS
  > [amalgam]
  > git.serve = yes
  > EOS
  $ hg serve -d -a localhost -p $HGPORT1 --pid-file=hg.pid
  listening at http://localhost:$HGPORT1/ (bound to 127.0.0.1:$HGPORT1) (?)
  $ cat hg.pid >> $DAEMON_PIDS
  $ git clone -q http://localhost:$HGPORT1/ ../clone
  $ git -C ../clone log --format='%an: %s'
  test: public work

The secret changeset stays home. Once it is a draft, the next fetch has it; nobody has
to export:

  $ hg phase --draft .
  $ git -C ../clone pull -q && git -C ../clone log --format='%s'
  secret work
  public work

What goes back to being secret cannot be cloned any more:

  $ hg phase --force --secret .
  $ git clone -q http://localhost:$HGPORT1/ ../later
  $ git -C ../later log --format='%s'
  public work

Git cannot push here, and says so:

  $ git -C ../clone push -q origin HEAD:new
  remote: this repository is read-only for git; push with Mercurial, or ask its operator to set amalgam.git.push = yes
  fatal: unable to access 'http://localhost:$HGPORT1/': The requested URL returned error: 403
  [128]

Mercurial's own clients get what they always got:

  $ hg clone -q http://localhost:$HGPORT1/ ../hg-clone
  $ hg -R ../hg-clone log -T '{desc}\n'
  public work
