"""Signed records: what a party signed of its own ledger, and signatures beside files such as results and disclosures.

A hub reports what each party gave away. A party that signs its ledger makes that report checkable: `check_result`
compares the hub's words with the party's own, entry by entry. A party that has signed a final ledger answers nothing
new in that run, so that a hub cannot show an earlier one in its place.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

import msgspec

from laconic.atomic_files import write_whole
from laconic.core.ledger import Entry, Statement
from laconic.core.wire import encode
from laconic.deploy.one_run import cover_words
from laconic.deploy.result import Result
from laconic.deploy.transports.envelopes.keys import KeyRefused, KeyRing, PublicKey, SecretKey
from laconic.errors import DataError

ENDING = ".signature"
"""The ending of a file that holds the signature of the file beside it."""

_LEDGER, _FILE = b"laconic ledger 2\0", b"laconic file 1\0"
_HEAD = "Laconic signature 1"
_MOST = 4096
_FIELDS = Entry.__struct_fields__

State: TypeAlias = Literal["confirmed", "differs", "forged", "unfinished", "unknown key", "unsigned"]


class Checked(NamedTuple):
    """What was found of one party, or of a file: only `confirmed` is good."""

    whose: str
    state: State
    words: str


def sign_ledger(
    secret: SecretKey, party: str, plan: str, entries: Iterable[Entry], *, run: str = "", final: bool = False
) -> Statement:
    """A party's signature of all that it gave away so far in a plan's run.

    Args:
        party: what it is called in the run.
        plan: the plan's fingerprint. run: the name of an online run.
        final: whether it answers nothing more in this run.
    """
    own = secret.public
    said = Statement(plan=plan, key=own.fingerprint, signature="", run=run, signer=own.name, final=final)
    signature = secret.signing.sign(_claim(party, said, entries))
    return msgspec.structs.replace(said, signature=signature.hex())


def check_result(
    result: Result, ring: KeyRing, *, plan: str | None = None, parties: tuple[str, ...] = ()
) -> list[Checked]:
    """Compare what a result says of each party but the hub with what that party signed.

    Args:
        plan: the fingerprint of the plan that they must have signed for; None for any, if it is the same one.
        parties: those to look at; none for all.
    """
    peers = [name for name in result.parties if name != result.hub]
    strangers = [name for name in parties if name not in peers]
    if strangers:
        raise DataError(f"{strangers[0]!r} was not asked in this run; those who were are {', '.join(peers)}")
    return [_check_party(result, name, ring, plan) for name in parties or peers]


def refuse_other_record(result: Result, party: str, ring: KeyRing) -> None:
    """Refuse to let a party sign what a result says of it, unless the party signed just that in the run."""
    own = ring.own.public.name
    signer = result.statements[party].signer if party in result.statements else party
    if signer != own:
        raise DataError(f"this is the key of {own}, but the record is of {party}: each party signs its own")
    for found in () if party == result.hub else check_result(result, ring, parties=(party,)):
        if found.state != "confirmed":
            raise DataError(f"{party}: {found.state}: {found.words}; nothing was signed")


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


def _check_party(result: Result, name: str, ring: KeyRing, plan: str | None) -> Checked:
    said = result.statements.get(name)
    if said is None:
        return Checked(name, "unsigned", "it signed nothing; what the hub says of it cannot be checked")
    for fault in _out_of_place(result, name, said, plan):
        return Checked(name, "differs", fault)
    signer = said.signer if _plays_others(result) else name
    reported = [one for one in result.releases if one.party == name]
    covered = all(one.covered == cover_words(one) for one in reported)
    found = _verdict(name, signer, said.key, said.signature, _claim(name, said, reported), ring)
    if found.state == "unknown key":
        return found
    if found.state != "confirmed" or not covered:
        words = "what the hub reports of it is not what it signed: ask it for its own ledger, and compare"
        return Checked(name, "differs", words)
    if not said.final:
        words = f"signed by {signer}, but before its last answer: ask it for its own ledger, and compare"
        return Checked(name, "unfinished", words)
    return found


def _out_of_place(result: Result, name: str, said: Statement, plan: str | None) -> Iterator[str]:
    """Why what a party signed cannot be about this result."""
    others = [one for other, one in result.statements.items() if other != name]
    if plan is not None and said.plan != plan:
        yield f"it signed for the plan {said.plan[:8]}, which is not the one named"
    if any((one.plan, one.run) != (said.plan, said.run) for one in others):
        yield f"it signed for the run {said.run or said.plan[:8]}, and others for another one"
    if any(one.signer == said.signer for one in others):
        yield f"{said.signer} signed for another party too"


def _plays_others(result: Result) -> bool:
    """Whether parties have made-up names: sites play the parties of a public set."""
    asked = result.data.get("plan")
    return isinstance(asked, dict) and asked.get("name") is not None


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


def _claim(party: str, said: Statement, entries: Iterable[Entry]) -> bytes:
    """The bytes that are signed: the fields of entries, whichever side holds them, and what they are about."""
    plain = [{field: getattr(one, field) for field in _FIELDS} | {"to": one.to or "hub"} for one in entries]
    about = {"party": party, "plan": said.plan, "run": said.run, "signer": said.signer, "final": said.final}
    return _LEDGER + encode(about | {"entries": msgspec.to_builtins(plain)})
