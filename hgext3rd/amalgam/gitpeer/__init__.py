"""git repositories as remotes of Mercurial: clone, pull, incoming, outgoing, names."""
