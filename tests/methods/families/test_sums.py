"""Secure sums are exact whoever drops out, show the server nothing but the sum, and refuse to open both secrets."""

import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy

import numpy as np
import pytest

from laconic import Cox, FedAvg, FedDf, FedKt, FedOnce, FedProx, Scaffold, check_method, price, simulate, train
from laconic.core import Party, Peers, Question, WireLog, answer, decode, decode_question, encode
from laconic.deploy import ledgers_of, open_calls
from laconic.errors import PartyAbsent, Refused, StepError, WireError
from laconic.learn import Columns, Krum, Median, Sgd
from laconic.methods import ModelCheck, SecureSums
from laconic.methods.families.sums import _read
from laconic.methods.horizontal.analytic import Analytic
from laconic.privacy import L1, L2, ClippedGaussian, DpSgd, GaussianSums, GaussianVotes
from laconic.privacy.masks import FixedPoint, add_masks
from laconic.testing import small_horizontal

STEPS = ("agree_keys", "share_secrets", "give_sums", "unmask")
METHOD = Analytic(features=Columns(), sums=SecureSums(), least_rows=1)


class Dropping:
    """A carrier whose parties are gone from one step on."""

    def __init__(self, within, gone: tuple[str, ...], step: str) -> None:
        self._within, self._gone, self._step, self._off = within, gone, step, False
        self.names, self.ledgers, self.blobs = within.names, within.ledgers, []

    def carry(self, script, blobs, deadline) -> Iterator:
        self._off = self._off or any(decode_question(blob).step == self._step for blob in blobs.values())
        kept = {name: blob for name, blob in blobs.items() if not (self._off and name in self._gone)}
        for name, reply in self._within.carry(script, kept, deadline):
            self.blobs.append((name, decode_question(blobs[name]), bytes(reply)))
            yield name, reply


def parties_of(count: int = 5) -> tuple[Party, ...]:
    table = small_horizontal("binary").tables["party1"]
    deal = np.array_split(table.cut("train"), count)
    return tuple(Party(f"p{at}", table.take(rows, {"train": np.arange(len(rows))}), 0) for at, rows in enumerate(deal))


@contextmanager
def server(parties, gone=(), step="", method=METHOD):
    hub = Party("server", parties[0].data, 0)
    with open_calls(parties) as carrier:
        dropping = Dropping(carrier, gone, step)
        yield hub, Peers(method, hub, dropping, WireLog(), dropping.names), dropping


@pytest.mark.parametrize("step", ["", *STEPS])
def test_the_sum_is_exact_whoever_drops_out_at_whichever_step(step):
    parties, open_method = parties_of(), Analytic(features=Columns(), least_rows=1)
    with server(parties, ("p1",), step) as (hub, peers, _):
        list(METHOD.fit(hub, peers))
    # Who drops out after its numbers came is in the sum still: only its masks had to be opened by others.
    inside = [one for one in parties if one.name != "p1" or step in ("", "unmask")]
    assert hub.memory["parties"] == [one.name for one in inside]
    count = 5 if step in ("", "give_sums", "unmask") else 4
    whole = FixedPoint(2.0**30, count)
    for name in ("gram", "moments"):
        added = np.sum([whole.write(open_method._sums(one)[name]) for one in inside], axis=0, dtype=np.uint64)
        assert np.array_equal(hub.memory["sums"]["all parties together"][name], whole.read(added))


def test_too_many_lost_parties_end_the_run_by_name():
    with (
        server(parties_of(), ("p1", "p2"), "give_sums") as (hub, peers, _),
        pytest.raises(PartyAbsent, match="p1 and p2"),
    ):
        list(METHOD.fit(hub, peers))


def test_what_crosses_looks_random_and_differs_from_run_to_run():
    seen = []
    for _ in range(2):
        with server(parties_of()) as (hub, peers, dropping):
            list(METHOD.fit(hub, peers))
        seen.append([decode(blob) for _, asked, blob in dropping.blobs if asked.step == "give_sums"])
    numbers = np.concatenate([*seen[0], *seen[1]]).astype(np.float64) / 2**64
    assert len(np.unique(numbers)) == len(numbers)
    # The mean of so many uniform numbers: five standard errors.
    assert abs(numbers.mean() - 0.5) < 5 / np.sqrt(12 * len(numbers))


