"""Throw blobs at a party's responder, and count what comes of them.

    python -m benchmarks.fuzz_party [--blobs 1000000] [--seed 0]

The responder is that of a site whose rules allow one step of one method. Blobs are of five kinds in turn. Four are not
the hub's: plain noise; proper frames without a channel; openings and frames in the hub's name with the keys of another
party; and a stolen session, which is recorded frames of the hub's, sent again, cut, changed, out of order, or from
another run. Each must get the same fixed refusal. The fifth kind is a hostile hub: proper frames of every kind with
fields drawn at random, and such frames with bytes changed, cut or added, on the hub's own channel. What comes back must
be a frame, soon, and never an answer to a question that the rules forbid. Blobs are drawn from a seed, so that a find
can be repeated, but for the keys; `tests/deploy/test_fuzz.py` lets hypothesis look for more.
"""

import argparse
import tempfile
import time
from collections import Counter
from pathlib import Path

import msgspec
import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from laconic import DataPlan, FedOnce, Plan, write_plan
from laconic.core import Question, decode, encode
from laconic.deploy import Consortium, HubAddress, KeyRing, open_site, write_consortium
from laconic.deploy.responder import OnlineResponder
from laconic.deploy.transports import rpc_messages as frames
from laconic.deploy.transports import secure_channel as channels
from laconic.deploy.transports.envelopes.keys import open_ring, with_public
from laconic.deploy.transports.flare.operating import share_keys
from laconic.deploy.transports.rpc_messages import question_id
from laconic.learn import Pca
from laconic.plan import plan_fingerprint

METHOD = FedOnce(encoder=Pca(dim=2))
PLAN = Plan(method=METHOD, data=DataPlan(name="breast_cancer", parties=3))
ALLOWED = "learn_and_send"
_RULES = f'name = "shop"\n[allow]\nmethods = ["FedOnce"]\nsteps = ["{ALLOWED}"]\n'
_NAMES = ("shop", "insurer")
_FINGERPRINT = plan_fingerprint(PLAN)
STRANGER = "refused as a stranger"
KINDS = ("noise", "no channel", "wrong sender", "stolen session", "hostile hub")


class Target:
    """A responder that the true hub has greeted for two runs, and all that crossed by then.

    Attributes:
        recorded: what the hub sent.
    """

    def __init__(self, folder: Path) -> None:
        self.responder = _make_responder(folder)
        self.recorded: list[bytes] = []
        ring = open_ring(folder / "bank" / "keys", "bank")
        self._hub = {run: channels.SecureLine(self._record, ring, run, {"shop": "shop"}) for run in ("run", "other")}
        for run, line in self._hub.items():
            said = [frames.read_said(line("shop", one, 60.0)) for one in (frames.write(greeting(run)), _first(run))]
            if [type(one) for one in said] != [frames.Welcome, frames.Answer]:
                raise TypeError(f"the responder did not answer the hub: {said}")
        own, shop = open_ring(folder / "insurer" / "keys", "insurer").own, ring.named("shop")
        pretended = with_public("bank", own.signing, own.sealing)
        self._pretender = channels.SecureLine(self._record, KeyRing(pretended, {"shop": shop}), "run", {"shop": "shop"})
        self.fixed = self.responder.hear(b"")
        self._challenge = bytes(decode(self.fixed)["challenge"])

    def _record(self, name: str, blob: bytes, seconds: float) -> bytes:
        self.recorded.append(blob)
        return self.responder.hear(blob)

    def draw(self, rng: np.random.Generator, number: int) -> bytes:
        """One blob: of the last kind in the clear, as it is said on the hub's channel."""
        kind = KINDS[number % len(KINDS)]
        if kind == "noise":
            return rng.bytes(int(rng.integers(0, 400)))
        if kind == "wrong sender":
            return self._pretended(rng)
        if kind == "stolen session":
            return self._stolen(rng)
        true = _true_frame(rng)
        return true if kind == "no channel" or rng.random() < 0.5 else _changed(rng, true)

    def verdict(self, blob: bytes, kind: str) -> str:
        """What comes of a blob; anything but the fixed refusal to one that is not the hub's is `ANSWERED`."""
        if kind != "hostile hub":
            return STRANGER if self.responder.hear(blob) == self.fixed else f"ANSWERED {kind}"
        channel = self._hub["run"]._channels["shop"]
        channel.count += 1
        reply = channels.read(self.responder.hear(channel.seal(channel.count, blob)), channels.Said)
        inside = channel.unseal(reply) if isinstance(reply, channels.Sealed) else None
        if inside is None:
            return "THE HUB WAS NOT HEARD"
        said = frames.read_said(inside)
        if isinstance(said, frames.Answer) and not _is_allowed(blob):
            return "FORBIDDEN"
        if isinstance(said, frames.Refusal) and said.fault:
            # What is raised on purpose is no crash; only the party's own log tells which it was.
            log = self.responder.site.log.read_text(encoding="utf-8")
            _, _, trace = log.rpartition(said.words.split()[-1])
            if "\nlaconic.errors." not in trace:
                return f"fault: {trace[-200:]}"
        return type(said).__name__

    def _pretended(self, rng: np.random.Generator) -> bytes:
        """Another party in the hub's name: it knows the format, the challenge and the names of channels."""
        if rng.random() < 0.1:
            return channels.write(self._pretender._opening("shop", self._challenge, X25519PrivateKey.generate()))
        live = self._hub[str(rng.choice(["run", "other"]))]._channels["shop"]
        forged = channels.Channel("run", live.name, rng.bytes(32), rng.bytes(32))
        return forged.seal(live.count + int(rng.integers(1, 100)), _true_frame(rng))

    def _stolen(self, rng: np.random.Generator) -> bytes:
        blob = self.recorded[int(rng.integers(len(self.recorded)))]
        what = int(rng.integers(4))
        if what == 0:
            return blob
        if what == 1:
            return blob[: int(rng.integers(len(blob)))]
        plain = decode(blob)
        if plain["type"] == "Open":
            plain["challenge"] = self._challenge
            plain["run"] = str(rng.choice(["run", "other", "new"]))
        else:
            live = self._hub[str(rng.choice(["run", "other"]))]._channels["shop"]
            plain["count"] = live.count + int(rng.integers(-3, 1000))
            plain["channel"] = live.name if rng.random() < 0.5 else plain["channel"]
        return encode(plain) if what == 2 else _changed(rng, encode(plain))


