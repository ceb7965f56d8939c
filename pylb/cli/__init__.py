"""The command line ``pylb``; `table` describes its subcommands."""
