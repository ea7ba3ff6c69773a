import pytest
from rich.console import Console

from laconic.core import EVERY_ROW, Entry, Ledger, Noise
from laconic.privacy.accounting import Rdp, price
from laconic.report import show_price

pytest.importorskip("dp_accounting", reason="needs the extra `privacy`: pip install 'laconic-fl[privacy]'")


def noise(**changes):
    known = {"mechanism": "gaussian", "scale": 2.0, "sensitivity": 1.0, "unit": "one row", "caveat": "covers little"}
    return Noise(**(known | changes))


def ledger(*noises, times=1):
    return Ledger(
        tuple(
            Entry(phase="fit", step="send", words=f"thing {at}", form="", times=times, bytes=0, noise=one)
            for at, one in enumerate(noises)
        )
    )


def shown(paid):
    console = Console(width=200)
    with console.capture() as capture:
        console.print(show_price(paid))
    return capture.get()


def test_losses_of_shared_people_add_and_of_disjoint_people_do_not():
    ledgers = {"a": ledger(noise()), "b": ledger(noise())}
    shared = price(ledgers, 1e-5, "shared", accountant=Rdp())
    disjoint = price(ledgers, 1e-5, "disjoint", accountant=Rdp())
    assert disjoint.epsilon == shared.by_party["a"] < shared.epsilon


def test_a_release_made_twice_costs_as_two_releases():
    twice = price({"a": ledger(noise(), times=2)}, 1e-5, accountant=Rdp()).epsilon
    two = price({"a": ledger(noise()), "b": ledger(noise())}, 1e-5, accountant=Rdp()).epsilon
    assert twice == pytest.approx(two)


def test_noise_without_a_bound_is_an_open_release():
    found = price({"a": ledger(noise(sensitivity=None), None)}, 1e-5, accountant=Rdp())
    assert found.open == ("a: thing 0", "a: thing 1")
    assert found.epsilon is None


def test_a_run_without_protection_has_no_bound_and_one_that_gives_nothing_away_has():
    unprotected = price({"a": ledger(None)}, 1e-5, accountant=Rdp())
    assert unprotected.epsilon is None
    assert unprotected.figure == "no bound: nothing that left bears noise with a price"
    assert "Privacy: epsilon" not in shown(unprotected)
    assert "Not covered by any epsilon" in shown(unprotected)
    assert price({"a": ledger()}, 1e-5, accountant=Rdp()).epsilon == 0
    unproven = price({"a": ledger(noise(proven=False))}, 1e-5, accountant=Rdp())
    assert unproven.figure == "no bound: a proof does not hold"
    assert "Privacy: epsilon" in shown(price({"a": ledger(noise(), None)}, 1e-5, accountant=Rdp()))


def test_noise_on_every_row_counts_with_each_cut():
    cuts = price({"a": ledger(noise(people="train"), noise(people="test"))}, 1e-5, accountant=Rdp()).epsilon
    every = price({"a": ledger(noise(people="train"), noise(people=EVERY_ROW))}, 1e-5, accountant=Rdp()).epsilon
    twice = price({"a": ledger(noise(), times=2)}, 1e-5, accountant=Rdp()).epsilon
    assert cuts < every == pytest.approx(twice)


def test_noise_that_its_proof_does_not_cover_protects_nothing_unless_trusted():
    ledgers = {"a": ledger(noise(proven=False))}
    assert price(ledgers, 1e-5, accountant=Rdp()).epsilon is None
    trusted = price(ledgers, 1e-5, accountant=Rdp(), trust_claims=True)
    assert trusted.epsilon > 0
    assert trusted.unproven == ("covers little",)


def test_seeded_noise_is_said_to_be_so():
    assert not price({"a": ledger(noise(), noise(secure=True))}, 1e-5, accountant=Rdp()).secure
    assert price({"a": ledger(noise(secure=True))}, 1e-5, accountant=Rdp()).secure


def test_a_delta_that_is_no_chance_is_refused():
    with pytest.raises(ValueError, match="delta"):
        price({}, 0.0)


def test_a_party_whose_noise_is_not_proven_has_no_figure_of_its_own():
    ledgers = {"a": ledger(noise()), "b": ledger(noise(proven=False))}
    assert set(price(ledgers, 1e-5, accountant=Rdp()).by_party) == {"a"}
    assert set(price(ledgers, 1e-5, accountant=Rdp(), trust_claims=True).by_party) == {"a", "b"}
