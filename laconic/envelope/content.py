"""What is inside an envelope: a list of blobs in the order in which they follow, and what their sender says of them."""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, TypeAlias

import msgspec

from laconic.core.errors import WireError
from laconic.core.ledger import Entry
from laconic.core.wire import Limits, decode, encode

Asked: TypeAlias = Literal["align", "method"]
"""Whether a step belongs to the script that matches rows, or to the method."""

MOST = Limits(bytes=1 << 22, items=100_000, depth=12)
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


class Content(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that is inside but the blobs themselves.

    Attributes:
        rows: how many rows the blobs were made from.
        epsilon: what they cost in privacy, in words.
        ledger: the sender's ledger so far, for the record of the run.
        blobs: in their order.
    """

    rows: int
    epsilon: str
    ledger: tuple[Entry, ...]
    blobs: tuple[Blob, ...]

    @property
    def bytes(self) -> int:
        """Of all blobs."""
        return sum(blob.size for blob in self.blobs)


def write_content(content: Content, blobs: Iterable[Iterable[bytes]]) -> Iterator[bytes]:
    """The plain text of an envelope in pieces: the length of the list, the list, and the blobs one after another."""
    head = encode(msgspec.to_builtins(content))
    yield len(head).to_bytes(4, "big") + head
    for blob in blobs:
        yield from blob


def read_content(head: bytes) -> Content:
    """Read the list back, strictly.

    Raises:
        WireError: it is not such a list, or promises what cannot be.
    """
    plain: Any = decode(head, MOST)
    try:
        content = msgspec.convert(plain, Content)
    except msgspec.ValidationError as problem:
        raise WireError(f"not the list of an envelope: {problem}") from problem
    if any(blob.size < 0 for blob in content.blobs) or content.rows < 0:
        raise WireError("a blob or a table cannot have fewer than 0 bytes or rows")
    return content
