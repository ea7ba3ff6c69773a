"""Secure sums by keys exchanged once: exact whoever drops out, and what one sum opens says nothing of another."""

from base64 import b64decode
from copy import deepcopy

import msgspec
import numpy as np
import pytest

from laconic import FedAvg, FedProx, Scaffold, check_method, simulate
from laconic.core import Party, Peers, WireLog, decode_question
from laconic.deploy import InProcess, Processes, open_calls
from laconic.errors import PartyAbsent, Refused
from laconic.learn import Sgd
from laconic.methods import SecureSums
from laconic.methods.families.sums import _lock, take_masks_off
from laconic.privacy.encryption import FixedPoint, add_masks, derive, join_secret, unlock
from laconic.testing import small_horizontal

ONCE = SecureSums(keys="once")
METHOD = FedAvg(trainer=Sgd(epochs=1, batch=32), exchanges=3, sums=ONCE)
BINARY = small_horizontal("binary")
NUMBERS = {"model": {"weight": np.arange(4.0)}, "rows": 1.0}


class Away:
    """A carrier whose parties are away for some questions, given by step and by how often it was asked before."""

    def __init__(self, within, away: set[tuple[str, str, int]]) -> None:
        self._within, self._away, self.names, self.ledgers = within, away, within.names, within.ledgers
        self.asked: dict[str, int] = {}

    def carry(self, script, blobs, deadline):
        step = decode_question(next(iter(blobs.values()))).step
        number = self.asked[step] = self.asked.get(step, -1) + 1
        kept = {name: blob for name, blob in blobs.items() if (name, step, number) not in self._away}
        yield from self._within.carry(script, kept, deadline)


def parties_of(count: int = 5) -> tuple[Party, ...]:
    table = BINARY.tables["party1"]
    deal = np.array_split(table.cut("train"), count)
    return tuple(Party(f"p{at}", table.take(rows, {"train": np.arange(len(rows))}), 0) for at, rows in enumerate(deal))


def test_two_questions_a_sum_on_every_runtime_alike_and_as_good_as_fresh_keys():
    method = FedAvg(exchanges=2, trainer=Sgd(epochs=2), sums=ONCE)
    one, other = (simulate(method, BINARY, runtime=runtime) for runtime in (InProcess(), Processes()))
    assert one.predictions == other.predictions
    assert one.fit.bytes_up == other.fit.bytes_up
    assert one.fit.rounds == method.rounds == 2 + 2 * 2
    each = simulate(FedAvg(exchanges=2, trainer=Sgd(epochs=2), sums=SecureSums()), BINARY)
    assert each.fit.rounds == 4 * 2
    assert one.metrics["accuracy"] == pytest.approx(each.metrics["accuracy"], abs=0.05)


@pytest.mark.slow
@pytest.mark.parametrize("method", [METHOD, FedProx(exchanges=2, sums=ONCE), Scaffold(exchanges=2, sums=ONCE)])
def test_methods_keep_their_contract(method):
    check_method(method, BINARY)


@pytest.mark.parametrize("step", ["improve", "unmask"])
def test_sums_are_exact_whoever_is_away_and_it_comes_back_for_the_next(step):
    away = {("p1", step, 1)}
    totals, wanted = [], []
    parties = parties_of()
    hub = Party("server", parties[0].data, 0)
    kept: dict[str, object] = {}
    with open_calls(parties) as carrier:
        peers = Peers(METHOD, hub, Away(carrier, away), WireLog(), carrier.names)
        model = first(hub)
        for number in range(3):
            there = [one for one in parties if not (step == "improve" and number == 1 and one.name == "p1")]
            total = ONCE.over_several(
                METHOD, peers, METHOD.improve, {"model": model, "rows": 0.0}, kept, {"model": model}
            )
            assert set(total.parties) == {one.name for one in there}
            totals.append(total.parts["rows"])
            wanted.append(sum(len(one.data.cut("train")) for one in there))
    assert totals == wanted


def first(hub):
    from laconic.methods.families.averaged import first_model

    return first_model(METHOD.local, hub)


def test_too_many_away_end_the_run_by_name():
    parties = parties_of()
    hub = Party("server", parties[0].data, 0)
    with open_calls(parties) as carrier:
        away = Away(carrier, {("p1", "improve", 0), ("p2", "improve", 0)})
        peers = Peers(METHOD, hub, away, WireLog(), carrier.names)
        with pytest.raises(PartyAbsent, match="p1 and p2"):
            list(METHOD.fit(hub, peers))


def agreed(count: int = 4) -> tuple[Party, ...]:
    """Parties that exchanged keys."""
    parties = parties_of(count)
    keys = {one.name: msgspec.json.decode(METHOD.agree_keys(one)) for one in parties}
    for one in parties:
        METHOD.take_keys(one, keys=msgspec.json.encode(keys).decode())
    return parties


def send(parties, number):
    """What each sends in a sum, by name."""
    sent = {}
    for one in parties:
        one.turn("fit", number)
        sent[one.name] = ONCE.hide(one, NUMBERS).value
    return sent


def shares_for(sent, name):
    return msgspec.json.encode({own: msgspec.json.decode(one["shares"])[name] for own, one in sent.items()}).decode()


