"""Random acts of a hub on one to three processes of a party, and a count of what it got by them.

What left is counted here by itself: the times that the noisy numbers of each person reached the hub.
"""

import os
import shutil
from collections import Counter

import numpy as np

from laconic.core import Party, Question, encode
from laconic.data.partition.columns import split
from laconic.deploy import EpsilonAccount, PartyFolder, make_key, save_key, seal_plan, trust
from laconic.deploy.party_account import open_account
from laconic.deploy.party_context import open_context
from laconic.deploy.party_memory import respond
from laconic.deploy.policy import Gatekeeper, read_policy
from laconic.deploy.session import read_rows
from laconic.deploy.store import copy_kept
from laconic.errors import Refused
from laconic.plan import read_plan
from laconic.privacy import compose, epsilon_of
from tests.attacks.harness import DELTA, FORK, HUB, LIMITED, NOISY_ROWS, Trial, was_answered

PEOPLE, SIGMA, LIMIT = 30, 4.0, 6.0
CUTS = ("train", "valid", "test", "own", "shared", "train+test")
ACTS = {
    "greet": 3, "cut": 4, "learn": 3, "represent": 6, "restart": 2, "crash": 3, "together": 2, "lose": 1, "put back": 2,
    "anew": 1, "seal": 2, "serve": 3,
}  # fmt: skip
"""What may happen, and how often beside the others."""