def test_both_kinds_of_shares_lay_a_party_bare_and_are_refused():
    parties = parties_of()
    with server(parties) as (hub, peers, dropping):
        list(METHOD.fit(hub, peers))
        asked = {name: one for name, one, _ in dropping.blobs if one.step == "unmask"}
    # A party that drops out is opened by its key, so a server that lies asks again, without a party that was there.
    lie = '["p0","p2","p3","p4"]'
    with pytest.raises(Refused, match="both kinds of shares of one party"):
        METHOD.unmask(parties[0], present=lie, shares=asked["p0"].payload["shares"])


def test_without_that_refusal_the_server_reads_a_partys_numbers():
    parties = parties_of()
    with server(parties) as (_, peers, _):
        keys, locked = METHOD.sums._agreed(METHOD, peers)
        masked = peers.ask(METHOD.give_sums)
        copies = deepcopy([one.memory for one in parties])
        everyone = METHOD.sums._opened(METHOD, peers, keys, locked, tuple(keys))
        for party, memory in zip(parties, copies, strict=True):
            party.memory = memory  # As if nothing had been opened yet: the guard forgets.
        others = ("p0", "p2", "p3", "p4")
        without = METHOD.sums._opened(METHOD, peers, keys, locked, others)
    bare = masked["p1"].copy()
    add_masks(bare, [(METHOD.sums._joined(keys, "p1", everyone), -1)])
    add_masks(bare, [(seed, -sign) for seed, sign in METHOD.sums._left_over(keys, "p1", others, without)])
    true = Analytic(features=Columns(), least_rows=1)._sums(parties[1])["gram"]
    assert np.array_equal(
        FixedPoint(2.0**30, 5).read(bare)[: true.size], FixedPoint(2.0**30, 5).read(FixedPoint(2.0**30, 5).write(true))
    )


def told_otherwise(parties):
    """To each of five parties another list of who is there: each of the others is gone for three of the five."""
    gone = {"p0": "p1 p2", "p1": "p0 p2", "p2": "p0 p1", "p3": "p0 p1", "p4": "p0 p2"}
    return {one.name: [name for name in gone if name not in gone[one.name].split()] for one in parties}


def test_a_server_that_tells_each_another_list_reads_no_smaller_sum():
    # Three of five must be in a sum. Such lists would open the keys of three parties, and the seeds of the other two.
    half = Analytic(features=Columns(), sums=SecureSums(threshold=0.5), least_rows=1)
    parties = parties_of()
    with server(parties, method=half) as (_, peers, _):
        keys, locked = half.sums._agreed(half, peers)
        peers.ask(half.give_sums)
    vouched = {name: {} for name in keys}
    for one in parties:
        text = json.dumps(told_otherwise(parties)[one.name])
        for other, mark in json.loads(half.confirm_present(one, present=text)).items():
            vouched[other][one.name] = mark
    for one in parties:
        asked = {
            "present": json.dumps(told_otherwise(parties)[one.name]),
            "shares": json.dumps({own: locked[own][one.name] for own in keys}),
        }
        for marks in ("{}", json.dumps(vouched[one.name])):
            with pytest.raises(Refused, match="enough others were shown the same list"):
                half.unmask(one, **asked, confirmed=marks)


def test_a_party_tells_the_others_of_one_list_only():
    parties = parties_of()
    with server(parties) as (_, peers, _):
        METHOD.sums._agreed(METHOD, peers)
        peers.ask(METHOD.give_sums)
    METHOD.confirm_present(parties[0], present='["p0","p1","p2","p3"]')
    with pytest.raises(Refused, match="marked another list of who is there"):
        METHOD.confirm_present(parties[0], present='["p0","p1","p2","p4"]')
    with pytest.raises(Refused, match="marked another list of who is there"):
        METHOD.unmask(parties[0], present='["p0","p1","p2","p3","p4"]', shares="{}")


def test_one_party_under_two_names_leaves_no_mask_in_common():
    # Masks with two names, one before its own and one after, would cancel, and its own mask is opened to all.
    parties = parties_of(3)
    keys = {one.name: json.loads(ask(one, "agree_keys")) for one in parties}
    with pytest.raises(StepError, match="the same key for two parties"):
        ask(parties[1], "share_secrets", keys=json.dumps(keys | {"p2": keys["p0"]}))


