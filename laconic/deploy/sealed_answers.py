"""A party's side of a run by mail: answer what the plan asks, or what an envelope asks, and seal the answers."""

import csv
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from laconic.atomic_files import read_sealed, write_sealed
from laconic.core.method import task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.traffic import WireLog
from laconic.core.wire import decode, encode, read_heading
from laconic.deploy.coordinator import CoLocatedHolder, asking, refuse_peer
from laconic.deploy.inbox import Inbox
from laconic.deploy.party_context import PartyContext, gate_of, ids_fingerprint, own_rows, trial_gate
from laconic.deploy.party_memory import OWN, PartyFolder
from laconic.deploy.question_forecast import PredictedQuestion
from laconic.deploy.responder import NEW, NONE, EnvelopeResponder
from laconic.deploy.store import copy_kept
from laconic.deploy.transports.envelopes.cover import Content, Cover
from laconic.deploy.transports.envelopes.keys import OtherAlignment, OtherPlan
from laconic.deploy.transports.envelopes.opening import Envelope, Expected, check
from laconic.deploy.transports.envelopes.sealing import cover_of, seal
from laconic.deploy.transports.rpc_messages import question_id
from laconic.errors import DataError, PlanError
from laconic.learn.device import on_device
from laconic.privacy.row_releases import releases_of_rows, take_over
from laconic.tables.table import Table
from laconic.tables.task import Task
from laconic.values import Array

_CONFIRMED = "confirmed"
"""The file in a run's folder that says in which round its rows were first confirmed."""


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


def seal_plan(place: PartyContext, out: Path | None, *, days: float = 30) -> Sealed:
    """Answer all that the plan asks without anybody's rows, and seal the answers.

    Args:
        place: the party's.
        out: the envelope to write; None only tries, and leaves nothing behind.
        days: how long the envelope may be used.

    Raises:
        PlanError: the plan's first question must be waited for.
        Refused: the party's own rules do not allow it.
    """
    agreement = place.agreement
    refuse_hub(place)
    asked = agreement.schedule.opening()
    if not asked:
        raise PlanError(
            f"the first question of {type(agreement.method).__name__} is not known from the plan alone, so it must "
            f"be asked: let {agreement.holder} start with `laconic host`, and answer its questions with "
            "`laconic answer`"
        )
    return answer_and_seal(place, place.run, place.party, asked, out, days)


def answer_envelope(place: PartyContext, path: Path, out: Path | None, *, days: float = 30) -> Sealed:
    """Answer the questions in an envelope from the hub, and whatever follows from them.

    Raises:
        EnvelopeRefused: the envelope cannot be accepted; its kind says why.
        Refused: the party's own rules do not allow it.
    """
    asked = questions_in(place, path, place.run, place.party)
    rest = place.agreement.schedule.following(asked[-1].blob, _confirmed(place.run)) if asked else ()
    return answer_and_seal(place, place.run, place.party, [*asked, *rest], out, days)


def questions_in(place: PartyContext, path: Path, folder: Path, party: Party) -> list[PredictedQuestion]:
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
    place: PartyContext, folder: Path, party: Party, asked: Sequence[PredictedQuestion], out: Path | None, days: float
) -> Sealed:
    """Answer questions at the desk in a folder, and seal the answers for the hub."""
    own, to = place.ring.own, place.ring.named(place.agreement.holder)
    with on_device(place.file.device), _desk_at(place, folder, out) as desk:
        desk.begin(party)
        answers = [desk.answer(one) for one in asked]
        content = desk.content(answers)
        about = {"plan": place.agreement.fingerprint, "alignment": desk.alignment}
        cover = cover_of(content, own, to, kind="answer", days=days, **about)
        if out is not None:
            _note_confirmed(place, folder, asked)
            seal(out, cover, content, [one.pieces() for one in answers], own, to)
    finished = bool(content.blobs) and content.blobs[-1].phase not in ("align", "fit", "look")
    return Sealed(cover, content, finished)


