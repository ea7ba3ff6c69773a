"""Which envelopes were accepted, and for which run: none is accepted for a second one."""

import os
from pathlib import Path

from laconic.envelope.opening import Envelope
from laconic.envelope.refusals import Replayed


class Register:
    """A file with a line for each envelope accepted; it outlives runs."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._runs: dict[str, str] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                number, _, run = line.partition(" ")
                self._runs[number] = run.split(" ")[0]

    def has(self, number: str, run: str) -> bool:
        """Whether a run accepted the envelope with a number."""
        return self._runs.get(number) == run

    def refuse_seen(self, envelope: Envelope, run: str) -> None:
        """Refuse an envelope that another run had already.

        Raises:
            Replayed: says what to do.
        """
        cover = envelope.cover
        before = self._runs.get(cover.number)
        if before is not None and before != run:
            raise Replayed(
                f"{envelope.path} was accepted before, for an earlier run; somebody sent it again. Ask {cover.sender} "
                "to seal a new one: that costs no more privacy"
            )

    def note(self, envelope: Envelope, run: str) -> None:
        """Write down that an envelope was accepted; returns when that is on the disk."""
        cover = envelope.cover
        if cover.number in self._runs:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a", encoding="utf-8") as file:
            file.write(f"{cover.number} {run} {cover.sender}\n")
            file.flush()
            os.fsync(file.fileno())
        self._runs[cover.number] = run
