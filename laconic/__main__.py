"""The command `laconic`, also as `python -m laconic`."""

import signal
import sys


def command() -> None:
    """Run the command line, and end quietly whenever Ctrl-C comes."""
    try:
        from laconic.cli import main

        main()
    except KeyboardInterrupt:
        # Only while modules are still being imported; later on, the command line says what it had saved.
        sys.exit(130)
    finally:
        # All is done and said: Ctrl-C while Python itself ends must not turn a saved result into a failure.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        # Ctrl-C while a library runs generated source leaves a mark: `python -m` then ends with a signal, not our code.
        # Running source anew takes the mark away.
        exec("")  # noqa: S102


if __name__ == "__main__":
    command()
