"""Keys: what a party signs and opens envelopes with, and the short public file that others check them by.

A party has two pairs: Ed25519 to sign, X25519 to be written to. Its public file holds both public halves, signed with
the first so that nobody can put another second beside it. Two people compare the fingerprint by voice before they trust
it.
"""

import os
import re
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import msgspec

from laconic.atomic_files import make_private_folder
from laconic.core.ledger import Entry, Statement
from laconic.core.wire import Heading, Limits, decode, encode
from laconic.errors import LaconicError, MissingExtra, WireError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey


class EnvelopeRefused(LaconicError):
    """An envelope is not accepted; the kind of error says why, the text which file and what to do."""


class NotAnEnvelope(EnvelopeRefused):
    """The file is something else, or its cover cannot be read."""


class Truncated(EnvelopeRefused):
    """The file ends before the envelope does."""


class Tampered(EnvelopeRefused):
    """The signature does not fit the file, or the content does not fit its key: somebody changed it."""


class WronglyAddressed(EnvelopeRefused):
    """The envelope is for somebody else."""


class UnknownKey(EnvelopeRefused):
    """The envelope is signed with a key that its reader does not trust."""


class Expired(EnvelopeRefused):
    """The envelope was to be used by an earlier day."""


class Replayed(EnvelopeRefused):
    """The envelope, or an answer to the same question, was accepted before."""


class OtherPlan(EnvelopeRefused):
    """The envelope belongs to another plan."""


class OtherAlignment(EnvelopeRefused):
    """Its sender has other rows, or has them in another order."""


class OtherVersion(EnvelopeRefused):
    """It was written in another format, or by another version of Laconic."""


class CoverMismatch(EnvelopeRefused):
    """What is inside is not what the cover says."""


class KeyRefused(LaconicError):
    """A key file cannot be used; says which, and what to do."""


PUBLIC, SECRET, REVOKED = ".public", ".secret", ".revoked"
"""The endings of the two files, and of a public one that is trusted no more."""

_HEAD = "Laconic public key 1"
_CLAIM = b"laconic public key 1\0"
_MOST = 4096


@dataclass(frozen=True)
class PublicKey:
    """What others may know of a party's keys.

    Attributes:
        name: the party's.
        signing: the 32 bytes that its signatures are checked with.
        sealing: the 32 bytes that envelopes to it are encrypted with.
        proof: its own signature of all three.
    """

    name: str
    signing: bytes
    sealing: bytes
    proof: bytes

    @property
    def fingerprint(self) -> str:
        """Forty digits in eight groups, to be read over the phone; no two keys or names share one."""
        digest = blake2b(_claim(self.name, self.signing, self.sealing), digest_size=32).digest()
        digits = f"{int.from_bytes(digest) % 10**40:040d}"
        return " ".join(digits[at : at + 5] for at in range(0, 40, 5))

    def to_text(self) -> str:
        """The public file: five short lines and the fingerprint."""
        lines = [_HEAD, f"name: {self.name}"]
        for word, value in (("signing", self.signing), ("sealing", self.sealing), ("proof", self.proof)):
            lines.append(f"{word}: {b64encode(value).decode()}")
        return "\n".join([*lines, f"fingerprint: {self.fingerprint}", ""])

    def verifies(self, signature: bytes, message: bytes) -> bool:
        """Whether this party signed the message."""
        _need_cryptography()
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(self.signing).verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def sealing_key(self) -> "X25519PublicKey":
        """The key that envelopes to this party are encrypted with."""
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        return X25519PublicKey.from_public_bytes(self.sealing)


@dataclass(frozen=True)
class SecretKey:
    """A party's own keys; they never leave it."""

    public: PublicKey
    signing: "Ed25519PrivateKey"
    sealing: "X25519PrivateKey"


def make_key(name: str) -> SecretKey:
    """New keys for a party."""
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    if not name or name != name.strip() or not name.isprintable() or len(name) > 100 or "/" in name or name[0] == ".":
        raise KeyRefused(f"a party's name is 1 to 100 printable letters, with no / and no dot before it, not {name!r}")
    return with_public(name, Ed25519PrivateKey.generate(), X25519PrivateKey.generate())


