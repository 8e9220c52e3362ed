"""`python -m phalanx`: the command `phalanx` where its script is not on the path."""

from phalanx.cli.main import main

if __name__ == "__main__":
    main()
