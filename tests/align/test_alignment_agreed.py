import numpy as np
import pytest

from laconic.align.alignment import AgreedIds, agree
from laconic.core import Party, Peers, WireLog
from laconic.deploy import open_calls
from laconic.errors import DataError
from laconic.tables import Column, Table, fingerprint

PEOPLE = [f"p{number:02d}" for number in range(30)]


def party(name, ids):
    values = np.arange(len(ids), dtype=float)[:, None]
    return Party(name, Table(values, (Column("a"),), ids=ids, party=name), 0)


def matched(*parties):
    hub, *others = parties
    with open_calls(tuple(others)) as carrier:
        log = WireLog()
        log.phase = "align"
        hub.turn("align", 0)
        return AgreedIds().match(hub, Peers(AgreedIds(), hub, carrier, log, carrier.names)), log


def test_all_parties_hold_the_same_rows_in_the_same_order_after_one_small_question():
    bank, shop = party("bank", PEOPLE), party("shop", PEOPLE[::-1])
    counts, log = matched(bank, shop)
    assert counts == {"shared": 30, "rows": {"bank": 30, "shop": 30}}
    assert fingerprint(bank.data) == fingerprint(shop.data)
    assert log.rounds["align"] == 1
    assert log.bytes["align"] < 60


def test_a_list_of_ids_leaves_the_other_rows_to_their_party():
    bank, shop = party("bank", PEOPLE), party("shop", [*PEOPLE[10:], "x1", "x2"])
    for one in (bank, shop):
        agree(one, PEOPLE[10:])
    counts, _ = matched(bank, shop)
    assert counts["shared"] == 20
    assert sorted(shop.data.keys[shop.data.cut("own")]) == ["x1", "x2"]
    assert fingerprint(bank.data) == fingerprint(shop.data)


def test_an_agreed_id_that_a_party_lacks_is_named():
    with pytest.raises(DataError, match=r"'shop' has no row for 10 of the 30 ids agreed upon, such as 'p00'"):
        agree(party("shop", PEOPLE[10:]), PEOPLE)


def test_lists_of_different_length_are_refused():
    with pytest.raises(DataError, match="did not agree on the same ids: bank 30, shop 29"):
        matched(party("bank", PEOPLE), party("shop", PEOPLE[1:]))
