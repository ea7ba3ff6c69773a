"""Secure sums: the server learns the sum over parties of what each was asked for, and nothing of a single one.

Bonawitz and others: Practical Secure Aggregation for Privacy-Preserving Machine Learning (2017). Every two parties
agree on a mask that one adds and the other takes away, so that masks cancel in the sum; on top of it every party puts a
mask of its own. Before, it hands shares of both secrets to all parties, each locked for its receiver. Of a party that
then drops out, enough others open the key of its shared masks; of a party that is there, the seed of its own mask.
Never both of one party, for then its numbers would be bare. If some dropped out, parties first compare the list that
the server showed them, and open shares only if enough others were shown the same (the paper's consistency check):
otherwise a server could, by many lists, sum up fewer than it says. Numbers are whole numbers that wrap around:
sums are exact.

A method takes part with `sums: SecureSums | None` among its settings, and `agree_keys, share_secrets, confirm_present,
unmask` among its steps, `self.sums.hide(party, parts)` at the end of the step that is summed up, and
`self.sums.over(...)` in `fit`. All of it is asked as any other question, so it works on every transport.

Secure sums of which many follow one exchange of public keys: two questions each, where fresh keys take four.

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
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from hashlib import blake2b
from math import ceil, sqrt
from typing import Any, Literal, NamedTuple, Protocol

import msgspec
import numpy as np

from laconic.core.ledger import HIDDEN, NOT_FROM_ROWS, Masked, Noised
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Step, step
from laconic.core.wire import describe
from laconic.errors import PartyAbsent, Refused, WireError
from laconic.privacy.encryption import (
    SHARE,
    FixedPoint,
    add_masks,
    agree,
    derive,
    draw_key,
    join_secret,
    lock,
    public_of,
    split_secret,
    unlock,
)
from laconic.values import Array, Settings, check_above_zero, check_least

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


_STATE = "secure sum"
"""Where a party keeps its secrets of the sum that is being made; they are deleted when it is done."""
_SUMMED = "secure sums made"
"""Where a party remembers for which phases of a run it sent the one sum that these need."""
_FEWEST = 2


class Total(NamedTuple):
    """A sum over parties: what each was asked for, added up; whose it is, and how many had agreed on masks."""

    parts: dict[str, Any]
    parties: tuple[str, ...]
    agreed: int


class SecureSums(Settings, frozen=True):
    """Sums over parties of which the server sees nothing but the sum.

    The server is taken to pass on keys as they are: one that puts keys of its own in their place is a party of its own
    making. A party that sends wrong numbers spoils the sum, and nobody can tell which one did. Two sums that differ by
    one party show what that one added: where one sum is all that is needed, a party takes part in one per run. Models
    that are trained again and again differ each time anyway; what hides a party there is noise (`updates`).

    Attributes:
        threshold: the share of parties that must be there to the end; more than half are needed always. The others may
            drop out at any step. The greater it is, the more parties must collude with the server to see a party bare.
        bound: the greatest size of a number that is summed; the finest step between numbers follows from it.
        least_parties: with fewer parties than this, no party takes part.
        keys: `each` draws fresh keys for each sum, which takes four questions. `once` exchanges public keys before the
            first sum of a run, and takes two questions for each: half as many envelopes. All who exchanged keys count
            in every sum; each sends shares of as many secrets as there are parties.
    """

    threshold: float = 2 / 3
    bound: float = 2.0**30
    least_parties: int = 3
    keys: Literal["each", "once"] = "each"

    def __post_init__(self) -> None:
        """Refuse sums that hide nothing."""
        check_above_zero(1.0, threshold=self.threshold)
        check_above_zero(2.0**50, bound=self.bound)
        check_least(_FEWEST, least_parties=self.least_parties)

    questions = 4
    """How often the server waits for one sum by fresh keys, if nobody drops out; once more if somebody does."""

    def waits(self, sums: int) -> int:
        """How often the server waits for so many sums, likewise."""
        return self.questions * sums if self.keys == "each" else 2 + 2 * sums

    def needed(self, parties: int) -> int:
        """How many of so many parties must be there to the end."""
        return max(parties // 2 + 1, ceil(self.threshold * parties - 1e-9))

    def colluders(self, parties: int) -> int:
        """How many of so many parties it takes, with the server, to see another party's numbers.

        With its lies the server can ask half of the others for one kind of shares and half for the other, and whoever
        colludes gives both: `needed` shares of each kind take 2 needed - parties colluders. And whoever knows all
        numbers of a sum but one knows that one.
        """
        return min(2 * self.needed(parties) - parties, self.needed(parties) - 1)

    def honest(self, parties: int) -> int:
        """How many parties' numbers are in a sum at least that are not of colluders, while these see nothing."""
        return self.needed(parties) - (self.colluders(parties) - 1)

    def over(self, method: "Summed", peers: Peers, question: Step, like: Mapping[str, Any], **payload: Any) -> Total:
        """Ask parties what is to be summed up, and give the sum over all that were there.

        Args:
            method: whose steps are asked. question: the step, which ends with `hide`.
            like: what a party returns, for the names and shapes in it. payload: what the question brings.
        """
        if self.keys == "once":
            raise ValueError("sums.keys = once is for methods that make several sums; use keys = each")
        keys, locked = self._agreed(method, peers)
        answers = peers.only(tuple(keys)).tolerant.ask(question, **payload)
        there = tuple(name for name in keys if name in answers)
        self._refuse_few(keys, there, question.__name__)
        opened = self._opened(method, peers, tuple(keys), locked, there)
        size = sum(np.size(one) for one in _leaves(like))
        total: Array = np.zeros(size, dtype=np.uint64)
        for name in there:
            total += _read(name, answers[name], size)
        add_masks(total, [(seed, -1) for seed in self._own_masks(keys, there, opened)])
        for name in keys:
            if name not in there:
                add_masks(total, self._left_over(keys, name, there, opened))
        return Total(_shaped(like, FixedPoint(self.bound, len(keys)).read(total)), there, len(keys))

    def over_several(
        self,
        method: "Summed",
        peers: Peers,
        question: Step,
        like: Mapping[str, Any],
        kept: dict[str, Any],
        payload: Mapping[str, Any],
    ) -> Total:
        """The same for one of several sums of a run, by keys that are exchanged once if the settings say so.

        Args:
            method: one that has the step `take_keys` as well. question, like: as for `over`.
            kept: where the server keeps who exchanged keys. payload: what the question brings.
        """
        take_keys = getattr(method, "take_keys", None)
        if self.keys == "each" or take_keys is None:
            return self.over(method, peers, question, like, **payload)
        if "parties" not in kept:
            found = peers.tolerant.ask(method.agree_keys)
            keys = {name: _two_keys(name, text) for name, text in found.items()}
            if len(keys) < self.least_parties:
                raise PartyAbsent(tuple(name for name in peers.names if name not in keys), "agree_keys")
            # Whoever was lost here has no masks, and is away from every sum.
            took = peers.only(tuple(keys)).tolerant.ask(take_keys, keys=_text(keys))
            kept |= {"parties": list(keys), "asked": list(took)}
        names: list[str] = kept["parties"]
        answers = peers.only(tuple(kept["asked"])).tolerant.ask(question, **payload)
        there = tuple(name for name in names if name in answers)
        self._refuse_few(names, there, question.__name__)
        size = sum(np.size(one) for one in _leaves(like))
        total: Array = np.zeros(size, dtype=np.uint64)
        locked = {}
        for name in there:
            sent = answers[name] if isinstance(answers[name], dict) else {}
            total += _read(name, sent.get("numbers"), size)
            locked[name] = _read_text(name, sent.get("shares"))
        opened = self._opened(method, peers, tuple(names), locked, there)
        few = {name: opened[name] for name in list(opened)[: self.needed(len(names))]}
        take_masks_off(total, names, there, few)
        return Total(_shaped(like, FixedPoint(self.bound, len(names)).read(total)), there, len(names))

    def hide(self, party: Party, parts: Mapping[str, Any] | Noised[Any], *, often: bool = False) -> Masked[Any]:
        """What a party was asked for, under masks: its receiver can read nothing but the sum over parties.

        Args:
            often: whether the method makes many sums in a run; if not, a second one is refused.
        """
        if isinstance(parts, Noised):
            masked = self.hide(party, parts.value, often=often)
            return Masked(replace(parts, value=masked.value), masked.words)
        numbers = np.concatenate([np.ravel(one) for one in _leaves(parts)])
        if self.keys == "once":
            count = self._count(party)
            whole = FixedPoint(self.bound, count).write(numbers)
            shares = mask_numbers(party, whole, self.needed(count))
            return Masked({"numbers": whole, "shares": shares}, self.words(count))
        state, count = _state(party), self._count(party)
        if state["used"]:
            raise Refused(
                f"{party.name} was asked twice for numbers under the same masks, which would show how they differ"
            )
        if not often and party.phase in party.memory.get(_SUMMED, []):
            raise Refused(
                f"{party.name} was asked for a second sum over its rows in one run: over other parties, the difference "
                "of the two would lay a party bare; begin a new run"
            )
        whole = FixedPoint(self.bound, count).write(numbers)
        add_masks(whole, [(state["seed"], 1), *_pair_masks(state["mask"], party.name, state["keys"])])
        party.memory[_STATE] = state | {"used": True}
        if not often:
            party.memory[_SUMMED] = [*party.memory.get(_SUMMED, []), party.phase]
        return Masked(whole, self.words(count))

    def noise_share(self, party: Party) -> float:
        """How much of the noise that a sum needs each party adds.

        The squares of what honest parties add sum up to the whole, if no more than must be are there, and as many
        others collude as still see nothing; what these added, they could take off.
        """
        return 1 / sqrt(self.honest(self._count(party)))

    def _count(self, party: Party) -> int:
        """Among how many parties masks were agreed on."""
        if self.keys == "each":
            return len(_state(party)["keys"])
        if not parties_of(party):
            raise Refused(f"{party.name} was asked for numbers to be summed up before masks were agreed on")
        return len(parties_of(party))

    def words(self, parties: int) -> str:
        """What a ledger says of numbers that are hidden so."""
        return (
            f"{HIDDEN} over {parties} parties, at least {self.needed(parties)} of which are in it, unless the server "
            f"and {self.colluders(parties)} of them collude"
        )

    def _agreed(self, method: "Summed", peers: Peers) -> tuple[dict[str, list[str]], dict[str, dict[str, str]]]:
        """Public keys and locked shares of all who gave both; who drops out in between is left out from the start."""
        names = peers.names
        while True:
            found = peers.only(names).tolerant.ask(method.agree_keys)
            keys = {name: _two_keys(name, text) for name, text in found.items()}
            if len(keys) < self.least_parties:
                raise PartyAbsent(tuple(name for name in peers.names if name not in keys), "agree_keys")
            shared = peers.only(tuple(keys)).tolerant.ask(method.share_secrets, keys=_text(keys))
            if len(shared) == len(keys):
                return keys, {name: _read_text(name, text) for name, text in shared.items()}
            names = tuple(shared)

    def _opened(
        self,
        method: "Summed",
        peers: Peers,
        names: tuple[str, ...],
        locked: Mapping[str, Mapping[str, str]],
        there: tuple[str, ...],
    ) -> dict[str, dict[str, Any]]:
        """The shares that parties open, by who opened them: what cancels no more as some of `names` dropped out."""
        present, left = _text(list(there)), there
        marks: dict[str, dict[str, str]] = {name: {} for name in there}
        if len(there) < len(names):
            answers = peers.only(there).tolerant.ask(method.confirm_present, present=present)
            left = tuple(answers)
            for name in left:
                for other, mark in _read_text(name, answers[name]).items():
                    marks.get(other, {})[name] = mark
        asked = {
            name: {"present": present, "shares": _text({own: one[name] for own, one in locked.items() if name in one})}
            | ({"confirmed": _text(marks[name])} if marks[name] else {})
            for name in left
        }
        opened = peers.only(left).tolerant.ask_each(method.unmask, asked)
        self._refuse_few(names, tuple(opened), "unmask")
        return {name: _read_text(name, text) for name, text in opened.items()}

    def _own_masks(self, keys: Mapping[str, Any], there: tuple[str, ...], opened: Mapping[str, Any]) -> list[bytes]:
        return [self._joined(keys, name, opened) for name in there]

    def _left_over(
        self, keys: Mapping[str, list[str]], gone: str, there: tuple[str, ...], opened: Mapping[str, Any]
    ) -> list[tuple[bytes, int]]:
        """The masks that others have agreed on with a party that dropped out, as that party would have added them."""
        secret = self._joined(keys, gone, opened)
        if public_of(secret).hex() != keys[gone][0]:
            raise WireError(f"the shares of {gone}, which dropped out, do not give its key; a party altered its share")
        return _pair_masks(secret, gone, {name: keys[name] for name in (*there, gone)})

    def _joined(self, keys: Mapping[str, Any], name: str, opened: Mapping[str, Mapping[str, str]]) -> bytes:
        """A secret of one party, from the shares that the others opened."""
        places = {one: at for at, one in enumerate(keys)}
        few = list(opened)[: self.needed(len(keys))]
        return join_secret({places[one]: bytes.fromhex(opened[one][name]) for one in few})

    def _refuse_few(self, keys: Iterable[str], there: tuple[str, ...], asked: str) -> None:
        keys = tuple(keys)
        if len(there) < self.needed(len(keys)):
            raise PartyAbsent(tuple(name for name in keys if name not in there), asked)


