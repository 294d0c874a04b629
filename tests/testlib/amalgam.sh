# Sourced first by every .t test: amalgam on, and a git that knows nothing of this machine.
# Users and dates of hg are fixed by run-tests.py itself.

cat >> "$HGRCPATH" << EOF
[extensions]
amalgam =
EOF

for name in $(env | sed -n 's/^\(GIT_[A-Z_]*\)=.*/\1/p'); do
  unset "$name"
done

GIT_CONFIG_NOSYSTEM=1; export GIT_CONFIG_NOSYSTEM
GIT_CONFIG_GLOBAL=/dev/null; export GIT_CONFIG_GLOBAL
GIT_TERMINAL_PROMPT=0; export GIT_TERMINAL_PROMPT
GIT_AUTHOR_NAME=test; export GIT_AUTHOR_NAME
GIT_AUTHOR_EMAIL=test@example.org; export GIT_AUTHOR_EMAIL
GIT_AUTHOR_DATE='1970-01-01T00:00:00+0000'; export GIT_AUTHOR_DATE
GIT_COMMITTER_NAME=$GIT_AUTHOR_NAME; export GIT_COMMITTER_NAME
GIT_COMMITTER_EMAIL=$GIT_AUTHOR_EMAIL; export GIT_COMMITTER_EMAIL
GIT_COMMITTER_DATE=$GIT_AUTHOR_DATE; export GIT_COMMITTER_DATE

# Settings that keep git's own advice out of the output.
GIT_CONFIG_COUNT=3; export GIT_CONFIG_COUNT
GIT_CONFIG_KEY_0=init.defaultBranch; export GIT_CONFIG_KEY_0
GIT_CONFIG_VALUE_0=main; export GIT_CONFIG_VALUE_0
GIT_CONFIG_KEY_1=advice.detachedHead; export GIT_CONFIG_KEY_1
GIT_CONFIG_VALUE_1=false; export GIT_CONFIG_VALUE_1
GIT_CONFIG_KEY_2=gc.auto; export GIT_CONFIG_KEY_2
GIT_CONFIG_VALUE_2=0; export GIT_CONFIG_VALUE_2
