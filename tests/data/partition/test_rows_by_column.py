"""Rows parted by a column: the last in time are scored on, and groups stay together."""

import numpy as np
import pandas as pd
import pytest

from laconic import Centralised, FedAvg, FedOnce, LateFusion, Rap, Solo, federation, from_frames, simulate, train
from laconic.align import AgreedIds, ExactMatch, PrivateMatch
from laconic.data.partition.rows import Parting, pack_cuts, split_by_column, unpack_cuts
from laconic.errors import DataError
from laconic.learn import Best, Sgd
from laconic.report import rows_of

ROWS = 200
QUICK = Sgd(epochs=2)


def frames(seed=0):
    rng = np.random.default_rng(seed)
    when = np.datetime64("2013-01-01") + rng.integers(0, 300, ROWS)
    x = rng.normal(size=ROWS)
    bank = pd.DataFrame(
        {"id": range(ROWS), "when": when.astype(str), "home": [f"h{k}" for k in rng.integers(0, 40, ROWS)], "x": x}
    )
    bank["left"] = np.where(x + rng.normal(size=ROWS) > 0, "yes", "no")
    shop = pd.DataFrame({"id": range(ROWS), "z": x + rng.normal(size=ROWS)}).sample(frac=0.9, random_state=1)
    return {"bank": bank, "shop": shop}


def parted(made, method=None, align=None):
    """The matched tables after a run, by party."""
    fitted = train(method or Solo(trainer=QUICK), made, seed=0, align=align)
    return fitted.federation.tables, fitted.result


def cells_of(frame, table, cut, column):
    keys = table.keys[table.cut(cut)]
    return frame.set_index(frame["id"].astype(str)).loc[keys, column].to_numpy()


def test_the_last_rows_in_time_are_scored_on_and_those_before_them_validated():
    cuts = split_by_column(Parting(np.arange(100.0)[::-1], True), 0, test=0.2, valid=0.1, party="bank")
    assert cuts["test"].tolist() == list(range(20))
    assert cuts["valid"].tolist() == list(range(20, 28))
    assert len(cuts["train"]) == 72


def test_rows_of_one_moment_or_of_one_group_are_never_parted():
    rng = np.random.default_rng(0)
    for in_time in (True, False):
        values = rng.integers(0, 12, 300).astype(float)
        cuts = split_by_column(Parting(values, in_time), 3, test=0.2, valid=0.1, party="bank")
        sides = [set(values[rows]) for rows in cuts.values()]
        assert sum(map(len, sides)) == len(set.union(*sides)) == 12
        assert sum(map(len, cuts.values())) == 300


def test_groups_are_drawn_by_the_seed_with_all_classes_where_they_are_needed():
    values, y = np.repeat(np.arange(10.0), 10), np.zeros(100)
    y[values == 3] = y[values == 7] = 1
    for seed in range(10):
        cuts = split_by_column(Parting(values, False), seed, test=0.3, valid=0.1, party="bank", y=y)
        assert set(y[cuts["test"]]) == set(y[cuts["train"]]) == {0, 1}


def test_packed_cuts_come_back_and_others_are_refused():
    cuts = {"train": np.array([0, 3, 4]), "valid": np.array([1]), "test": np.array([2])}
    packed = pack_cuts(cuts, 5)
    assert packed.nbytes == 2
    assert {name: rows.tolist() for name, rows in unpack_cuts(packed, 5, "shop").items()} == {
        name: rows.tolist() for name, rows in cuts.items()
    }
    with pytest.raises(DataError, match="not sent two bits for each of 50"):
        unpack_cuts(packed, 50, "shop")
    with pytest.raises(DataError, match="both validated and tested"):
        unpack_cuts(np.full((2, 1), 255, dtype=np.uint8), 5, "shop")


def test_a_vertical_federation_is_scored_on_the_last_rows_of_the_hub_at_every_party():
    made = frames()
    tables, result = parted(from_frames(made, id="id", label="left", split_by="when"))
    when = {cut: cells_of(made["bank"], tables["bank"], cut, "when") for cut in ("train", "valid", "test")}
    assert max(when["train"]) < min(when["valid"])
    assert max(when["valid"]) < min(when["test"])
    assert len(when["test"]) == pytest.approx(0.2 * 180, abs=4)
    for cut in when:
        assert (
            tables["shop"].keys[tables["shop"].cut(cut)].tolist()
            == tables["bank"].keys[tables["bank"].cut(cut)].tolist()
        )
    assert "when" in [column.name for column in tables["bank"].columns]
    released = [one for one in result.releases if one.step == "keep_parted_rows"]
    assert released[0].party == "bank"
    assert "held out by a column of the label holder" in released[0].words


