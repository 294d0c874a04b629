# A repository whose ids hg-git 1.2.0 was asked for: run by sh in an empty directory.
U='Alice Example <alice@example.org>'
commit() { hg commit -q -u "$@"; }
hg init .
printf 'hello\n' > hello.txt
mkdir -p src/lib foo
printf '#!/bin/sh\necho hi\n' > run.sh
chmod +x run.sh
ln -s hello.txt link
printf 'int main;\n' > src/main.c
printf 'lib\n' > src/lib/l.c
printf 'x' > foo-bar
printf 'y' > foo/z
printf 'w' > foo.txt
: > 'é.txt'
hg add -q .
commit "$U" -d '1000000000 0' -m 'root commit'
hg mv hello.txt greet.txt
hg cp src/main.c 'src/main two.c'
commit "$U" -d '1000000100 -7200' -m 'rename and copy

Second paragraph: ünïcode.'
printf 'more\n' >> greet.txt
commit 'Bob "B" <bob@example.org> (hacker, é)' -d '1000000200 19800' -m 'weird author'
hg rm -q src/lib/l.c
chmod -x run.sh
commit carol -d '1000000300 0' -m 'plain user'
hg branch -q 'stable 1'
printf 'stable\n' > s.txt
hg add -q s.txt
commit dave@example.org -d '1000000400 3600' -m 'on stable'
commit "$U" --close-branch -d '1000000500 0' -m 'close it'
hg update -q -C 3
printf 'd\n' > d.txt
hg add -q d.txt
commit 'Eve > Mallory <<eve@example.org>>' -d '1000000600 0' -m 'sibling'
hg merge -q -r 4
hg mv -q s.txt stable.txt
commit "$U" -d '1000000700 0' -m 'merge stable'
hg update -q -C 4
hg graft -q -r 6 -d '1000000800 0' -u "$U"
hg update -q -C 7
hg tag -u "$U" -d '1000000900 0' -m 'tag it' 'v 1.0'
hg rm -q d.txt
mkdir d.txt
printf 'in dir\n' > d.txt/a
hg add -q d.txt/a
hg rm -q 'é.txt'
commit "$U" -d '1000001000 0' -m 'd.txt becomes a directory'
printf 'z\n' > z
hg add -q z
commit "$U" -d '1 0' -m 'tricky  

--HG--
branch : fake'
