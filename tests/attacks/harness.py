"""What attacks need: sites in folders, a hub that can say anything, and servers; all knowledge of the code is here.

Tests speak of bytes, files and commands only. When the code behind them changes, this file is what has to follow.
"""

import multiprocessing
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas
import pytest
import uvicorn
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from nvflare.apis.signal import Signal
from nvflare.collab.api.context import Context, get_call_context, set_call_context
from starlette.testclient import TestClient

from laconic import read_plan
from laconic.cli import main
from laconic.core import Party, Question, decode, encode, read_heading
from laconic.deploy import KeyRing, PartyFolder, make_key, open_site, read_party, save_key, seal_plan, trust
from laconic.deploy.coordinator import host_run
from laconic.deploy.execute import align_of
from laconic.deploy.party_account import locate_account
from laconic.deploy.party_context import open_context
from laconic.deploy.responder import OnlineResponder
from laconic.deploy.sealed_answers import answer_envelope
from laconic.deploy.transports.envelopes.keys import Content, describe_blob, with_public
from laconic.deploy.transports.envelopes.sealing import cover_of, seal
from laconic.deploy.transports.flare.components import FlareHub, FlareParty
from laconic.deploy.transports.flare.operating import begin_run, share_keys
from laconic.deploy.transports.rpc_client import ConnectionBroken
from laconic.deploy.transports.rpc_messages import question_id
from laconic.deploy.transports.secure_channel import Channel, Sealed, SecureLine, write
from laconic.errors import LaconicError
from laconic.inference.bundle import load_part
from laconic.inference.predict import cut_name
from laconic.plan import plan_fingerprint
from laconic.tables import Table
from tests.deploy.sites import tapped

HUB = "bank"
ENGINE_HUB = "server"
"""How FLARE calls the hub's end of a line."""
DELTA = 1e-5
FORK = multiprocessing.get_context("fork")

OPEN = (
    '[method]\ntype = "FedOnce"\n[method.encoder]\ntype = "Pca"\ndim = 2\n[method.trainer]\ntype = "Sgd"\nepochs = 2\n'
)
"""A method without noise."""
PRIVATE = OPEN.replace('"Pca"', '"DpPca"').replace("dim = 2", "dim = 2\nsigma = 4.0")
"""A method whose encoder costs epsilon."""
NOISY_ROWS = (
    '[method]\ntype = "FedOnce"\n[method.encoder]\ntype = "PublicProjection"\ndim = 2\n'
    '[method.noise]\ntype = "ClippedGaussian"\nsigma = 4.0\n[method.trainer]\ntype = "Sgd"\nepochs = 2\n'
)
"""A method whose encoder costs nothing, with noise on each row that is sent."""

ALLOW = 'methods = ["FedOnce", "Linear", "AgreedIds", "ExactMatch", "PrivateMatch"]\n'
MATCHING = '"show_ids", "keep_rows", "begin", "show_points", "take_points", "hand_on", "unshuffle", "forget"'
LIMITED = f'{ALLOW}open = [{MATCHING}, "keep_agreed", "show_fingerprint", "learn_and_send", "represent"]\n'
"""Rules to which `max_epsilon` can be added: matching, and what an encoder without price sends, may bear no noise."""
FEW_POINTS = "max_points = 60\nmatches_per_day = 3\n"
"""The rule by which a party limits how many points a run may ask about, and how often."""


def not_mended(item: int) -> pytest.MarkDecorator:
    """Marks a promise that does not hold yet; whoever mends it takes the mark away."""
    return pytest.mark.xfail(strict=True, raises=AssertionError, reason=f"attack {item}: not mended yet")


def people(count: int) -> list[str]:
    return [f"c{number:05d}" for number in range(count)]


def own_rows(name: str, ids: list[str]) -> pandas.DataFrame:
    """A party's table about these people; the bank's has a label."""
    rng = np.random.default_rng(len(name))
    frame = pandas.DataFrame(rng.normal(size=(len(ids), 3)).round(4), columns=[f"{name}_{one}" for one in "abc"])
    frame.insert(0, "customer", ids)
    if name == HUB:
        frame["churned"] = (frame["bank_a"] > 0).astype(int)
    return frame


