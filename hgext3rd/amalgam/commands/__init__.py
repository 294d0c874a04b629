"""The commands: options and messages. A module a family, merged in the package."""
