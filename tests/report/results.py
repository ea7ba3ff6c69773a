"""Results to report, made by hand so that what a report should say of them is known."""

from laconic import Result
from laconic.core import Noise, Traffic
from laconic.deploy import Look, PartyTraffic, Release
from laconic.privacy import Price
from laconic.tables import Score, Task

GAUSSIAN = Noise(mechanism="gaussian", scale=2.0, sensitivity=1.0, unit="one row", caveat="covers rows", secure=True)


def release(party="shop", noise=None, words="a few numbers a row", **changes):
    covered = "open release: not protected" if noise is None else noise.caveat
    values = {"to": "hub", "phase": "fit", "step": "send", "form": "float32 400x8", "times": 1, "bytes": 700}
    said = {"party": party, "words": words, "noise": noise, "covered": covered, "digest": "ab" * 16}
    return Release(**values | said | changes)


def result(kind="FedOnce", score=0.98, seed=0, up=1400, rounds=1, **changes):
    traffic = Traffic(bytes_up=up, bytes_down=30 if up else 0, rounds=rounds, uploads=1, seconds=1.5)
    wire = PartyTraffic(phase="fit", step="send", party="shop", times=1, bytes_up=up, bytes_down=30)
    values = {
        "method": {"type": kind, "trainer": {"type": "Sgd", "lr": 0.001}},
        "data": {"name": "people", "rows": {"train": 400, "test": 100}},
        "parties": ("bank", "shop"),
        "hub": "bank",
        "seed": seed,
        "task": Task(kind="binary", classes=("no", "yes"), label="churned"),
        "score": Score("auc", score),
        "metrics": {"accuracy": 0.9, "auc": score},
        "align": Traffic(),
        "fit": traffic,
        "look": Traffic(),
        "final": Traffic(bytes_up=3200, rounds=1),
        "curve": (),
        "releases": (release(),) if up else (),
        "wire": (wire,) if up else (),
        "absences": (),
        "predictions": "",
        "stopped": "finished",
        "versions": {"laconic": "0.1.0"},
    }
    return Result(**values | changes)


def alone(score=0.9, **changes):
    return result("Solo", score, up=0, rounds=0, final=Traffic(), **changes)


def pooled(score=0.99, **changes):
    return result("Centralised", score, up=9000, releases=(release(words="all its raw columns"),), **changes)


def look(bytes_, rounds, score):
    return Look(bytes=bytes_, rounds=rounds, score=Score("auc", score), metrics={"auc": score})


def paid(**changes):
    values = {
        "epsilon": 2.0,
        "delta": 1e-5,
        "people": "shared",
        "accountant": "Pld",
        "by_party": {"shop": 2.0},
        "units": ("one row",),
        "caveats": ("covers rows",),
        "unproven": (),
        "open": ("shop: its ids",),
        "secure": True,
    }
    return Price(**values | changes)
