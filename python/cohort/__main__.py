"""The program: `python3 -m cohort simulate --mode ssgd`."""

import sys

from cohort import _cohort


def main() -> int:
    return _cohort.run_program(["cohort", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
