"""``python -m pylb``: the command line."""

import sys

from pylb.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
