"""Agreeing on columns: what crosses for it, that all prepare alike, and what is refused."""

import numpy as np
import pytest

from laconic import FedAvg, FedKt, check_method, rows_from_frames, simulate, train
from laconic.align.schema import SameColumns
from laconic.core import Party, Peers, WireLog
from laconic.deploy import InProcess, Processes, open_calls, roles
from laconic.errors import DataError, WireError
from tests.data.hospitals import hospitals, open_rows


def federation(**settings):
    return rows_from_frames(hospitals(), label="diagnosis", id="patient", **settings)


def words_of(result):
    return {release.step for release in result.releases if release.phase == "align"}


def test_all_parties_prepare_columns_alike_and_know_all_classes_afterwards():
    frames = hospitals()
    frames["north"]["diagnosis"] = "benign"
    frames["west"]["ward"] = "D"
    trained = train(FedAvg(), rows_from_frames(frames, label="diagnosis", id="patient"))
    tables = list(trained.federation.tables.values())
    assert all(table.recipe == tables[0].recipe for table in tables)
    assert all(table.task.classes == ("benign", "malignant") for table in tables)
    assert "ward=D" in tables[0].recipe.names
    north = trained.federation.tables["north"]
    assert set(north.y.tolist()) == {0}


def test_sums_of_columns_are_in_the_ledger_and_counted():
    result = simulate(FedAvg(), federation())
    assert words_of(result) == {"show_columns", "take_columns", "show_fingerprint"}
    given = [release for release in result.releases if release.step == "show_columns"]
    assert {release.party for release in given} == {"north", "south", "west"}
    assert "the mean, the spread" in given[0].words
    assert result.align.bytes_up > sum(release.bytes for release in given) > 0


def test_with_public_rows_only_the_names_of_classes_cross():
    result = simulate(FedAvg(), federation(public=open_rows()))
    assert words_of(result) == {"show_classes", "take_classes", "show_fingerprint"}


@pytest.mark.slow
def test_agreeing_is_the_same_with_parties_truly_apart():
    found = federation()
    one, other = (simulate(FedAvg(), found, runtime=runtime) for runtime in (InProcess(), Processes()))
    assert one.predictions == other.predictions
    assert one.data["fingerprint"] == other.data["fingerprint"]
    assert (one.align.bytes_up, one.align.bytes_down) == (other.align.bytes_up, other.align.bytes_down)


@pytest.mark.slow
@pytest.mark.parametrize("method", [FedAvg(), FedKt(teachers=2)])
def test_methods_keep_their_contract_on_own_rows(method):
    check_method(method, federation(public=open_rows()))


def test_a_party_with_other_public_rows_is_refused_by_name():
    hub, _, others = roles(FedAvg(), federation(public=open_rows()), seed=0)
    south = federation(public=open_rows().assign(size0=1.0)).tables["south"]
    parties = tuple(Party("south", south, 0) if party.name == "south" else party for party in others)
    with pytest.raises(DataError, match="south does not have the columns, classes or public rows that server has"):
        _agree(hub, parties)


def test_a_party_whose_columns_differ_is_refused_by_the_hub_too():
    hub, _, others = roles(FedAvg(), federation(), seed=0)
    frames = {name: frame.rename(columns={"size3": "width"}) for name, frame in hospitals().items()}
    south = rows_from_frames(frames, label="diagnosis", id="patient").tables["south"]
    parties = tuple(Party("south", south, 0) if party.name == "south" else party for party in others)
    with pytest.raises(DataError, match="'south' has no column 'size3'"):
        _agree(hub, parties)


@pytest.mark.parametrize(
    "answer",
    [
        None,
        {"task": {}, "columns": [], "sums": np.zeros((0, 5))},
        {"task": {"kind": "binary"}, "columns": [{"name": "a"}], "sums": np.full((1, 5), np.nan)},
        {"task": {"kind": "binary"}, "columns": [{"name": "a"}], "sums": np.zeros((2, 5))},
    ],
)
def test_an_answer_of_another_form_is_an_error_that_names_its_sender(answer):
    with pytest.raises(WireError, match="north did not send"):
        SameColumns()._add_up({"north": answer})


def _agree(hub, parties):
    align, log = SameColumns(), WireLog()
    log.phase = "align"
    with open_calls(parties) as carrier:
        peers = Peers(align, hub, carrier, log, carrier.names)
        align.match(hub, peers)
        align.confirm(hub, peers)
