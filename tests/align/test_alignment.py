"""The fingerprint of an alignment: a wrong order or changed data is refused before fitting and before predicting."""

from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from laconic import Federation, Linear, from_frames, simulate
from laconic.align import ExactMatch, PrivateMatch
from laconic.core import decode_question
from laconic.deploy import open_calls
from laconic.errors import DataError
from laconic.tables import Column, Table, Task, fingerprint


class Meddling:
    """The in-process runtime, in which something happens to a party's table just before a question."""

    def __init__(self, meddle, before, number=1):
        self.meddle, self.before, self.number = meddle, before, number

    @contextmanager
    def open(self, parties):
        with open_calls(parties) as carrier:
            self.party, self.carrier = parties[0], carrier
            yield SimpleNamespace(names=carrier.names, carry=self.carry, ledgers=carrier.ledgers)

    def carry(self, script, blobs, deadline):
        asked = [decode_question(blob).step for blob in blobs.values()]
        self.number -= asked[0] == self.before
        if asked[0] == self.before and self.number == 0:
            self.party.data = self.meddle(self.party.data)
        return self.carrier.carry(script, blobs, deadline)


def federation():
    rng = np.random.default_rng(0)
    bank = pd.DataFrame({"id": np.arange(60), "x": rng.normal(size=60), "left": rng.integers(2, size=60)})
    shop = pd.DataFrame({"id": np.arange(60)[::-1], "z": rng.normal(size=60)})
    return from_frames({"bank": bank, "shop": shop}, id="id", label="left")


def reversed_rows(table):
    return table.take(np.arange(table.rows)[::-1], table.cuts)


def another_cell(table):
    raw = table.raw.copy()
    raw[3, 0] += 1
    return Table(raw, table.columns, ids=table.ids, cuts=table.cuts, party=table.party)


@pytest.mark.parametrize("align", [ExactMatch(), PrivateMatch()], ids=["exact", "private"])
@pytest.mark.parametrize("meddle", [reversed_rows, another_cell])
@pytest.mark.parametrize("number", [1, 2], ids=["at fit", "at predict"])
def test_rows_that_were_sorted_or_changed_after_the_match_are_refused(align, meddle, number):
    runtime = Meddling(meddle, "show_fingerprint", number)
    with pytest.raises(DataError, match=r"party 'shop': its data changed after its rows were matched .*match the rows"):
        simulate(Linear(), federation(), align=align, runtime=runtime)
    assert runtime.number == 0


def test_a_party_with_other_rows_is_refused_and_all_fingerprints_shown():
    def swapped(table):
        return table.take(np.r_[1, 0, 2 : table.rows], table.cuts)

    class Forgetful(Meddling):
        def carry(self, script, blobs, deadline):
            from laconic.align.alignment import note_alignment

            replies = super().carry(script, blobs, deadline)
            if self.number == 0:
                note_alignment(self.party)  # As if the party had matched these rows itself.
            return replies

    with pytest.raises(DataError, match=r"not hold the same rows in the same order: .* bank \w{8}, shop \w{8}"):
        simulate(Linear(), federation(), runtime=Forgetful(swapped, "show_fingerprint", 1))


def test_a_run_says_its_fingerprint():
    result = simulate(Linear(), federation())
    assert len(result.data["fingerprint"]) == 32


def test_no_two_different_lists_of_ids_have_the_same_fingerprint():
    def print_of(ids):
        cuts = {"train": np.arange(len(ids))}
        return fingerprint(Table(np.arange(float(len(ids)))[:, None], [Column("x")], ids=ids, cuts=cuts))

    assert len({print_of(ids) for ids in (["a", "b"], ["b", "a"], ["ab", "c"], ["a", "bc"], ["1:a", "b"])}) == 5


def test_tables_said_to_correspond_must_do_so():
    rng = np.random.default_rng(0)
    cuts = {"train": np.arange(8), "test": np.arange(8, 10)}
    task = Task(kind="regression", label="y")
    ids = np.arange(10)
    bank = Table(rng.normal(size=(10, 1)), [Column("x")], ids=ids, y=rng.normal(size=10), task=task, cuts=cuts)
    shop = Table(rng.normal(size=(10, 1)), [Column("z")], ids=ids[[0, 2, 1, *range(3, 10)]], cuts=cuts, party="shop")
    with pytest.raises(DataError, match="row 2 of cut 'train' is 1 at bank and 2 at shop; match their ids first"):
        Federation(name="x", tables={"bank": bank, "shop": shop}, hub="bank", aligned=True)
