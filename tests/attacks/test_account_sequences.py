"""Whatever a hub does, in whatever order and at how many processes, the account is never below what left.

What left is counted here by itself: the times that the noisy numbers of each person reached the hub.
"""

from collections import Counter

import numpy as np
import pytest

from laconic.data.partition.columns import split
from laconic.privacy import compose, epsilon_of
from tests.attacks.harness import DELTA, LIMITED, NOISY_ROWS, Trial, was_answered

PEOPLE, SIGMA = 30, 4.0
CUTS = ("train", "valid", "test", "own", "shared")


class Sequence:
    """Random acts of a hub on three processes of one site, and what it got by them."""

    def __init__(self, folder, seed):
        self.rng = np.random.default_rng(seed)
        self.trial = Trial(folder, method=NOISY_ROWS, rows=PEOPLE, allow=f"{LIMITED}max_epsilon = 8.0\n")
        self.processes = [self.trial.desk("shop") for _ in range(3)]
        self.hubs = {run: self.trial.hub(run=run) for run in ("one", "two")}
        self.cuts = {run: {} for run in self.hubs}
        self.released = Counter()
        self.cut(self.hubs["one"], "one")
        self.note("one", ("train", "valid"), self.hubs["one"].ask("learn_and_send"))

    def act(self):
        run = str(self.rng.choice(list(self.hubs), p=[0.7, 0.3]))
        hub, at = self.hubs[run], int(self.rng.integers(3))
        self.trial.desks["shop"] = self.processes[at]
        act = self.rng.choice(["greet", "cut", "cut", "learn", "represent", "represent", "restart"])
        if act == "restart":
            self.processes[at] = self.trial.desk("shop")
        elif act == "greet":
            hub.greet()
        elif act == "cut":
            self.cut(hub, run)
        elif act == "learn":
            self.note(run, ("train", "valid"), hub.ask("learn_and_send"))
        else:
            rows = str(self.rng.choice(CUTS))
            self.note(run, (rows,), hub.ask("represent", "final", rows=rows))

    def cut(self, hub, run):
        shared, seed = int(self.rng.integers(10, PEOPLE + 1)), int(self.rng.integers(100))
        hub.greet()
        before = self.cuts[run].get("order", np.arange(PEOPLE))
        hub.ask("show_ids", "align")
        if was_answered(hub.keep_rows(shared, seed)):
            # The first so many rows, as they lie there now, become the shared ones, in the order of their ids.
            order = np.concatenate([np.sort(before[:shared]), before[shared:]])
            found = split(shared, np.random.default_rng(seed), test=0.2, valid=0.1)
            found |= {"shared": np.arange(shared), "own": np.arange(shared, PEOPLE)}
            self.cuts[run] = {name: order[places] for name, places in found.items()} | {"order": order}

    def note(self, run, cuts, said):
        if was_answered(said):
            self.released.update(int(person) for cut in cuts for person in self.cuts[run][cut])

    @property
    def left(self):
        """The loss of the person whose numbers left most often; two cuts of one answer are of different people."""
        times = max(self.released.values(), default=0)
        return epsilon_of(compose([1 / SIGMA] * times), DELTA) if times else 0.0


def run_sequences(folder, count):
    """The sequences after which the account was below what had left."""
    broken = {}
    for seed in range(count):
        sequence = Sequence(folder / str(seed), seed)
        for _ in range(6):
            sequence.act()
        spent = sequence.trial.spent()
        if spent < 0.98 * sequence.left:
            broken[seed] = f"{sequence.left:.3g} left, the account says {spent:.3g}"
    return broken


def test_the_account_is_never_below_what_left(tmp_path):
    assert run_sequences(tmp_path, 6) == {}


@pytest.mark.slow
def test_the_account_is_never_below_what_left_in_many_sequences(tmp_path):
    assert run_sequences(tmp_path, 200) == {}