def refuse_hub(place: PartyContext) -> None:
    """The label holder asks, and is not asked."""
    if place.file.name == place.agreement.holder:
        raise PlanError(
            f"{place.file.name} has the labels, and so it is the one who asks: start with `laconic host`, and let the "
            "others seal"
        )


@contextmanager
def _desk_at(place: PartyContext, folder: Path, out: Path | None) -> Iterator[EnvelopeResponder]:
    """The desk in a folder; for a trial, a copy of it that is thrown away."""
    if out is not None:
        yield EnvelopeResponder(place.agreement, folder, gate_of(place, folder))
        return
    with tempfile.TemporaryDirectory(prefix="laconic-") as passing:
        trial = Path(passing) / "run"
        if folder.exists():
            copy_kept(folder, trial)
        yield EnvelopeResponder(place.agreement, trial, trial_gate(place, trial))


def _questions(place: PartyContext, envelope: Envelope) -> list[PredictedQuestion]:
    asked = []
    with envelope.open(place.ring.own) as opened:
        for blob, pieces in opened.blobs():
            question = b"".join(pieces)
            if question_id(place.agreement.script(blob.script), place.file.name, question) != blob.question:
                raise OtherPlan(
                    f"{envelope.path} asks `{blob.step}` of other settings than this plan has here; compare the two "
                    "plan files and the lists of ids"
                )
            asked.append(PredictedQuestion(blob.script, question))
    return asked


def _refuse_other_rows(envelope: Envelope, own: str) -> None:
    other = envelope.cover.alignment
    if NONE not in (own, other) and own != other:
        raise OtherAlignment(
            f"{envelope.path} is about the rows {other}, but here they are {own}; match the rows again"
        )


def _note_confirmed(place: PartyContext, folder: Path, asked: Sequence[PredictedQuestion]) -> None:
    """Remember in which round the matched rows were first confirmed: the next question about them counts on from it."""
    align, kept = place.agreement.align, folder / _CONFIRMED
    if align is None or kept.exists():
        return
    steps = [ask.step for ask in align.confirm_opening().asks]
    rounds = [
        one.round for one in (read_heading(one.blob) for one in asked) if one.phase == "align" and one.step in steps
    ]
    if rounds:
        write_sealed(kept, encode(rounds[0] - 1 + len(steps)))


def _confirmed(folder: Path) -> int | None:
    """The round in which the matched rows were first confirmed; None if that was not noted."""
    kept = folder / _CONFIRMED
    return int(decode(read_sealed(kept), OWN)) if kept.exists() else None


@dataclass(frozen=True)
class Predicted:
    """Predictions for new ids.

    Attributes:
        ids: in the order asked.
        values: in the shape of `Task.shape`.
        task: what was predicted.
    """

    ids: list[str]
    values: Array
    task: Task

    def save(self, path: Path) -> None:
        """Write one line an id, whole or not at all."""
        part = path.with_name(path.name + ".part")
        named = list(self.task.classes) if self.task.kind == "multiclass" else ["prediction"]
        columns = self.values if self.values.ndim == 2 else self.values[:, None]
        with part.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["id", *named])
            writer.writerows(
                [one, *(f"{value:.6g}" for value in row)] for one, row in zip(self.ids, columns, strict=True)
            )
        part.replace(path)


def seal_new(place: PartyContext, ids: list[str], out: Path | None, *, days: float = 30) -> Sealed:
    """Answer what the trained model asks about new ids, and seal the answers.

    Args:
        place: the party's, from `reopen_context`.
        ids: whom to predict; all parties use the same list in the same order.
        out: the envelope to write; None only tries.
        days: how long it may be used.
    """
    refuse_hub(place)
    phase, folder = _names(place, ids)
    asked = place.agreement.schedule.predicting(phase, NEW)
    if not asked:
        raise PlanError(
            f"{type(place.agreement.method).__name__} does not say beforehand what it asks to predict: wait for the "
            f"question of {place.agreement.hub}, and answer it with `laconic answer --predict`"
        )
    return answer_and_seal(place, folder, _with_new_rows(place, ids), asked, out, days)


