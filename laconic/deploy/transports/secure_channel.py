"""A channel between the hub and one party on which nobody else can speak: who asks is proven before a frame is read.

The hub opens a channel per run with a key made for it, signed by its long-term key; the party answers in kind, and both
derive the channel's keys (X25519, HKDF). Every frame is then encrypted (ChaCha20-Poly1305) with a count that only
rises. The keys are in memory only: after a restart of either side, the hub opens a new channel. To anything else a
party says one fixed refusal. It holds a challenge, drawn when the party started, that an opening must sign: a recorded
opening of before is of no use.
"""

import secrets
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from laconic import __version__
from laconic.core.wire import Limits, decode, encode
from laconic.deploy.transports.envelopes.keys import KeyRing, PublicKey, open_ring
from laconic.deploy.transports.rpc_client import Line
from laconic.deploy.transports.rpc_messages import FRAME
from laconic.errors import LaconicError, MissingExtra, Refused, WireError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

VERSION = __version__
WORDS = "only the hub of this consortium is answered, over a channel that it opened with its own key"
"""All that anybody else hears."""

_OUTER = Limits(bytes=FRAME.bytes + 1024, items=100, depth=4)
_COUNT = struct.Struct(">4xQ")
_TRIES = 4
"""How often a channel is asked for while the challenge changes: a party that is started again draws another."""


