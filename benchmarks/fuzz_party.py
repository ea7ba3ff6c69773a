"""Throw blobs at a party's responder, and count what comes of them.

    python -m benchmarks.fuzz_party [--blobs 1000000] [--seed 0]

The responder is that of a site whose rules allow one step of one method. Blobs are of three kinds in turn: plain noise,
frames of every kind with fields drawn at random, and such frames with bytes changed, cut or added. Whatever comes back
must be a frame, soon, and never an answer to a question that the rules forbid. Blobs are drawn from a seed, so that a
find can be repeated; `tests/deploy/test_fuzz.py` lets hypothesis look for more.
"""

import argparse
import tempfile
import time
from collections import Counter
from importlib.metadata import version
from pathlib import Path

import msgspec
import numpy as np

from laconic import DataPlan, FedOnce, Plan, write_plan
from laconic.core import Question, encode
from laconic.deploy import Consortium, HubAddress, open_site, write_consortium
from laconic.deploy.responder import OnlineResponder
from laconic.deploy.transports import rpc_messages as frames
from laconic.deploy.transports.rpc_messages import question_id
from laconic.learn import Pca
from laconic.plan import plan_fingerprint

METHOD = FedOnce(encoder=Pca(dim=2))
PLAN = Plan(method=METHOD, data=DataPlan(name="breast_cancer", parties=3))
ALLOWED = "learn_and_send"
_RULES = f'name = "shop"\n[allow]\nmethods = ["FedOnce"]\nsteps = ["{ALLOWED}"]\n'
_NAMES = ("shop", "insurer")
_FINGERPRINT, _VERSION = plan_fingerprint(PLAN), version("laconic")


def make_responder(folder: Path) -> OnlineResponder:
    """A responder that has been greeted for one run."""
    consortium = Consortium(project="fuzz", hub=HubAddress(name="bank", address="localhost"), parties=_NAMES)
    site = folder / "shop"
    for inner in ("kit", "plans", "runs"):
        (site / inner).mkdir(parents=True)
    (site / "parties.toml").write_text(write_consortium(consortium))
    (site / "party.toml").write_text(_RULES)
    (site / "plans" / "plan.toml").write_text(write_plan(PLAN))
    responder = OnlineResponder(open_site(site), wait=60.0)
    said = frames.read_said(responder.hear(frames.write(greeting())))
    if not isinstance(said, frames.Welcome):
        raise TypeError(f"the responder did not welcome the hub: {said}")
    return responder


def greeting() -> frames.Greet:
    """The greeting of the true hub."""
    return frames.Greet("run", _FINGERPRINT, _VERSION, "bank", _NAMES)


def question(step: str, number: int, payload: dict[str, object]) -> bytes:
    """A question of the plan's method as a frame."""
    blob = encode(Question(step, "fit", number, payload))
    return frames.write(frames.Ask("run", "method", None, question_id(METHOD, "shop", blob), blob))


def verdict(responder: OnlineResponder, blob: bytes) -> str:
    """What comes of a blob: the kind of frame that came back; an answer to a forbidden question is `FORBIDDEN`."""
    said = frames.read_said(responder.hear(blob))
    if isinstance(said, frames.Answer) and not _is_allowed(blob):
        return "FORBIDDEN"
    if isinstance(said, frames.Refusal) and said.fault:
        # What is raised on purpose is no crash; only the party's own log tells which it was.
        _, _, trace = responder.site.log.read_text(encoding="utf-8").rpartition(said.words.split()[-1])
        if "\nlaconic.errors." not in trace:
            return f"fault: {trace[-200:]}"
    return type(said).__name__


def _is_allowed(blob: bytes) -> bool:
    asked = frames.read_asked(blob)
    if not isinstance(asked, frames.Ask) or asked.blob is None:
        return False
    return bool(msgspec.msgpack.decode(asked.blob)[0] == ALLOWED)


def draw(rng: np.random.Generator, number: int) -> bytes:
    """One blob."""
    kind = number % 3
    if kind == 0:
        return rng.bytes(int(rng.integers(0, 400)))
    true = _true_frame(rng)
    return true if kind == 1 else _changed(rng, true)


def _changed(rng: np.random.Generator, blob: bytes) -> bytes:
    changed = bytearray(blob)
    for _ in range(int(rng.integers(1, 6))):
        at = int(rng.integers(0, len(changed) + 1))
        what = int(rng.integers(4))
        if what == 0 and changed:
            changed[at % len(changed)] = int(rng.integers(256))
        elif what == 1:
            changed[at:at] = rng.bytes(int(rng.integers(1, 9)))
        elif what == 2:
            del changed[at : at + int(rng.integers(1, 9))]
        else:
            changed = changed[: at + 1]
    return bytes(changed)


def _true_frame(rng: np.random.Generator) -> bytes:
    """A well-formed frame, whose fields may be anything."""
    run = str(rng.choice(["run", "run", "run", "../run", "", "x" * 200, "run\0", "other"]))
    name = rng.bytes(16).hex() if rng.random() < 0.8 else str(rng.choice(["", "../../etc", "g" * 32]))
    at, size = (int(rng.choice([0, 1, -1, 2**31, 2**62, 100])) for _ in range(2))
    step = str(rng.choice([ALLOWED, "represent", "exchange", "learn", "fit", "predict", "__init__", "encoder", ""]))
    payload: dict[str, object] = {}
    if rng.random() < 0.5:
        payload["rows"] = str(rng.choice(["train", "test", "own", "x"])) if rng.random() < 0.5 else [1, 2]
    frame = int(rng.integers(30))
    if frame < 10:
        return question(step, int(rng.choice([1, 2, 3, 0, -1, 10**9])), payload)
    if frame < 16:
        blob = rng.bytes(int(rng.integers(60))) if rng.random() < 0.5 else None
        return frames.write(frames.Ask(run, str(rng.choice(["method", "align", "x"])), None, name, blob))
    if frame < 20:
        return frames.write(frames.Part(run, name, at, size, rng.bytes(int(rng.integers(40)))))
    if frame < 25:
        return frames.write(frames.More(run, name, at))
    if frame < 29:
        return frames.write(frames.ShowLedger(run))
    return frames.write(
        msgspec.structs.replace(greeting(), run=run, version=str(rng.choice(["0.0", version("laconic")])))
    )


def main() -> None:
    """Throw them, and say what came."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blobs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    counts: Counter[str] = Counter()
    slowest, started = 0.0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        responder = make_responder(Path(folder))
        for number in range(options.blobs):
            blob = draw(rng, number)
            before = time.monotonic()
            counts[verdict(responder, blob)] += 1
            slowest = max(slowest, time.monotonic() - before)
        inside = {path.relative_to(folder).parts[:3] for path in Path(folder).rglob("*")}
    print(f"{options.blobs:,} blobs in {time.monotonic() - started:.0f} s; the slowest took {slowest:.2f} s")
    for kind, count in counts.most_common():
        print(f"  {count:9,}  {kind}")
    strays = sorted("/".join(one) for one in inside if one[:1] != ("shop",))
    print(f"files outside the site: {', '.join(strays) or 'none'}")
    if counts["FORBIDDEN"] or strays or any(kind.startswith("fault") for kind in counts):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
