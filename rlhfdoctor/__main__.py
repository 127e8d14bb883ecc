"""``python -m rlhfdoctor``."""

import sys

if __name__ == "__main__":
    try:
        from rlhfdoctor.cli import main

        main()
    except KeyboardInterrupt:  # before the command line could see to it
        sys.exit(130)
