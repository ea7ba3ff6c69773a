"""Messy but legal files: what the generator promises, and that nobody misreads or stumbles over them."""

import tempfile
import warnings
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from benchmarks.messy_verbs import CHAINS, VERBS, Tour, frames_of, owes_result, read, suited
from laconic import Linear, OneShot, PooledRows, from_files, simulate
from laconic.methods import methods
from laconic.testing import Misread, compare_reading, draw, messy_federations
from laconic.threads import limit_threads
from tests.testing.traits import EVERY, traits_of

SIZES = {7: 2000, 21: 20}
FIXED = [
    msgspec.structs.replace(federation, rows=SIZES.get(seed, federation.rows))
    for seed, federation in enumerate(draw(seed, most_rows=240) for seed in range(40))
]
"""The set that every change is tried on; small, but for one."""


def shared_out():
    """For each federation a method and a chain of verbs: of those that suit it, the ones that were chosen least."""
    uses, chains, found = Counter(), Counter(), []
    for federation in FIXED:
        # Of those chosen equally often, the one that suits the fewest others.
        method = min(suited(federation), key=lambda one: uses[one])
        chain = min(CHAINS, key=lambda one: chains[federation.kind, one])
        uses[method] += 1
        chains[federation.kind, chain] += 1
        found.append((federation, method, chain))
    return found


TOURS = shared_out()
ASKED_AGAIN = (OneShot, "mail", ("seal", "open", "host", "answer"))


def test_the_fixed_set_has_every_trait():
    assert frozenset.union(*(traits_of(federation) for federation in FIXED)) >= EVERY


def test_the_fixed_set_goes_through_every_method_and_every_chain_of_verbs():
    # Drawn files hold no times to an event; the method for these alone has bad files of its own in tests/data.
    wanted = {method for method in methods().values() if method.tasks != ("survival",)}
    assert {method for _, method, _ in TOURS} == wanted
    assert {(federation.kind, chain) for federation, _, chain in TOURS} == {
        (kind, chain) for kind in ("vertical", "horizontal") for chain in CHAINS
    }


@pytest.mark.parametrize("number", range(len(TOURS)))
def test_messy_files_are_read_truly_and_give_a_result_or_one_clear_error(number, tmp_path):
    federation, method, chain = TOURS[number]
    with warnings.catch_warnings(), limit_threads(1):
        warnings.simplefilter("ignore")
        tour = Tour(federation, tmp_path, method)
        read(tour)
        CHAINS[chain](tour)
    assert [one for one in tour.outcomes if one.ended not in ("result", "clear error")] == []


@pytest.mark.parametrize(("method", "chain", "verbs"), [*((Linear, *one) for one in VERBS.items()), ASKED_AGAIN])
def test_a_federation_that_owes_a_result_goes_through_every_verb_of_a_chain(method, chain, verbs, tmp_path):
    fitting = [one for one in FIXED if one.kind == "vertical" and owes_result(one) and not one.framed]
    federation = min(fitting, key=lambda one: (len(one.parties), one.rows))
    with warnings.catch_warnings(), limit_threads(1):
        warnings.simplefilter("ignore")
        tour = Tour(federation, tmp_path, method)
        CHAINS[chain](tour)
    assert {one.step.split()[0] for one in tour.outcomes if one.ended == "result"} >= set(verbs)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(messy_federations(most_rows=60, most_columns=6))
def test_whatever_is_drawn_is_read_as_it_was_written(federation):
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tour = Tour(federation, Path(folder), Linear)
        read(tour)
    assert [one for one in tour.outcomes if one.ended not in ("result", "clear error")] == []


def test_methods_learn_from_messy_files():
    gains = []
    for federation in FIXED:
        if federation.rows < 200 or not owes_result(federation):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows = frames_of(federation)
            result = simulate(Linear() if federation.kind == "vertical" else PooledRows(), rows)
        assert np.isfinite(result.score.value)
        gains.append(gain(result, rows))
    assert len(gains) > 3
    assert np.mean(gains) > 0.1


def gain(result, federation):
    """How much better than naming the most frequent class, or the mean."""
    if federation.task.kind == "regression":
        return result.metrics["r2"]
    if "auc" in result.metrics:
        return result.metrics["auc"] - 0.5
    y = federation.tables[federation.hub].y
    return result.metrics["accuracy"] - np.bincount(y[y >= 0]).max() / (y >= 0).sum()


def test_a_seed_gives_the_same_files(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        for seed in (3, 4):
            draw(seed, most_rows=100).write(tmp_path / name)
    one, other = (sorted((tmp_path / name).iterdir()) for name in ("one", "other"))
    assert [path.name for path in one] == [path.name for path in other]
    # A compressed file says when it was written.
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(one, other, strict=True) if a.suffix != ".gz")


def test_rows_to_come_have_a_level_that_nobody_had():
    federation = next(one for one in FIXED if any(c.trait == "level" for p in one.parties for c in p.columns))
    seen = [set(cells.values) for party in federation.new_truth.parties.values() for cells in party.columns.values()]
    assert any("never seen" in some for some in seen)


def test_a_level_is_in_test_rows_only_somewhere_in_the_fixed_set():
    def only_tested(federation):
        tables = [table for name, table in frames_of(federation).tables.items() if name != "server"]
        learnt = {(column.name, level) for table in tables for column in table.columns for level in column.levels}
        rare = [column.name for column in federation.parties[0].columns if column.trait == "rare level"]
        return any((name, "rare") not in learnt for name in rare)

    assert any(only_tested(one) for one in FIXED if one.kind == "horizontal")


def test_a_misreading_names_party_and_column(tmp_path):
    federation = draw(6, most_rows=60).in_plain_files()
    read = from_files(federation.write(tmp_path), id=federation.id, label=federation.label)
    compare_reading(read, federation.truth)
    name = federation.parties[-1].name
    table = read.tables[name]
    at = int(np.flatnonzero(~np.isnan(table.raw[:, 0]))[0])
    table.raw[at, 0] += 1
    with pytest.raises(Misread, match=f"{name}, column"):
        compare_reading(read, federation.truth)