def test_two_sums_that_differ_by_one_party_do_not_lay_it_bare():
    parties = parties_of()
    with server(parties) as (hub, peers, _):
        list(METHOD.fit(hub, peers))
    with server(parties) as (hub, peers, _), pytest.raises(StepError, match="asked for a second sum over its rows"):
        list(METHOD.fit(hub, peers.only(("p0", "p2", "p3", "p4"))))


def ask(party: Party, step: str, **payload):
    return decode(answer(METHOD, party, encode(Question(step, "fit", 0, payload))))


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (lambda one: [ask(one, "give_sums")], "before masks were agreed on"),
        (lambda one: [ask(one, "agree_keys"), ask(one, "share_secrets", keys="{}")], "other keys in its name"),
        (lambda one: [ask(one, "unmask", present="[]", shares="{}")], "before it sent its numbers"),
        (lambda one: [share(one, 2)], "sums over 3 parties or more, not 2"),
        (
            lambda one: [share(one, 3), ask(one, "give_sums"), ask(one, "give_sums")],
            "twice for numbers under the same masks",
        ),
        (lambda one: [share(one, 3), share(one, 3, drawn=True)], "share the secrets of a sum twice"),
        (
            lambda one: [share(one, 3), ask(one, "give_sums"), ask(one, "unmask", present='["p0"]', shares="{}")],
            "too many left out",
        ),
    ],
)
def test_a_party_refuses_a_server_that_strays_from_the_protocol(asked, words):
    with pytest.raises(StepError, match=words):
        asked(parties_of()[0])


QUIET = FedKt(level=L1(noise=GaussianVotes()), sums=SecureSums())


@pytest.mark.parametrize(
    ("method", "step", "words"),
    [
        (METHOD, "give_erased", "are to be erased"),
        (Analytic(features=Columns(), least_rows=10**6), "give_erased", "are to be erased"),
        (QUIET, "give_students", "votes alone"),
        (QUIET, "improve", "go on with FedProx"),
        (FedKt(level=L2()), "improve", "go on with FedProx"),
        (FedAvg(sums=SecureSums()), "judge", "judge no models"),
        (Scaffold(trainer=DpSgd(sigma=1.0)), "judge", "judge no models"),
        (Cox(sums=SecureSums()), "give_start", "no Newton steps"),
        (Cox(), "give_sums", "no Newton steps"),
        (FedOnce(noise=ClippedGaussian(clip=1.0, sigma=1.0)), "give_outputs", "nothing follows the one exchange"),
        (FedOnce(noise=ClippedGaussian(clip=1.0, sigma=1.0)), "exchange", "nothing follows the one exchange"),
    ],
)
def test_a_server_that_asks_what_the_plan_never_asks_gets_nothing_past_masks_and_noise(method, step, words):
    one = small_horizontal("survival" if isinstance(method, Cox) else "binary").tables["party1"]
    model = {name: np.zeros(1, np.float32) for name in ("a", "b")}
    numbers = np.zeros(one.shape[0])
    known = {
        "rows": "train",
        "seed": 0,
        "model": model,
        "models": [model],
        "times": numbers,
        "beta": numbers,
        "hazard": numbers,
    }
    payload = {name: known.get(name, numbers) for name in list(inspect.signature(getattr(method, step)).parameters)[1:]}
    with pytest.raises(StepError, match=words):
        answer(method, Party("p0", one, 0), encode(Question(step, "fit", 0, payload)))


def share(one: Party, count: int, drawn: bool = False):
    """Agree on a sum over so many parties whose other keys the server made up."""
    own = json.loads(ask(one, "agree_keys")) if not drawn else one.memory["secure sum"]["keys"]["p0"]
    others = {f"p{at}": json.loads(ask(parties_of()[at], "agree_keys")) for at in range(1, count)}
    return ask(one, "share_secrets", keys=json.dumps({"p0": own} | others))


@pytest.mark.parametrize("settings", [{"average": Krum()}, {"average": Median()}, {"check": ModelCheck()}])
def test_what_looks_at_single_models_is_refused_with_the_reason(settings):
    for kind in (FedAvg, FedProx, Scaffold):
        with pytest.raises(ValueError, match="under secure sums the server sees nothing but"):
            kind(sums=SecureSums(), **settings)
    with pytest.raises(ValueError, match="lets each party's model teach"):
        FedDf(sums=SecureSums())