class Open(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """The hub opens a channel for a run: its key for this channel, signed with all the rest."""

    run: str
    hub: str
    party: str
    version: str
    challenge: bytes
    key: bytes
    signature: bytes


class Opened(msgspec.Struct, frozen=True, tag=True):
    """The party's own key for the channel, signed with all that the hub said."""

    key: bytes
    signature: bytes


class Sealed(msgspec.Struct, frozen=True, tag=True, forbid_unknown_fields=True):
    """A frame on a channel, or the reply to the frame with this count."""

    channel: bytes
    count: int
    body: bytes


class Stranger(msgspec.Struct, frozen=True, tag="No"):
    """The fixed refusal. It says nothing of whoever sends it but its version, and what an opening must sign."""

    words: str = WORDS
    fault: bool = False
    challenge: bytes = b""
    version: str = ""


Said: TypeAlias = Opened | Sealed | Stranger


def write(frame: Open | Said) -> bytes:
    """A frame as bytes."""
    return encode(msgspec.to_builtins(frame, builtin_types=(bytes,)))


def read(blob: bytes, kind: Any) -> Any:
    """A frame of a kind; anything else is a `WireError`."""
    try:
        return msgspec.convert(decode(blob, _OUTER), kind)
    except msgspec.ValidationError as problem:
        raise WireError(f"not a frame of a channel: {problem}") from problem


def mixes_with(one: str, other: str) -> bool:
    """Whether two versions of Laconic can work in one run: they differ in the last number only.

    Example:
        >>> mixes_with("1.4.0", "1.4.2"), mixes_with("1.4.0", "1.5.0")
        (True, False)
    """
    return one.split(".")[:2] == other.split(".")[:2]


def refusal(fault: str = "") -> bytes:
    """What is said to a sender that the engine itself knows not to be the hub, or by a party that cannot start."""
    return write(Stranger(fault, fault=True) if fault else Stranger())


@dataclass
class Channel:
    """The keys of one channel, as one end has them.

    Attributes:
        run: the run that it is for. name: what frames call it.
        outward: the key of what is sent. inward: the key of what is received.
        count: of the last frame sent at the hub, and taken at the party.
    """

    run: str
    name: bytes
    outward: bytes
    inward: bytes
    count: int = 0
    lock: Lock = field(default_factory=Lock)

    def seal(self, count: int, body: bytes) -> bytes:
        """A frame, or a reply, with its count."""
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        return write(Sealed(self.name, count, ChaCha20Poly1305(self.outward).encrypt(_nonce(count), body, self.name)))

    def unseal(self, sealed: Sealed) -> bytes | None:
        """What the other end sent; None if it did not."""
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

        try:
            return ChaCha20Poly1305(self.inward).decrypt(_nonce(sealed.count), sealed.body, self.name)
        except InvalidTag:
            return None


class ChannelAcceptor:
    """The party's end of all channels: opens what its hub seals, and refuses everything else with the same words.

    Args:
        keys: the party's key ring; when it changes, all channels end, so that a key taken out counts at once.
        name: the party's. hub: who alone may open channels.
    """

    def __init__(self, keys: Path, name: str, hub: str) -> None:
        self._keys, self._name, self._hub = keys, name, hub
        self._challenge = secrets.token_bytes(32)
        self._version = VERSION
        self._stranger = write(Stranger(challenge=self._challenge, version=self._version))
        self._channels: dict[bytes, Channel] = {}
        self._used: set[bytes] = set()
        self._stamp = _stamp(keys)
        self._lock = Lock()

    def hear(self, blob: bytes, answer: Callable[[str, bytes], bytes]) -> bytes:
        """Reply to one frame; `answer` is given the channel's run, and a frame that is the hub's for certain."""
        try:
            frame = read(blob, Open | Sealed)
        except LaconicError:
            return self._stranger
        if isinstance(frame, Open):
            return self._open(frame) or self._stranger
        channel = self._current(frame)
        body = None if channel is None else channel.unseal(frame)
        if channel is None or body is None or not _advance(channel, frame.count):
            return self._stranger
        return channel.seal(frame.count, answer(channel.run, body))

    def _current(self, frame: Sealed) -> Channel | None:
        """The channel of a frame that is newer than all before."""
        with self._lock:
            self._heed_keys()
            found = self._channels.get(frame.channel)
        return found if found is not None and found.count < frame.count < 2**63 else None

    def _heed_keys(self) -> None:
        stamp = _stamp(self._keys)
        if stamp != self._stamp:
            self._channels.clear()
        self._stamp = stamp

    def _open(self, asked: Open) -> bytes | None:
        """Open a channel, if the hub asks for it and signed the challenge."""
        if asked.challenge != self._challenge or (asked.hub, asked.party) != (self._hub, self._name):
            return None
        if len(asked.key) != 32 or not mixes_with(self._version, asked.version):
            return None
        try:
            ring = open_ring(self._keys, self._name)
            genuine = ring.named(self._hub).verifies(asked.signature, _claim(asked))
            own = _new_key()
            shared = _agree(own, asked.key) if genuine else None
        except (LaconicError, OSError):
            return None
        if shared is None:
            return None
        key = own.public_key().public_bytes_raw()
        channel = _derive(shared, asked, key, at_hub=False)
        with self._lock:
            self._heed_keys()
            if asked.key in self._used:
                return None
            self._used.add(asked.key)
            self._channels = {name: one for name, one in self._channels.items() if one.run != asked.run}
            self._channels[channel.name] = channel
        return write(Opened(key, ring.own.signing.sign(_reply_claim(asked, key))))


class SecureLine:
    """A line that carries frames on channels, which it opens as they are needed.

    Args:
        line: brings bytes to parties. ring: the hub's keys, and those of the parties that it trusts.
        run: the run's name. sites: the site of each party, by which its key is called.
    """

    def __init__(self, line: Line, ring: KeyRing, run: str, sites: Mapping[str, str]) -> None:
        self._line, self._ring, self._run, self._sites = line, ring, run, sites
        self._channels: dict[str, Channel] = {}
        self._challenges: dict[str, bytes] = {}

    def __call__(self, party: str, frame: bytes, seconds: float) -> bytes:
        """Bring a frame to a party, and its reply back; one that has forgotten the channel gets a new one, once."""
        for _ in range(2):
            channel = self._channels.get(party) or self._open(party, seconds)
            with channel.lock:
                channel.count += 1
                count = channel.count
            said = read(self._line(party, channel.seal(count, frame), seconds), Said)
            if isinstance(said, Sealed):
                reply = channel.unseal(said) if said.count == count else None
                if reply is None:
                    raise WireError(f"what came back from {party} is not its reply: it was changed on the way")
                return reply
            self._channels.pop(party, None)
            if isinstance(said, Stranger) and said.challenge:
                self._challenges[party] = said.challenge  # As of a party that was started again.
        raise Refused(f"{party} opens channels, but does not know them afterwards; is it started twice?")

    def _open(self, party: str, seconds: float) -> Channel:
        known, own = self._ring.named(self._sites[party]), _new_key()
        said: Said = Stranger()
        for _ in range(_TRIES):
            asked = self._opening(known.name, self._challenges.get(party, b""), own)
            said = read(self._line(party, write(asked), seconds), Said)
            if not isinstance(said, Stranger) or said.challenge in (b"", asked.challenge):
                break
            self._challenges[party] = said.challenge
        if not isinstance(said, Opened):
            raise Refused(_why_not(said, known.name, self._ring.own.public))
        if len(said.key) != 32 or not known.verifies(said.signature, _reply_claim(asked, said.key)):
            raise Refused(
                f"what answers as {known.name} does not have the key that this hub trusts for it, "
                f"{known.fingerprint}; ask {known.name} by phone, and trust no other key before"
            )
        channel = self._channels[party] = _derive(_agree(own, said.key), asked, said.key, at_hub=True)
        return channel

    def _opening(self, site: str, challenge: bytes, own: "X25519PrivateKey") -> Open:
        key = own.public_key().public_bytes_raw()
        asked = Open(self._run, self._ring.own.public.name, site, VERSION, challenge, key, b"")
        return msgspec.structs.replace(asked, signature=self._ring.own.signing.sign(_claim(asked)))


def _why_not(said: Said, site: str, own: PublicKey) -> str:
    """Why a party opens no channel, as far as its fixed refusal tells."""
    if isinstance(said, Stranger) and said.fault:
        return f"{site} {said.words}"
    theirs = said.version if isinstance(said, Stranger) else ""
    if not mixes_with(VERSION, theirs):
        here = ".".join(VERSION.split(".")[:2])
        return (
            f"{site} has laconic {theirs or 'of before there were channels'}, the hub {VERSION}; versions mix if they "
            f"differ in the last number only: install {here}.x at both"
        )
    return (
        f"{site} does not take this hub's key: it is {own.fingerprint}; {site} sees whom it trusts with `laconic keys "
        f"--folder {site}/keys`, and adds a key with `laconic keys --trust {own.name}.public --folder {site}/keys`"
    )


def _stamp(keys: Path) -> int:
    """When a key was last put into a ring or taken out."""
    return keys.stat().st_mtime_ns if keys.is_dir() else 0


def _advance(channel: Channel, count: int) -> bool:
    """Take a count, once."""
    with channel.lock:
        if count <= channel.count:
            return False
        channel.count = count
        return True


def _claim(asked: Open) -> bytes:
    return encode(
        ["laconic open 1", asked.run, asked.hub, asked.party, asked.version, asked.challenge, asked.key]
    )  # fmt: skip


def _reply_claim(asked: Open, key: bytes) -> bytes:
    return encode(["laconic opened 1", _claim(asked), asked.signature, key])


def _derive(shared: bytes, asked: Open, key: bytes, *, at_hub: bool) -> Channel:
    """The channel's keys and name, which hang on every byte that was said to open it."""
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    said = sha256(_reply_claim(asked, key)).digest()
    drawn = HKDF(SHA256(), length=80, salt=said, info=b"laconic channel 1").derive(shared)
    from_hub, from_party = drawn[:32], drawn[32:64]
    return Channel(asked.run, drawn[64:], *((from_hub, from_party) if at_hub else (from_party, from_hub)))


def _new_key() -> "X25519PrivateKey":
    try:
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    except ImportError as problem:
        raise MissingExtra("cryptography", "flare") from problem
    return X25519PrivateKey.generate()


def _agree(own: "X25519PrivateKey", other: bytes) -> bytes:
    """What both ends know and nobody else; a key that would make it nothing is a `WireError`."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

    try:
        return own.exchange(X25519PublicKey.from_public_bytes(other))
    except ValueError as problem:
        raise WireError("the key for a channel is none") from problem


def _nonce(count: int) -> bytes:
    return _COUNT.pack(count)
