"""Labels outside the overlap count: the hub's own rows, and rows that only some parties share with it."""

import numpy as np
import pandas as pd
import pytest

from laconic import (
    Centralised,
    Fdml,
    FedBCD,
    FedCVT,
    FedOnce,
    FewShot,
    LateFusion,
    Linear,
    LocalDp,
    OneShot,
    Rap,
    Solo,
    SplitNN,
    Vafl,
    VerticalXgboost,
    VimAdmm,
    VimAdmmJoint,
    VimSgd,
    deal,
    from_frames,
    load,
    simulate,
    train,
)
from laconic.data import Equal, Federation
from laconic.errors import WireError
from laconic.learn import (
    Best,
    Boosted,
    Estimator,
    FixMatchTab,
    Joint,
    LinearModel,
    Mlp,
    NetModel,
    Sgd,
    SummedHeads,
)
from laconic.methods.families.rows import own_rows, with_own_rows
from laconic.methods.registry import methods
from laconic.privacy import DpSgd, PublicProjection
from laconic.report import rows_of

QUICK = Best(seconds=2, kinds=("linear", "trees"))


def bank_and_guests(rows=1200, everyone=100, label_noise=0.0, few=False) -> Federation:
    """A bank and a shop share `rows` people; the insurer knows the first `everyone` of them.

    The label follows from one column of the bank and one of the shop. With `label_noise`, the bank's labels outside
    the first rows are so often wrong; if `few`, it has none there.
    """
    rng = np.random.default_rng(0)
    income, visits = rng.normal(size=(2, rows))
    left = (income + visits + 0.3 * rng.normal(size=rows) > 0).astype(int)
    wrong = (np.arange(rows) >= everyone) & (rng.random(rows) < label_noise)
    bank = pd.DataFrame({"id": np.arange(rows), "income": income, "left": np.where(wrong, 1 - left, left)})
    bank = bank[:everyone] if few else bank
    shop = pd.DataFrame({"id": np.arange(rows), "visits": visits})
    claims = pd.DataFrame({"id": np.arange(everyone), "claims": rng.normal(size=everyone)})
    return from_frames({"bank": bank, "shop": shop, "insurer": claims}, id="id", label="left")


def test_labels_of_rows_that_nobody_else_has_are_learnt_from():
    data = load("breast_cancer")
    scores = {}
    for own_labels in (False, True):
        made = deal(data, Equal(parties=3), overlap=30, own_labels=own_labels)
        run = train(FedOnce(head=QUICK), made)
        scores[own_labels] = run.result.metrics["log_loss"]
        assert ("outside" in run.result.data) == own_labels
    assert scores[True] < scores[False]


def test_rows_that_only_some_parties_share_are_learnt_from():
    made = bank_and_guests(rows=2000, everyone=300)
    with_pairs = simulate(FedOnce(head=QUICK), made)
    assert with_pairs.data["outside"] == {"bank": 1700, "shop": 1700}
    assert rows_of(with_pairs, "shop")[2:] == (2000, {})
    few = simulate(FedOnce(head=QUICK), bank_and_guests(rows=2000, everyone=300, few=True))
    assert "outside" not in few.data
    # The shop's column is half of the label: what 216 rows teach is less than what 1,916 teach.
    assert with_pairs.metrics["log_loss"] < few.metrics["log_loss"]
    assert with_pairs.metrics["accuracy"] > 0.85


SHORT = Sgd(epochs=20, lr=3e-3)


@pytest.mark.parametrize(
    "method",
    [
        FedOnce(head=Joint(), trainer=SHORT),
        FedOnce(head=NetModel(trainer=SHORT)),
        FedOnce(head=LinearModel()),
        FedOnce(head=Joint(), trainer=SHORT, more=Sgd(epochs=1)),
        OneShot(local=FixMatchTab(steps=5), head=Mlp(hidden=()), trainer=SHORT),
        FewShot(local=FixMatchTab(steps=5), head=Mlp(hidden=()), trainer=SHORT),
        Centralised(trainer=SHORT),
        Linear(),
    ],
    ids=lambda one: f"{type(one).__name__} {type(getattr(one, 'head', None)).__name__}",
)
def test_nets_and_linear_models_learn_from_all_labels_too(method):
    known = simulate(method, bank_and_guests(rows=1500, everyone=60))
    unknown = simulate(method, bank_and_guests(rows=1500, everyone=60, few=True))
    assert known.data["outside"] == {"bank": 1440, "shop": 1440}
    assert "outside" not in unknown.data
    assert known.metrics["log_loss"] < unknown.metrics["log_loss"]


def test_an_estimator_of_scikit_learn_learns_from_all_labels_too():
    pytest.importorskip("skops")
    head = Estimator(path="sklearn.linear_model.LogisticRegression")
    assert simulate(FedOnce(head=head), bank_and_guests()).data["outside"] == {"bank": 1100, "shop": 1100}


