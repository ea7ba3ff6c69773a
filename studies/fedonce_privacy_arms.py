"""The arms of the FedOnce-L1 study: the paper's settings and ours, and the federations they run on."""

from dataclasses import replace
from functools import lru_cache
from math import inf

import msgspec
import numpy as np

from laconic import Federation, FedOnce, deal, load
from laconic.data import Dataset, usual_cut
from laconic.learn import Joint, Mlp
from laconic.privacy import (
    AnyAccountant,
    Budget,
    Codebook,
    DpNat,
    DpPca,
    DpSgd,
    Moments,
    Pld,
    PrivateEncoder,
    PublicProjection,
    SimpleDivision,
)
from laconic.tables import Task

PARTIES = 4
DELTA = 1e-5
COVTYPE_ROWS = 60_000

# Table 10: guest lr, batch, epochs; host lr, batch, epochs; clipping length; and the dimension. The paper gives no line
# for covtype and knows no credit_default: those take phishing's with larger batches.
PUBLISHED = {
    ("phishing", 2.0): (0.3, 32, 10, 0.3, 32, 30, 1.0, 3),
    ("phishing", 4.0): (0.2, 32, 10, 0.2, 32, 30, 1.0, 3),
    ("phishing", 6.0): (0.3, 32, 10, 0.1, 32, 30, 1.0, 3),
    ("phishing", 8.0): (0.3, 128, 10, 0.3, 128, 40, 1.5, 3),
    ("mnist", 2.0): (0.5, 256, 6, 0.8, 256, 15, 1.5, 8),
    ("mnist", 4.0): (0.5, 256, 6, 0.9, 256, 15, 1.5, 8),
    ("mnist", 6.0): (0.5, 256, 7, 0.9, 256, 15, 1.5, 8),
    ("mnist", 8.0): (0.5, 512, 10, 0.9, 512, 30, 1.5, 8),
}
ELSEWHERE = (0.3, 256, 10, 0.3, 256, 30, 1.0, 3)
# Table 6, by host party 1 to 4.
PAPER = {
    ("phishing", "Priv-Baseline"): {2.0: "87.7/87.2/84.0/83.6", 4.0: "89.4/87.5/88.8/87.9", 8.0: "90.9/90.8/89.7/90.5"},
    ("phishing", "L1 as published"): {
        2.0: "90.1/89.4/87.8/89.0",
        4.0: "91.1/90.2/90.9/91.2",
        6.0: "91.6/90.7/90.4/90.2",
        8.0: "90.8/91.1/90.6/91.3",
        inf: "92.0/91.3/91.2/90.9",
    },
    ("covtype", "Priv-Baseline"): {2.0: "74.6/65.9/60.2/66.5", 8.0: "79.3/74.0/73.4/74.0"},
    ("covtype", "L1 as published"): {
        2.0: "76.9/70.7/70.1/71.6",
        4.0: "77.8/73.3/73.7/72.2",
        6.0: "79.2/74.2/73.7/74.0",
        8.0: "80.5/75.0/74.7/74.8",
        inf: "82.2/74.5/74.3/74.1",
    },
    ("mnist", "Priv-Baseline"): {2.0: "45.3/40.0/50.3/44.5", 4.0: "70.1/76.7/78.0/75.2", 8.0: "85.4/86.3/86.2/85.3"},
    ("mnist", "L1 as published"): {
        2.0: "82.1/82.6/83.3/81.4",
        4.0: "87.0/87.5/87.9/87.0",
        6.0: "88.1/89.0/88.2/87.9",
        8.0: "90.5/90.6/89.6/89.3",
        inf: "92.1/93.0/93.1/91.7",
    },
}
# Ours: of four trainers and two heads within a tenth of a point of the best mean on validation rows, and of those the
# one with fewest steps (`python -m studies.fedonce_privacy_choice`). That choice is not paid for in epsilon.
TRAINER = DpSgd(epochs=20, batch=2048, lr=4.0, seeded=True)
HEAD = Joint(head=Mlp(hidden=(32,)))
FLAT = Mlp(hidden=(30,), final="tanh")
SOUND: dict[str, PrivateEncoder] = {
    "DpPca, the paper's dimension": DpPca(dim=3, seeded=True),
    "DpPca": DpPca(seeded=True),
    "PublicProjection": PublicProjection(),
    "Codebook": Codebook(dim=8, image_net=FLAT, trainer=DpSgd(epochs=10, batch=512, lr=1.0, seeded=True)),
}
ACCOUNTED: dict[str, AnyAccountant] = {
    "L1 as published": Moments(),
    "Priv-Baseline": SimpleDivision(),
    "L1 as published, Pld": Pld(interval=1e-3),
}
"""The paper's guests and trainers under three accountants, which alone sets these arms apart."""
PUBLISHED_GUESTS = "published guests, our host"
"""The paper's guests, our trainer at the label holder, `Pld`: what a better trainer alone is worth."""


