"""Secure sums of which many follow one exchange of public keys: two questions each, where fresh keys take four.

Every two parties agree once on a chain: a key from which one for each sum follows by hashing, and which is forgotten
as it goes on. What is opened for one sum says nothing of the next, as the chain cannot be followed from a mask, nor
of the one before, as it cannot be followed back. Which link a sum takes is the number of its question, which is the
same for all parties and only rises. A party sends its masked numbers with shares of the seed of its own mask, and of
each mask that it has in common with another party, locked for those who keep them. Of a party that is there, the
others open its seed; of two of which one is not there, the mask in common. Never both seed and masks of one party, as
before (Bonawitz and others 2017; the one exchange is as in Ma and others: Flamingo, 2023, without its deciding
committee).
"""

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

import msgspec

from laconic.core.party import Party
from laconic.errors import Refused, WireError
from laconic.privacy.encryption import (
    SHARE,
    add_masks,
    agree,
    derive,
    draw_key,
    join_secret,
    lock,
    split_secret,
    unlock,
)
from laconic.values import Array

CHAINS = "secure sum chains"
"""Where a party keeps its chains, and what it knows of the last sum."""


def begin_chains(party: Party, secret: bytes, keys: Mapping[str, list[str]]) -> None:
    """Agree with every party on a chain, by this party's secret key, which is needed no more."""
    about = blake2b(msgspec.json.encode(keys), digest_size=16).hexdigest()
    chains = {name: agree(secret, bytes.fromhex(own[0]), f"chain {about}").hex() for name, own in keys.items()}
    party.memory[CHAINS] = {"chains": chains, "last": -1}


def forget_chains(party: Party) -> None:
    """Forget all chains, as new keys are agreed on."""
    party.memory.pop(CHAINS, None)


def parties_of(party: Party) -> tuple[str, ...]:
    """With whom a party has chains, itself among them; none before keys were exchanged."""
    return tuple(party.memory.get(CHAINS, {}).get("chains", ()))


def mask_numbers(party: Party, numbers: Array, needed: int) -> str:
    """Put this sum's masks on whole numbers, in place, and go on along the chains; shares of all secrets, locked."""
    state, names = party.memory[CHAINS], parties_of(party)
    if party.number <= state["last"]:
        raise Refused(
            f"{party.name} was asked twice for numbers under the same masks, which would show how they differ"
        )
    chains = {name: bytes.fromhex(chain) for name, chain in state["chains"].items()}
    for _ in range(party.number - state["last"] - 1):
        chains = {name: derive(chain, "next") for name, chain in chains.items()}
    seed, others = draw_key(), [name for name in names if name != party.name]
    masks = {name: derive(chains[name], "mask") for name in others}
    add_masks(numbers, [(seed, 1), *((masks[name], _sign(party.name, name)) for name in others)])
    parts = [split_secret(one, len(names), needed) for one in (seed, *masks.values())]
    locked = {
        name: b64encode(lock(_lock(chains[name], party.name, name), b"".join(one[at] for one in parts))).decode()
        for at, name in enumerate(names)
    }
    party.memory[CHAINS] = {
        "chains": {name: derive(chain, "next").hex() for name, chain in chains.items()},
        "last": party.number,
        "open": {name: _lock(chain, name, party.name).hex() for name, chain in chains.items()},
        "present": {name: derive(chain, "who is there").hex() for name, chain in chains.items()},
    }
    return msgspec.json.encode(locked).decode()


def open_shares(party: Party, present: set[str], shares: Mapping[str, str]) -> dict[str, Any]:
    """One share of every secret that a sum needs: seeds of who is there, and masks in common with who is not."""
    state, names, opened = party.memory[CHAINS], parties_of(party), {}
    for name in sorted(present):
        text = unlock(bytes.fromhex(state["open"][name]), b64decode(shares.get(name, "")), name)
        found = [text[at : at + SHARE].hex() for at in range(0, len(text), SHARE)]
        common = dict(zip((one for one in names if one != name), found[1:], strict=True))
        opened[name] = {"seed": found[0], "masks": {one: common[one] for one in names if one not in present}}
    return opened


def take_masks_off(total: Array, names: Sequence[str], there: Sequence[str], opened: Mapping[str, Any]) -> None:
    """Take off a sum the masks that did not cancel: each party's own, and those in common with who is not there."""
    places = {name: at for at, name in enumerate(names)}

    def joined(name: str, gone: str = "") -> bytes:
        try:
            said = {places[one]: found[name] for one, found in opened.items()}
            shares = {at: bytes.fromhex(one["masks"][gone] if gone else one["seed"]) for at, one in said.items()}
        except (KeyError, TypeError, ValueError) as problem:
            raise WireError("a party opened other shares than it was asked for; compare the plans") from problem
        return join_secret(shares)

    gone = [name for name in names if name not in there]
    add_masks(total, [(joined(name), -1) for name in there])
    add_masks(total, [(joined(name, one), -_sign(name, one)) for name in there for one in gone])


def _sign(name: str, other: str) -> int:
    """Whether a party adds the mask in common with another one, or takes it away."""
    return 1 if name < other else -1


def _lock(chain: bytes, sender: str, receiver: str) -> bytes:
    return derive(chain, f"share {msgspec.json.encode([sender, receiver]).decode()}")
