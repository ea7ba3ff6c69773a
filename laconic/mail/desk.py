"""A party's desk: where it answers the questions of one run, in its own time, and keeps what it said.

Memory, ledger and answers are on its disk before anything is sealed. A question that comes again gets the answer that
was given before, and costs nothing again.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from mmap import ACCESS_READ, mmap
from pathlib import Path

from laconic.core.align import digest, fingerprint
from laconic.core.errors import DataError, TornFile
from laconic.core.ledger import Ledger
from laconic.core.party import Party
from laconic.core.script import Script, steps_of
from laconic.core.wire import Limits, outline, read_heading
from laconic.envelope.content import Asked, Blob, Content
from laconic.mail.agreement import Agreement
from laconic.mail.epsilon import epsilon_words
from laconic.mail.place import ids_fingerprint
from laconic.mail.rehearsal import Foretold
from laconic.runtime.memory import Gate, PartyFolder
from laconic.runtime.naming import question_id
from laconic.runtime.whole import read_seal, read_whole, write_whole

NONE = "none"
"""The alignment of rows that are not matched yet."""

NEW = "new"
"""The cut of rows that came after training, to be predicted."""

_ANSWER = Limits(bytes=2**40)


@dataclass(frozen=True)
class Answered:
    """An answer, and what stands on the envelope about it; the answer itself stays on the disk."""

    blob: Blob
    kept: Path

    def pieces(self) -> Iterator[bytes]:
        """The answer, a megabyte at a time."""
        left, expected = read_seal(self.kept)
        found = blake2b(digest_size=16)
        with self.kept.open("rb") as file:
            while left and (piece := file.read(min(left, 1 << 20))):
                found.update(piece)
                left -= len(piece)
                yield piece
        if left or found.digest() != expected:
            raise TornFile(f"{self.kept} is torn: its checksum does not fit; begin the run afresh")


class Desk:
    """One party in one run.

    Args:
        agreement: what the plan settles.
        folder: where the run is kept.
        gate: the party's own rules.
    """

    def __init__(self, agreement: Agreement, folder: Path, gate: Gate | None) -> None:
        self.agreement = agreement
        self.folder = folder
        self._gate = gate
        self._party = PartyFolder(folder / "party")

    def begin(self, party: Party) -> None:
        """Sit down with these rows; if the run has begun already, they must be those it began with."""
        note_rows(self.folder, party)
        if not self._party.begun:
            self._party.begin(party)

    def load(self) -> Party:
        """The party as it is after its last answer."""
        return self._party.load()

    def answer(self, asked: Foretold) -> Answered:
        """Answer a question, or say again what was said."""
        script = self.agreement.script(asked.script)
        kept = self._keep(script, asked.blob)
        words = steps_of(script)[read_heading(asked.blob).step].gives
        size, _ = read_seal(kept)
        return Answered(_blob(asked, kept.name, words, _form(kept, size), size), kept)

    def reply(self, script: Script, question: bytes) -> bytes:
        """The answer's bytes alone."""
        return read_whole(self._keep(script, question))

    def _keep(self, script: Script, question: bytes) -> Path:
        """Where the answer is; it is there by the time that this returns."""
        kept = self.folder / "answers" / question_id(script, self.load().name, question)
        if not kept.exists():
            reply = self._party.answer(script, question, self._gate)
            kept.parent.mkdir(exist_ok=True)
            write_whole(kept, reply)
        return kept

    def ledger(self) -> Ledger:
        """What it gave away in this run."""
        return self.load().ledger

    def content(self, answers: Iterable[Answered]) -> Content:
        """What goes into an envelope with these answers."""
        party = self.load()
        entries = party.ledger.entries
        words = epsilon_words(party.name, entries, self.agreement.plan)
        blobs = tuple(one.blob for one in answers)
        return Content(rows=rows_of(party), epsilon=words, ledger=entries, blobs=blobs)

    @property
    def alignment(self) -> str:
        """The fingerprint of its rows."""
        return alignment_of(self.load())


def note_rows(folder: Path, party: Party) -> None:
    """Remember the rows that a run begins with; other rows later are an error, as the run could not go on with them."""
    folder.mkdir(parents=True, exist_ok=True)
    noted, now = folder / "rows", digest(party.data)
    if not noted.exists():
        noted.write_text(now)
    elif noted.read_text() != now:
        raise DataError(
            f"the rows of {party.name} changed since this run began; bring them back as they were, or begin a new run "
            f"by moving {folder} away"
        )


def alignment_of(party: Party) -> str:
    """The fingerprint of a party's rows once they are matched, or of the rows to predict."""
    if NEW in party.data.cuts:
        return ids_fingerprint(party.data.keys.tolist())
    return fingerprint(party.data) if "train" in party.data.cuts else NONE


def rows_of(party: Party) -> int:
    """How many rows a party has in a run: those that all share, or all before that is known."""
    shared = party.data.cuts.get("shared")
    return party.data.rows if shared is None else len(shared)


def _form(kept: Path, size: int) -> str:
    """The form of an answer on the disk, of which only what says so is read."""
    with (
        kept.open("rb") as file,
        mmap(file.fileno(), 0, access=ACCESS_READ) as mapped,
        memoryview(mapped) as view,
        view[:size] as reply,
    ):
        return outline(reply, _ANSWER)


def question_of(script: Asked, blob: bytes, question: str, words: str | None) -> Blob:
    """What stands on an envelope about a question."""
    return _blob(Foretold(script, blob), question, words, "question", len(blob))


def _blob(asked: Foretold, question: str, words: str | None, form: str, size: int) -> Blob:
    heading = read_heading(asked.blob)
    return Blob(
        script=asked.script,
        phase=heading.phase,
        round=heading.round,
        step=heading.step,
        question=question,
        words=words,
        form=form,
        size=size,
    )
