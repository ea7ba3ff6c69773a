"""A party's side of a run by mail: answer what the plan asks, or what an envelope asks, and seal the answers."""

import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from laconic.core.errors import PlanError
from laconic.core.wire import decode, encode
from laconic.envelope.content import Content
from laconic.envelope.cover import Cover
from laconic.envelope.opening import Expected, check
from laconic.envelope.refusals import OtherAlignment, OtherPlan
from laconic.envelope.sealing import cover_of, seal
from laconic.mail.desk import NONE, Answered, Desk
from laconic.mail.place import Place
from laconic.mail.rehearsal import Due, Foretold, following
from laconic.runtime.memory import OWN, Gate
from laconic.runtime.naming import question_id
from laconic.runtime.whole import read_whole, write_whole


@dataclass(frozen=True)
class Sealed:
    """What was sealed, or would be.

    Attributes:
        cover: what stands on the envelope.
        content: what its sender says of the inside.
        finished: whether nothing more will be asked for this plan.
    """

    cover: Cover
    content: Content
    finished: bool


def seal_plan(place: Place, out: Path | None, *, gate: Gate | None, days: float) -> Sealed:
    """Answer all that the plan asks without anybody's rows, and seal the answers.

    Args:
        out: the envelope to write; None only tries, and leaves nothing behind.
        gate: the party's own rules.
        days: how long the envelope may be used.

    Raises:
        PlanError: the plan's first question depends on the hub's rows.
    """
    agreement = place.agreement
    _refuse_hub(place)
    asked = agreement.rehearsal(place.party.data).questions(place.file.name)
    if not asked:
        raise PlanError(
            f"the first question of {type(agreement.method).__name__} depends on rows of {agreement.hub}, so it must "
            f"be asked: let {agreement.holder} start with `laconic host`, and answer its questions with "
            "`laconic answer`"
        )
    return _on_desk(place, asked, out, gate, days)


def answer_envelope(place: Place, path: Path, out: Path | None, *, gate: Gate | None, days: float) -> Sealed:
    """Answer the questions in an envelope from the hub, and whatever follows from them.

    Raises:
        EnvelopeRefused: the envelope cannot be accepted; its kind says why.
    """
    agreement = place.agreement
    _refuse_hub(place)
    expected = Expected("question", plan=agreement.fingerprint, sender=agreement.holder)
    envelope = check(path, place.ring, expected)
    with envelope.open(place.ring.own) as opened:
        inside = [(blob, b"".join(pieces)) for blob, pieces in opened.blobs()]
    asked = []
    for blob, question in inside:
        if question_id(agreement.script(blob.script), place.file.name, question) != blob.question:
            raise OtherPlan(
                f"{path} asks `{blob.step}` of other settings than this plan has here; compare the two plan files and "
                "the lists of ids"
            )
        asked.append(Foretold(blob.script, question))
    desk = Desk(agreement, place.run, gate)
    desk.begin(place.party)
    own = desk.alignment
    if NONE not in (own, envelope.cover.alignment) and own != envelope.cover.alignment:
        raise OtherAlignment(
            f"{path} is about the rows {envelope.cover.alignment}, but here they are {own}; match the rows again"
        )
    asked += following(_timetable(place), asked[-1].blob) if asked else ()
    return _on_desk(place, asked, out, gate, days)


def _on_desk(place: Place, asked: Sequence[Foretold], out: Path | None, gate: Gate | None, days: float) -> Sealed:
    desk = Desk(place.agreement, place.run, gate)
    if out is not None:
        return _answer(place, desk, asked, out, days)
    with tempfile.TemporaryDirectory(prefix="laconic-") as folder:
        return _answer(place, desk.copy(Path(folder) / "run", gate), asked, None, days)


def _answer(place: Place, desk: Desk, asked: Sequence[Foretold], out: Path | None, days: float) -> Sealed:
    desk.begin(place.party)
    answers = [desk.answer(one) for one in asked]
    return send(place, desk.content(answers), answers, desk.alignment, out, days)


def send(
    place: Place, content: Content, answers: Iterable[Answered], alignment: str, out: Path | None, days: float
) -> Sealed:
    """Seal answers for the hub; with nowhere to write them, only say what would be sealed."""
    own, to = place.ring.own, place.ring.named(place.agreement.holder)
    about = {"plan": place.agreement.fingerprint, "alignment": alignment}
    cover = cover_of(content, own, to, kind="answer", days=days, **about)
    if out is not None:
        seal(out, cover, content, [[one.reply] for one in answers], own, to)
    finished = bool(content.blobs) and content.blobs[-1].phase not in ("align", "fit", "look")
    return Sealed(cover, content, finished)


def _timetable(place: Place) -> tuple[Due, ...]:
    """Rehearsed once a run, as it takes as long as a small training."""
    kept = place.run / "timetable"
    if kept.exists():
        return msgspec.convert(decode(read_whole(kept), OWN), tuple[Due, ...])
    found = place.agreement.rehearsal(place.party.data).timetable(place.file.name)
    write_whole(kept, encode(msgspec.to_builtins(found)))
    return found


def _refuse_hub(place: Place) -> None:
    if place.file.name == place.agreement.holder:
        raise PlanError(
            f"{place.file.name} has the labels, and so it is the one who asks: start with `laconic host`, and let the "
            "others seal"
        )