class Trial:
    """A bank that asks and parties that answer, each with a folder of its own, and no engine between them."""

    def __init__(
        self,
        root: Path,
        *,
        method: str = OPEN,
        match: str = "ExactMatch",
        parties: tuple[str, ...] = ("shop",),
        rows: int = 60,
        allow: str = ALLOW,
        only: dict[str, int] | None = None,
    ) -> None:
        self.root, self.parties = root, parties
        names = (HUB, *parties)
        files = ", ".join(f'{name} = "{name}.toml"' for name in names)
        self.plan = f'seed = 3\n{method}[data]\nfiles = {{{files}}}\nhub = "{HUB}"\n[data.match]\ntype = "{match}"\n'
        for name in names:
            self.make_site(name, allow)
            own_rows(name, people((only or {}).get(name, rows))).to_csv(self.site(name) / "rows.csv", index=False)
        share_keys({name: self.site(name) for name in names}, {})
        self.desks = {name: self.desk(name) for name in parties}
        self.channels: dict[bytes, Channel] = {}
        """All that hubs here have opened, by which the tests read what parties say on them."""

    def site(self, name: str) -> Path:
        return self.root / name

    def make_site(self, name: str, allow: str = ALLOW, source: str = "rows.csv") -> None:
        """The folder that `laconic provision` makes, without an engine's kit."""
        site = self.site(name)
        for inner in ("kit", "plans", "runs"):
            (site / inner).mkdir(parents=True)
        listed = ", ".join(f'"{one}"' for one in self.parties)
        (site / "parties.toml").write_text(
            f'project = "trial"\nparties = [{listed}]\n[hub]\nname = "{HUB}"\naddress = "localhost"\n'
        )
        (site / "plans" / "plan.toml").write_text(self.plan)
        self.write_party(name, allow, source)

    def write_party(self, name: str, allow: str = ALLOW, source: str = "rows.csv", more: str = "") -> None:
        label = 'label = "churned"\n' if name == HUB else ""
        (self.site(name) / "party.toml").write_text(
            f'name = "{name}"\n[data]\nsource = "{source}"\nkey = "customer"\n{label}{more}[allow]\n{allow}'
        )

    def desk(self, name: str) -> OnlineResponder:
        """A party as it is after a start."""
        return OnlineResponder(open_site(self.site(name)))

    def restart(self, name: str) -> None:
        self.desks[name] = self.desk(name)

    def hear(self, name: str, frame: bytes, sender: str) -> dict[str, Any]:
        """Bring bytes to a party; the engine says from whom they are.

        What comes back on a channel of the hub's is returned in the clear, whoever asked: it did leave.
        """
        said: dict[str, Any] = decode(self.bring(name, frame, ENGINE_HUB if sender == HUB else sender))
        if said["type"] != "Sealed":
            return said
        inside = self.channels[said["channel"]].unseal(Sealed(said["channel"], said["count"], said["body"]))
        found: dict[str, Any] = decode(inside or b"")
        return found

    def bring(self, name: str, frame: bytes, caller: str) -> bytes:
        """Bring bytes by the function that FLARE calls at a party; FLARE itself vouches for who calls."""
        site = SimpleNamespace(get_root_dir=lambda: str(self.site(name) / "kit"))
        app: Any = SimpleNamespace(name=name, workspace=site, abort_signal=None)
        party = FlareParty()
        party._responder = self.desks[name]
        before = get_call_context()
        set_call_context(Context(app, caller, name, Signal()))
        try:
            return bytes(party.hear(data=frame))
        finally:
            set_call_context(before)

    def hub(self, name: str = "shop", run: str = "one") -> "Hub":
        """The bank itself, with all that it knows, but with a script of its own."""
        return Hub(self, name, run)

    def spent(self, name: str = "shop") -> float:
        """The epsilon that the party says it has spent."""
        return locate_account(open_site(self.site(name)).party_file).spent.epsilon(DELTA)

    def host(self, run: str = "one", bring: Any = None, away: tuple[str, ...] = ()) -> Any:
        """The bank's honest run, with parties for which `bring` may answer: they have their own keys.

        It is given a party, a frame for it in the clear, and an honest way there.
        """
        self.start_run(run)

        def line(name: str, frame: bytes, seconds: float) -> bytes:
            if name in away:
                raise ConnectionBroken(f"{name} is away")
            return self.bring(name, frame, ENGINE_HUB)

        def tap(name: str, frame: bytes, honest: Any) -> bytes:
            answered: bytes = honest(frame) if bring is None else bring(name, frame, lambda _, asked: honest(asked))
            return answered

        with tapped(tap):
            return host_run(open_site(self.site(HUB)), run, line)

    def start_run(self, run: str) -> None:
        """What `laconic host` does first: a folder for a run that is not there yet."""
        if not (self.site(HUB) / "runs" / run).exists():
            made = begin_run(open_site(self.site(HUB)), self.plan, afresh=True)
            (self.site(HUB) / "runs" / made).rename(self.site(HUB) / "runs" / run)

    def host_as_engine(self, run: str, line: Any) -> None:
        """What the hub's engine does for each `laconic host`: it leaves a result or an error in the run's folder."""
        self.start_run(run)
        FlareHub([run])._host(open_site(self.site(HUB)), run, line)


