"""Files in LFS, for git-lfs: what hgweb answers besides Mercurial's LFS requests."""
