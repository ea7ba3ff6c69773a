"""The surface one can guess: fit, predict, score, save, load, with tables of any library."""

import numpy as np
import pandas
import pyarrow
import pytest

import laconic
from laconic.errors import DataError, PlanError
from laconic.learn import LinearModel, Sgd

QUICK = laconic.FedOnce(trainer=Sgd(epochs=5, batch=64, lr=3e-3))


def frames(rows=160):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(rows, 4))
    label = np.where(x[:, 0] + x[:, 2] > 0, "yes", "no")
    bank = pandas.DataFrame({"customer": range(rows), "a": x[:, 0], "b": x[:, 1], "churned": label})
    return {"bank": bank, "shop": pandas.DataFrame({"customer": range(rows), "c": x[:, 2], "d": x[:, 3]})}


@pytest.fixture(scope="module")
def fed():
    return laconic.federation(frames(), id="customer", label="churned")


@pytest.fixture(scope="module")
def model(fed):
    return laconic.fit(QUICK, fed)


def new_rows(rows=20):
    found = {name: frame.tail(rows) for name, frame in frames().items()}
    return found | {"bank": found["bank"].drop(columns="churned")}


def test_a_model_predicts_tables_of_any_library_alike(model):
    pandas_scores = model.predict(new_rows())
    arrow = model.predict({name: pyarrow.Table.from_pandas(frame) for name, frame in new_rows().items()})
    np.testing.assert_array_equal(pandas_scores.predictions, arrow.predictions)
    assert list(pandas_scores.to_frame().columns[:2]) == ["id", "churned"]
    assert len(pandas_scores) == 20


def test_polars_tables_are_predicted(model):
    polars = pytest.importorskip("polars")
    found = model.predict({name: polars.from_pandas(frame) for name, frame in new_rows().items()})
    np.testing.assert_array_equal(found.predictions, model.predict(new_rows()).predictions)


def test_a_party_without_rows_is_made_up_for(model):
    scores = model.predict({"bank": new_rows()["bank"]})
    assert scores.answered.all()
    assert set(scores.how) != {"all"}


def test_new_rows_with_labels_are_scored(model):
    assert model.score(frames()).value > 0.8
    assert model.score() == model.result.score
    with pytest.raises(DataError, match="have no label column 'churned'"):
        model.score(new_rows())


def test_a_saved_model_predicts_as_the_one_in_memory(fed, tmp_path):
    model = laconic.fit(QUICK, fed)
    before = model.predict(new_rows())
    model.save(tmp_path / "churn")
    loaded = laconic.load_model(tmp_path / "churn")
    np.testing.assert_array_equal(loaded.predict(new_rows()).predictions, before.predictions)
    with pytest.raises(DataError, match="is saved already"):
        loaded.save(tmp_path / "copy")


def test_what_leaves_after_saving_is_in_the_folder_whichever_model_was_asked(fed, tmp_path):
    model = laconic.fit(QUICK, fed)
    model.predict(new_rows())
    model.save(tmp_path / "churn")
    bytes_of = lambda: {  # noqa: E731
        name: sum(one.bytes for one in ledger.entries)
        for name, ledger in laconic.load_model(tmp_path / "churn").ledgers.items()
    }
    first = bytes_of()
    model.predict(new_rows())
    second = bytes_of()
    laconic.load_model(tmp_path / "churn").predict(new_rows())
    third = bytes_of()
    for name in ("bank", "shop"):  # the bank sends ids, the shop numbers
        assert first[name] < second[name] < third[name]


def test_noise_is_drawn_anew_for_every_prediction(fed):
    from laconic.privacy import ClippedGaussian

    method = laconic.FedOnce(noise=ClippedGaussian(sigma=1.0), trainer=Sgd(epochs=2))
    model = laconic.fit(method, fed)
    some = {name: frame.head(10) for name, frame in new_rows().items()}
    others = {name: frame.assign(customer=frame["customer"] + 1000) for name, frame in some.items()}
    found = [model.predict(rows).predictions for rows in (some, some, others)]
    assert not np.array_equal(found[0], found[2])
    assert len(model.result.releases) > 0


def test_a_frame_alone_is_refused_with_what_to_give(model):
    with pytest.raises(DataError, match=r"predict\(\{'bank': \.\.\., 'shop': \.\.\.\}\)"):
        model.predict(new_rows()["bank"])


def test_a_stranger_is_refused_by_name(model):
    with pytest.raises(PlanError, match="there is no party 'shopp' in this model"):
        model.predict(new_rows() | {"shopp": new_rows()["shop"]})


def test_a_name_that_is_no_method_is_refused(fed):
    with pytest.raises(PlanError, match="there is no method 'FedOncce'"):
        laconic.fit("FedOncce", fed)


def test_fitting_without_rows_says_what_to_give():
    with pytest.raises(TypeError, match=r"laconic.federation\(\{'bank': table"):
        laconic.fit("FedOnce")


def test_a_horizontal_model_takes_one_table_or_several():
    tables = {"north": frames()["bank"].head(80), "south": frames()["bank"].tail(80)}
    fed = laconic.federation({n: one.drop(columns="customer") for n, one in tables.items()}, label="churned")
    model = laconic.fit(laconic.Analytic(), fed)
    one = model.predict(tables["north"])
    both = model.predict(tables)
    assert (len(one), len(both)) == (80, 160)
    np.testing.assert_array_equal(both.predictions[:80], one.predictions)
    assert model.score(tables).value > 0.7


def test_a_budget_is_kept(fed):
    model = laconic.fit("FedOnce", fed, budget=laconic.Budget(epsilon=3.0))
    assert model.result.privacy.epsilon <= 3.0


def test_methods_side_by_side(fed, tmp_path):
    table = laconic.compare([laconic.FedOnce(head=LinearModel()), laconic.Linear()], fed)
    frame = table.to_frame()
    assert frame["method"].tolist() == ["Solo", "FedOnce", "Linear", "Centralised"]
    assert type(table.best).__name__ in ("FedOnce", "Linear")
    assert len(repr(table)) < 160
    assert "<table>" in table._repr_html_()
    assert table.report(tmp_path / "page.html").read_text().startswith("<!doctype html>")
    assert table.plot().axes


def test_what_a_notebook_shows_is_short(model, tmp_path):
    scores = model.predict(new_rows())
    for thing in (model, scores):
        assert len(repr(thing)) < 160
        assert "<b>" in thing._repr_html_()
    laconic.fit(QUICK, laconic.federation(frames(), id="customer", label="churned")).save(tmp_path)
    card = laconic.load_model(tmp_path).part.card
    assert len(repr(card)) < 160
    assert "<table>" in card._repr_html_()