class Hub:
    """Says to one party, in one run, whatever a test wants, on channels of the bank's.

    Args:
        keys: whose keys it has; the bank's own, or those of somebody who pretends to be the bank.
    """

    def __init__(self, trial: Trial, name: str, run: str, keys: str = HUB) -> None:
        self.trial, self.name, self.run = trial, name, run
        self.rounds = dict.fromkeys(("align", "fit", "look", "final"), 0)
        ring = open_site(trial.site(keys)).ring
        if keys != HUB:
            theirs = open_site(trial.site(name)).ring.own.public
            ring = KeyRing(with_public(HUB, ring.own.signing, ring.own.sealing), {name: theirs})
        self.line = SecureLine(lambda at, blob, _: trial.bring(at, blob, ENGINE_HUB), ring, run, {name: name})

    def greet(self) -> dict[str, Any]:
        return self.say(self.plain_greeting())

    def say(self, plain: bytes) -> dict[str, Any]:
        """Bring a frame as the bank does, which opens a channel if there is none."""
        said: dict[str, Any] = decode(self.line(self.name, plain, 30.0))
        return said

    def greeting(self) -> bytes:
        """A greeting on a channel that the bank has opened."""
        return self.sealed(self.plain_greeting())

    def plain_greeting(self) -> bytes:
        fingerprint = plan_fingerprint(read_plan(self.trial.plan))
        return frame("Greet", run=self.run, plan=fingerprint, hub=HUB, peers=list(self.trial.parties))

    def opening(self) -> bytes:
        """A fresh and true opening of a channel, as the bank would send it next."""
        challenge = decode(self.trial.bring(self.name, b"", ENGINE_HUB))["challenge"]
        return write(self.line._opening(self.name, challenge, X25519PrivateKey.generate()))

    def sealed(self, plain: bytes) -> bytes:
        """A frame as it crosses, with the next count."""
        channel = self.line._channels.get(self.name) or self.line._open(self.name, 30.0)
        self.trial.channels[channel.name] = channel
        channel.count += 1
        return channel.seal(channel.count, plain)

    def ask(self, step: str, /, phase: str = "fit", **payload: Any) -> dict[str, Any]:
        return self.say(self.unsigned_question(step, phase, **payload))

    def question(self, step: str, /, phase: str = "fit", **payload: Any) -> bytes:
        """A question on the bank's channel."""
        return self.sealed(self.unsigned_question(step, phase, **payload))

    def unsigned_question(self, step: str, /, phase: str = "fit", **payload: Any) -> bytes:
        """A question of the next round of a phase; in phase `align` one of the script that matches rows.

        It is without what only the bank and the party know.
        """
        plan = read_plan(self.trial.plan)
        script = align_of(plan) if phase == "align" else plan.method
        self.rounds[phase] += 1
        blob = encode(Question(step, phase, self.rounds[phase], payload))
        kind = "align" if phase == "align" else "method"
        name = question_id(script, self.name, blob)
        return frame("Ask", run=self.run, script=kind, shared=None, question=name, blob=blob)

    def send_part(self, data: bytes) -> dict[str, Any]:
        """The beginning of a question that is too long for one frame."""
        part = frame("Part", run=self.run, question="0" * 32, at=0, size=10 * len(data), data=data)
        return self.say(part)

    def end(self) -> dict[str, Any]:
        """End the run, as a hub does that wants the party's ledger."""
        return self.say(frame("EndRun", run=self.run))

    def match(self, shared: int | None = None, seed: int = 1) -> dict[str, Any]:
        """Match rows as ExactMatch does: the first so many are shared, or all."""
        ids = answer_of(self.ask("show_ids", "align")).split("\0")
        return self.keep_rows(len(ids) if shared is None else shared, seed)

    def keep_rows(self, shared: int, seed: int = 1) -> dict[str, Any]:
        return self.ask("keep_rows", "align", shared=np.arange(shared), some=np.arange(0), seed=seed)


def frame(kind: str, /, **fields: Any) -> bytes:
    return encode({"type": kind} | fields)


def was_answered(said: dict[str, Any]) -> bool:
    return said["type"] in ("Answer", "Entries", "Welcome", "Opened", "Have", "Working")


