"""`python -m fastrec`, and the program `fastrec`. Ctrl-C ends it without a traceback at once."""

import os
import signal


def script() -> None:
    """Run the command line as a program of its own, and end the process."""
    if (
        signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ):  # background jobs ignore SIGINT
        # Nothing is there to be cleaned up before `main` of the command line has its own handler.
        signal.signal(signal.SIGINT, lambda *_: os._exit(128 + signal.SIGINT))
    from fastrec.cli import script as run  # noqa: PLC0415 - click and others take a tenth of a second

    run()


if __name__ == "__main__":
    script()
