"""What is said of a file when it is read: kinds, missing cells, levels, and what looks odd."""

import numpy as np
import pandas as pd
import pytest

from laconic import FedAvg, federation, simulate
from laconic.data.readers.aloud import frame_reading, reading_of

ROWS = 100


def odd_in(cells, name="x"):
    (column,) = frame_reading(pd.DataFrame({name: cells})).columns
    return "; ".join(column.odd)


@pytest.mark.parametrize(
    ("cells", "name", "said"),
    [
        (["1,234", "12,500", "3,100"] * 9, "amount", "'1,234' is read as 1234"),
        (["1.234,50", "12,5", "3,1"] * 9, "amount", "'1.234,50' is read as 1234.5"),
        (["€ 3.10", "€ 4.20", "€ 5"] * 9, "amount", "amounts in EUR"),
        (["3 %", "4 %", "5.5 %"] * 9, "rate", "read as shares: 12 % is 0.12"),
        (["2013-01-31", "2014-05-01"] * 9, "since", "dates from 2013-01-31 to 2014-05-01"),
        (["31.01.2013", "01.05.2014"] * 9, "since", "written with the day first"),
        (["yes", "YES", "no"] * 9, "member", "yes/YES are taken as one level"),
        (list(range(5000, 5000 + ROWS)), "number", "every row has another whole number, as an id does"),
        ([f"n{row}" for row in range(ROWS)], "name", "left out, as nearly every row has another text"),
        ([1, 2, 3, 4, 5, -999, -999] * 9, "age", "-999 is far from all other values"),
        ([7] * 30, "same", "it never varies, so it is not used"),
        ([1.5] + [None] * 20 + [2.5], "rare", "mostly missing"),
        ([str(row) for row in range(80)] + ["n/a?", "tbd"], "mostly", "2 cells are no numbers, such as 'n/a?'"),
        ([f"z{row % 90}" for row in range(900)], "zip", "the 64 most frequent levels get a column each"),
    ],
)
def test_what_looks_odd_is_said(cells, name, said):
    assert said in odd_in(cells, name)


@pytest.mark.parametrize(
    "cells",
    [
        np.random.default_rng(0).normal(size=ROWS),
        np.random.default_rng(0).permutation(ROWS * 50)[:ROWS],
        [0, 1, 1, 0] * 20,
        ["a", "b", "c"] * 20,
        [-1, 0, 1, 2, 3, 4] * 20,
    ],
)
def test_of_usual_columns_nothing_odd_is_said(cells):
    assert odd_in(list(cells)) == ""


def test_each_file_of_a_federation_is_read_aloud_with_its_id_and_label():
    bank = pd.DataFrame({"who": range(40), "income": range(40), "left": ["no", "NO", "yes", "yes"] * 10})
    shop = pd.DataFrame({"who": [*range(39), 0], "town": ["a", None] * 20})
    made = federation({"bank": bank, "shop": shop}, id="who", label="left")
    lines = [line for party, one in made.readings.items() for line in one.lines(party)]
    assert lines[0] == "bank: 40 rows, 1 column (1 numeric)"
    assert "  left: label, categorical, 2 levels; no/NO are taken as one level" in lines
    assert "  who: id, numeric, 39 values; 1 row with an id that an earlier row has" in lines
    assert "  town: categorical, 1 level, 50% missing" in lines


def test_a_label_that_every_row_has_another_of_is_named_before_a_run_refuses_it():
    frame = pd.DataFrame({"left": [f"k{row}" for row in range(ROWS)]})
    reading = reading_of(frame, {}, [], np.empty((ROWS, 0)), label="left", own_kinds={})
    assert "every row has another, as an id does: is this what should be predicted?" in reading.columns[0].line


def test_forty_columns_are_folded_into_a_line_but_for_odd_ones():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({f"c{at}": rng.normal(size=ROWS) for at in range(40)} | {"same": [1] * ROWS})
    reading = frame_reading(frame)
    folded = list(reading.lines("shop"))
    assert len(folded) == 3
    assert folded[1].startswith("  same: ")
    assert folded[2].startswith("  nothing odd in 40 other columns: c0, c1, c2,")
    assert len(list(reading.lines("shop", every=True))) == 42


def test_what_is_said_of_columns_is_in_no_result():
    parts = {}
    for name, seed in (("north", 0), ("south", 1)):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=ROWS)
        parts[name] = pd.DataFrame({"x": x, "code": [-999 if one > 1 else 1 for one in x], "y": x > 0})
    made = federation(parts, label="y")
    assert set(made.readings) == {"north", "south"}
    assert b"far from" not in simulate(FedAvg(), made, seed=0).to_json()
