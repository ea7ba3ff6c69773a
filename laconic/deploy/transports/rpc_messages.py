"""What a hub and a party say to each other on a line: a few kinds of frame, each a small blob of our own wire.

A question or an answer that is long goes in parts of a few megabytes, so that neither side holds more than a part of it
beside the thing itself, and a line that breaks is taken up where it broke.
"""

import importlib
from hashlib import blake2b
from typing import Any, TypeAlias

import msgspec

from laconic.core.ledger import Entry, Statement
from laconic.core.step import Script
from laconic.core.wire import Limits, decode, encode
from laconic.errors import WireError
from laconic.moved import FIRST_MODULES

PART = 4 << 20
"""The bytes of a part."""

FRAME = Limits(bytes=PART + 65_536, items=100_000, depth=16)
"""The most that a frame may hold."""


class Greet(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The hub begins or takes up a run: everything that must be the same on both sides."""

    run: str
    plan: str
    hub: str
    peers: tuple[str, ...]


class Ask(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A question, in itself or as one whose parts were sent before.

    Attributes:
        script: whether a step of the plan's method is asked, or of its way to match rows.
        shared: how many rows all parties share, from which noise that keeps a budget is worked out; None before that.
        question: the question's name. blob: the question; None if it came in parts.
    """

    run: str
    script: str
    shared: int | None
    question: str
    blob: bytes | None


class Part(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A part of a long question, from byte `at` on; without data, it asks how much is there already."""

    run: str
    question: str
    at: int
    size: int
    data: bytes


class More(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The next part of a long answer, from byte `at` on."""

    run: str
    question: str
    at: int


class EndRun(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The run is over: what did the party give away in it? It answers nothing new after that."""

    run: str


Frame: TypeAlias = Greet | Ask | Part | More | EndRun


class Welcome(msgspec.Struct, frozen=True, tag=True):
    """The party is ready.

    Attributes:
        alignment: a fingerprint of its rows, or nothing while they are not matched.
    """

    party: str
    plan: str
    alignment: str


class Answer(msgspec.Struct, frozen=True, tag=True):
    """An answer, or the first part of a long one, with the size and checksum of the whole."""

    size: int
    digest: bytes
    data: bytes


class Working(msgspec.Struct, frozen=True, tag=True):
    """The party is still at it: ask again."""


class BytesReceived(msgspec.Struct, frozen=True, tag="Have"):
    """So many bytes of a question are here; or, with data, a part of an answer."""

    at: int
    data: bytes = b""


class Entries(msgspec.Struct, frozen=True, tag=True):
    """A party's ledger at the end of a run, and what it signed of it."""

    entries: tuple[Entry, ...]
    statement: Statement


class NotGreeted(msgspec.Struct, frozen=True, tag=True):
    """The party knows nothing of the run, as after a restart: greet it, and say the same again."""


class Refusal(msgspec.Struct, frozen=True, tag="No"):
    """It cannot be: in words for whoever reads them at the hub; `fault` for an error in a step, not a refusal."""

    words: str
    fault: bool = False


Said: TypeAlias = Welcome | Answer | Working | BytesReceived | Entries | NotGreeted | Refusal


def write(frame: Frame | Said) -> bytes:
    """A frame as bytes."""
    return encode(msgspec.to_builtins(frame, builtin_types=(bytes,)))


def read_asked(blob: bytes, run: str | None = None) -> Frame:
    """What a hub said, in the run of its channel if that is known; anything else is a `WireError`."""
    frame: Frame = _read(blob, Frame)
    if run is not None and frame.run != run:
        raise WireError("the frame is of another run than its channel")
    return frame


def read_said(blob: bytes) -> Said:
    """What a party said; anything else is a `WireError`."""
    said: Said = _read(blob, Said)
    return said


def _read(blob: bytes, kind: Any) -> Any:
    try:
        return msgspec.convert(decode(blob, FRAME), kind)
    except msgspec.ValidationError as problem:
        raise WireError(f"not a frame: {problem}") from problem


def name_script(script: Script) -> dict[str, str]:
    """How another process finds a script: where its class is, and its settings as text."""
    kind = type(script)
    return {"module": kind.__module__, "class": kind.__qualname__, "settings": msgspec.json.encode(script).decode()}


def find_script(named: dict[str, str]) -> Script:
    """Build a script from its name; its class must be importable by this process."""
    found: Any = importlib.import_module(named["module"])
    for part in named["class"].split("."):
        found = getattr(found, part)
    if not issubclass(found, Script):
        raise TypeError(f"{named['class']} is not a script")
    script: Script = msgspec.json.decode(named["settings"], type=found)
    return script


def question_id(script: Script, party: str, blob: bytes) -> str:
    """A name for one question to one party: the same run asked again gives the same name."""
    kind = type(script)
    module = FIRST_MODULES.get(kind.__qualname__, kind.__module__)
    digest = blake2b(f"{module}.{kind.__qualname__}\0{party}\0".encode(), digest_size=16)
    for part in (msgspec.json.encode(script), b"\0", blob):
        digest.update(part)
    return digest.hexdigest()