class Summed(Protocol):
    """A method that can have sums made securely."""

    agree_keys: Step
    share_secrets: Step
    confirm_present: Step
    unmask: Step

    @property
    def sums(self) -> SecureSums | None:
        """How; None if the server sees what each party sends."""


@step(takes=None, gives=f"two public keys that it drew for one secure sum; {NOT_FROM_ROWS}", by_row=False)
def agree_keys(method: Summed, party: Party) -> str:
    """Draw keys for one sum, and forget those of any sum before."""
    _sums_of(method)
    secrets = {"mask": draw_key(), "lock": draw_key()}
    party.memory[_STATE] = secrets
    forget_chains(party)
    return _text([public_of(secrets["mask"]).hex(), public_of(secrets["lock"]).hex()])


@step(
    takes=None,
    gives=f"shares of the secrets of its masks, each locked so that one party can read it; {NOT_FROM_ROWS}",
    by_row=False,
)
def share_secrets(method: Summed, party: Party, keys: str) -> str:
    """Share the key of the masks that it agrees on with others, and the seed of its own mask, among all."""
    sums, state, all_keys = _sums_of(method), party.memory.get(_STATE, {}), _read_text("the server", keys)
    if "keys" in state or "mask" not in state:
        raise Refused(f"{party.name} was asked to share the secrets of a sum twice, or before keys were drawn for it")
    _check_keys(sums, party, state, all_keys)
    seed, count, needed = draw_key(), len(all_keys), sums.needed(len(all_keys))
    party.memory[_STATE] = state | {"keys": all_keys, "seed": seed, "used": False}
    pairs = zip(split_secret(state["mask"], count, needed), split_secret(seed, count, needed), strict=True)
    return _text(
        {
            name: b64encode(lock(_lock_key(state["lock"], own[1], party.name, name), b"".join(pair))).decode()
            for (name, own), pair in zip(all_keys.items(), pairs, strict=True)
        }
    )