@pytest.mark.parametrize("kind", [FedAvg, Scaffold])
def test_the_secure_mean_is_the_open_mean(kind):
    # One full batch per epoch: the order of rows, which hangs on the number of the question, does not matter.
    trainer = Sgd(epochs=3, batch=1000, optimizer="sgd", lr=0.1, weight_decay=0.0)
    federation = small_horizontal("multiclass")
    models = [
        train(kind(trainer=trainer, exchanges=2, sums=sums), federation).hub.memory["model"]
        for sums in (None, SecureSums())
    ]
    for name, values in models[0].items():
        assert np.allclose(values, models[1][name], atol=1e-6)


def test_the_ledger_says_in_what_numbers_are_hidden_and_keys_are_no_open_release():
    result = simulate(FedAvg(trainer=Sgd(epochs=1), sums=SecureSums()), small_horizontal("binary"))
    masked = [one for one in result.releases if one.label == "cryptographic"]
    assert [one.party for one in masked] == ["party1", "party2", "party3"]
    assert (
        "hidden in a sum over 3 parties, at least 2 of which are in it, unless the server and 1 of them"
        in masked[0].words
    )
    assert masked[0].covered.startswith("cryptographic: its receiver learns the sum")
    paid = price(ledgers_of(result), 1e-5, "disjoint")
    assert not any("keys" in words or "shares" in words for words in paid.open)
    assert sum("hidden in a sum" in words for words in paid.open) == 3


@pytest.mark.parametrize(("lost_at", "inside"), [("", 5), ("give_sums", 4)])
def test_parties_put_the_noise_of_a_sum_together(lost_at, inside):
    sums, privacy = SecureSums(), GaussianSums(sigma=50.0)
    drawn = []
    for _ in range(40):
        method = Analytic(features=Columns(), privacy=privacy, sums=sums)
        with server(parties_of(), ("p1",), lost_at, method) as (hub, peers, _):
            list(method.fit(hub, peers))
        drawn.append(hub.memory["sums"]["all parties together"]["moments"])
    # 5 parties, 4 needed, 3 may collude but one: 2 honest ones add the whole noise, so that 5 add root(5 / 2) of it,
    # and 4 that are left when one drops out root(4 / 2): with 2 of these 4 dishonest, still the whole.
    assert (sums.needed(5), sums.colluders(5), sums.honest(5)) == (4, 3, 2)
    wanted = privacy.scales()[1] * np.sqrt(inside / 2)
    assert hub.memory["sums"]["all parties together"]["releases"] == inside / 2
    found = np.std(drawn, axis=0).mean()
    assert abs(found / wanted - 1) < 0.1  # 40 draws of about 30 numbers: within 3 per cent, mostly.
    entry = next(one for one in peers.ledgers()["p0"].entries if one.noise is not None)
    assert entry.noise.multiplier == 50.0 and entry.noise.secure
    assert "hidden in a sum over 5 parties" in entry.words and "each a share" in entry.noise.caveat


def test_a_party_leaves_a_secure_sum_by_its_own_sums_alone():
    parties = parties_of()
    with server(parties) as (hub, peers, _):
        list(METHOD.fit(hub, peers))
        with pytest.raises(ValueError, match="nobody else can take it out; let it send the sums of its own rows"):
            METHOD.take_out(hub, "p1")
        with pytest.raises(ValueError, match="a party that joins alone would show its own sums"):
            METHOD.merge_in(hub, peers.only(("p1",)))
        parties[1].data = parties[1].data.with_cut("erased", parties[1].data.cut("train"), dropping=("train",))
        METHOD.erase(hub, peers.only(("p1",)))
    with server([one for one in parties_of() if one.name != "p1"]) as (other, peers, _):
        list(METHOD.fit(other, peers))
    for name, values in other.memory["model"].items():
        assert np.allclose(values, hub.memory["model"][name], rtol=1e-4, atol=1e-6)


def test_altered_answers_name_the_party():
    with pytest.raises(WireError, match="p0 sent float32 3 where 2 masked numbers"):
        _read("p0", np.zeros(3, np.float32), 2)


@pytest.mark.slow
@pytest.mark.parametrize(
    "method",
    [FedAvg(sums=SecureSums()), Scaffold(sums=SecureSums()), Analytic(sums=SecureSums())],
    ids=["fedavg", "scaffold", "analytic"],
)
def test_keeps_the_contract(method):
    check_method(method)
