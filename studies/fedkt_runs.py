"""What the FedKT study runs: methods after one exchange, private levels with their prices, and many exchanges."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
from msgspec.structs import replace as replace_settings

from laconic import FedKt, Method, price, simulate
from laconic.core import Blob, Carrier, Ledger, Party, Peers, Script, WireLog
from laconic.deploy import Forked, ledgers_of, run
from laconic.deploy.transports.processes import open_workers
from laconic.learn import Network, classes_of, fit_models
from laconic.methods import PooledShares, Prox, ServerShares
from laconic.privacy import L1, L2, Budget, GaussianVotes, LaplaceVotes, Level, Sure
from laconic.threads import limit_threads
from studies.fedkt_paper import BUDGETS, CURVE, CUT, LONGER, NOISES
from studies.fedkt_settings import LOCAL, MLP, Setting, averaged
from studies.harness import Job, Record


def on_cores() -> Forked:
    """Forked workers, one for each core that this process may use."""
    return Forked(workers=len(os.sched_getaffinity(0)))


def one_round(name: str, seed: int, setting: Setting) -> Iterator[Job]:
    """Every method after one exchange; FedKT last, for its students are at hand for the private levels that follow."""
    for word, method in one_exchange(setting).items():
        yield Job({"table": 1, "data": name, "method": word, "seed": seed}, _work(setting, method, seed))


def one_exchange(setting: Setting) -> dict[str, Method]:
    """The methods of Table 1, by what they are called there."""
    found: dict[str, Method] = {type(method).__name__: method for method in (*setting.others(), setting.fedkt())}
    longer = {LONGER: setting.fedkt_longer()} if setting.model == MLP else {}
    return found | {CUT: setting.fedkt_cut()} | longer


def budgeted(name: str, seed: int, setting: Setting) -> Iterator[Job]:
    """FedKT as a budget of the paper's epsilons sets it: noise, labels asked for, and at L2 the teachers."""
    for level, epsilon in BUDGETS.get(name, ()):
        for words, noise in VOTES.items():
            key = {"table": "budget", "data": name, "level": level, "epsilon": epsilon, "answers": words, "seed": seed}
            yield Job(key, _within(setting, level, epsilon, noise, seed))


VOTES = {"whatever is asked": GaussianVotes(), "only where sure": GaussianVotes(sure=Sure())}
"""Which of the rows put to the vote are answered; a budget sets the noise."""


def portion(name: str, seed: int, keep: float, setting: Setting) -> Job:
    """FedKT with a share of the public rows."""
    return Job({"table": 3, "data": name, "public": keep, "seed": seed}, _work(setting, setting.fedkt(), seed, keep))


def private(name: str, seed: int, setting: Setting, level: str) -> Iterator[Job]:
    """FedKT under both kinds of noise at the paper's settings of one level, and what true labels would give."""
    for one in (one for one in NOISES.get(name, []) if one.level == level):
        key = {"table": 2, "data": name, "level": level, "share": one.share, "seed": seed}
        if level == "L1":
            yield Job(key | {"noise": "none, true labels"}, _true_labels(setting, one.queries, seed))
        for noise in (LaplaceVotes(gamma=one.gamma), GaussianVotes(sigma=spread_of(one.gamma))):
            # As published, and seeded so that the study can be repeated.
            as_published = L1(secure=False, smooth=False) if level == "L1" else L2(secure=False, smooth=False)
            chosen: Level = replace_settings(as_published, noise=noise)
            for partitions, teachers in one.shards:
                method = replace_settings(setting.fedkt(chosen, one.queries), partitions=partitions, teachers=teachers)
                shards = {"gamma": one.gamma, "partitions": partitions, "teachers": teachers}
                yield Job(key | shards | {"noise": type(noise).__name__}, _priced(setting, method, seed))


def spread_of(gamma: float) -> float:
    """The standard deviation of Laplace noise of scale 1 / gamma."""
    return round(2**0.5 / gamma, 2)


def curves(seed: int, setting: Setting) -> Iterator[Job]:
    """FedKT-Prox and the methods that average, over many exchanges."""
    net = setting.model.net if isinstance(setting.model, Network) else None
    methods: dict[str, Method] = {"FedKT-Prox": setting.fedkt(more=Prox(exchanges=CURVE - 1, trainer=LOCAL))}
    methods |= {type(method).__name__: method for method in averaged(net, CURVE)}
    for name, method in methods.items():
        yield Job({"table": "curve", "data": "MNIST", "method": name, "seed": seed}, _curve(setting, method, seed))


class Remembering:
    """Forked workers whose answers to the same question about the same rows are used again.

    Noise at the server changes nothing at the parties, so all settings of it share one training of the students.
    """

    answers: ClassVar[dict[object, Blob]] = {}

    def __init__(self, federation: object) -> None:
        self.federation = federation

    @contextmanager
    def open(self, parties: tuple[Party, ...]) -> Iterator[Carrier]:
        """Reach these parties for as long as the block lasts."""
        with open_workers(parties, on_cores()) as carrier:
            yield _Remembered(carrier, self.federation)