def with_public(name: str, signing: "Ed25519PrivateKey", sealing: "X25519PrivateKey") -> SecretKey:
    """A party's keys from their secret halves."""
    halves = signing.public_key().public_bytes_raw(), sealing.public_key().public_bytes_raw()
    return SecretKey(PublicKey(name, *halves, signing.sign(_claim(name, *halves))), signing, sealing)


def save_key(secret: SecretKey, folder: Path, passphrase: str | None = None) -> tuple[Path, Path]:
    """Write the secret file, for its owner's eyes only, and the public file; never over keys that are there."""
    from cryptography.hazmat.primitives import serialization as pem

    make_private_folder(folder)
    paths = folder / f"{secret.public.name}{SECRET}", folder / f"{secret.public.name}{PUBLIC}"
    lock = pem.BestAvailableEncryption(passphrase.encode()) if passphrase else pem.NoEncryption()
    form = pem.Encoding.PEM, pem.PrivateFormat.PKCS8, lock
    blocks = [one.private_bytes(*form) for one in (secret.signing, secret.sealing)]
    try:
        handle = os.open(paths[0], os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError as problem:
        raise KeyRefused(
            f"there are keys in {paths[0]} already; who has the public half would no longer reach you: use them, or "
            "move them away first"
        ) from problem
    with os.fdopen(handle, "wb") as file:
        file.write(f"{secret.public.name}\n".encode() + b"".join(blocks))
    paths[1].write_text(secret.public.to_text(), encoding="utf-8")
    return paths


def load_secret(path: Path, passphrase: str | None = None) -> SecretKey:
    """Read a party's own keys back."""
    _need_cryptography()
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    if path.stat().st_mode & 0o077:
        raise KeyRefused(f"others on this machine can read the secret keys in {path}; close it with: chmod 600 {path}")
    name, _, rest = path.read_bytes().partition(b"\n")
    middle = rest.find(b"-----BEGIN", 1)
    word = None if passphrase is None else passphrase.encode()
    try:
        signing, sealing = (load_pem_private_key(block, word) for block in (rest[:middle], rest[middle:]))
    except TypeError as problem:
        needs = "needs a passphrase; give it in LACONIC_PASSPHRASE" if word is None else "has no passphrase; give none"
        raise KeyRefused(f"the secret key {path} {needs}") from problem
    except ValueError as problem:
        raise KeyRefused(f"the secret key {path} cannot be read: {problem}; is the passphrase right?") from problem
    if not isinstance(signing, Ed25519PrivateKey) or not isinstance(sealing, X25519PrivateKey):
        raise KeyRefused(f"the secret key {path} was not made by `laconic keys`; make one with: laconic keys NAME")
    return with_public(name.decode(), signing, sealing)


def read_public(path: Path) -> PublicKey:
    """Read a public file and check that its parts belong together."""
    if not path.is_file() or path.stat().st_size > _MOST:
        raise KeyRefused(f"{path} is no public key file; the owner makes one with: laconic keys NAME")
    return parse_public(path.read_bytes(), str(path))


def parse_public(written: bytes, where: str) -> PublicKey:
    """The key in a public file's bytes; anything but what `to_text` writes is refused."""
    wrong = f"{where} is no public key file, or a damaged one; ask its owner for it again"
    try:
        values = [line.partition(": ")[2] for line in written.decode().splitlines()]
        signing, sealing, proof = (b64decode(value, validate=True) for value in values[2:5])
        found = PublicKey(values[1], signing, sealing, proof)
    except (UnicodeDecodeError, ValueError, IndexError, NotBase64) as problem:
        raise KeyRefused(wrong) from problem
    sized = (len(signing), len(sealing), len(proof)) == (32, 32, 64)
    if (
        not sized
        or found.to_text().encode() != written
        or not found.verifies(proof, _claim(values[1], signing, sealing))
    ):
        raise KeyRefused(wrong)
    return found


def _claim(name: str, signing: bytes, sealing: bytes) -> bytes:
    return _CLAIM + signing + sealing + name.encode()


def _need_cryptography() -> None:
    try:
        import cryptography  # noqa: F401 (only to say what is missing)
    except ImportError as problem:
        raise MissingExtra("cryptography", "envelopes") from problem


PASSPHRASE = "LACONIC_PASSPHRASE"  # noqa: S105 (the variable's name)
"""The environment variable that may hold the passphrase of the secret keys."""


@dataclass(frozen=True)
class KeyRing:
    """A party's own keys, and the public ones of all it trusts by name, its own included.

    Attributes:
        revoked: whose key was taken out, with no other in its place.
    """

    own: SecretKey
    known: dict[str, PublicKey]
    revoked: frozenset[str] = frozenset()

    def named(self, name: str) -> PublicKey:
        """The key of a party, by its name."""
        if name in self.revoked:
            raise UnknownKey(
                f"the key of {name} was taken out of the key ring of {self.own.public.name}; go on with a plan without "
                f"{name}, or trust a new key of {name}: laconic keys --trust {name}{PUBLIC}"
            )
        if name not in self.known:
            raise UnknownKey(
                f"there is no public key of {name} in the key ring; it has {', '.join(self.known)}. Get the file "
                f"{name}{PUBLIC} from {name}, and add it with: laconic keys --trust {name}{PUBLIC}"
            )
        return self.known[name]

    def by_fingerprint(self, fingerprint: str) -> PublicKey | None:
        """The trusted key with a fingerprint; None if there is none."""
        return next((key for key in self.known.values() if key.fingerprint == fingerprint), None)


def open_ring(folder: Path, name: str | None = None) -> KeyRing:
    """Read a key ring from its folder; `name` says whose secret keys to take if there are several."""
    secrets = sorted(folder.glob(f"*{SECRET}"))
    if name is not None:
        secrets = [path for path in secrets if path.name == f"{name}{SECRET}"]
    if len(secrets) != 1:
        whose = f"of {name} " if name else ""
        what = "are no secret keys" if not secrets else f"are {len(secrets)} secret keys"
        raise KeyRefused(f"there {what} {whose}in {folder}; make some with: laconic keys {name or 'NAME'}")
    own = load_secret(secrets[0], os.environ.get(PASSPHRASE))
    known: dict[str, PublicKey] = {own.public.name: own.public}
    revoked = _revoked(folder)
    for path in sorted(folder.glob(f"*{PUBLIC}")):
        found = read_public(path)
        if found in revoked:
            continue
        if known.setdefault(found.name, found) != found:
            raise KeyRefused(
                f"{path} holds another key of {found.name} than the one trusted; ask {found.name} by phone which is "
                "right, and take the other away"
            )
    return KeyRing(own, known, frozenset(key.name for key in revoked) - frozenset(known))


def trust(folder: Path, public: Path, fingerprint: str) -> Path:
    """Add a public file to a key ring, given the fingerprint as its owner read it out; spaces do not matter."""
    found = read_public(public)
    compare_fingerprint(found, fingerprint, public)
    return add_key(folder, found)


def compare_fingerprint(found: PublicKey, fingerprint: str, where: Path) -> None:
    """Refuse a key whose fingerprint is not what its owner read out."""
    if fingerprint.replace(" ", "") != found.fingerprint.replace(" ", ""):
        raise KeyRefused(
            f"the key in {where} has the fingerprint {found.fingerprint}, not {fingerprint}: it is not "
            f"{found.name}'s, or was misread; do not use it before the two agree"
        )


def add_key(folder: Path, found: PublicKey) -> Path:
    """Put a public key that was compared into a key ring."""
    if found in _revoked(folder):
        raise KeyRefused(f"this key of {found.name} was taken out of {folder}; ask {found.name} for a new one")
    make_private_folder(folder)
    path = folder / f"{found.name}{PUBLIC}"
    if path.exists() and read_public(path) != found:
        raise KeyRefused(f"another key of {found.name} is trusted already, in {path}; take it away first if it is old")
    path.write_text(found.to_text(), encoding="utf-8")
    return path


def revoke(folder: Path, name: str) -> Path:
    """Take the key of a party out of a key ring: nothing that it signs is accepted here any more, nor the key again."""
    path = folder / f"{name}{PUBLIC}"
    if (folder / f"{name}{SECRET}").exists() or not path.is_file():
        raise KeyRefused(f"there is no key of another party called {name} in {folder}; `laconic keys` lists them")
    digits = read_public(path).fingerprint.replace(" ", "")
    return path.rename(folder / f"{name}-{digits}{REVOKED}")


def _revoked(folder: Path) -> list[PublicKey]:
    return [read_public(path) for path in sorted(folder.glob(f"*{REVOKED}"))]


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