def method_of(name: str, arm: str, epsilon: float, federation: Federation) -> FedOnce:
    """FedOnce with the noise that this arm has on this federation; none at epsilon infinity."""
    guests, host = _published(name, 8.0 if epsilon == inf else epsilon)
    encoder = _sized(SOUND[arm], name) if arm in SOUND else guests
    trainer = host if arm in ACCOUNTED else TRAINER
    method = FedOnce(encoder=encoder, trainer=trainer, head=HEAD)
    if epsilon == inf:
        return msgspec.structs.replace(method, encoder=encoder.with_sigma(0.0), trainer=trainer.with_sigma(0.0))
    rows = len(federation.tables[federation.hub].cut("train"))
    budget = Budget(epsilon=epsilon, delta=DELTA, accountant=ACCOUNTED.get(arm, Pld(interval=1e-3)))
    return method.within(budget, rows, federation.hub, federation.peers)


def _published(name: str, epsilon: float) -> tuple[DpNat, DpSgd]:
    """Guests and the label holder's trainer with the settings of table 10."""
    lr, batch, epochs, host_lr, host_batch, host_epochs, clip, dim = PUBLISHED.get((name, epsilon), ELSEWHERE)
    guest = DpSgd(lr=lr, batch=batch, epochs=epochs, clip=clip, seeded=True)
    host = DpSgd(lr=host_lr, batch=host_batch, epochs=host_epochs, clip=clip, seeded=True)
    return DpNat(dim=dim, image_net=FLAT, trainer=guest), host


def _sized(encoder: PrivateEncoder, name: str) -> PrivateEncoder:
    """On images the paper's dimension is 8 and ours 32."""
    if name != "mnist" or encoder.dim == 0:
        return encoder
    return msgspec.structs.replace(encoder, dim={3: 8, 8: 32}[encoder.dim])


@lru_cache(maxsize=2)
def federation_of(name: str, host: int, seed: int) -> Federation:
    """The data set dealt to four parties, of which `host` has the labels."""
    dataset = dataset_of(name)
    return deal(dataset, usual_cut(dataset, PARTIES), hub=host, seed=seed, test=0.1)


@lru_cache(maxsize=1)
def dataset_of(name: str) -> Dataset:
    """The data set; of covtype so many rows drawn at random, and two classes (the commonest against all others)."""
    dataset = load(name)
    if name != "covtype":
        return dataset
    rows = np.sort(np.random.default_rng(0).permutation(dataset.rows)[:COVTYPE_ROWS])
    two = Task(kind="binary", label=dataset.task.label, classes=("other", "commonest"))
    common = np.bincount(dataset.y[rows].astype(int)).argmax()
    ids = None if dataset.ids is None else dataset.ids[rows]
    return replace(dataset, raw=dataset.raw[rows], y=(dataset.y[rows] == common).astype(np.int64), task=two, ids=ids)