def test_a_group_is_all_in_one_cut_and_not_learnt_from():
    made = frames()
    tables, _ = parted(from_frames(made, id="id", label="left", group="home"))
    homes = [set(cells_of(made["bank"], tables["bank"], cut, "home")) for cut in ("train", "valid", "test")]
    assert not (homes[0] & homes[1] or homes[0] & homes[2] or homes[1] & homes[2])
    assert "home" not in [column.name for column in tables["bank"].columns]


@pytest.mark.parametrize("by", [{"split_by": "when"}, {"group": "home"}])
def test_rows_outside_the_overlap_that_would_undo_the_parting_are_not_learnt_from(by):
    made = frames()
    made["shop"] = made["shop"].sort_values("id").iloc[:100]
    tables, result = parted(from_frames(made, id="id", label="left", **by))
    column = next(iter(by.values()))
    cells = {cut: cells_of(made["bank"], tables["bank"], cut, column) for cut in ("own", "valid", "test")}
    assert len(cells["own"]) > 0
    if column == "when":
        assert max(cells["own"]) < min(cells["valid"])
    else:
        assert not set(cells["own"]) & {*cells["valid"], *cells["test"]}
    barred = result.data["alignment"]["barred"]["bank"]
    assert barred == 100 - len(cells["own"])
    source, shared, used, lost = rows_of(result, "bank")
    assert (source, shared) == (200, 100)
    assert lost["are as late as rows held out, or in a group that is"] == barred
    assert used + sum(lost.values()) == 200


def test_the_two_bits_per_row_that_others_are_sent_are_counted():
    made = frames()
    runs = [
        simulate(Solo(trainer=QUICK), from_frames(made, id="id", label="left", **by)) for by in ({}, {"group": "home"})
    ]
    # Both tell parties which rows they share; only one which of these are held out.
    more = runs[1].align.bytes_down - runs[0].align.bytes_down
    assert 2 * 180 / 8 <= more < 2 * 180 / 8 + 60


@pytest.mark.parametrize("align", [AgreedIds, PrivateMatch])
@pytest.mark.parametrize("by", [{"split_by": "when"}, {"group": "home"}])
def test_other_ways_of_matching_part_rows_by_the_same_column(align, by):
    made = frames()
    made["shop"] = made["shop"].sort_values("id")
    made["bank"] = made["bank"][made["bank"]["id"].isin(made["shop"]["id"])]
    first, _ = parted(from_frames(made, id="id", label="left", **by), align=ExactMatch(held_out="label holder"))
    other, _ = parted(from_frames(made, id="id", label="left", **by), align=align(held_out="label holder"))
    if "split_by" in by:
        assert (
            first["shop"].keys[first["shop"].cut("test")].tolist()
            == other["shop"].keys[other["shop"].cut("test")].tolist()
        )
    assert len(other["shop"].cut("test")) == pytest.approx(36, abs=8)


def test_a_server_without_rows_asks_the_label_holder_which_rows_are_held_out():
    made = frames()
    tables, result = parted(from_frames(made, id="id", label="left", split_by="when"), Rap())
    when = {cut: cells_of(made["bank"], tables["bank"], cut, "when") for cut in ("train", "test")}
    assert max(when["train"]) < min(when["test"])
    assert any(one.step == "find_held_out" and one.party == "bank" for one in result.releases)


def test_parties_with_other_rows_each_hold_out_their_last_or_whole_groups_at_all_of_them():
    north, south = (frames(seed)["bank"].drop(columns="id") for seed in (0, 1))
    made = federation({"north": north, "south": south}, label="left", split_by="when")
    for name, frame in (("north", north), ("south", south)):
        held = [int(key.split(":")[1]) - 1 for key in made.tables["server"].keys if key.startswith(name)]
        assert frame["when"].iloc[held].min() > frame["when"].drop(index=held).max()
        assert len(held) == pytest.approx(40, abs=4)
    made = federation({"north": north, "south": south}, label="left", group="home")
    held = {name: [int(k.split(":")[1]) - 1 for k in made.tables["server"].keys if k.startswith(name)]
            for name in ("north", "south")}  # fmt: skip
    tested = {home for name, f in (("north", north), ("south", south)) for home in f["home"].iloc[held[name]]}
    learnt = {home for name, f in (("north", north), ("south", south)) for home in f["home"].drop(index=held[name])}
    assert not tested & learnt
    assert simulate(FedAvg(trainer=QUICK), made, seed=0).score.value > 0


