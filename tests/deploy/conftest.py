"""Three organisations on one disk: each with a folder of its own, and nothing but envelopes between them."""

from pathlib import Path

import numpy as np
import pandas
import pytest

from laconic.deploy.party_context import open_context, reopen_context
from laconic.deploy.transports.envelopes.keys import make_key, save_key, trust

PARTIES = ("bank", "shop", "insurer")


def frames(rows=120):
    """Tables of the same people: the bank has the label, which hangs on everybody's columns."""
    rng = np.random.default_rng(5)
    people = [f"c{number:04d}" for number in range(rows)]
    x = {name: rng.normal(size=(rows, 3)) for name in PARTIES}
    y = (sum(block[:, 0] for block in x.values()) + 0.1 * rng.normal(size=rows) > 0).astype(int)
    found = {}
    for name in PARTIES:
        frame = pandas.DataFrame(x[name], columns=[f"{name}_{letter}" for letter in "abc"])
        frame.insert(0, "customer", people)
        found[name] = frame
    found["bank"]["churned"] = y
    return found


ALLOW = """\
methods = ["FedOnce", "Linear", "Rap", "OneShot", "FewShot", "LateFusion", "AgreedIds", "ExactMatch", "PrivateMatch"]
"""


class World:
    """Everybody's folders; chance comes from the plan's seed, so that a run can be compared with one in process."""

    def __init__(self, root: Path, parties=PARTIES, rows=120, allow=ALLOW, seed="plan"):
        self.root, self.parties = root, parties
        for name, frame in frames(rows).items():
            if name in parties:
                self.home(name).mkdir(parents=True)
                # Each party has its rows in an order of its own.
                shuffled = frame.sample(frac=1, random_state=len(name))
                shuffled.to_csv(self.home(name) / "rows.csv", index=False)
                label = 'label = "churned"\n' if name == "bank" else ""
                who = f'name = "{name}"\nseed = "{seed}"\n'
                text = f'{who}[data]\nsource = "rows.csv"\nkey = "customer"\n{label}[allow]\n{allow}\n'
                (self.home(name) / f"{name}.toml").write_text(text)
        self.share_keys()
        self.inbox = self.home("bank") / "inbox"
        self.inbox.mkdir()

    def home(self, name):
        return self.root / name

    def share_keys(self):
        made = {name: make_key(name) for name in self.parties}
        for name, key in made.items():
            save_key(key, self.home(name) / "keys")
        for name in self.parties:
            for other, key in made.items():
                if other != name:
                    trust(self.home(name) / "keys", self.home(other) / "keys" / f"{other}.public",
                          key.public.fingerprint)  # fmt: skip

    def plan(self, method, match="AgreedIds", more=""):
        """Everybody is given the same plan."""
        files = ", ".join(f'{name} = "{name}.toml"' for name in self.parties)
        text = f'seed = 3\n{more}\n{method}\n[data]\nfiles = {{{files}}}\n[data.match]\ntype = "{match}"\n'
        for name in self.parties:
            (self.home(name) / "plan.toml").write_text(text)
        return text

    def context(self, name, **options):
        home = self.home(name)
        return open_context(home / "plan.toml", home / f"{name}.toml", home / "keys", **options)

    def trained_context(self, name):
        """Of a party that has trained."""
        home = self.home(name)
        return reopen_context(home / "plan.toml", home / f"{name}.toml", home / "keys")


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)