def test_numbers_under_local_noise_are_not_sent_for_more_rows_but_own_labels_count():
    method = LocalDp(learner=LinearModel())
    few, every = (simulate(method, bank_and_guests(few=one)) for one in (True, False))
    assert every.data["outside"] == {"bank": 1100}
    assert every.fit.bytes_up == few.fit.bytes_up


@pytest.mark.parametrize(
    "method",
    [
        FedOnce(encoder=PublicProjection(), head=Joint(), trainer=DpSgd(sigma=1.0, epochs=1)),
        OneShot(local=FixMatchTab(steps=5), head=SummedHeads()),
    ],
    ids=["a private net", "class heads"],
)
def test_heads_that_learn_from_shared_labels_alone_are_sent_nothing_else(method):
    run = simulate(method, bank_and_guests())
    assert "outside" not in run.data
    assert run.fit.bytes_up < 100 * 1100


def test_one_net_serves_whoever_is_there():
    """The net learns with blocks taken away: without the shop it is as good as its own columns allow."""
    made = bank_and_guests(rows=3000, everyone=300)
    run = train(FedOnce(head=NetModel(trainer=SHORT)), made)
    places = np.arange(len(run.hub.data.cut("train")))
    parts, y = run.method.stored_parts(run.hub, places), run.hub.data.part("train")[1]
    there, gone = (
        np.mean((run.method.predict_from(run.hub, some, places) > 0.5) == y)
        for some in (parts, {"bank": parts["bank"]})
    )
    best = np.mean((run.hub.data.part("train")[0][:, 0] > 0) == y)
    assert there > 0.85
    assert gone > best - 0.03


