"""`python -m tests.lab.silicon FILE`, the same as `python -m tests.lab profile FILE`."""

import sys

from tests.lab.silicon.cli import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