def was_refused(said: dict[str, Any]) -> bool:
    """Whether a party said no by a rule, and did not stumble over an error."""
    return said["type"] == "No" and not said["fault"]


def was_denied(said: dict[str, Any]) -> bool:
    """Whether a party said no, by a rule or by words in its own log that the hub does not see."""
    return said["type"] == "No"


def answer_of(said: dict[str, Any]) -> Any:
    """What was answered; a test that counts on an answer ends here if there is none, and not as a promise kept."""
    if said["type"] != "Answer":
        raise LookupError(f"no answer, but {said}")
    return decode(said["data"])


def laconic(*words: object, inside: Path | None = None) -> Result:
    """What the command line says to these words."""
    before = Path.cwd()
    try:
        os.chdir(inside or before)
        return CliRunner().invoke(main, [str(word) for word in words])
    finally:
        os.chdir(before)


def readable_by_others(folder: Path) -> list[str]:
    """What in a folder others than its owner can read; a plan is no secret."""
    open_to_all = [path for path in folder.rglob("*") if stat.S_IMODE(path.lstat().st_mode) & 0o077]
    return sorted(str(path.relative_to(folder)) for path in open_to_all if path.name != "plan.toml")


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def keep_and_load(folder: Path, memory: dict[str, Any]) -> dict[str, Any]:
    """What a party remembers after a restart."""
    PartyFolder(folder).begin(Party("shop", Table.without_rows("shop"), 0))
    kept = PartyFolder(folder)
    party = kept.load()
    party.memory = memory
    with kept._store.writing():
        kept._save(kept._load()[0], party)
    loaded: dict[str, Any] = PartyFolder(folder).load().memory
    return loaded


class Mail:
    """A bank and a shop that send each other envelopes about a list of people that both agreed upon."""

    def __init__(self, root: Path, agreed: int, rows: int = 60, method: str = OPEN) -> None:
        self.root, self.plan = root, root / "plan.toml"
        self.plan.write_text(
            f'seed = 3\n{method}[data]\nfiles = {{{HUB} = "{HUB}.toml", shop = "shop.toml"}}\nhub = "{HUB}"\n'
            '[data.match]\ntype = "AgreedIds"\n'
        )
        (root / "agreed.txt").write_text("\n".join(people(agreed)))
        keys = {}
        for name in (HUB, "shop"):
            home = root / name
            home.mkdir()
            own_rows(name, people(rows)).to_csv(home / "rows.csv", index=False)
            label = 'label = "churned"\n' if name == HUB else ""
            (home / f"{name}.toml").write_text(
                f'name = "{name}"\n[data]\nsource = "rows.csv"\nkey = "customer"\n{label}[allow]\n{ALLOW}'
            )
            keys[name] = make_key(name)
            save_key(keys[name], home / "keys")
        for name, other in ((HUB, "shop"), ("shop", HUB)):
            theirs = root / other / "keys" / f"{other}.public"
            trust(root / name / "keys", theirs, keys[other].public.fingerprint)

    def place(self, name: str) -> Any:
        home = self.root / name
        return open_context(self.plan, home / f"{name}.toml", home / "keys", self.root / "agreed.txt")

    def seal_plan(self) -> None:
        """The shop's honest first envelope."""
        seal_plan(self.place("shop"), self.root / "first.envelope")

    def answer(self, step: str, phase: str, number: int, **payload: Any) -> int | None:
        """How many rows the shop seals an answer about, to a question of the bank's own making; None if it refuses."""
        out = self.root / f"{phase}-{number}-answer.envelope"
        try:
            sealed = answer_envelope(self.place("shop"), self.question(step, phase, number, **payload), out)
        except LaconicError:
            return None
        form = sealed.content.blobs[0].form
        return int(form.split(" ")[1].split("x")[0])

    def question(self, step: str, phase: str, number: int, **payload: Any) -> Path:
        """An envelope of the bank's, properly sealed, that asks what no plan asks."""
        bank = self.place(HUB)
        blob = encode(Question(step, phase, number, payload))
        script = bank.session.method
        asked = describe_blob(
            "method", read_heading(blob), question_id(script, "shop", blob), None, "question", len(blob)
        )
        content = Content(rows=0, epsilon="none: nothing made from rows", ledger=(), blobs=(asked,))
        own, to = bank.ring.own, bank.ring.named("shop")
        cover = cover_of(content, own, to, kind="question", days=30, plan=bank.session.fingerprint, alignment="none")
        path = self.root / f"{phase}-{number}.envelope"
        seal(path, cover, content, [[blob]], own, to)
        return path