class Sequence:
    """A party with a limit on epsilon, and what a hub does to it; of several runs, some have the same name again."""

    def __init__(self, folder, seed):
        self.rng = np.random.default_rng(seed)
        self.trial = Trial(folder, method=NOISY_ROWS, rows=PEOPLE, allow=f"{LIMITED}max_epsilon = {LIMIT}\n")
        self.count = 1 + seed % 3
        self.processes = [self.trial.desk("shop") for _ in range(self.count)]
        self.hubs = {run: self.trial.hub(run=run) for run in ("one", "two")}
        self.cuts = {run: {} for run in self.hubs}
        self.copies, self.done = {}, []
        self.released, self.served = Counter(), None
        # Some acts never happen in a sequence: with all of them, what one hides another would pay for.
        weights = np.array(list(ACTS.values())) * (self.rng.random(len(ACTS)) < 0.4)
        weights[list(ACTS).index("represent")] += 1
        self.chances = weights / weights.sum()
        self.use(0)
        self.cut("one")
        self.put_back("one")
        self.ask("one", *self.learning())

    def act(self):
        """One random act."""
        act = str(self.rng.choice(list(ACTS), p=self.chances))
        self.done.append(act)
        self.use(int(self.rng.integers(self.count)))
        getattr(self, act.replace(" ", "_"))(str(self.rng.choice(list(self.hubs), p=[0.7, 0.3])))

    def use(self, at):
        self.at = at
        self.trial.desks["shop"] = self.processes[at]

    @staticmethod
    def learning():
        return ("train", "valid"), "learn_and_send", "fit", {}

    def question(self):
        rows = str(self.rng.choice(CUTS))
        return (*rows.split("+"),), "represent", "final", {"rows": rows}

    def ask(self, run, cuts, step, phase, payload):
        self.note(run, cuts, self.hubs[run].ask(step, phase, **payload))

    def note(self, run, cuts, said):
        if was_answered(said):
            self.released.update(int(person) for cut in cuts for person in self.cuts[run][cut])

    def greet(self, run):
        self.hubs[run].greet()

    def learn(self, run):
        self.ask(run, *self.learning())

    def represent(self, run):
        self.ask(run, *self.question())

    def restart(self, run):
        self.processes[self.at] = self.trial.desk("shop")

    def restart_all(self):
        self.processes = [self.trial.desk("shop") for _ in range(self.count)]

    def cut(self, run):
        """Have rows matched, with ids shown or not."""
        hub, shared, seed = self.hubs[run], int(self.rng.integers(10, PEOPLE + 1)), int(self.rng.integers(100))
        hub.greet()
        if self.rng.random() < 0.9:
            hub.ask("show_ids", "align")
        before = self.cuts[run].get("order", np.arange(PEOPLE))
        if was_answered(hub.keep_rows(shared, seed)):
            # The first so many rows, as they lie there now, become the shared ones, in the order of their ids.
            order = np.concatenate([np.sort(before[:shared]), before[shared:]])
            found = split(shared, np.random.default_rng(seed), test=0.2, valid=0.1)
            found |= {"shared": np.arange(shared), "own": np.arange(shared, PEOPLE)}
            self.cuts[run] = {name: order[places] for name, places in found.items()} | {"order": order}

    def crash(self, run):
        """A process ends amid an answer, of which the hub gets nothing; then it asks the same again."""
        cuts, step, phase, payload = self.question()
        hub, point = self.hubs[run], int(self.rng.integers(3))
        question = hub.question(step, phase, **payload)

        def answer_and_die():
            if point < 2:
                _die_at(point)
            self.trial.restart("shop")
            hub.greet()
            self.trial.hear("shop", question, HUB)
            os._exit(1)

        process = FORK.Process(target=answer_and_die)
        process.start()
        process.join()
        self.restart(run)
        self.use(self.at)
        hub.greet()
        self.note(run, cuts, self.trial.hear("shop", question, HUB))

    def together(self, run):
        """All processes of the party are asked at the same moment, in either run."""
        asked = [(one, *self.question()) for one in self.rng.choice(list(self.hubs), size=self.count).tolist()]
        gate, said = FORK.Barrier(self.count), FORK.SimpleQueue()

        def answer(number, frame, hub):
            kind = "none"
            try:
                self.trial.restart("shop")
                hub.greet()
                gate.wait()
                kind = self.trial.hear("shop", frame, HUB)["type"]
            finally:
                said.put((number, kind))

        frames = [self.hubs[one].question(step, phase, **payload) for one, _, step, phase, payload in asked]
        running = [
            FORK.Process(target=answer, args=(number, frame, self.hubs[asked[number][0]]))
            for number, frame in enumerate(frames)
        ]
        for process in running:
            process.start()
        for number, kind in [said.get() for _ in running]:
            self.note(asked[number][0], asked[number][1], {"type": kind})
        for process in running:
            process.join()

    def lose(self, run):
        """The folder of a run is deleted, and its name used again."""
        shutil.rmtree(self.trial.site("shop") / "runs" / run, ignore_errors=True)
        self.cuts[run] = {}
        self.restart_all()

    def put_back(self, run):
        """A run's folder is copied, or replaced by a copy from before."""
        folder, copy = self.trial.site("shop") / "runs" / run, self.trial.root / f"copy of {run}"
        if run in self.copies:
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(copy, folder)
            self.cuts[run] = self.copies[run]
            self.restart_all()
        elif folder.exists():
            copy_kept(folder, copy)
            self.copies[run] = self.cuts[run]

    def anew(self, run):
        """Certificates have expired: the site is made anew, and the rows stay where they were."""
        site, rows = self.trial.site("shop"), self.trial.root / "rows.csv"
        shutil.copy(site / "rows.csv", rows)
        shutil.copytree(site / "keys", self.trial.root / "keys kept", dirs_exist_ok=True)
        shutil.rmtree(site)
        self.trial.make_site("shop", f"{LIMITED}max_epsilon = {LIMIT}\n")
        shutil.rmtree(site / "keys", ignore_errors=True)
        shutil.copytree(self.trial.root / "keys kept", site / "keys")  # The keys are the party's own, and stay.
        shutil.copy(rows, site / "rows.csv")
        self.cuts = {run: {} for run in self.hubs}
        self.restart_all()

    def seal(self, run):
        """The party answers a plan by envelope: everybody's numbers leave once."""
        root, site = self.trial.root, self.trial.site("shop")
        plan, out = root / "mail.toml", root / f"{len(self.done)}.envelope"
        match = self.trial.plan.replace("ExactMatch", "AgreedIds").replace("seed = 3", f"seed = {len(self.done)}")
        plan.write_text(match)
        if not (root / "keys").exists():
            keys = {name: make_key(name) for name in (HUB, "shop")}
            save_key(keys["shop"], root / "keys")
            save_key(keys[HUB], root / "bank keys")
            trust(root / "keys", root / "bank keys" / f"{HUB}.public", keys[HUB].public.fingerprint)
        try:
            seal_plan(open_context(plan, site / "party.toml", root / "keys"), out)
        except Refused:
            return
        self.released.update(range(PEOPLE))

    def serve(self, run):
        """A model in use is asked about some people, by the same rules and account."""
        file = self.trial.desks["shop"].site.party_file
        plan = read_plan(self.trial.plan)
        if self.served is None:
            table = read_rows(plan, "shop", file)
            net = plan.method.encoder.fit(table.x, np.random.default_rng(0))
            self.served = Party("shop", table, 0, {"net": net, "learnt from": PEOPLE})
        party, people = self.served, self.rng.choice(PEOPLE, size=5, replace=False)
        party.data = party.data.with_cut(f"asked {len(self.done)}", people)
        rules = Gatekeeper(read_policy(file.allow), open_account(file), "a model", HUB, ("shop",))
        asked = Question("represent", "final", len(self.done), {"rows": f"asked {len(self.done)}"})
        before = Party("shop", party.data, 0, dict(party.memory), type(party.ledger)(party.ledger.entries))
        try:
            respond(plan.method, party, encode(asked), rules)
        except Refused:
            self.served = before
            return
        self.released.update(people.tolist())

    @property
    def left(self):
        """The loss of the person whose numbers left most often; two cuts of one answer are of different people."""
        times = max(self.released.values(), default=0)
        return epsilon_of(compose([1 / SIGMA] * times), DELTA) if times else 0.0


def _die_at(point):
    """End this process when it is about to write to the account, or has done so and is about to keep the answer."""

    def die(*_, **__):
        os._exit(1)

    if point == 0:
        EpsilonAccount.write = die
    else:
        PartyFolder._save = die


def run_sequence(folder, seed, acts=8):
    """What is wrong after a sequence; empty if the account is not below what left, nor above the limit."""
    sequence = Sequence(folder / str(seed), seed)
    for _ in range(acts):
        sequence.act()
    spent = sequence.trial.spent()
    if 0.98 * sequence.left <= spent <= LIMIT:
        return ""
    return f"{sequence.left:.3g} left, the account says {spent:.3g}: {', '.join(sequence.done)}"
