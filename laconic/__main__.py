"""`python -m laconic` is the command `laconic`."""

from laconic.cli import main

try:
    main()
finally:
    # Ctrl-C while a library runs generated source leaves a mark: `python -m` then ends with a signal, not our code.
    # Running source anew takes the mark away.
    exec("")  # noqa: S102
