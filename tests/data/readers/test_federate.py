"""`laconic.federation`: one way in, vertical or horizontal as the tables say."""

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow.dataset import dataset

import laconic
from laconic.errors import DataError


def tables(rows=40):
    rng = np.random.default_rng(0)
    customer = [f"c{number}" for number in range(rows)]
    bank = pandas.DataFrame({"customer": customer, "income": rng.normal(size=rows), "churned": [0, 1] * (rows // 2)})
    shop = pandas.DataFrame({"customer": customer[::-1], "visits": rng.normal(size=rows), "town": ["Ulm", "Bonn"] * 20})
    return {"bank": bank, "shop": shop}


def hospitals():
    rng = np.random.default_rng(1)
    return {
        name: pandas.DataFrame({"age": rng.normal(size=30), "ill": rng.integers(0, 2, 30)})
        for name in ("north", "south")
    }


class OfAnotherLibrary:
    """A table that is known by Arrow's interface only, as those of Polars and DuckDB are."""

    def __init__(self, table):
        self._table = table

    def __arrow_c_stream__(self, requested_schema=None):
        return self._table.__arrow_c_stream__(requested_schema)


def test_a_label_at_one_party_makes_it_vertical_with_that_party_as_hub():
    fed = laconic.federation(tables(), id="customer", label="churned")
    assert (fed.kind, fed.hub, fed.names) == ("vertical", "bank", ("bank", "shop"))


def test_a_label_at_all_parties_with_the_same_columns_makes_it_horizontal():
    fed = laconic.federation(hospitals(), label="ill")
    assert (fed.kind, fed.hub, fed.peers) == ("horizontal", "server", ("north", "south"))


def test_what_kind_it_is_can_be_said():
    one = {"north": hospitals()["north"].assign(id=range(30))}
    assert laconic.federation(one, label="ill", id="id").kind == "vertical"
    assert laconic.federation(one, label="ill", id="id", kind="horizontal").kind == "horizontal"


def test_a_vertical_federation_without_an_id_is_refused_with_what_to_do():
    with pytest.raises(DataError, match=r"which rows are about the same people.*give id="):
        laconic.federation(tables(), label="churned")


def test_other_columns_with_labels_everywhere_are_refused_by_name():
    odd = hospitals()
    odd["south"] = odd["south"].rename(columns={"age": "years"})
    with pytest.raises(DataError, match=r"north and south differ in age, years"):
        laconic.federation(odd, label="ill")


@pytest.mark.parametrize("as_other", [pyarrow.Table.from_pandas, lambda frame: OfAnotherLibrary(pyarrow.table(frame))])
def test_tables_of_other_libraries_are_read_as_frames_are(as_other):
    frames = tables()
    frames["shop"]["since"] = pandas.Timestamp("2020-01-31")
    frames["shop"].loc[3, "visits"] = None
    usual = laconic.federation(frames, id="customer", label="churned")
    other = laconic.federation({n: as_other(f) for n, f in frames.items()}, id="customer", label="churned")
    for party in usual.names:
        mine, theirs = usual.tables[party], other.tables[party]
        assert mine.columns == theirs.columns
        assert np.array_equal(mine.raw, theirs.raw, equal_nan=True)
        assert mine.keys.tolist() == theirs.keys.tolist()


def test_a_dataset_of_many_files_is_read_as_one_table(tmp_path):
    frames = tables()
    for part, rows in enumerate(np.array_split(np.arange(len(frames["shop"])), 3)):
        frames["shop"].iloc[rows].to_parquet(tmp_path / f"part{part}.parquet")
    usual = laconic.federation(frames, id="customer", label="churned")
    lazy = laconic.federation(frames | {"shop": dataset(tmp_path)}, id="customer", label="churned")
    assert np.array_equal(usual.tables["shop"].raw, lazy.tables["shop"].raw)
    assert usual.tables["shop"].keys.tolist() == lazy.tables["shop"].keys.tolist()


@pytest.mark.parametrize("fault", ["gone", "cut off", "of another form"])
def test_a_dataset_that_changes_before_it_is_read_is_refused_by_party(tmp_path, fault):
    frames = tables()
    for part in range(2):
        frames["shop"].to_parquet(tmp_path / f"part{part}.parquet")
    lazy, later = dataset(tmp_path), tmp_path / "part1.parquet"
    if fault == "gone":
        later.unlink()
    elif fault == "cut off":
        later.write_bytes(later.read_bytes()[:200])
    else:
        frames["shop"].assign(visits="often").to_parquet(later)
    with pytest.raises(DataError, match=r"party 'shop': its table cannot be read to the end: .*write its files again"):
        laconic.federation(frames | {"shop": lazy}, id="customer", label="churned")


def test_polars_tables_are_taken():
    polars = pytest.importorskip("polars")
    frames = tables()
    usual = laconic.federation(frames, id="customer", label="churned")
    other = laconic.federation({n: polars.from_pandas(f) for n, f in frames.items()}, id="customer", label="churned")
    assert all(np.array_equal(usual.tables[party].raw, other.tables[party].raw) for party in usual.names)


def test_files_and_tables_may_stand_side_by_side(tmp_path):
    frames = tables()
    frames["shop"].to_csv(tmp_path / "shop.csv", index=False)
    fed = laconic.federation({"bank": frames["bank"], "shop": tmp_path / "shop.csv"}, id="customer", label="churned")
    assert (fed.name, fed.facts["files"]) == ("shop.csv", {"shop": "shop.csv"})
    assert fed.tables["shop"].keys.tolist() == frames["shop"]["customer"].tolist()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ([1, 2], "tables must be by party"),
        ({"bank": [1, 2]}, r"party 'bank': a table must be a pandas, Polars, DuckDB or Arrow one, .* not a list"),
        ({1: tables()["bank"]}, "found 1 as a name"),
    ],
)
def test_what_is_no_table_is_refused_by_party(wrong, words):
    with pytest.raises(TypeError, match=words):
        laconic.federation(wrong, id="customer", label="churned")


def test_the_share_of_held_out_rows_is_one_for_command_line_and_python():
    from laconic.data.federation import HELD_OUT
    from laconic.plan import DataPlan

    fed = laconic.federation(tables(), id="customer", label="churned")
    dealt = laconic.deal(laconic.load("breast_cancer"), laconic.Equal(parties=2))
    table = dealt.tables[dealt.hub]
    assert fed.test == DataPlan(name="digits").test == HELD_OUT == 0.2
    assert len(table.cuts["test"]) == round(HELD_OUT * 569)


def test_the_share_held_out_of_a_federation_is_kept_when_it_is_run():
    fed = laconic.federation(tables(), id="customer", label="churned", test=0.5)
    assert laconic.simulate(laconic.Solo(), fed).data["alignment"]["cuts"]["test"] == 20
