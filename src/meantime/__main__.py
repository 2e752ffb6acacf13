"""`python -m meantime` is the command `meantime`."""

from meantime.cli.main import main

if __name__ == "__main__":
    main()