def opened_by(parties, sent, present):
    text, there = msgspec.json.encode(present).decode(), [one for one in parties if one.name in present]
    marks = {one.name: msgspec.json.decode(METHOD.confirm_present(one, present=text)) for one in there}

    def opened(one):
        heard = {name: said[one.name] for name, said in marks.items() if name != one.name}
        said = msgspec.json.encode(heard).decode()
        return METHOD.unmask(one, present=text, shares=shares_for(sent, one.name), confirmed=said)

    return {one.name: msgspec.json.decode(opened(one)) for one in there}


def bare_numbers(sent, chains, opened, names):
    """What p1 sent, as whoever knows its chains and what was opened reads it."""
    found = sent["p1"]["numbers"].copy()
    places = {one: at for at, one in enumerate(names)}
    seed = join_secret({places[who]: bytes.fromhex(one["p1"]["seed"]) for who, one in opened.items()})
    others = [one for one in names if one != "p1"]
    masks = [(derive(bytes.fromhex(chains[one]), "mask"), -1 if one > "p1" else 1) for one in others]
    add_masks(found, [(seed, -1), *masks])
    return FixedPoint(ONCE.bound, len(names)).read(found)[:4]


def test_whoever_gets_a_partys_memory_later_cannot_read_what_it_sent_earlier():
    parties = agreed()
    names, before = [one.name for one in parties], deepcopy(parties[1].memory["secure sum chains"]["chains"])
    sent = send(parties, 0)
    opened, after = opened_by(parties, sent, names), parties[1].memory["secure sum chains"]["chains"]
    # The chains as they were when the sum was made lay the party bare: so they are forgotten.
    assert np.allclose(bare_numbers(sent, before, opened, names), np.arange(4.0))
    assert not np.allclose(bare_numbers(sent, after, opened, names), np.arange(4.0))


def test_what_opens_one_sum_opens_no_other():
    parties = agreed()
    names, chains = [one.name for one in parties], deepcopy(parties[0].memory["secure sum chains"]["chains"])
    first_sent = send(parties, 3)
    # p3 drops out of this sum: the others open the masks that they have in common with it.
    opened = opened_by(parties, {name: first_sent[name] for name in names[:3]}, names[:3])
    assert set(opened["p0"]["p1"]["masks"]) == {"p3"}
    second = send(parties, 4)
    mask_before = derive(advance(chains["p3"], 3), "mask")
    mask_after = derive(advance(chains["p3"], 4), "mask")
    assert mask_before != mask_after
    later = opened_by(parties, second, names)
    assert all(not one["masks"] for found in later.values() for one in found.values())
    total = np.sum([one["numbers"] for one in second.values()], axis=0, dtype=np.uint64)
    take_masks_off(total, names, names, later)
    assert np.allclose(FixedPoint(ONCE.bound, 4).read(total)[:4], 4 * np.arange(4.0))
    # Shares of the first sum are locked by keys of that sum, which are gone.
    kept = bytes.fromhex(parties[0].memory["secure sum chains"]["chains"]["p1"])
    with pytest.raises(Exception, match="altered"):
        text = msgspec.json.decode(first_sent["p1"]["shares"])["p0"]
        unlock(_lock(kept, "p1", "p0"), b64decode(text), "p1")


def advance(chain, times):
    found = bytes.fromhex(chain)
    for _ in range(times):
        found = derive(found, "next")
    return found


def test_both_kinds_of_secrets_of_a_party_are_never_opened():
    parties = agreed()
    names = [one.name for one in parties]
    sent = send(parties, 1)
    opened_by(parties, sent, names)
    with pytest.raises(Refused, match="both kinds of shares of one party"):
        METHOD.unmask(parties[0], present=msgspec.json.encode(names[:3]).decode(), shares=shares_for(sent, "p0"))


def test_shares_of_masks_are_opened_only_if_others_were_shown_the_same_list():
    parties = agreed()
    sent, three = send(parties, 1), '["p0","p1","p2"]'
    METHOD.confirm_present(parties[0], present=three)
    METHOD.confirm_present(parties[1], present='["p0","p1","p3"]')
    marks = msgspec.json.decode(METHOD.confirm_present(parties[2], present=three))
    said = {"p2": marks["p0"], "p1": marks["p1"], "p3": marks["p0"]}
    with pytest.raises(Refused, match="the same list: 3 with itself, not 2"):
        METHOD.unmask(
            parties[0],
            present=three,
            shares=shares_for(sent, "p0"),
            confirmed=msgspec.json.encode(said).decode(),
        )


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda one: send([one], 1) and send([one], 1), "twice for numbers under the same masks"),
        (lambda one: send([one], 5) and send([one], 4), "twice for numbers under the same masks"),
        (lambda one: METHOD.unmask(one, present='["p0"]', shares="{}"), "before it sent its numbers"),
        (lambda one: send([one], 1) and METHOD.unmask(one, present='["p0"]', shares="{}"), "too many left out"),
        (lambda one: METHOD.take_keys(one, keys="{}"), "before it drew any"),
    ],
)
def test_a_party_refuses_a_server_that_strays_from_the_protocol(asked, words):
    with pytest.raises(Refused, match=words):
        asked(agreed()[0])


def test_masked_numbers_look_random_and_differ_from_sum_to_sum():
    parties = agreed()
    numbers = np.concatenate([one["numbers"] for number in (1, 2) for one in send(parties, number).values()])
    assert len(np.unique(numbers)) == len(numbers)


def test_a_cohort_needs_fresh_keys():
    with pytest.raises(ValueError, match="use keys = each for a cohort"):
        FedAvg(sums=ONCE, cohort=2)