@step(takes=None, gives=None)
def take_keys(method: Summed, party: Party, keys: str) -> None:
    """Agree with each other party on masks for all sums of this run, and forget the secret key."""
    sums, state, all_keys = _sums_of(method), party.memory.get(_STATE, {}), _read_text("the server", keys)
    if sums.keys != "once" or "mask" not in state:
        raise Refused(f"{party.name} was asked to keep keys before it drew any, or for sums that draw fresh ones")
    _check_keys(sums, party, state, all_keys)
    begin_chains(party, state["mask"], {name: _two_keys(name, _text(own)) for name, own in all_keys.items()})
    del party.memory[_STATE]


@step(
    takes=None,
    gives=f"for each other party a mark of who, as this one was shown, is there; {NOT_FROM_ROWS}",
    by_row=False,
)
def confirm_present(method: Summed, party: Party, present: str) -> str:
    """Mark for each other party, as only it can check, the list that this one was shown; one list in each sum."""
    sums, there = _sums_of(method), set(msgspec.json.decode(present, type=list[str]))
    place, state = _sent_in(sums, party)
    _refuse_list(sums, party, state, there)
    if state.get("confirmed", state.get("opened for", sorted(there))) != sorted(there):
        raise Refused(f"{party.name} marked another list of who is there for other parties, and marks one in each sum")
    party.memory[place] = state | {"confirmed": sorted(there)}
    others = sorted(there - {party.name})
    return _text({name: _mark(party, state, sender=party.name, receiver=name, there=there) for name in others})


