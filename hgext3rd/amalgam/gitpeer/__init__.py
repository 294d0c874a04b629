"""git repositories as remotes of Mercurial: clone, pull, push, incoming, outgoing."""