class _Remembered:
    def __init__(self, carrier: Carrier, federation: object) -> None:
        self._carrier, self._federation = carrier, federation

    @property
    def names(self) -> tuple[str, ...]:
        return self._carrier.names

    def ledgers(self) -> dict[str, Ledger]:
        return self._carrier.ledgers()

    def carry(self, script: Script, blobs: Mapping[str, bytes], deadline: float | None) -> Iterator[tuple[str, Blob]]:
        if not isinstance(script, FedKt) or script.level.at_parties() is not None:
            yield from self._carrier.carry(script, blobs, deadline)
            return
        known = Remembering.answers
        same = (self._federation, script.model, script.teacher, script.partitions, script.teachers, script.count)
        keys = {name: (same, name, blob) for name, blob in blobs.items()}
        if any(key not in known for key in keys.values()):
            # Only the latest federation is worth its memory.
            known.clear()
            known |= {keys[name]: reply for name, reply in self._carrier.carry(script, blobs, deadline)}
        yield from ((name, known[key]) for name, key in keys.items())


def _work(setting: Setting, method: Method, seed: int, keep: float = 1.0) -> Callable[[], Record]:
    def measure() -> Record:
        federation = setting.deal(seed, keep=keep)
        result = simulate(method, federation, seed=seed, runtime=Remembering((setting, seed, keep)))
        return {"accuracy": result.metrics["accuracy"], "bytes": result.fit.bytes}

    return measure


def _true_labels(setting: Setting, queries: float, seed: int) -> Callable[[], Record]:
    """What the same model makes of as many public rows with their true labels: voting can hardly do better."""

    def measure() -> Record:
        server, dataset = setting.deal(seed).tables["server"], setting.load()
        (x, y), public = server.part("test"), server.part("public")[0]
        truth = dataset.y[server.keys[server.cut("public")].astype(int)]
        rng = np.random.default_rng(seed)
        asked = round(queries * len(truth))
        rows = [rng.permutation(len(truth))[:asked] for _ in range(10)]
        models = fit_models(setting.model, dataset.task, [(public[some], truth[some]) for some in rows], rng)
        right = classes_of(setting.model, dataset.task, models, x) == y
        return {"accuracy": float(right.mean()), "asked": asked}

    return measure


def _priced(setting: Setting, method: FedKt, seed: int) -> Callable[[], Record]:
    """A run whose parties are looked into afterwards: data-dependent prices never leave them by themselves."""

    def measure() -> Record:
        federation = setting.deal(seed)
        parties = {name: Party(name, table, seed) for name, table in federation.tables.items()}
        hub = parties.pop(federation.hub)
        with limit_threads(1), Remembering((setting, seed, 1.0)).open(tuple(parties.values())) as carrier:
            result = run(method, hub, Peers(method, hub, carrier, WireLog(), carrier.names))
        prices = [party.memory["price"] for party in (hub, *parties.values()) if "price" in party.memory]
        worst = {kind: max(price[kind] for price in prices) for kind in ("independent", "dependent")}
        asked = round(method.queries * len(hub.data.cut("public")))
        return {"accuracy": result.metrics["accuracy"], "asked": asked, **worst}

    return measure


def _within(setting: Setting, level: str, epsilon: float, noise: GaussianVotes, seed: int) -> Callable[[], Record]:
    """A run within a budget, priced by its ledgers; nothing in it depends on the votes."""

    def measure() -> Record:
        # At L1 the classes' shares are those of rows that the server keeps with labels.
        valid = 0.1 if level == "L1" else 0.0
        federation = setting.deal(seed, valid=valid)
        rows = min(len(federation.tables[name].cut("train")) for name in federation.peers)
        # Noise that can be repeated, for the study alone; teachers as `within` chooses them.
        budget, start = Budget(epsilon=epsilon), setting.fedkt()
        if level == "L1":
            start = replace_settings(start, level=L1(noise=noise, secure=False), count=ServerShares())
        else:
            free = start.within(budget, rows, federation.hub, federation.peers)
            start = replace_settings(free, level=L2(noise=noise, secure=False), count=PooledShares(), labels=None)
        method = start.within(budget, rows, federation.hub, federation.peers)
        guard = method.level.at_server() or method.level.at_parties()
        if guard is None or not isinstance(guard.noise, GaussianVotes):
            raise TypeError(f"a budget should have put Gaussian noise on votes, not {method.level}")
        result = simulate(method, federation, seed=seed, runtime=Remembering((setting, seed, valid)))
        spent = price(ledgers_of(result), 1e-5, "disjoint").epsilon
        numbers = {"labels": method.labels, "sigma": guard.noise.sigma, "teachers": method.teachers}
        return {"accuracy": result.metrics["accuracy"], "spent": spent, **numbers}

    return measure


def _curve(setting: Setting, method: Method, seed: int) -> Callable[[], Record]:
    def measure() -> Record:
        result = simulate(method, setting.deal(seed), seed=seed, runtime=on_cores(), look_every=1)
        return {"accuracy": result.metrics["accuracy"], "curve": [look.metrics["accuracy"] for look in result.curve]}

    return measure