def _make_responder(folder: Path) -> OnlineResponder:
    consortium = Consortium(project="fuzz", hub=HubAddress(name="bank", address="localhost"), parties=_NAMES)
    site = folder / "shop"
    for inner in ("kit", "plans", "runs"):
        (site / inner).mkdir(parents=True)
    (site / "parties.toml").write_text(write_consortium(consortium))
    (site / "party.toml").write_text(_RULES)
    (site / "plans" / "plan.toml").write_text(write_plan(PLAN))
    share_keys({name: folder / name for name in ("bank", *_NAMES)}, {})
    return OnlineResponder(open_site(site), wait=60.0)


def greeting(run: str = "run") -> frames.Greet:
    """The greeting of the true hub."""
    return frames.Greet(run, _FINGERPRINT, "bank", _NAMES)


def question(step: str, number: int, payload: dict[str, object], run: str = "run") -> bytes:
    """A question of the plan's method as a frame."""
    blob = encode(Question(step, "fit", number, payload))
    return frames.write(frames.Ask(run, "method", None, question_id(METHOD, "shop", blob), blob))


def _first(run: str) -> bytes:
    return question(ALLOWED, 1, {}, run)


def _is_allowed(blob: bytes) -> bool:
    asked = frames.read_asked(blob)
    if not isinstance(asked, frames.Ask) or asked.blob is None:
        return False
    return bool(msgspec.msgpack.decode(asked.blob)[0] == ALLOWED)


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
        return frames.write(frames.EndRun(run.replace("run", "other", 1)))  # After its own, nothing more is answered.
    return frames.write(msgspec.structs.replace(greeting(run), plan=str(rng.choice(["0" * 32, _FINGERPRINT]))))


def main() -> None:
    """Throw them, and say what came."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blobs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    counts: Counter[tuple[str, str]] = Counter()
    slowest, started = 0.0, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder))
        there = set(Path(folder).rglob("*"))
        for number in range(options.blobs):
            kind, blob = KINDS[number % len(KINDS)], target.draw(rng, number)
            before = time.monotonic()
            counts[kind, target.verdict(blob, kind)] += 1
            slowest = max(slowest, time.monotonic() - before)
        made = {path.relative_to(folder) for path in set(Path(folder).rglob("*")) - there}
    strays = sorted(str(path) for path in made if path.parts[0] != "shop")
    print(f"{options.blobs:,} blobs in {time.monotonic() - started:.0f} s; the slowest took {slowest:.2f} s")
    for (kind, came), count in sorted(counts.items()):
        print(f"  {count:9,}  {kind}: {came}")
    print(f"files outside the site: {', '.join(strays) or 'none'}")
    found = {came for _, came in counts}
    if strays or any(came.startswith(("fault", "ANSWERED", "THE HUB", "FORBIDDEN")) for came in found):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
