"""The reasons of a prediction: each party's share, and that of each column of the hub."""

from itertools import permutations

import numpy as np
import pandas as pd
import pytest

from laconic import FedOnce, SplitNN, from_frames, train
from laconic.errors import DataError
from laconic.inference.absent import Measured, Refit, SoloModel
from laconic.inference.predict import load_model
from laconic.inference.reasons import explain
from laconic.inference.save import save_model
from laconic.learn import Best, Boosted, Joint, LinearModel, Sgd
from laconic.testing import small_federation

QUICK = Best(seconds=2, kinds=("linear", "trees"))
METHODS = {
    "binary": FedOnce(head=QUICK),
    "multiclass": FedOnce(head=Boosted(trees=5)),
    "regression": FedOnce(head=LinearModel()),
    "net": FedOnce(head=Joint(), trainer=Sgd(epochs=2)),
    "split": SplitNN(trainer=Sgd(epochs=2)),
}


def model_of(name, folder):
    federation = small_federation(name if name in ("binary", "multiclass", "regression") else "binary")
    save_model(train(METHODS[name], federation), folder)
    return load_model(folder)


@pytest.fixture(scope="module", params=METHODS)
def model(request, tmp_path_factory):
    return model_of(request.param, tmp_path_factory.mktemp("reasons"))


def test_shares_add_up_to_the_prediction_less_the_base(model):
    ids = model.store.ids_of("valid")[:7]
    found = explain(model, ids, people=4)
    said = model.predict_stored(ids).predictions
    said = said.max(axis=1) if said.ndim == 2 else said
    assert found.said == pytest.approx(said, rel=1e-5)
    assert found.base + found.shares.sum(axis=1) == pytest.approx(found.said, abs=1e-6 * float(np.abs(said).max()))
    assert (np.abs(found.shares).max(axis=0) > 0).any()
    assert set(model.part.about.peers) < set(found.names)


@pytest.mark.parametrize("way", [Refit(), SoloModel(), Measured()])
def test_who_is_absent_has_no_share(way, tmp_path):
    model = model_of("binary", tmp_path)
    gone, *rest = model.part.about.peers
    found = explain(
        model, (ids := model.store.ids_of("valid")[:5]), store=model.store.as_if_absent(gone), absent=way, people=3
    )
    by_name = dict(zip(found.names, found.shares.T, strict=True))
    assert not by_name[gone].any()
    assert found.base + found.shares.sum(axis=1) == pytest.approx(found.said)
    if way == SoloModel():
        assert not any(by_name[name].any() for name in rest)
    assert explain(model, [*ids, "nobody"], people=2).to_frame().iloc[-1].isna().sum() == 1 + len(found.names)


def test_shares_in_a_linear_model_of_numbers_are_exact(tmp_path):
    model = model_of("regression", tmp_path)
    store, ids = model.store, model.store.ids_of("valid")[:6]
    found = explain(model, ids, people=5, seed=3)
    everybody = store.ids_of("train")
    compared = [everybody[at] for at in np.random.default_rng(3).permutation(len(everybody))[:5]]
    peers = model.part.about.peers
    apart = store.inputs(ids, peers) - store.inputs(compared, peers).mean(axis=0)
    weighed = apart * model.part.memory["model"]["coefficients"][0]
    start = store.own.x.shape[1]
    for name in peers:
        width = store.answers[name].block.shape[1]
        share = found.shares[:, found.names.index(name)]
        assert share == pytest.approx(weighed[:, start : start + width].sum(axis=1), rel=1e-4, abs=1e-4)
        start += width


def test_shares_in_trees_are_shapley_values_within_their_error(tmp_path):
    """By hand, over every order of the three players: the hub's one column and two parties."""
    rng = np.random.default_rng(0)
    cells = rng.normal(size=(300, 5))
    label = (cells[:, 0] * cells[:, 1] + cells[:, 2] * cells[:, 3] > 0).astype(int)
    ids = np.arange(300)
    bank = pd.DataFrame({"id": ids, "a": cells[:, 0], "left": label})
    shop = pd.DataFrame({"id": ids, "b": cells[:, 1], "c": cells[:, 2]})
    insurer = pd.DataFrame({"id": ids, "d": cells[:, 3], "e": cells[:, 4]})
    federation = from_frames({"bank": bank, "shop": shop, "insurer": insurer}, id="id", label="left")
    head = Boosted(trees=10, depth=3)
    save_model(train(FedOnce(head=head), federation), tmp_path)
    model = load_model(tmp_path)
    store, names = model.store, ("shop", "insurer", "bank: a")
    person, known = store.ids_of("valid")[0], store.ids_of("train")
    compared = [known[at] for at in np.random.default_rng(0).permutation(len(known))[:40]]

    def said(swapped, somebody):
        own = store.own.x[[store.own.places[person if "bank: a" in swapped else somebody]]]
        parts = [store.answers[name].block_of([person if name in swapped else somebody]) for name in names[:2]]
        return head.predict(model.task, model.part.memory["model"], np.concatenate([own, *parts], axis=1))[0]

    found = explain(model, [person], people=40)
    assert found.names == names
    for place, name in enumerate(names):
        moves = [
            said((*order[: order.index(name)], name), somebody) - said(order[: order.index(name)], somebody)
            for somebody in compared
            for order in permutations(names)
        ]
        assert found.shares[0, place] == pytest.approx(np.mean(moves), abs=3 * found.errors[0, place])
        assert 0 < found.errors[0, place] < 0.05


def test_the_same_seed_gives_the_same_reasons_and_parts_do_not_matter(tmp_path, monkeypatch):
    model = model_of("binary", tmp_path)
    ids = model.store.ids_of("valid")[:6]
    whole = explain(model, ids, people=3)
    monkeypatch.setattr("laconic.inference.reasons._AT_ONCE", 10)
    assert explain(model, ids, people=3).shares == pytest.approx(whole.shares, abs=1e-6)


def test_a_model_that_keeps_no_answers_says_so(tmp_path):
    save_model(train(FedOnce(head=LinearModel()), small_federation("binary")), tmp_path, keep=False)
    with pytest.raises(DataError, match=r"keeps no answers .* leave reasons out"):
        explain(load_model(tmp_path), ["1"])
