"""How a run stands while it goes on, as one small value: for a page that is looked at, and for a file beside the run.

It holds what the hub knows anyway: progress, whom it waits for, bytes, and scores part way. No row, label or
prediction is in it.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from time import monotonic, time

import msgspec

from laconic.atomic_files import write_whole
from laconic.core.traffic import Crossing

STATE = "watch.json"
"""The file in a run's folder."""

_PAUSE = 0.3
"""Seconds between two writings of the file: a run of thousands of rounds must not wait for a disk."""


class PartyState(msgspec.Struct, kw_only=True):
    """How one party stands.

    Attributes:
        state: `not asked yet`, `asked`, `answered` or `absent`.
        step: what it was last asked.
        answers: how many questions it answered.
    """

    state: str = "not asked yet"
    step: str = ""
    answers: int = 0
    bytes_up: int = 0
    bytes_down: int = 0


class ScoreSoFar(msgspec.Struct, frozen=True, kw_only=True):
    """A score on held-out rows, and what fitting had cost by then."""

    metric: str
    value: float
    bytes: int
    rounds: int
    final: bool


class RunState(msgspec.Struct, kw_only=True):
    """How a run stands.

    Attributes:
        title: which method, on what.
        state: `running`, or how it ended, in words.
        phase: `align`, `fit`, `look` or `final`; empty before the first question.
        progress: by what is being done, how far it is, and how far it goes; None if nobody knows.
        rounds, bytes: by phase.
        began, changed: seconds since 1970.
    """

    title: str = ""
    state: str = "running"
    phase: str = ""
    progress: dict[str, tuple[int, int | None]] = {}
    parties: dict[str, PartyState] = {}
    rounds: dict[str, int] = {}
    bytes: dict[str, int] = {}
    scores: list[ScoreSoFar] = []
    began: float = 0.0
    changed: float = 0.0


class Watch:
    """Collects how a run stands; hand it to `laconic.core.watching`, and its `note` to whatever takes a listener.

    >>> watch = Watch("FedOnce on two files", ["shop"])
    >>> watch.asked("fit", 1, "send_columns", ["shop"])
    >>> watch.state().parties["shop"].state
    'asked'
    """

    def __init__(self, title: str, parties: Sequence[str] = (), file: Path | None = None) -> None:
        """`file` is written again as the run goes on, for its owner only."""
        now = time()
        known = {name: PartyState() for name in parties}
        self._now = RunState(title=title, parties=known, began=now, changed=now)
        self._lock, self._file, self._written = Lock(), file, 0.0

    def note(self, what: str, done: int, of: int | None) -> None:
        """Progress, as listeners hear it."""
        self._change(lambda now: now.progress.update({what: (done, of if of is None or done <= of else None)}))

    def asked(self, phase: str, number: int, step: str, parties: Sequence[str]) -> None:
        """The hub asks these parties, in round `number` of a phase."""

        def change(now: RunState) -> None:
            now.phase, now.rounds[phase] = phase, number
            for name in parties:
                one = now.parties.setdefault(name, PartyState())
                one.state, one.step = "asked", step

        self._change(change)

    def answered(self, crossing: Crossing) -> None:
        """A party has answered, or has not in time."""

        def change(now: RunState) -> None:
            one = now.parties.setdefault(crossing.party, PartyState())
            one.state = "absent" if crossing.up is None else "answered"
            one.answers += crossing.up is not None
            one.bytes_up += crossing.up or 0
            one.bytes_down += crossing.down
            now.bytes[crossing.phase] = now.bytes.get(crossing.phase, 0) + crossing.down + (crossing.up or 0)

        self._change(change)

    def scored(self, metric: str, value: float, *, final: bool) -> None:
        """How good the model is by now, on held-out rows."""

        def change(now: RunState) -> None:
            sent, rounds = now.bytes.get("fit", 0), now.rounds.get("fit", 0)
            now.scores.append(ScoreSoFar(metric=metric, value=value, bytes=sent, rounds=rounds, final=final))

        self._change(change)

    def end(self, words: str) -> None:
        """The run has ended, in these words; the file is written whatever was written just before."""
        self._change(lambda now: setattr(now, "state", words), at_once=True)

    def state(self) -> RunState:
        """A copy of how it stands now."""
        with self._lock:
            return msgspec.json.decode(msgspec.json.encode(self._now), type=RunState)

    def _change(self, change: Callable[[RunState], None], *, at_once: bool = False) -> None:
        with self._lock:
            change(self._now)
            self._now.changed = time()
            if self._file is not None and (at_once or monotonic() - self._written > _PAUSE):
                write_whole(self._file, msgspec.json.encode(self._now), private=True)
                self._written = monotonic()


def read_state(file: Path, title: str, parties: Sequence[str]) -> RunState:
    """How a run of another process stands, by the file that it writes; one that has not begun waits for parties."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=RunState)
    except FileNotFoundError:
        return RunState(title=title, state="waiting for parties", parties={name: PartyState() for name in parties})