@pytest.mark.parametrize(
    ("by", "change", "said"),
    [
        ({"split_by": "gone"}, {}, "'bank' has no column 'gone' to part rows by .--split-by."),
        ({"group": "gone"}, {}, "'bank' has no column 'gone' to part rows by .--group."),
        ({"split_by": "z"}, {}, "is at shop, but rows are parted by the label holder, bank"),
        ({"split_by": "home"}, {}, "it holds names, not dates or numbers"),
        ({"split_by": "left"}, {}, "which is the id or the label"),
        (
            {"split_by": "when"},
            {"when": "2013-01-01"},
            "three different dates are needed .* one, the same for all rows",
        ),
        ({"group": "home"}, {"home": "h1"}, "three different groups are needed .* one, the same for all rows"),
        ({"split_by": "when", "group": "home"}, {}, "by time .* or by group .* not by both"),
    ],
)
def test_columns_that_rows_cannot_be_parted_by_are_refused(by, change, said):
    made = frames()
    made["bank"] = made["bank"].assign(**change)
    with pytest.raises(DataError, match=said):
        simulate(Solo(trainer=QUICK), from_frames(made, id="id", label="left", **by))


def test_horizontal_columns_that_rows_cannot_be_parted_by_are_refused():
    north, south = (frames(seed)["bank"].drop(columns="id") for seed in (0, 1))
    for by, change, said in (
        ({"split_by": "when"}, {"when": "2013-01-01"}, "'north': three different dates are needed"),
        ({"group": "home"}, {"home": "h1"}, "three different groups are needed .* has 1 at all parties"),
        ({"group": "gone"}, {}, "has no column 'gone'"),
    ):
        both = {"north": north.assign(**change), "south": south.assign(**change)}
        with pytest.raises(DataError, match=said):
            federation(both, label="left", **by)


def test_rows_without_a_date_or_a_group_are_noted():
    made = frames()
    made["bank"].loc[:4, "when"] = None
    made["bank"].loc[:4, "home"] = None
    assert any("5 rows have no date; they count as the oldest" in note
               for note in from_frames(made, id="id", label="left", split_by="when").notes)  # fmt: skip
    assert any("5 rows have no group; each is a group of its own" in note
               for note in from_frames(made, id="id", label="left", group="home").notes)  # fmt: skip


def test_fedonce_learns_on_rows_parted_in_time():
    assert simulate(FedOnce(), from_frames(frames(), id="id", label="left", split_by="when"), seed=0).score.value > 0.6


def test_what_the_hub_tries_keeps_groups_together(monkeypatch):
    seen, fit_all = [], Best.fit_all

    def listening(self, *rows, groups=None, **more):
        seen.append(rows[6] if len(rows) > 6 else groups)
        return fit_all(self, *rows, **({} if len(rows) > 6 else {"groups": groups}), **more)

    monkeypatch.setattr(Best, "fit_all", listening)
    made = frames()
    quick = Best(seconds=2, kinds=("linear",))
    for method in (FedOnce(head=quick), Solo(model=quick), Centralised(model=quick), LateFusion(model=quick)):
        seen.clear()
        tables, _ = parted(from_frames(made, id="id", label="left", group="home"), method)
        rows = np.concatenate([tables["bank"].cut("train"), tables["bank"].cuts["own"]])
        homes = made["bank"].set_index(made["bank"]["id"].astype(str)).loc[tables["bank"].keys[rows], "home"].to_numpy()
        found = seen[0]
        # The same household, the same number, and different ones different numbers.
        assert (
            len(set(zip(homes[: len(found)], found, strict=True))) == len(set(homes[: len(found)])) == len(set(found))
        )
    seen.clear()
    parted(from_frames(made, id="id", label="left", split_by="when"), Solo(model=quick))
    assert seen == [None]
