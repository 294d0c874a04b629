# Collisions, committers, content that begins with \1, an empty tree, a second root; ids as
# git-cinnabar 0.7.5 gave them. Run by sh in an empty directory.
C() { hg --config extensions.commitextras= commit "$@"; }
U='A B <a@b.c>'
hg init .
printf '\001\nescaped\n' > esc
printf 'x\n' > dir-y
mkdir dir
printf 'x\n' > dir/f
printf 'x\n' > dir.x
printf 'x\n' > dir0
hg add -q
C -m root -u "$U" -d '100 0'
printf '1\n' > dir/f
C -m same -u "$U" -d '200 0'
hg update -q -r 0
hg branch -q b1
printf '1\n' > dir/f
C -m same -u "$U" -d '200 0'
hg update -q -r 0
hg branch -q b2
printf '1\n' > dir/f
C -m same -u "$U" -d '200 0'
hg update -q -r 1
printf '2\n' > dir/f
C -m committer -u "$U" -d '300 0' --extra 'committer=C D <c@d.e> 400 -3600' --extra zz=1
chmod 755 dir0
C -m 'committer git tz' -u "$U" -d '500 -19800' --extra 'committer=C D <c@d.e> 600 +0100'
hg rm -q dir/f dir-y dir.x dir0 esc
C -m 'empty tree' -u 'Foo (foo@bar)' -d '700 3661'
hg update -q -r null
printf 'other\n' > other
hg add -q other
hg branch -q -f default
C -m 'second root' -u 'X <x@y>, Z <z@w>' -d '800 0'
