"""A party's side of a run by envelope: answer what the plan asks, or what an envelope asks, and seal the answers."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from laconic.atomic_files import read_sealed, write_sealed
from laconic.core.step import steps_of
from laconic.core.wire import decode, encode, outline, read_heading
from laconic.deploy.party_account import PartyAccount, copied, locate_account, open_account, run_before
from laconic.deploy.party_context import (
    PartyContext,
    alignment_of,
    context_for_ids,
    epsilon_words,
    rows_of,
    run_id,
)
from laconic.deploy.policy import ANSWER, NEW, SCORED
from laconic.deploy.responder import Responder, note_rows, open_kept
from laconic.deploy.session import PredictedQuestion
from laconic.deploy.statements import sign_ledger
from laconic.deploy.store import OWN, copy_kept
from laconic.deploy.transports.envelopes.keys import Blob, Content, Cover, OtherPlan, describe_blob
from laconic.deploy.transports.envelopes.mailbox import refuse_other_rows
from laconic.deploy.transports.envelopes.sealing import Envelope, Expected, check, cover_of, seal
from laconic.deploy.transports.rpc_messages import question_id
from laconic.errors import PlanError

_CONFIRMED = "confirmed"
"""The file in a run's folder that says in which round its rows were first confirmed."""


@dataclass(frozen=True)
class Sealed:
    """What was sealed, or would be; `finished` if nothing more will be asked."""

    cover: Cover
    content: Content
    finished: bool


def seal_plan(context: PartyContext, out: Path | None, *, days: float = 30) -> Sealed:
    """Answer all that the plan asks without anybody's rows, and seal the answers.

    Args:
        out: the envelope to write; None only tries, and leaves nothing behind.
        days: how long the envelope may be used.
    """
    session = context.session
    refuse_hub(context)
    asked = session.schedule.opening()
    if not asked:
        raise PlanError(
            f"the first question of {type(session.method).__name__} is not known from the plan alone, so it must "
            f"be asked: let {session.host} start with `laconic host`, and answer its questions with "
            "`laconic answer`"
        )
    return _answer_and_seal(context, asked, out, days)


def seal_new(context: PartyContext, ids: list[str], out: Path | None, *, days: float = 30) -> Sealed:
    """Answer what the trained model asks about new ids, and seal the answers.

    Args:
        context: from `reopen_context`.
        ids: whom to predict; all parties use the same list in the same order.
    """
    refuse_hub(context)
    context = context_for_ids(context, ids)
    asked = context.session.schedule.predicting(context.phase, NEW)
    if not asked:
        raise PlanError(
            f"{type(context.session.method).__name__} does not say beforehand what it asks to predict: wait for the "
            f"question of {context.session.hub}, and answer it with `laconic answer --predict`"
        )
    return _answer_and_seal(context, asked, out, days)


def answer_envelope(context: PartyContext, path: Path, out: Path | None, *, days: float = 30) -> Sealed:
    """Answer the questions in an envelope from the hub, and whatever follows from them."""
    asked = _questions_in(context, path)
    rest = context.session.schedule.following(asked[-1].blob, _confirmed(context.folder)) if asked else ()
    return _answer_and_seal(context, [*asked, *rest], out, days)


def answer_new(context: PartyContext, path: Path, ids: list[str], out: Path | None, *, days: float = 30) -> Sealed:
    """Answer the question in an envelope about new ids."""
    context = context_for_ids(context, ids)
    return _answer_and_seal(context, _questions_in(context, path), out, days)


def refuse_hub(context: PartyContext) -> None:
    """The label holder asks, and is not asked."""
    if context.file.name == context.session.host:
        raise PlanError(
            f"{context.file.name} hosts by this plan, and so it is the one who asks: start with `laconic host`, and "
            "let the others seal"
        )


def _questions_in(context: PartyContext, path: Path) -> list[PredictedQuestion]:
    """The questions in an envelope, once it is accepted."""
    refuse_hub(context)
    expected = Expected("question", plan=context.session.fingerprint, sender=context.session.host)
    envelope = check(path, context.ring, expected)
    asked = _read_questions(context, envelope)
    with _responder(context, None) as responder:
        refuse_other_rows(envelope, responder.kept.load(), context.session)
    return asked


