Logins of git hosts: wishes of hg-git's users, fifth part

  $ . "$TESTDIR/testlib/amalgam.sh"

A server that asks for a password:

  $ hg init server && cat >> server/.hg/hgrc << EOF
  > [extensions]
  > passwords = $TESTDIR/testlib/passwords.py
  > [web]
  > allow-push = *
  > push_ssl = no
  > [phases]
  > publish = no
  > [amalgam]
  > git.serve = yes
  > git.push = yes
  > git.refs = bookmarks
  > EOF
  $ echo 1 > server/a && hg -R server commit -qAm one && hg -R server bookmark main
  $ hg -R server serve -d -a localhost -p $HGPORT --pid-file=hg.pid -A access.log -E errors.log
  $ cat hg.pid >> $DAEMON_PIDS

Without a password, git says so (wish 7):

  $ hg clone -q git+http://localhost:$HGPORT/ clone
  abort: git cannot read 'http://localhost:$HGPORT/': * (glob)
  (see whether 'git ls-remote http://localhost:$HGPORT/' works)
  [100]

git's credential helpers have it: here a file. Others are a keyring, or a program of the host. Nobody is asked again after a push:

  $ cat > gitconfig << EOF
  > [credential]
  > 	helper = store --file=$TESTTMP/known
  > EOF
  $ echo "http://user:pass%20word@localhost:$HGPORT" > known
  $ GIT_CONFIG_GLOBAL=$TESTTMP/gitconfig; export GIT_CONFIG_GLOBAL
  $ hg clone -q git+http://localhost:$HGPORT/ clone && cd clone
  $ echo 2 > a && hg commit -qm two
  $ hg push -q
  $ hg -R ../server log -r main -T '{desc}\n'
  two
  $ cd ..

The password is in no file of the clone:

  $ grep -r 'pass.*word' clone/.hg
  [1]

ssh is that of git, by a variable or its configuration, or that of Mercurial if ``ui.ssh`` is not its default:

  $ cat > ssh << EOF
  > #!/bin/sh
  > echo "ssh \$*" >> "$TESTTMP/calls"
  > while test "\$1" != me@localhost; do shift; done
  > exec sh -c "\$2"
  > EOF
  $ chmod +x ssh
  $ git init -q --bare far.git && TREE=$(git -C far.git mktree < /dev/null)
  $ git -C far.git update-ref refs/heads/main $(git -C far.git commit-tree -m far $TREE)
  $ GIT_SSH_COMMAND=$TESTTMP/ssh hg identify me@localhost:$TESTTMP/far.git
  053462769536 main
  $ hg identify me@localhost:$TESTTMP/far.git --config ui.ssh=$TESTTMP/ssh
  053462769536 main
  $ git config -f gitconfig core.sshCommand "$TESTTMP/ssh"
  $ hg identify me@localhost:$TESTTMP/far.git --config ui.ssh=ssh
  053462769536 main
  $ grep -c upload-pack calls
  3