def test_rows_that_were_not_learnt_from_are_not_said_to_be_outside_the_overlap_alone():
    """Rows by time: some that the shop shares with the bank are as late as the rows that are scored on."""
    rng, ids = np.random.default_rng(0), np.arange(400)
    day = pd.date_range("2024-01-01", periods=400).strftime("%Y-%m-%d")
    bank = pd.DataFrame({"id": ids, "day": day, "income": rng.normal(size=400), "left": ids // 3 % 2})
    shop = pd.DataFrame({"id": ids, "visits": rng.normal(size=400)})
    insurer = pd.DataFrame({"id": ids[::2], "claims": rng.normal(size=200)})
    made = from_frames({"bank": bank, "shop": shop, "insurer": insurer}, id="id", label="left", split_by="day")
    lost = rows_of(simulate(FedOnce(head=Boosted(trees=2)), made), "shop")[3]
    assert list(lost) == ["only some parties have, and bank does not learn from"]


def test_labels_outside_the_overlap_that_contradict_do_no_harm_and_are_not_said_to_be_learnt_from():
    sound = simulate(FedOnce(head=QUICK), bank_and_guests(everyone=400))
    turned = simulate(FedOnce(head=QUICK), bank_and_guests(everyone=400, label_noise=1.0))
    assert sound.metrics["accuracy"] > 0.8
    assert turned.metrics["accuracy"] > 0.8
    assert sound.data["outside"] == {"bank": 800, "shop": 800}
    assert turned.data["outside"] == {}
    assert list(rows_of(turned, "bank")[3]) == ["only some parties have, and the model does clearly better without"]


def bank_alone(shuffled=False) -> Federation:
    """A bank of 400 people of whom a shop knows 60, the bank's other labels as they are or drawn anew."""
    rng = np.random.default_rng(0)
    income, age, visits = rng.normal(size=(3, 400))
    left = (income + np.abs(age) - 0.8 + 0.4 * visits > 0).astype(int)
    left = np.append(left[:60], rng.permutation(left[60:])) if shuffled else left
    bank = pd.DataFrame({"id": np.arange(400), "income": income, "age": age, "left": left})
    shop = pd.DataFrame({"id": np.arange(60), "visits": visits[:60]})
    return from_frames({"bank": bank, "shop": shop}, id="id", label="left")


LEARNS_FROM_ALL = [
    FedOnce(head=QUICK),
    FedOnce(head=LinearModel()),
    FedOnce(trainer=SHORT),
    FedOnce(head=Joint(), trainer=SHORT, more=Sgd(epochs=1)),
    OneShot(local=FixMatchTab(steps=2), head=QUICK),
    OneShot(local=FixMatchTab(steps=2), head=Mlp(hidden=()), trainer=SHORT),
    FewShot(local=FixMatchTab(steps=2), head=QUICK),
    Rap(learner=QUICK, trains="label holder"),
    Rap(learner=LinearModel(), trains="label holder"),
    LateFusion(model=QUICK),
    LocalDp(learner=LinearModel()),
    Solo(model=QUICK),
    Centralised(model=QUICK),
    Linear(),
]
SHARED_ALONE = [Rap(learner=QUICK), SplitNN(trainer=SHORT), FedBCD(trainer=SHORT), FedCVT(trainer=SHORT)]
SHARED_ALONE += [VimSgd(), VimAdmm(), VimAdmmJoint(), Vafl(), Fdml(), VerticalXgboost()]


def test_every_vertical_method_is_known_to_learn_from_all_labels_or_from_shared_ones():
    known = {type(one).__name__ for one in LEARNS_FROM_ALL + SHARED_ALONE}
    assert {kind.__name__ for kind in methods().values() if kind.kind == "vertical"} == known


@pytest.mark.parametrize("method", LEARNS_FROM_ALL, ids=lambda one: type(one).__name__)
def test_labels_outside_the_overlap_change_what_is_predicted(method):
    known, drawn = (simulate(method, bank_alone(shuffled=shuffled)) for shuffled in (False, True))
    assert known.metrics != drawn.metrics
    assert known.data["outside"] == {"bank": 340}


@pytest.mark.parametrize("method", SHARED_ALONE, ids=lambda one: type(one).__name__)
def test_methods_of_shared_labels_alone_do_not_look_at_any_other(method):
    known, drawn = (simulate(method, bank_alone(shuffled=shuffled)) for shuffled in (False, True))
    assert known.metrics == drawn.metrics
    assert "outside" not in known.data


def test_a_label_holder_that_trains_for_a_server_says_what_it_tried():
    assert len(simulate(Rap(learner=QUICK, trains="label holder"), bank_alone()).tried) > 2


@pytest.mark.parametrize("method", [Solo(model=QUICK), LateFusion(model=QUICK)])
def test_yardsticks_have_the_same_labels(method):
    assert simulate(method, bank_and_guests()).data["outside"] == {"bank": 1100}


def test_a_guest_that_is_not_there_is_a_gap_and_no_zero():
    run = train(FedOnce(head=QUICK), deal(load("breast_cancer"), Equal(parties=3), overlap=100, own_labels=True))
    method, hub = run.method, run.hub
    places = np.arange(len(hub.data.cut("train")))
    parts = method.stored_parts(hub, places)
    alone = method.predict_from(hub, {hub.name: parts[hub.name]}, places)
    y = hub.data.part("train")[1]
    assert np.mean((alone > 0.5) == y) > 0.9


def test_wrong_numbers_for_paired_rows_name_the_party():
    run = train(FedOnce(head=Boosted(trees=2)), bank_and_guests())
    run.hub.memory["received"]["shop"]["paired"] = run.hub.memory["received"]["shop"]["paired"][:-1]
    received, x = run.hub.memory["received"], run.hub.data.part("train")[0]
    with pytest.raises(WireError, match=r"shop sent .* for the rows that it shares with the hub alone; 1,100 rows"):
        with_own_rows(run.hub, [x, *(one["train"] for one in received.values())], received)


@pytest.mark.parametrize(
    "method",
    [
        OneShot(local=FixMatchTab(steps=5), head=QUICK),
        FewShot(local=FixMatchTab(steps=5), head=QUICK),
        Centralised(model=QUICK),
    ],
    ids=lambda method: type(method).__name__,
)
def test_other_methods_take_rows_that_only_some_parties_share_too(method):
    run = train(method, bank_and_guests(everyone=300))
    assert run.result.data["outside"] == {"bank": 900, "shop": 900}


def test_pooled_columns_have_pairs_as_one_exchange_has():
    pooled = simulate(Centralised(model=QUICK), bank_and_guests(rows=2000, everyone=300))
    alone = simulate(Solo(model=QUICK), bank_and_guests(rows=2000, everyone=300))
    assert pooled.metrics["accuracy"] > 0.85 > 0.8 > alone.metrics["accuracy"]


def test_a_label_holder_that_trains_on_mixed_columns_has_all_its_labels():
    seen, fit_all = [], Best.fit_all
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            Best, "fit_all", lambda self, task, x, y, *more: seen.append(len(y)) or fit_all(self, task, x, y, *more)
        )
        simulate(Rap(learner=QUICK, trains="label holder"), bank_and_guests())
        simulate(Rap(learner=QUICK), bank_and_guests())
    # A server has no labels but those that it is sent: of shared rows, hidden.
    assert seen == [72 + 1100, 72]


@pytest.mark.parametrize(
    "method",
    [
        OneShot(local=FixMatchTab(steps=5), head=QUICK),
        FewShot(local=FixMatchTab(steps=5), head=QUICK),
        FedCVT(trainer=Sgd(epochs=1)),
    ],
    ids=lambda method: type(method).__name__,
)
def test_semi_supervised_parties_learn_from_all_their_rows(method, monkeypatch):
    """The 200 rows that a guest does not share with everybody, beside those that it does."""
    own: dict[str, int] = {}

    def noted(party):
        own[party.name] = len(own_rows(party))
        return own_rows(party)

    for place in ("families.guided", "vertical.fedcvt"):
        monkeypatch.setattr(f"laconic.methods.{place}.own_rows", noted)
    simulate(method, bank_and_guests(rows=300, everyone=100))
    assert own["shop"] == 200