def _read_questions(context: PartyContext, envelope: Envelope) -> list[PredictedQuestion]:
    asked = []
    with envelope.open(context.ring.own) as opened:
        for blob, pieces in opened.blobs():
            question = b"".join(pieces)
            if question_id(context.session.script(blob.script), context.file.name, question) != blob.question:
                raise OtherPlan(
                    f"{envelope.path} asks `{blob.step}` of other settings than this plan has here; compare the two "
                    "plan files and the lists of ids"
                )
            asked.append(PredictedQuestion(blob.script, question))
    return asked


def _answer_and_seal(
    context: PartyContext, asked: Sequence[PredictedQuestion], out: Path | None, days: float
) -> Sealed:
    session, own, to = context.session, context.ring.own, context.ring.named(context.session.host)
    with _responder(context, out) as responder:
        blobs = [_answer(responder, one) for one in asked]
        if blobs and _is_last(context, blobs[-1]):
            responder.kept.end()
        party = responder.kept.load()
        entries = party.ledger.entries
        words = epsilon_words(party.name, entries, session.plan)
        signed = sign_ledger(own, party.name, session.fingerprint, entries, final=responder.kept.ended)
        content = Content(rows=rows_of(party), epsilon=words, ledger=entries, blobs=tuple(blobs), statement=signed)
        about = {"plan": session.fingerprint, "alignment": alignment_of(party, session)}
        cover = cover_of(content, own, to, kind="answer", days=days, **about)
        if out is not None:
            _note_confirmed(context, asked)
            # One answer after the other: all of them together may be larger than memory.
            seal(out, cover, content, ((responder.kept.reply(blob.question),) for blob in blobs), own, to)
    finished = bool(blobs) and blobs[-1].phase not in ("align", "fit", "look")
    return Sealed(cover, content, finished)


def _is_last(context: PartyContext, blob: Blob) -> bool:
    """Whether nothing more will be asked in the run, as the method declares."""
    if context.session.apart:
        return blob.script == "home"
    asked = context.session.method.predict_opening(SCORED)
    return blob.phase == "final" and asked.then == "ends" and blob.round >= len(asked.asks)


def _answer(responder: Responder, asked: PredictedQuestion) -> Blob:
    """Answer a question, or find what was answered before; returns what stands on the envelope about it."""
    script, heading = responder.session.script(asked.script), read_heading(asked.blob)
    question = responder.answer(script, asked.blob)
    reply = responder.kept.reply(question)
    words = steps_of(script)[heading.step].gives
    return describe_blob(asked.script, heading, question, words, outline(reply, ANSWER), len(reply))


@contextmanager
def _responder(context: PartyContext, out: Path | None) -> Iterator[Responder]:
    """The party in its run; for a trial, on a copy of run and account that is thrown away."""
    if out is not None:
        yield _open(context, context.folder, open_account(context.file))
        return
    with tempfile.TemporaryDirectory(prefix="laconic-") as passing:
        trial = Path(passing) / "run"
        if context.folder.exists():
            copy_kept(context.folder, trial)
        yield _open(context, trial, copied(locate_account(context.file), Path(passing)))


def _open(context: PartyContext, folder: Path, account: PartyAccount) -> Responder:
    note_rows(folder, context.party)
    kept = open_kept(folder)
    if not kept.begun:
        kept.begin(context.party)
    rules = context.session.rules(context.file, account, kept.run or run_before(run_id(folder), context.home))
    return Responder(context.session, folder, kept, rules, context.file.device)


def _note_confirmed(context: PartyContext, asked: Sequence[PredictedQuestion]) -> None:
    """Remember in which round the matched rows were first confirmed: the next question about them counts on from it."""
    align, kept = context.session.align, context.folder / _CONFIRMED
    if align is None or kept.exists():
        return
    steps = [ask.step for ask in align.confirm_opening().asks]
    headings = [read_heading(one.blob) for one in asked]
    rounds = [one.round for one in headings if one.phase == "align" and one.step in steps]
    if rounds:
        write_sealed(kept, encode(rounds[0] - 1 + len(steps)))


def _confirmed(folder: Path) -> int | None:
    """The round in which the matched rows were first confirmed; None if that was not noted."""
    kept = folder / _CONFIRMED
    return int(decode(read_sealed(kept), OWN)) if kept.exists() else None
