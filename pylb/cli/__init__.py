"""The command line ``pylb``: one module for each subcommand."""
