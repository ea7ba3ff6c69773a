"""What a hub refuses when it takes envelopes in, beyond what an envelope itself shows."""

import shutil
from datetime import datetime, timedelta

import msgspec
import pytest

from laconic.deploy.coordinator import host, open_inbox
from laconic.deploy.sealed_answers import answer_envelope, seal_plan
from laconic.deploy.transports.envelopes import sealing
from laconic.deploy.transports.envelopes.keys import CoverMismatch, Expired, OtherAlignment, OtherPlan, Replayed
from laconic.deploy.transports.envelopes.mailbox import ReplayGuard
from laconic.deploy.transports.envelopes.sealing import Expected, check, cover_of, seal
from laconic.errors import DataError
from tests.deploy.test_training import FEDONCE, ONESHOT, Waiting, seal_all


def sealed(world, name="shop", out="shop.envelope"):
    return seal_plan(world.context(name), world.inbox / out)


def test_an_envelope_of_an_earlier_run_is_refused_as_replayed(world):
    world.plan(FEDONCE)
    seal_all(world)
    host(world.context("bank"), world.inbox)
    shutil.rmtree(world.context("bank").run)
    with pytest.raises(Replayed, match="accepted before, for an earlier run"):
        host(world.context("bank"), world.inbox)


def test_two_runs_that_take_in_one_envelope_at_once_cannot_both_accept_it(world):
    world.plan(FEDONCE)
    sealed(world)
    place = world.context("bank")
    envelope = check(world.inbox / "shop.envelope", place.ring, Expected("answer", plan=place.session.fingerprint))
    one, other = (ReplayGuard(world.root / "accepted") for _ in "12")
    for register, run in ((one, "one"), (other, "two")):
        register.refuse_seen(envelope, run)
    one.note(envelope, "one")
    with pytest.raises(Replayed, match="accepted before, for an earlier run"):
        other.note(envelope, "two")
    assert one.has(envelope.cover.number, "one")


def test_an_envelope_that_was_accepted_in_time_stays_so(world, monkeypatch):
    world.plan(FEDONCE)
    sealed(world)
    with pytest.raises(Waiting):
        host(world.context("bank"), world.inbox)
    late = world.root / "insurer.envelope"
    seal_plan(world.context("insurer"), late)

    class Later(datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.now(tz) + timedelta(days=40)

    monkeypatch.setattr(sealing, "datetime", Later)
    with pytest.raises(Waiting, match="insurer"):
        host(world.context("bank"), world.inbox)
    shutil.copy(late, world.inbox)
    with pytest.raises(Expired):
        host(world.context("bank"), world.inbox)


def test_a_copy_beside_the_first_is_refused_as_replayed(world):
    world.plan(FEDONCE)
    sealed(world)
    shutil.copy(world.inbox / "shop.envelope", world.inbox / "shop-copy.envelope")
    with pytest.raises(Replayed, match="is a copy of"):
        host(world.context("bank"), world.inbox)


def test_a_second_answer_to_one_question_is_refused_as_replayed(world):
    world.plan(FEDONCE)
    sealed(world)
    sealed(world, out="shop-again.envelope")
    with pytest.raises(Replayed, match=r"answers `keep_agreed` of align 1, as .*shop-again\.envelope does"):
        host(world.context("bank"), world.inbox)


def test_a_party_with_another_plan_is_refused(world):
    world.plan(FEDONCE)
    path = world.home("shop") / "plan.toml"
    path.write_text(path.read_text().replace("dim = 2", "dim = 3"))
    sealed(world)
    with pytest.raises(OtherPlan):
        host(world.context("bank"), world.inbox)


def test_a_party_with_other_people_is_refused(world):
    world.plan(FEDONCE)
    path = world.home("shop") / "rows.csv"
    path.write_text(path.read_text().replace("c0007", "x0007"))
    sealed(world)
    with pytest.raises(OtherAlignment):
        host(world.context("bank"), world.inbox)


def lying(content, lie):
    if lie == "float16":
        blobs = [msgspec.structs.replace(blob, form="float16 2x2") for blob in content.blobs]
        return msgspec.structs.replace(content, blobs=tuple(blobs))
    return msgspec.structs.replace(content, **{"epsilon": {"epsilon": "0.1 at delta 1e-05"}, "rows": {"rows": 7}}[lie])


@pytest.mark.parametrize("lie", ["epsilon", "rows", "float16"])
def test_a_cover_that_what_is_inside_does_not_bear_out_is_refused(world, lie):
    world.plan(FEDONCE)
    place = world.context("shop")
    honest = sealed(world)
    content = lying(honest.content, lie)
    path = world.inbox / "shop.envelope"
    bank = world.context("bank")
    with check(path, bank.ring, Expected("answer")).open(bank.ring.own) as opened:
        blobs = [b"".join(pieces) for _, pieces in opened.blobs()]
    to = place.ring.named("bank")
    about = {"plan": place.session.fingerprint, "alignment": honest.cover.alignment}
    cover = cover_of(content, place.ring.own, to, kind="answer", days=1, **about)
    seal(path, cover, content, [[blob] for blob in blobs], place.ring.own, to)
    with pytest.raises(CoverMismatch, match=f"says {lie}"):
        host(bank, world.inbox)


def test_looking_lists_what_came_and_accepts_nothing(world):
    world.plan(FEDONCE)
    sealed(world)
    (world.inbox / "insurer.envelope").write_bytes((world.inbox / "shop.envelope").read_bytes()[:-1])
    bad, good = open_inbox(world.context("bank"), world.inbox).look()
    assert (good.cover.sender, good.refusal) == ("shop", None)
    assert "cut off" in str(bad.refusal)
    assert not (world.home("bank") / "runs" / "accepted").exists()


def test_rows_that_changed_since_the_run_began_are_refused(world):
    world.plan(FEDONCE)
    sealed(world)
    path = world.home("shop") / "rows.csv"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([lines[0], lines[1].rpartition(",")[0] + ",9.9", *lines[2:]]))
    with pytest.raises(DataError, match="rows of shop changed since this run began"):
        sealed(world)


def test_a_question_for_another_plan_is_refused(world):
    world.plan(ONESHOT)
    seal_all(world)
    with pytest.raises(Waiting):
        host(world.context("bank"), world.inbox)
    (question,) = (world.inbox / "questions").glob("shop-*.envelope")
    path = world.home("shop") / "plan.toml"
    path.write_text(path.read_text().replace("width = 4", "width = 5"))
    with pytest.raises(OtherPlan):
        answer_envelope(world.context("shop"), question, world.root / "x")


def test_a_hub_whose_rows_changed_cannot_go_on(world):
    world.plan(FEDONCE)
    with pytest.raises(Waiting):
        host(world.context("bank"), world.inbox)
    path = world.home("bank") / "rows.csv"
    head, first, *rest = path.read_text().splitlines()
    customer, _, cells = first.partition(",")
    path.write_text("\n".join([head, f"{customer},9.9,{cells.partition(',')[2]}", *rest]))
    with pytest.raises(DataError, match="rows of bank changed since this run began"):
        host(world.context("bank"), world.inbox)
