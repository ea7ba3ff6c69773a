"""A party's side of a run by mail: answer what the plan asks, or what an envelope asks, and seal the answers."""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from laconic.core.errors import PlanError
from laconic.core.party import Party
from laconic.core.wire import decode, encode
from laconic.envelope.content import Content
from laconic.envelope.cover import Cover
from laconic.envelope.opening import Envelope, Expected, check
from laconic.envelope.refusals import OtherAlignment, OtherPlan
from laconic.envelope.sealing import cover_of, seal
from laconic.mail.desk import NONE, Desk
from laconic.mail.place import Place
from laconic.mail.rehearsal import Due, Foretold, following
from laconic.mail.rules import gate_of, trial_gate
from laconic.runtime.memory import OWN
from laconic.runtime.naming import question_id
from laconic.runtime.whole import read_whole, write_whole


@dataclass(frozen=True)
class Sealed:
    """What was sealed, or would be.

    Attributes:
        cover: what stands on the envelope.
        content: what its sender says of the inside.
        finished: whether nothing more will be asked.
    """

    cover: Cover
    content: Content
    finished: bool


def seal_plan(place: Place, out: Path | None, *, days: float = 30) -> Sealed:
    """Answer all that the plan asks without anybody's rows, and seal the answers.

    Args:
        place: the party's.
        out: the envelope to write; None only tries, and leaves nothing behind.
        days: how long the envelope may be used.

    Raises:
        PlanError: the plan's first question depends on the hub's rows.
        Refused: the party's own rules do not allow it.
    """
    agreement = place.agreement
    refuse_hub(place)
    asked = _first(place)
    if not asked:
        raise PlanError(
            f"the first question of {type(agreement.method).__name__} depends on rows of {agreement.hub}, so it must "
            f"be asked: let {agreement.holder} start with `laconic host`, and answer its questions with "
            "`laconic answer`"
        )
    return answer_and_seal(place, place.run, place.party, asked, out, days)


def answer_envelope(place: Place, path: Path, out: Path | None, *, days: float = 30) -> Sealed:
    """Answer the questions in an envelope from the hub, and whatever follows from them.

    Raises:
        EnvelopeRefused: the envelope cannot be accepted; its kind says why.
        Refused: the party's own rules do not allow it.
    """
    asked = questions_in(place, path, place.run, place.party)
    return answer_and_seal(place, place.run, place.party, asked + _rest(place, asked), out, days)


def questions_in(place: Place, path: Path, folder: Path, party: Party) -> list[Foretold]:
    """The questions in an envelope, once it is accepted for the desk in a folder."""
    refuse_hub(place)
    expected = Expected("question", plan=place.agreement.fingerprint, sender=place.agreement.holder)
    envelope = check(path, place.ring, expected)
    asked = _questions(place, envelope)
    with _desk_at(place, folder, None) as desk:
        desk.begin(party)
        _refuse_other_rows(envelope, desk.alignment)
    return asked


def answer_and_seal(
    place: Place, folder: Path, party: Party, asked: Sequence[Foretold], out: Path | None, days: float
) -> Sealed:
    """Answer questions at the desk in a folder, and seal the answers for the hub."""
    own, to = place.ring.own, place.ring.named(place.agreement.holder)
    with _desk_at(place, folder, out) as desk:
        desk.begin(party)
        answers = [desk.answer(one) for one in asked]
        content = desk.content(answers)
        about = {"plan": place.agreement.fingerprint, "alignment": desk.alignment}
        cover = cover_of(content, own, to, kind="answer", days=days, **about)
        if out is not None:
            seal(out, cover, content, [one.pieces() for one in answers], own, to)
    finished = bool(content.blobs) and content.blobs[-1].phase not in ("align", "fit", "look")
    return Sealed(cover, content, finished)


def refuse_hub(place: Place) -> None:
    """The label holder asks, and is not asked."""
    if place.file.name == place.agreement.holder:
        raise PlanError(
            f"{place.file.name} has the labels, and so it is the one who asks: start with `laconic host`, and let the "
            "others seal"
        )


@contextmanager
def _desk_at(place: Place, folder: Path, out: Path | None) -> Iterator[Desk]:
    """The desk in a folder; for a trial, a copy of it that is thrown away."""
    if out is not None:
        yield Desk(place.agreement, folder, gate_of(place, folder))
        return
    with tempfile.TemporaryDirectory(prefix="laconic-") as passing:
        trial = Path(passing) / "run"
        if folder.exists():
            shutil.copytree(folder, trial)
        yield Desk(place.agreement, trial, trial_gate(place, trial))


def _questions(place: Place, envelope: Envelope) -> list[Foretold]:
    asked = []
    with envelope.open(place.ring.own) as opened:
        for blob, pieces in opened.blobs():
            question = b"".join(pieces)
            if question_id(place.agreement.script(blob.script), place.file.name, question) != blob.question:
                raise OtherPlan(
                    f"{envelope.path} asks `{blob.step}` of other settings than this plan has here; compare the two "
                    "plan files and the lists of ids"
                )
            asked.append(Foretold(blob.script, question))
    return asked


def _refuse_other_rows(envelope: Envelope, own: str) -> None:
    other = envelope.cover.alignment
    if NONE not in (own, other) and own != other:
        raise OtherAlignment(
            f"{envelope.path} is about the rows {other}, but here they are {own}; match the rows again"
        )


def _first(place: Place) -> tuple[Foretold, ...]:
    """What the plan alone asks; rehearsed once a run."""
    kept = place.run / "foretold"
    if kept.exists():
        return tuple(Foretold(script, blob) for script, blob in decode(read_whole(kept), OWN))
    found = place.agreement.rehearsal(place.party.data).questions(place.file.name)
    if place.run.exists():
        write_whole(kept, encode([[one.script, one.blob] for one in found]))
    return found


def _rest(place: Place, asked: Sequence[Foretold]) -> list[Foretold]:
    """What follows from the last question; rehearsed once a run, as it takes as long as a small training."""
    if not asked:
        return []
    kept = place.run / "timetable"
    if kept.exists():
        timetable = msgspec.convert(decode(read_whole(kept), OWN), tuple[Due, ...])
    else:
        timetable = place.agreement.rehearsal(place.party.data).timetable(place.file.name)
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_whole(kept, encode(msgspec.to_builtins(timetable)))
    return list(following(timetable, asked[-1].blob))
