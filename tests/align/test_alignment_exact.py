import numpy as np
import pandas as pd
import pytest

from laconic import FedOnce, FewShot, Linear, Rap, SplitNN, from_frames, simulate
from laconic.align.alignment import ExactMatch, fitting_seed, text_order
from laconic.align.psi import PrivateMatch
from laconic.core import Party
from laconic.deploy import Processes, open_calls
from laconic.errors import DataError
from laconic.learn import FixMatchTab, NetModel, Sgd
from laconic.report import rows_of


def frames(shift: int = 0) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=300)
    bank = pd.DataFrame({"id": np.arange(300), "income": rng.normal(size=300), "left": (hidden > 0).astype(int)})
    shop = pd.DataFrame(
        {"id": np.arange(300) + shift, "visits": hidden + 0.1 * rng.normal(size=300), "spent": rng.normal(size=300)}
    )
    order = rng.permutation(300)[:250]
    return {"bank": bank, "shop": shop.iloc[order]}


def test_rows_in_another_order_are_matched_by_id():
    result = simulate(Linear(), from_frames(frames(), id="id", label="left"))
    # Only the right rows side by side make the label predictable: the shop's column is the label's cause.
    assert result.metrics["accuracy"] > 0.9
    assert result.data["alignment"] == {
        "shared": 250,
        "rows": {"bank": 300, "shop": 250},
        "some": {"bank": 0, "shop": 0},
        "cuts": {"train": 180, "valid": 20, "test": 50},
        "labels": {"party": "bank", "columns": 1},
    }
    assert result.align.rounds == 4  # ids, rows to keep, and the fingerprint before fitting and before predicting


def test_the_ids_shown_are_listed_as_a_release():
    result = simulate(Linear(), from_frames(frames(), id="id", label="left"))
    assert any("ids" in release.words and release.phase == "align" for release in result.releases)


def test_matching_works_with_parties_apart():
    federation = from_frames(frames(), id="id", label="left")
    method = FedOnce(trainer=Sgd(epochs=5))
    apart, together = simulate(method, federation, runtime=Processes()), simulate(method, federation)
    assert apart.predictions == together.predictions


def test_no_shared_id_says_how_they_look():
    with pytest.raises(DataError, match=r"no id is at every party: bank has ids like '0'; shop has ids like"):
        simulate(Linear(), from_frames(frames(shift=5000), id="id", label="left"))


def three(rows=200):
    """Three parties, of whom some people are at all, some at two, some at one."""
    rng = np.random.default_rng(0)
    hidden = rng.normal(size=rows)
    bank = pd.DataFrame({"id": np.arange(rows), "income": hidden, "left": (hidden > 0).astype(int)})
    shop = pd.DataFrame({"id": np.arange(rows), "visits": hidden + 0.1 * rng.normal(size=rows)})
    insurer = pd.DataFrame({"id": np.arange(rows), "claims": hidden + 0.1 * rng.normal(size=rows)})
    return from_frames({"bank": bank[:160], "shop": shop[20:180], "insurer": insurer[40:]}, id="id", label="left")


def test_rows_of_all_of_some_and_of_nobody_else_are_cuts():
    made = three()
    recorder = {}

    class Kept:
        def open(self, parties):
            recorder.update({party.name: party for party in parties})
            return open_calls(parties)

    result = simulate(Linear(), made, runtime=Kept())
    shop = recorder["shop"].data
    assert result.data["alignment"]["shared"] == 120
    assert sorted(shop.ids[shop.cut("shared")].tolist()) == list(range(40, 160))
    assert sorted(shop.ids[shop.cut("some")].tolist()) == [*range(20, 40), *range(160, 180)]
    insurer = recorder["insurer"].data
    assert sorted(insurer.ids[insurer.cut("alone")].tolist()) == list(range(180, 200))
    assert sorted(insurer.cut("own").tolist()) == sorted([*insurer.cut("some"), *insurer.cut("alone")])
    assert len(shop.cut("train")) + len(shop.cut("valid")) + len(shop.cut("test")) == 120


def test_methods_that_use_own_rows_lose_none_of_them():
    short = FixMatchTab(steps=5)
    few = simulate(FewShot(local=short, trainer=Sgd(epochs=2)), three())
    shared_only = simulate(SplitNN(trainer=Sgd(epochs=1)), three())
    for party, rows in {"bank": 160, "shop": 160, "insurer": 160}.items():
        assert rows_of(few, party) == (rows, 120, rows, {})
        source, shared, used, lost = rows_of(shared_only, party)
        assert (source, shared, used, sum(lost.values())) == (rows, 120, 120, 40)


def rare(rows=60, positives=2):
    """Two parties of whose rows hardly any is of the second class."""
    rng = np.random.default_rng(1)
    bank = pd.DataFrame({"id": np.arange(rows), "income": rng.normal(size=rows), "left": 0})
    bank.loc[rng.permutation(rows)[:positives], "left"] = 1
    return {"bank": bank, "shop": pd.DataFrame({"id": np.arange(rows), "spent": rng.normal(size=rows)})}


@pytest.mark.parametrize(
    ("method", "align"),
    [
        (Linear(), ExactMatch()),
        (Linear(), PrivateMatch(threads=1)),
        (Rap(learner=NetModel(trainer=Sgd(epochs=1))), ExactMatch()),
    ],
    ids=["hub", "private", "server"],
)
def test_a_class_of_two_rows_is_learnt_from_and_scored_on_whatever_the_seed(method, align):
    federation = from_frames(rare(), id="id", label="left")
    for seed in range(6):
        assert simulate(method, federation, seed=seed, align=align).score.metric == "auc"


def test_a_class_of_one_row_is_learnt_from_and_the_score_is_another():
    federation = from_frames(rare(positives=1), id="id", label="left")
    for seed in range(6):
        assert simulate(Linear(), federation, seed=seed).score.metric == "accuracy"


def test_rows_are_parted_by_the_first_seed_where_that_will_do():
    party = Party("bank", from_frames(frames(), id="id", label="left").tables["bank"], seed=0)
    assert fitting_seed(party, np.arange(300), 17, test=0.2, valid=0.1) == 17


def test_ids_are_ordered_as_the_texts_that_they_are_whatever_holds_them():
    rng = np.random.default_rng(0)
    letters = np.array([*"09AZaz _|"])
    texts = ["".join(rng.choice(letters, rng.integers(1, most))) for most in (3, 9, 10, 17, 20) for _ in range(400)]
    numbers = [rng.integers(low, high, 500) for low, high in ((0, 20), (0, 10**6), (0, 10**18), (0, 2**62), (-99, 99))]
    columns = [*numbers, np.array([10**18 - 1, 10**17, 10**18]), np.array([2**64 - 1, 7], np.uint64), np.array([], int)]
    columns += [
        np.array(texts),
        np.array([*texts, "\u00e4", "\u00c9z"]),
        np.array([3, 200, 20], np.uint8),
        np.array([], str),
    ]
    for ids in map(np.unique, columns):
        mixed = rng.permutation(ids)
        assert text_order(mixed).tolist() == np.argsort(mixed.astype(str), kind="stable").tolist()