def read_frame(blob: bytes) -> dict[str, Any]:
    found: dict[str, Any] = decode(blob)
    return found


def provision(folder: Path, *, own_keys: bool) -> Path:
    """What the hub makes; with `own_keys`, from a request of the shop, whose own site is in `folder/shop`."""
    (folder / "parties.toml").write_text(
        f'project = "churn"\nparties = ["shop"]\n[hub]\nname = "{HUB}"\naddress = "localhost"\n'
    )
    more: tuple[object, ...] = ()
    if own_keys:
        asked = laconic("request", "shop", "-o", folder / "shop")
        more = ("--requests", folder / "shop", "--fingerprint", asked.output.splitlines()[-1])
    made = laconic("provision", folder / "parties.toml", "-o", folder / "sites", *more)
    if made.exit_code:
        raise LookupError(made.output)
    return folder / "sites"


TOKEN = "a token that is long enough"  # noqa: S105


def make_model(folder: Path, method: str = "Linear", *settings: str, rows: int = 60) -> None:
    """A model in `folder/model`, trained from two files that are there too, and a token file."""
    for name in (HUB, "shop"):
        own_rows(name, people(rows)).to_csv(folder / f"{name}.csv", index=False)
    (folder / "tokens.txt").write_text(TOKEN)
    (folder / "tokens.txt").chmod(0o600)
    files = ("--files", folder / f"{HUB}.csv", folder / "shop.csv", "--id", "customer", "--label", "churned")
    made = laconic("run", method, *files, "--model", folder / "model", *settings)
    if made.exit_code:
        raise LookupError(made.output)


def times_noted(folder: Path, step: str) -> int:
    """How often the shop's ledger on the disk says that it answered a step."""
    return sum(entry.times for entry in load_part(folder / "model" / "shop").ledger.entries if entry.step == step)


class Served(TestClient):
    """A client with the token, of a server that is called and not connected to."""

    announced = ""
    """What the server said when it was started."""

    asked = ""
    """What the rows of those asked for last are called."""

    def find(self, ids: list[str], rows: str = "") -> bool:
        """Whether the party says which of these people it has."""
        self.asked = rows or cut_name(ids)
        return self.answers("find_rows", ids=ids, rows=self.asked) is not None

    def answers(self, step: str, **payload: Any) -> Any:
        """The party's answer to a question of the hub's; None if it refuses."""
        said = self.post("/answer", content=encode(Question(step, "final", 1, payload)))
        return decode(said.content) if said.status_code == 200 else None


def spent_by(folder: Path) -> float:
    """The epsilon that the shop's account has."""
    return locate_account(read_party(folder / "shop.toml")).spent.epsilon(DELTA)


def serve_part(folder: Path, *, allow: str = "", serve: str = "", with_party_file: bool = True) -> Served | None:
    """`laconic serve model/shop` as far as the server that it would start; None if it refuses to."""
    party = folder / "shop.toml"
    text = f'name = "shop"\n[data]\nsource = "shop.csv"\nkey = "customer"\n[allow]\n{ALLOW}{allow}[serve]\n{serve}'
    if not party.exists() or party.read_text() != text:  # Another process may be reading it.
        party.write_text(text)
    started: list[Any] = []
    with pytest.MonkeyPatch.context() as patch:
        # A server in a process of its own may set up logging anew; here that would close what pytest writes to.
        patch.setattr(uvicorn.Config, "configure_logging", lambda config: None)
        patch.setattr(uvicorn.Server, "run", lambda server, *_: started.append(server.config.app))
        said = laconic(*_serving(folder), *(("--party", party) if with_party_file else ()))
    if said.exception is not None and not isinstance(said.exception, SystemExit):
        raise said.exception
    if not started:
        return None
    client = Served(started[0], headers={"Authorization": f"Bearer {TOKEN}"})
    client.announced = said.output
    return client


def _serving(folder: Path, port: int = 0) -> tuple[object, ...]:
    words = ("--files", folder / "shop.csv", "--tokens", folder / "tokens.txt", "--port", port)
    return ("serve", folder / "model" / "shop", *words)


@contextmanager
def real_server(folder: Path, *more: object) -> Iterator[int]:
    """The same server in a process of its own, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [
        str(word) for word in ("serve", folder / "model", "--tokens", folder / "tokens.txt", "--port", port, *more)
    ]
    process = FORK.Process(target=main, args=(words,), daemon=True)
    process.start()
    try:
        for _ in range(300):
            with socket.socket() as line:
                if line.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.05)
        yield port
    finally:
        process.terminate()
        process.join(20)
