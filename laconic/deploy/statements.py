"""Signed records: what a party signed of its own ledger, and signatures beside files such as results and disclosures.

A hub reports what each party gave away. A party that signs its ledger makes that report checkable: `check_result`
compares the hub's words with the party's own, entry by entry.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from laconic.atomic_files import write_whole
from laconic.core.ledger import Entry, Statement
from laconic.core.result import Result
from laconic.core.run import cover_words
from laconic.core.wire import encode
from laconic.deploy.transports.envelopes.keys import KeyRefused, KeyRing, PublicKey, SecretKey
from laconic.errors import DataError

ENDING = ".signature"
"""The ending of a file that holds the signature of the file beside it."""

_LEDGER, _FILE = b"laconic ledger 1\0", b"laconic file 1\0"
_HEAD = "Laconic signature 1"
_MOST = 4096
_FIELDS = Entry.__struct_fields__

State: TypeAlias = Literal["confirmed", "differs", "forged", "unknown key", "unsigned"]


class Checked(NamedTuple):
    """What was found of one party, or of a file: only `confirmed` is good."""

    whose: str
    state: State
    words: str


def sign_ledger(secret: SecretKey, plan: str, entries: Iterable[Entry]) -> Statement:
    """A party's signature of all that it gave away so far in a plan's run."""
    name = secret.public.name
    signature = secret.signing.sign(_claim(name, plan, entries))
    return Statement(plan=plan, key=secret.public.fingerprint, signature=signature.hex())


def check_result(result: Result, ring: KeyRing) -> list[Checked]:
    """Compare what a result says of each party but the hub with what that party signed."""
    peers = [name for name in result.parties if name != result.hub]
    return [_check_party(result, name, ring) for name in peers]


def sign_file(path: Path, secret: SecretKey) -> Path:
    """Write the signature of a file beside it."""
    signature = secret.signing.sign(_FILE + path.read_bytes()).hex()
    beside = path.with_name(path.name + ENDING)
    text = f"{_HEAD}\nname: {secret.public.name}\nkey: {secret.public.fingerprint}\nsignature: {signature}\n"
    write_whole(beside, text.encode())
    return beside


def check_file(path: Path, ring: KeyRing) -> Checked:
    """Whether the file is as whoever signed it left it.

    Raises:
        DataError: the signature beside it is none.
    """
    beside = path.with_name(path.name + ENDING)
    if not beside.exists():
        return Checked(str(path), "unsigned", f"there is no {beside.name} beside it")
    fields = beside.read_bytes()[:_MOST].decode("utf-8", "replace").splitlines()
    values = [line.partition(": ")[2] for line in fields]
    if len(values) != 4 or fields[0] != _HEAD:
        raise DataError(f"{beside} is no signature, or a damaged one; ask for it again, or sign with: laconic sign")
    return _verdict(str(path), values[1], values[2], values[3], _FILE + path.read_bytes(), ring)


def _check_party(result: Result, name: str, ring: KeyRing) -> Checked:
    said = result.statements.get(name)
    if said is None:
        return Checked(name, "unsigned", "it signed nothing; what the hub says of it cannot be checked")
    reported = [one for one in result.releases if one.party == name]
    covered = all(one.covered == cover_words(one.noise) for one in reported)
    found = _verdict(name, name, said.key, said.signature, _claim(name, said.plan, reported), ring)
    if found.state == "unknown key" or (found.state == "confirmed" and covered):
        return found
    words = "what the hub reports of it is not what it signed: ask it for its own ledger, and compare"
    return Checked(name, "differs", words)


def _verdict(whose: str, name: str, key: str, signature: str, message: bytes, ring: KeyRing) -> Checked:
    known = ring.known.get(name)
    if known is None or known.fingerprint != key:
        return Checked(
            whose, "unknown key", f"the key {key} of {name} is not in your key ring; see: laconic keys --trust"
        )
    if not _verifies(known, signature, message):
        return Checked(
            whose, "forged", f"the signature of {name} does not fit; the file was changed after it was signed"
        )
    return Checked(whose, "confirmed", f"signed by {name} with the key {key}")


def _verifies(known: PublicKey, signature: str, message: bytes) -> bool:
    try:
        return known.verifies(bytes.fromhex(signature), message)
    except (ValueError, KeyRefused):
        return False


def _claim(name: str, plan: str, entries: Iterable[Entry]) -> bytes:
    """The bytes that are signed: the fields of entries, whichever side holds them."""
    plain = [{field: getattr(one, field) for field in _FIELDS} | {"to": one.to or "hub"} for one in entries]
    return _LEDGER + encode({"party": name, "plan": plan, "entries": msgspec.to_builtins(plain)})
