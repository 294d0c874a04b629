"""Git hosts that share no code with git: see ``__main__``."""
