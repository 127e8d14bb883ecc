"""``python -m rlhfdoctor``."""

from rlhfdoctor.cli import main

if __name__ == "__main__":
    main()