def answer_new(place: PartyContext, path: Path, ids: list[str], out: Path | None, *, days: float = 30) -> Sealed:
    """Answer the question in an envelope about new ids."""
    folder, party = _names(place, ids)[1], _with_new_rows(place, ids)
    return answer_and_seal(place, folder, party, questions_in(place, path, folder, party), out, days)


def predict(
    place: PartyContext, inbox: Path, ids: list[str], *, without: tuple[str, ...] = (), days: float = 30
) -> Predicted:
    """Predict new ids from the envelopes in a folder; the place is from `reopen_context`.

    Raises:
        EnvelopeRefused: an envelope in the folder is not accepted.
        Waiting: answers are missing.
    """
    refuse_peer(place)
    agreement = place.agreement
    model = PartyFolder(place.run / "model")
    if not model.begun:
        raise PlanError("training has not ended; go on with `laconic host` until it shows a result")
    phase, folder = _names(place, ids)
    asker = _with_new_rows(place, ids)
    hub, here = asker, {}
    if agreement.method.server:
        hub = Party(agreement.hub, Table.without_rows(agreement.hub), agreement.plan.seed, model.load().memory)
        here = {agreement.holder: CoLocatedHolder(EnvelopeResponder(agreement, folder, None), asker)}
    office = open_inbox_for(place, inbox, ids)
    office.take_in()
    with asking(place, office, hub, asker, here, inbox, folder / "hub", without, days) as carrier:
        log = WireLog()
        log.phase = phase
        hub.turn(phase, 0)
        peers = Peers(agreement.method, hub, carrier, log, agreement.peers)
        values = agreement.method.predict(hub, peers, NEW)
    return Predicted(ids, np.asarray(values), task_of(asker))


def open_inbox_for(place: PartyContext, inbox: Path, ids: list[str]) -> Inbox:
    """The office that takes in envelopes about new ids."""
    if not inbox.is_dir():
        raise PlanError(f"there is no folder {inbox} for envelopes; make it, and put in what the others sent")
    return Inbox(place, inbox, _names(place, ids)[1] / "hub", ids_fingerprint(ids), len(ids))


def _names(place: PartyContext, ids: list[str]) -> tuple[str, Path]:
    """A phase and a folder for these ids alone: what chance a party draws for one list is never used for another."""
    short = ids_fingerprint(ids)[:12]
    return f"predict {short}", place.run / f"predict-{short}"


def _with_new_rows(place: PartyContext, ids: list[str]) -> Party:
    """The party as it is after training, with the rows of these ids, prepared as its training rows were."""
    trained = place.party
    recipe = trained.data.recipe
    source = own_rows(place.agreement.plan, place.file, recipe)
    place_at = {key: at for at, key in enumerate(source.keys.tolist())}
    missing = [one for one in ids if one not in place_at]
    if missing:
        raise DataError(
            f"party {place.file.name!r} has no row for {len(missing):,} of the {len(ids):,} ids to predict, such as "
            f"{missing[0]!r}; add the rows, or leave these ids out of everybody's list"
        )
    order = np.array([place_at[one] for one in ids], dtype=np.int64)
    table = Table(
        source.raw[order],
        source.columns,
        ids=ids,
        task=trained.data.task,
        cuts={NEW: np.arange(len(ids))},
        party=place.file.name,
        recipe=recipe,
    )
    party = Party(place.file.name, table, trained.seed, dict(trained.memory))
    take_over(party, max((trained, *_before(place)), key=releases_of_rows))
    return party


def _before(place: PartyContext) -> list[Party]:
    """The party as it was after each list of ids that it has answered for; each knows what was told by then."""
    kept = [PartyFolder(folder / "party") for folder in place.run.glob("predict-*")]
    return [folder.load() for folder in kept if folder.begun]
