# A repository whose ids git-cinnabar 0.7.5 was asked for: run by sh in an empty directory.
U='Alice Example <alice@example.org>'
hg init .
printf 'hello\n' > a.txt
mkdir -p dir/sub
printf '#!/bin/sh\necho hi\n' > dir/sub/run.sh
chmod 755 dir/sub/run.sh
ln -s a.txt link
: > empty
hg add -q a.txt dir/sub/run.sh link empty
hg commit -m 'first' -u "$U" -d '1000000000 0'
hg cp a.txt b.txt
printf 'hello\nworld\n' > a.txt
hg commit -m 'second: copy and edit' -u bob -d '1000003600 -7200'
hg branch -q stable
hg commit -m 'third: open stable' -u carol@example.org -d '1000007200 3600'
hg update -q -r 1
printf 'more\n' >> b.txt
hg commit -m 'fourth' -u 'Dave<dave@example.org>' -d '1000010800 -19801'
hg merge -q -r 2
hg commit -m 'fifth: merge' -u "$U" -d '1000014400 0'
hg update -q -r 2
hg commit --close-branch -m 'sixth: close' -u "$U" -d '1000018000 0'
hg update -q -r 4
hg rm dir/sub/run.sh
hg tag -r 1 v1 -m 'seventh: tag' -u "$U" -d '1000021600 0'
hg commit -m 'eighth: remove' -u "$U" -d '1000025200 0'
