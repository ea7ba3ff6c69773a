"""The cover: what anyone may read on an envelope, one line per fact, signed together with what is inside."""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias

import msgspec

from laconic.core.ledger import Entry, Statement
from laconic.core.wire import Heading, Limits, decode, encode
from laconic.deploy.transports.envelopes.keys import NotAnEnvelope, OtherVersion, Truncated
from laconic.errors import WireError

Kind: TypeAlias = Literal["answer", "question"]

FORMAT = "Laconic envelope"
VERSION = "1"
MOST_COVER = 1 << 16
"""The most bytes that a cover may have."""

_STEP = "step"
_NUMBER = re.compile("[0-9a-f]{32}")
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class Cover(msgspec.Struct, frozen=True, kw_only=True):
    """What stands on an envelope.

    Attributes:
        sender, sender_key: who wrote it, and the fingerprint of the key that it is signed with.
        to, to_key: who can open it, and the fingerprint of the key that it is encrypted with.
        kind: whether it brings questions or answers.
        plan: fingerprint of the plan that it belongs to.
        alignment: fingerprint of its sender's rows, or `none` where rows are not matched yet.
        laconic: the version that wrote it.
        written, expires: when; it is refused after the second.
        number: tells it from every other envelope.
        rows: how many rows what is inside was made from.
        bytes: of all blobs inside, as they count on the wire.
        epsilon: what it costs in privacy, in words.
        steps: what is inside, one line for each blob.
    """

    sender: str
    sender_key: str
    to: str
    to_key: str
    kind: Kind
    plan: str
    alignment: str
    laconic: str
    written: datetime
    expires: datetime
    number: str
    rows: int
    bytes: int
    epsilon: str
    steps: tuple[str, ...]


_WORDS = {"sender": "from", "sender_key": "from key", "to_key": "to key"}
_LINES = {_WORDS.get(name, name): name for name in Cover.__struct_fields__ if name != "steps"}
"""The word before each line of the cover, and the field that the line holds."""


def write_cover(cover: Cover) -> bytes:
    """The cover as it stands at the head of the file, with the empty line that ends it."""
    lines = [f"{FORMAT} {VERSION}"]
    lines += [f"{word}: {_text(getattr(cover, field))}" for word, field in _LINES.items()]
    lines += [f"{_STEP}: {words}" for words in cover.steps]
    if any(not line.isprintable() for line in lines):
        raise ValueError(f"a line of the cover holds what cannot be printed: {lines}")
    return "\n".join([*lines, "", ""]).encode()


def parse_cover(written: bytes, where: str) -> tuple[Cover, int]:
    """The cover at the head of a file's bytes, and where it ends; only what `write_cover` writes is taken."""
    head = written[:MOST_COVER]
    first, newline, _ = head.partition(b"\n")
    name, _, version = first.rpartition(b" ")
    if name != FORMAT.encode():
        if newline or not f"{FORMAT} {VERSION}\n".encode().startswith(first):
            raise NotAnEnvelope(f"{where} is no envelope: it does not begin with {FORMAT!r}; check the file's name")
        raise Truncated(f"{where} is cut off in its first line; have it copied again")
    if newline and version != VERSION.encode():
        shown = version[:20].decode("ascii", "replace")
        raise OtherVersion(
            f"{where} has format {shown!r}, but this version of Laconic reads format {VERSION}; install the same "
            "version of Laconic on both sides"
        )
    end = head.find(b"\n\n") + 2
    if end == 1:
        if len(written) < MOST_COVER:
            raise Truncated(f"{where} is cut off within its cover; have it copied again")
        raise NotAnEnvelope(f"{where} is no envelope: its cover does not end")
    return _read(head[:end], where), end


def _read(written: bytes, where: str) -> Cover:
    try:
        lines = [line.partition(": ") for line in written.decode().split("\n")[1:-2]]
        fields: dict[str, object] = {
            _LINES[word]: _time(value) if word in ("written", "expires") else value
            for word, _, value in lines[: len(_LINES)]
        }
        fields["steps"] = tuple(value for _, _, value in lines[len(_LINES) :])
        cover = msgspec.convert(fields, Cover, strict=False)
        same = write_cover(cover) == written and _NUMBER.fullmatch(cover.number) is not None
    except (UnicodeDecodeError, KeyError, ValueError, msgspec.ValidationError) as problem:
        raise NotAnEnvelope(f"the cover of {where} cannot be read; have it sent again") from problem
    if not same:
        raise NotAnEnvelope(f"the cover of {where} is not as Laconic writes it; have it sent again")
    return cover


def _text(value: object) -> str:
    return value.strftime(_TIME) if isinstance(value, datetime) else str(value)


def _time(value: str) -> datetime:
    return datetime.strptime(value, _TIME).replace(tzinfo=UTC)


Asked: TypeAlias = Literal["align", "method", "home"]
"""Whether a step belongs to the script that matches rows, to the method, or to how the model comes home."""

MOST_CONTENT = Limits(bytes=1 << 22, items=100_000, depth=12)
"""The most that the list may hold."""


class Blob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One question, or the answer to one.

    Attributes:
        script: whose step it is.
        phase, round, step: which question.
        question: digest of the question, as the one who asks and the one who answers both work it out.
        words: what it gives away, in the step's words; None for nothing made from rows.
        form: shape and type of what it holds.
        size: in bytes.
    """

    script: Asked
    phase: str
    round: int
    step: str
    question: str
    words: str | None
    form: str
    size: int

    @property
    def line(self) -> str:
        """The line on the cover."""
        words = " ".join((self.words or "nothing made from rows").split())
        return f"{self.phase} {self.round} {self.step}, {self.size:,} bytes, {self.form}: {words}"


def describe_blob(script: Asked, heading: Heading, question: str, words: str | None, form: str, size: int) -> Blob:
    """What stands on an envelope about a question, or about the answer to one."""
    which = msgspec.structs.asdict(heading)
    return Blob(script=script, question=question, words=words, form=form, size=size, **which)


class Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is inside but the blobs: rows and epsilon as on the cover, and the sender's ledger so far, signed."""

    rows: int
    epsilon: str
    ledger: tuple[Entry, ...]
    blobs: tuple[Blob, ...]
    statement: Statement | None = None

    @property
    def bytes(self) -> int:
        """Of all blobs."""
        return sum(blob.size for blob in self.blobs)

    @property
    def steps(self) -> tuple[str, ...]:
        """The lines on the cover about all blobs."""
        return tuple(blob.line for blob in self.blobs)


def write_content(content: Content, blobs: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """The plain text of an envelope in pieces: the length of the list, the list, and the blobs one after another."""
    head = encode(msgspec.to_builtins(content))
    yield len(head).to_bytes(4, "big") + head
    for blob in blobs:
        yield from blob


def read_content(head: bytes) -> Content:
    """Read the list back, strictly."""
    plain: Any = decode(head, MOST_CONTENT)
    try:
        content = msgspec.convert(plain, Content)
    except msgspec.ValidationError as problem:
        raise WireError(f"not the list of an envelope: {problem}") from problem
    if any(blob.size < 0 for blob in content.blobs) or content.rows < 0:
        raise WireError("a blob or a table cannot have fewer than 0 bytes or rows")
    return content
