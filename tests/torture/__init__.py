"""What takes longer than `make test` may; started by `make torture`."""