@step(
    takes=None,
    gives=f"of each party one share: of the seed of its own mask, or, if it dropped out, of its key; {NOT_FROM_ROWS}",
    by_row=False,
)
def unmask(method: Summed, party: Party, present: str, shares: str, confirmed: str = "{}") -> str:
    """Open one share of every party, never of both kinds: seeds of who is there, keys of who dropped out."""
    sums, there = _sums_of(method), set(msgspec.json.decode(present, type=list[str]))
    place, state = _sent_in(sums, party)
    if "opened for" in state:
        if state["opened for"] != sorted(there):
            raise Refused(f"{party.name} was asked for both kinds of shares of one party, which would lay it bare")
        return str(state["answer"])
    _refuse_list(sums, party, state, there)
    _refuse_unconfirmed(sums, party, state, there, _read_text("the server", confirmed))
    sent = _read_text("the server", shares)
    answer = _text(open_shares(party, there, sent) if sums.keys == "once" else _open_shares(party, there, sent))
    # The secrets are gone after this: what was opened cannot be opened in another way.
    kept = {name: value for name, value in state.items() if name in ("chains", "last")}
    party.memory[place] = kept | {"opened for": sorted(there), "answer": answer}
    return answer


def _open_shares(party: Party, there: set[str], shares: Mapping[str, str]) -> dict[str, str]:
    """A share of each party's seed or, if it dropped out, of its key."""
    state, opened = party.memory[_STATE], {}
    for name, text in shares.items():
        key = _lock_key(state["lock"], state["keys"][name][1], name, party.name)
        pair = unlock(key, b64decode(text), name)
        opened[name] = (pair[len(pair) // 2 :] if name in there else pair[: len(pair) // 2]).hex()
    return opened


def _sent_in(sums: SecureSums, party: Party) -> tuple[str, dict[str, Any]]:
    """Where a party keeps what it knows of the sum that it sent numbers for, and that."""
    place = CHAINS if sums.keys == "once" else _STATE
    state = party.memory.get(place, {})
    if not ("opened for" in state or "open" in state or state.get("used")):
        raise Refused(f"{party.name} was asked to open shares before it sent its numbers")
    return place, state


def _mark(party: Party, state: Mapping[str, Any], *, sender: str, receiver: str, there: set[str]) -> str:
    """What the sender says to the receiver of who is there, by a key that these two alone can work out."""
    other = receiver if sender == party.name else sender
    if "present" in state:
        key = bytes.fromhex(state["present"][other])
    else:
        key = agree(state["lock"], bytes.fromhex(state["keys"][other][1]), "who is there")
    said = msgspec.json.encode([sender, receiver, sorted(there)])
    return blake2b(said, key=key, digest_size=16).hexdigest()


def _check_keys(sums: SecureSums, party: Party, state: Mapping[str, Any], all_keys: Mapping[str, Any]) -> None:
    """Refuse keys among which a party's own are others, or are too few, or stand for two parties."""
    if all_keys.get(party.name) != [public_of(state["mask"]).hex(), public_of(state["lock"]).hex()]:
        raise Refused(f"{party.name} was shown other keys in its name than it drew")
    if len(all_keys) < sums.least_parties:
        raise Refused(f"{party.name} takes part in sums over {sums.least_parties} parties or more, not {len(all_keys)}")
    each = [one for name, own in all_keys.items() for one in _two_keys(name, _text(own))]
    if len(set(each)) < len(each):
        # Masks in common with two names, one before a party's own and one after, would cancel.
        raise Refused(f"{party.name} was shown the same key for two parties; each draws its own")


def _refuse_list(sums: SecureSums, party: Party, state: Mapping[str, Any], there: set[str]) -> None:
    """Refuse to help with a sum over too few, or over parties with whom there are no masks, or without oneself."""
    names = set(state.get("chains", state.get("keys", there)))
    needed = sums.needed(len(names))
    if party.name not in there or not there <= names or len(there) < needed:
        raise Refused(
            f"{party.name} was asked to open shares for {len(there)} of {len(names)} parties, itself or too many left "
            f"out; it does so for {needed} or more"
        )


def _refuse_unconfirmed(
    sums: SecureSums, party: Party, state: Mapping[str, Any], there: set[str], said: Mapping[str, Any]
) -> None:
    """Refuse to open shares, if some dropped out, before enough others were shown the same list."""
    if state.get("confirmed", sorted(there)) != sorted(there):
        raise Refused(
            f"{party.name} marked another list of who is there for other parties, and opens shares for that one"
        )
    names = set(state.get("chains", state.get("keys")))
    if there == names:
        return
    same = [
        name
        for name in there - {party.name}
        if said.get(name) == _mark(party, state, sender=name, receiver=party.name, there=there)
    ]
    if len(same) + 1 < sums.needed(len(names)):
        raise Refused(
            f"{party.name} opens shares after parties dropped out only if enough others were shown the same "
            f"list: {sums.needed(len(names))} with itself, not {len(same) + 1}"
        )


def _sums_of(method: Summed) -> SecureSums:
    if method.sums is None:
        raise Refused("this method's settings name no secure sums, so that no keys are drawn for one")
    return method.sums


def _state(party: Party) -> dict[str, Any]:
    state: dict[str, Any] = party.memory.get(_STATE, {})
    if "keys" not in state:
        raise Refused(f"{party.name} was asked for numbers to be summed up before masks were agreed on")
    return state


def _pair_masks(secret: bytes, name: str, keys: Mapping[str, list[str]]) -> list[tuple[bytes, int]]:
    """The masks that a party shares with each other one, and whether it adds or takes them away."""
    others = {one: bytes.fromhex(own[0]) for one, own in keys.items() if one != name}
    return [(agree(secret, public, "mask"), 1 if name < one else -1) for one, public in others.items()]


def _lock_key(own: bytes, other: str, sender: str, receiver: str) -> bytes:
    return agree(own, bytes.fromhex(other), f"share {msgspec.json.encode([sender, receiver]).decode()}")


def _two_keys(name: str, text: Any) -> list[str]:
    try:
        found = msgspec.json.decode(text, type=list[str])
        if [len(bytes.fromhex(one)) for one in found] == [32, 32]:
            return found
    except (msgspec.MsgspecError, TypeError, ValueError):
        pass
    raise WireError(f"{name} did not send two public keys for a secure sum; check that its plan is the same")


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _read_text(sender: str, text: Any) -> dict[str, Any]:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, TypeError) as problem:
        raise WireError(
            f"{sender} did not send keys or shares of a secure sum; check that its plan is the same"
        ) from problem


def _read(name: str, answer: Any, size: int) -> Array:
    if not isinstance(answer, np.ndarray) or answer.dtype != np.uint64 or answer.shape != (size,):
        raise WireError(f"{name} sent {describe(answer)[:200]} where {size:,} masked numbers are due; check its plan")
    return answer


def _leaves(parts: Any) -> list[Any]:
    """All arrays and numbers in a value, in the order of their names."""
    if isinstance(parts, Mapping):
        return [leaf for name in sorted(parts) for leaf in _leaves(parts[name])]
    return [parts]


def _shaped(like: Any, numbers: Array) -> Any:
    """Numbers in a row as arrays of the same names and shapes as these."""
    if not isinstance(like, Mapping):
        return numbers.reshape(np.shape(like)) if np.shape(like) else float(numbers[0])
    found, start = {}, 0
    for name in sorted(like):
        size = sum(np.size(one) for one in _leaves(like[name]))
        found[name] = _shaped(like[name], numbers[start : start + size])
        start += size
    return found
