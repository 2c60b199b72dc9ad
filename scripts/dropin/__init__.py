"""What the drop-in command lines (img2dataset, any2dataset, video2dataset) have in common. Standard library only."""

import sys


class Mistake(Exception):
    """Something that the user can put right; exit status 2."""


def main(program, run):
    """Runs a command line; the way out of all of them."""
    try:
        return run(sys.argv[1:])
    except Mistake as mistake:
        print(f"{program}: {mistake}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        return 0
    except OSError as err:
        print(f"{program}: {f'{err.filename}: ' if err.filename else ''}{err.strerror or err}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
