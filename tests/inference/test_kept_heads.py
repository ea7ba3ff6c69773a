"""What was chosen when a model was trained is fitted anew when it changes, and stands in for the absent."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from laconic import FedOnce, train
from laconic.errors import DataError
from laconic.inference.absent import Measured, Refit
from laconic.inference.bundle import Expected
from laconic.inference.local_transport import parts_of, reach_parts
from laconic.inference.merge import forget
from laconic.inference.predict import Model, load_model
from laconic.inference.save import refuse_worse, save_model
from laconic.inference.update import add_party, add_rows, save_grown
from laconic.learn import Best, Boosted, Joint, LinearModel, Mixture, Mlp, NetModel, Sgd, TreeModel
from tests.inference.asking import part_folder, rows_of

TREES = Boosted(trees=8, depth=3)
HEADS = {"trees": TREES, "best": Best(kinds=("linear", "trees"), seconds=5), "linear": LinearModel()}
FITTED = {"trees": TreeModel, "best": Mixture, "linear": LinearModel}


@pytest.fixture(params=HEADS)
def kind(request):
    return request.param


def saved_with(head, federation, folder):
    save_model(train(FedOnce(head=head), federation), folder)
    return load_model(folder)


def grown(model, folder, federation, labels):
    tables = rows_of(federation)
    with reach_parts(model.part, parts_of(folder), tables) as carrier:
        return add_rows(model, tables["bank"], labels, carrier)[0]


def test_adding_rows_and_forgetting_a_party_keep_the_head(kind, federation, tmp_path):
    model = saved_with(HEADS[kind], federation, tmp_path)
    more = grown(model, tmp_path, federation, federation.labels("test"))
    assert isinstance(more.part.about.head.learner, FITTED[kind])
    save_grown(more, accept=True)
    forget(tmp_path, "shop", accept=True)
    left = load_model(tmp_path)
    assert left.part.about.head == more.part.about.head
    assert set(left.predict_stored(federation.tables["bank"].as_new("test").keys.tolist()).how) == {"all"}


def test_a_chosen_head_is_fitted_anew_without_choosing_again(federation, tmp_path):
    model = saved_with(HEADS["best"], federation, tmp_path)
    more = grown(model, tmp_path, federation, federation.labels("test"))
    kept = more.part.about.head.learner
    assert kept == model.refit.learner
    assert "choice" not in more.heads[next(iter(more.heads))]
    assert len(kept.members) >= 1


def test_a_party_can_join_a_model_of_trees(federation, tmp_path):
    two = without(federation, "insurer")
    model = saved_with(TREES, two, tmp_path)
    bigger, _, _ = add_party(model, "insurer", federation.tables["insurer"])
    assert bigger.part.about.head.learner == TreeModel(trees=TREES)
    assert bigger.part.about.peers == ("shop", "insurer")


def without(federation, party):
    """The federation without a party."""
    tables = {name: one for name, one in federation.tables.items() if name != party}
    return replace(federation, tables=tables)


def test_a_change_that_makes_the_model_worse_is_refused_and_the_former_model_stays(federation, tmp_path):
    model = saved_with(TREES, federation, tmp_path)
    before = (part_folder(tmp_path, "bank") / "about.json").read_bytes()
    wrong = 1 - federation.labels("test")
    flood = grown(model, tmp_path, federation, wrong)
    # The labels of all rows that were there are turned too, so that what is learnt is the opposite.
    store = flood.part.store
    store.y[store.own.cut("train")] = 1 - store.y[store.own.cut("train")]
    flood.heads.clear()
    flood.head_for(flood.refit, flood.part.about.peers)
    with pytest.raises(DataError, match=r"makes the model worse: AUC .* which was .*--accept"):
        save_grown(flood)
    assert (part_folder(tmp_path, "bank") / "about.json").read_bytes() == before
    save_grown(flood, accept=True)
    assert (part_folder(tmp_path, "bank") / "about.json").read_bytes() != before


def test_what_is_worse_by_less_than_a_standard_error_is_no_reason_to_refuse(federation, tmp_path):
    card = save_model(train(FedOnce(head=TREES), federation), tmp_path)

    def worse_by(loss):
        """The card, with so much less for everybody."""
        other = [
            msgspec.structs.replace(one, value=(one.value or 0.0) - loss) if one.answer == "all" else one
            for one in card.expected
        ]
        return msgspec.structs.replace(card, expected=tuple(other))

    refuse_worse(card, worse_by(1e-4), accept=False)
    with pytest.raises(DataError, match="makes the model worse"):
        refuse_worse(card, worse_by(0.3), accept=False)


def test_a_change_that_is_worse_for_one_pattern_of_presence_alone_is_refused_and_named(federation, tmp_path):
    card = save_model(train(FedOnce(head=TREES), federation), tmp_path)

    def with_shop_alone(ways):
        """A card on which the ways lose so much where the insurer is absent."""
        changed = [
            msgspec.structs.replace(one, value=(one.value or 0.0) - ways.get(one.answer, 0.0))
            if one.present == ("shop",)
            else one
            for one in card.expected
        ]
        return msgspec.structs.replace(card, expected=tuple(changed))

    everyone = dict.fromkeys((one.answer for one in card.expected), 0.3)
    with pytest.raises(DataError, match=r"makes the model worse: AUC \S+ on .* rows with shop present, which was .*"):
        refuse_worse(card, with_shop_alone(everyone), accept=False)
    refuse_worse(card, with_shop_alone(everyone), accept=True)
    found = {one.answer: one.value for one in card.expected if one.present == ("shop",) and one.value is not None}
    worst = min(found, key=lambda word: found[word])
    # A way that is not taken may become worse: absence takes the best.
    refuse_worse(card, with_shop_alone({worst: 0.3}), accept=False)


def test_absence_takes_the_way_that_the_card_measured_best(federation, tmp_path):
    model = saved_with(TREES, federation, tmp_path)
    only_shop = ("shop",)
    found = {one.answer: one.value for one in model.part.card.expected if one.present == only_shop and one.value}
    best = max(found, key=lambda word: found[word])
    assert model.way_for(Measured(), only_shop).word == best
    said = [
        Expected(present=only_shop, answer=word, metric="auc", value=value, rows=50)
        for word, value in {"zeros": 0.6, "refit": 0.7, "solo": 0.8}.items()
    ]
    card = msgspec.structs.replace(model.part.card, expected=tuple(said))
    other = Model(replace(model.part, card=card), model.method)
    assert other.way_for(Measured(), only_shop).word == "solo"
    assert other.way_for(Measured(), ()).word in ("refit", "zeros")
    store = model.store.as_if_absent("insurer")
    ids = store.ids_of("valid")[:5]
    assert set(other.predict_from(store, ids, absent=Measured()).how) == {"solo"}


def test_a_net_is_fitted_anew_in_its_own_form_and_by_its_own_trainer(federation, tmp_path):
    trainer, head = Sgd(epochs=3, lr=5e-3), Joint(head=Mlp(hidden=(12,)))
    save_model(train(FedOnce(head=head, trainer=trainer), federation), tmp_path)
    model = load_model(tmp_path)
    assert model.refit == Refit(learner=NetModel(net=Mlp(hidden=(12,)), trainer=trainer))
    more = grown(model, tmp_path, federation, federation.labels("test"))
    first = next(one for one in next(iter(more.heads.values())).values() if one.ndim == 2)
    assert first.shape == (12, model.store.inputs(model.store.ids_of("train"), model.part.about.peers).shape[1])


def test_a_head_for_an_absent_party_is_of_the_kind_that_was_chosen(federation, tmp_path):
    model = saved_with(TREES, federation, tmp_path)
    assert model.way_for(Refit(), ("shop",)) == Refit(learner=TreeModel(trees=TREES))
    weights = model.head_for(model.refit, ("shop",))
    assert "leaf" in weights
    assert np.isfinite(weights["leaf"]).all()
