"""Align: a script that makes the rows of all parties correspond, and checks later that they still do."""

from abc import abstractmethod
from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import Any, ClassVar, Final, Literal, TypeAlias

import numpy as np
from msgspec import UNSET, UnsetType

from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, Script, Step, step
from laconic.data.federation import HELD_OUT
from laconic.data.partition.columns import seeds_to_try, sides_with_classes, split
from laconic.data.partition.rows import pack_cuts, split_by_column, unpack_cuts
from laconic.errors import DataError, Refused
from laconic.tables.table import PAIRED, Parting, digest, fingerprint, joined, paired_with
from laconic.values import Array, Rng

ALIGNMENT = "alignment"
"""Where a party remembers how its rows were matched."""


class Align(Script, frozen=True):
    """A script that makes the rows of all parties correspond before fitting."""

    guesses_begin: ClassVar[str] = ""
    """The step with which others begin to find out which ids a party has; empty if they are shown, or agreed upon."""

    @property
    def declares_all(self) -> bool:
        """Whether `match` asks just what `match_opening` declares, so that what comes after it is known as well."""
        return False

    def guesses_in(self, step: str, payload: Mapping[str, Any], /) -> int:
        """How many ids, hidden or not, a question brings that may be a party's own; what a party limits."""
        return 0

    @abstractmethod
    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        """Put the rows that all share in the same order everywhere, cut them the same, and count them."""

    def confirm(self, hub: Party, peers: Peers, /) -> str:
        """The fingerprint of the alignment, which must be the same at all parties and as it was when rows were matched.

        A party that does not answer now is not compared; whether the run can do without it is the method's to say.
        """
        own = {hub.name: self.show_fingerprint(hub)} if hub.data.rows else {}
        found: dict[str, str] = own | peers.tolerant.ask(self.show_fingerprint)
        if len(set(found.values())) > 1:
            shown = ", ".join(f"{name} {one[:8]}" for name, one in found.items())
            raise DataError(
                f"the parties do not hold the same rows in the same order: their fingerprints are {shown}; "
                "match the rows again, and do not change or sort the files after that"
            )
        return next(iter(found.values()), "")

    def match_opening(self, rng: Rng, *, server: bool) -> Opening:
        """What `match` asks that follows from the plan alone, with the hub's `rng` as it is then.

        `server` says whether the hub is one without rows. Declaring nothing is always right.
        """
        return Opening()

    def confirm_opening(self) -> Opening:
        """The same of `confirm`; a class that asks otherwise in its own `confirm` has to name it here."""
        return Opening((Ask.known(self.show_fingerprint),), then="ends")

    @step(takes=None, gives="a digest of the ids of the shared rows, in order, which all who hold these rows know")
    def show_fingerprint(self, party: Party) -> str:
        """The digest, if the party's data is what it was when its rows were matched."""
        shown = fingerprint(party.data)
        refuse_changed(party, shown)
        return shown


def note_alignment(party: Party, asked: str = "") -> None:
    """Remember what a party's data is now that its rows are matched, so that a change is noticed.

    `asked` is a digest of the rows it was asked to keep, so that being asked the same again changes nothing.
    """
    party.memory[ALIGNMENT] = {"data": digest(party.data), "asked": asked}


def refuse_changed(party: Party, rows: str | None = None) -> None:
    """Refuse a party whose data is not what it was when `note_alignment` noted it; `rows` is its fingerprint now."""
    noted = party.memory.get(ALIGNMENT)
    if noted is None:
        raise DataError(f"party {party.name!r}: its rows have not been matched yet; match them before fitting")
    now = digest(party.data, rows)
    if noted["data"] != now:
        raise DataError(
            f"party {party.name!r}: its data changed after its rows were matched (then {noted['data'][:8]}, now "
            f"{now[:8]}); bring back the file as it was, or match the rows again"
        )


def is_matched(party: Party) -> bool:
    """Whether the party's rows have been matched in this run."""
    return ALIGNMENT in party.memory


def is_aligned(party: Party, asked: str) -> bool:
    """Whether the party already did what it is asked, and its data is still as that left it.

    Raises:
        Refused: its rows were matched otherwise: in two cuts of one run a person would be released twice, and pay once.
    """
    if not is_matched(party):
        return False
    noted = party.memory[ALIGNMENT]
    if noted["asked"] != asked:
        raise Refused(
            f"{party.name} has matched its rows in this run, and does not match them otherwise; begin a new run"
        )
    refuse_changed(party)
    return True


def keys_of(party: Party) -> Array:
    """The ids of a party's rows as text, in the order of the rows."""
    _refuse_no_ids(party)
    return party.data.keys


def id_column(party: Party) -> Any:
    """The same as an Arrow column."""
    _refuse_no_ids(party)
    return party.data.key_column


def _refuse_no_ids(party: Party) -> None:
    if party.data.ids is None:
        raise DataError(f"{party.name} has no id column, so its rows cannot be matched")


def _by_id(party: Party, places: Array) -> Array:
    """The places in the order of their ids as text."""
    ids = party.data.ids
    if ids is None:
        raise DataError(f"{party.name} has no id column, so its rows cannot be matched")
    return np.asarray(places[text_order(ids[places])])


def text_order(ids: Array) -> Array:
    """The order of different ids, whole numbers or text, as text: what `np.argsort(ids.astype(str))` gives, sooner."""
    if ids.dtype.kind in "iu" and len(ids) and ids.min() >= 0 and ids.max() < _MOST_DIGITS:
        numbers = ids.astype(np.int64)
        digits = np.searchsorted(_TENS[1:], numbers, side="right") + 1
        # Followed by zeros up to one length, numbers have the order of their texts; then the shorter text comes first.
        level = numbers * _TENS[digits.max() - digits] if digits.min() < digits.max() else numbers
        return np.argsort(numbers) if level is numbers else np.lexsort((digits, level))
    text = ids.astype(str)
    width = text.dtype.itemsize // 4
    signs = text.view(np.uint32).reshape(len(text), width) if width else np.zeros((len(text), 0), np.uint32)
    if not len(text) or signs.max(initial=0) > 127:
        return np.argsort(text, kind="stable")
    # Eight signs are one number, whose order is theirs.
    packed = np.zeros((len(text), -(-width // 8) * 8), np.uint8)
    packed[:, :width] = signs
    words = packed.view(">u8").astype(np.uint64)
    return np.argsort(words[:, 0]) if words.shape[1] == 1 else np.lexsort(words.T[::-1])


_MOST_DIGITS = 10**18
_TENS = 10 ** np.arange(19, dtype=np.int64)


def fitting_seed(party: Party, shared: Array, seed: int, *, test: float, valid: float) -> int:
    """A seed that splits the shared rows so that there are two classes to learn from, and of two both to score on.

    With few rows of a class, a draw may leave all of them on one side. The seed given is kept wherever it will do, and
    where none of many does, or the party has no classes.

    Args:
        party: whose labels decide.
        shared, seed, test, valid: as for `keep_shared`.
    """
    table = party.data
    y = None if table.y is None or table.task is None else table.task.strata(table.y[_by_id(party, shared)])
    if y is None:
        return seed
    for tried in seeds_to_try(seed):
        cuts = split(len(y), np.random.default_rng(tried), test=test, valid=valid)
        if all(len(np.unique(y[cuts[side]])) > 1 for side in sides_with_classes(y)):
            return tried
    return seed


HeldOut: TypeAlias = Literal["label holder"] | UnsetType
"""How shared rows are parted: at random, or by a column of the label holder, which then says which are held out."""

AT_RANDOM: Final = UNSET
"""Left out where settings are written, so that plans and journals from before there was a choice stay the same."""


def choose_held_out(party: Party, shared: Array, seed: int, *, test: float, valid: float) -> Array:
    """By the label holder's column, which of the shared rows are held out, in the order of their ids as text."""
    table = party.data
    if table.parting is None:
        raise DataError(
            f"{party.name} has no column to part rows by, but the plan says that the label holder's decides; name it "
            "as data.split_by or data.group"
        )
    order = _by_id(party, shared)
    labels = None if table.y is None or table.task is None else table.task.strata(table.y[order])
    parting = Parting(table.parting.values[order], table.parting.in_time)
    cuts = split_by_column(parting, seed, test=test, valid=valid, party=party.name, y=labels)
    return pack_cuts(cuts, len(order))


def barred_rows(party: Party, shared: Array, held: Array) -> Array:
    """Which rows of the label holder outside the overlap must not be learnt from, as they would undo the parting.

    Those as late as the first row that is held out, or later; or those in a group that is.
    """
    values, in_time = party.data.parting or (np.zeros(party.data.rows), False)
    order = _by_id(party, shared)
    cuts = unpack_cuts(held, len(order), party.name)
    out = values[order[np.concatenate([cuts["valid"], cuts["test"]])]]
    found = np.asarray(values >= out.min() if in_time else np.isin(values, out))
    found[shared] = False
    return found


def keep_shared(
    party: Party,
    shared: Array,
    seed: int,
    *,
    test: float,
    valid: float,
    some: Array | None = None,
    paired: Mapping[str, Array] | None = None,
    held: Array | None = None,
) -> None:
    """Put the shared rows first, in the order of their ids as text, and cut all rows.

    "shared" are the rows that all parties have, parted into "train", "valid" and "test". "own" are all others; where it
    is known, "some" are those of them that some other party has too, and "alone" those that nobody else has. Of the
    others, a party's cut "paired" are those that the hub has too; the hub's cut "paired shop" are the same people.

    Args:
        party: whose table is replaced.
        shared: positions of the rows that every party has, in any order.
        seed: for parting the shared rows; the same at every party.
        test: share of the shared rows held out.
        valid: share of the rest for stopping early.
        some: positions of the rows that some other party has, but not every one; None if that is not known.
        paired: by the name of a cut, positions of the rows that hub and party have, but not every party.
        held: which shared rows are held out, as `choose_held_out` gives them; None to part them at random.
    """
    pairs = {name: places for name, places in (paired or {}).items() if len(places)}
    positions = b"".join(one.tobytes() for one in (shared, *pairs.values(), *(() if held is None else (held,))))
    asked = blake2b(f"{seed} {test} {valid} {some is None}".encode() + positions, digest_size=16).hexdigest()
    if is_aligned(party, asked):
        return  # Asked again after a crash: the rows are in place, and the positions would be wrong now.
    first = _by_id(party, shared)
    others = np.ones(party.data.rows, dtype=bool)
    others[first] = False
    if held is not None and party.data.parting is not None:
        others &= ~barred_rows(party, shared, held)
    rest = np.flatnonzero(others)
    if held is None:
        cuts = split(len(first), np.random.default_rng(seed), test=test, valid=valid)
    else:
        cuts = unpack_cuts(held, len(first), party.name)
    cuts |= {"shared": np.arange(len(first)), "own": len(first) + np.arange(len(rest))}
    if some is not None:
        known = np.isin(rest, some)
        cuts |= {"some": cuts["own"][known], "alone": cuts["own"][~known]}
    order = np.concatenate([first, rest])
    now_at = np.full(party.data.rows, -1)
    now_at[order] = np.arange(len(order))
    for name, places in pairs.items():
        cuts[name] = now_at[_by_id(party, places)]
    party.data = party.data.take(order, cuts)
    note_alignment(party, asked)


_BETWEEN = "\0"
_SHOWN = "ids shown"
"""In a party's memory: that its ids were asked for, without which nobody can know which of its rows are shared."""


class ExactMatch(Align, frozen=True):
    """The hub sees all ids, and sends each party which of its rows all others have, which some, and which the hub has.

    Attributes:
        test: share of the shared rows held out for the final score.
        valid: share of the rest that methods may use to stop early.
        held_out: by whom rows are held out: at random, or by a column of the label holder (`data.split_by`,
            `data.group`), who then tells every party which of the shared rows these are.
    """

    test: float = HELD_OUT
    valid: float = 0.1
    held_out: HeldOut = AT_RANDOM

    def match(self, hub: Party, peers: Peers, /) -> dict[str, Any]:
        """Put the shared rows first everywhere, in the order of their ids as text."""
        shown: dict[str, str] = {hub.name: self.show_ids(hub)} if hub.data.rows else {}
        shown |= peers.ask(self.show_ids)
        ids = _number_ids(shown)
        holders = np.bincount(np.concatenate(list(ids.values())))
        shared = int((holders == len(ids)).sum())
        if not shared:
            lists = {name: text.split(_BETWEEN) for name, text in shown.items()}
            seen = "; ".join(f"{name} has ids like {keys[0]!r}" for name, keys in lists.items())
            raise DataError(f"no id is at every party: {seen}. {_remedy(list(lists.values()))}")
        places = {name: _places(holders[numbers], len(ids)) for name, numbers in ids.items()}
        found = {name: one["shared"] for name, one in places.items()}
        outside = holders < len(ids)
        if self.held_out is AT_RANDOM:
            more: dict[str, Any] = {"seed": self._seed(hub, peers, found)}
            keep: Step = self.keep_rows
            barred = 0
        else:
            more, keep = {"held": self._held(hub, peers, found)}, self.keep_parted_rows
            late = barred_rows(hub, found[hub.name], more["held"]) if hub.data.rows else np.empty(0, dtype=bool)
            barred = int(late.sum())
            if hub.data.rows:
                outside[ids[hub.name][late]] = False
        paired = _pairs(ids, hub.name, outside)
        questions = {name: one | paired.get(name, {}) | more for name, one in places.items()}
        peers.ask_each(keep, {name: questions[name] for name in peers.names})
        if hub.data.rows:
            keep(hub, **questions[hub.name])
        counts: dict[str, Any] = {
            "shared": shared,
            "rows": {name: len(numbers) for name, numbers in ids.items()},
            "some": {name: len(question["some"]) for name, question in questions.items()},
        }
        counts |= {"barred": {hub.name: barred}} if barred else {}
        return counts | pair_counts({name: one["paired"][PAIRED] for name, one in paired.items() if name != hub.name})

    def _seed(self, hub: Party, peers: Peers, shared: dict[str, Array]) -> int:
        """The seed of the split: one that leaves all classes where they are needed, as the label holder sees it."""
        seed = int(hub.rng.integers(2**31))
        if hub.data.rows:
            return fitting_seed(hub, shared[hub.name], seed, test=self.test, valid=self.valid)
        found = peers.ask_each(self.find_seed, {name: {"shared": shared[name], "seed": seed} for name in peers.names})
        return next((one for one in found.values() if one != seed), seed)

    def _held(self, hub: Party, peers: Peers, shared: dict[str, Array]) -> Array:
        """Which of the shared rows are held out, as the label holder's column says; a server has to ask."""
        seed = int(hub.rng.integers(2**31))
        if hub.data.rows:
            return choose_held_out(hub, shared[hub.name], seed, test=self.test, valid=self.valid)
        asked = {name: {"shared": shared[name], "seed": seed} for name in peers.names}
        return label_holder_says(peers.ask_each(self.find_held_out, asked))

    def match_opening(self, rng: Rng, *, server: bool) -> Opening:
        """Ids first; which rows to keep depends on everybody's."""
        find, keep = (
            (self.find_seed, self.keep_rows)
            if self.held_out is AT_RANDOM
            else (self.find_held_out, self.keep_parted_rows)
        )
        later = (find, keep) if server else (keep,)
        return Opening((Ask.known(self.show_ids), *(Ask.later(one) for one in later)), then="ends")

    @step(
        takes="which of its rows every other party has too",
        gives="from the label holder, a number by which rows are parted so that both sides have every class",
    )
    def find_seed(self, party: Party, shared: Array, seed: int) -> int:
        """The seed given, or another that splits the classes better; asked by a server, which has no labels."""
        return fitting_seed(party, shared, seed, test=self.test, valid=self.valid)

    @step(
        takes="which of its rows every other party has too",
        gives="from the label holder, which of the shared rows are held out, by one of its columns: the last in time, "
        "or whole groups; two bits per row",
    )
    def find_held_out(self, party: Party, shared: Array, seed: int) -> Array | None:
        """What the label holder's column says; None from all others. Asked by a server, which has no rows."""
        if party.data.y is None:
            return None
        return choose_held_out(party, shared, seed, test=self.test, valid=self.valid)

    @step(takes=None, gives="the ids of all its rows, in the clear")
    def show_ids(self, party: Party) -> str:
        """All ids in one text: a list would be a value for each, of which the wire takes only so many."""
        import pyarrow as pa
        import pyarrow.compute as pc

        ids = id_column(party)
        party.memory[_SHOWN] = 1
        nothing, between = (pa.scalar(text, pa.large_string()) for text in ("", _BETWEEN))
        each = pc.binary_join_element_wise(ids, nothing, between)
        return bytes(joined(each)).decode().removesuffix(_BETWEEN)

    @step(takes="which of its rows every other party has too, which some other has, and which the hub has", gives=None)
    def keep_rows(
        self, party: Party, shared: Array, some: Array, seed: int, paired: dict[str, Array] | None = None
    ) -> None:
        """Put the rows named first, cut the same way at every party."""
        if _SHOWN not in party.memory:
            raise Refused(f"{party.name} was never asked for its ids, so nobody can know which are shared; match first")
        keep_shared(party, shared, seed, test=self.test, valid=self.valid, some=some, paired=paired)

    @step(
        takes="which of its rows every other party has too, which some other has, which the hub has, and which of the "
        "shared rows are held out by a column of the label holder: which are the last in time, or stay together",
        gives=None,
    )
    def keep_parted_rows(
        self, party: Party, shared: Array, some: Array, held: Array, paired: dict[str, Array] | None = None
    ) -> None:
        """The same, with the rows held out that the label holder names."""
        if _SHOWN not in party.memory:
            raise Refused(f"{party.name} was never asked for its ids, so nobody can know which are shared; match first")
        keep_shared(party, shared, 0, test=self.test, valid=self.valid, some=some, paired=paired, held=held)


def label_holder_says(answers: Mapping[str, Array | None]) -> Array:
    """Of everybody's answers the one that is there."""
    found = [one for one in answers.values() if one is not None]
    if len(found) != 1:
        raise DataError(f"{len(found)} parties said which rows are held out; exactly one must have the labels")
    return found[0]


_RULES: dict[str, tuple[str, Callable[[str], str]]] = {
    "case = 'lower'": ("case", str.lower),
    "spaces = 'drop'": ("white space", lambda key: "".join(key.split())),
    "zeros = 'drop'": ("leading zeros", lambda key: key.lstrip("0") if key.isdecimal() else key),
}
"""Rules by which more ids are equal, as a party file says them, and what they leave out."""


def _remedy(ids: list[list[str]]) -> str:
    """What would make ids match: the one rule under which some do, if there is one."""
    for rule, (what, written) in _RULES.items():
        if set.intersection(*({written(key) for key in keys} for keys in ids)):
            return (
                f"They differ in {what} only: write them in the same way, or say data.ids.{rule} in the party file of "
                "every party (docs/data.md)"
            )
    return "Check that the id columns mean the same people and are written in the same way"


def pair_counts(paired: Mapping[str, Array]) -> dict[str, dict[str, int]]:
    """How many rows hub and party have, but not every party, as facts of a matching; nothing if there are none."""
    counts = {name: len(places) for name, places in paired.items() if len(places)}
    return {PAIRED: counts} if counts else {}


def _number_ids(shown: Mapping[str, str]) -> dict[str, Array]:
    """Each party's ids as whole numbers, the same number for the same id at every party."""
    import pyarrow as pa

    lists: list[Any] = []
    for text in shown.values():
        found = _as_numbers(_listed(text))
        if found is None:  # Text at one party: the same id must be the same value at all.
            lists = [_listed(other) for other in shown.values()]
            break
        lists.append(found)
    numbers = pa.concat_arrays(lists).dictionary_encode().indices.to_numpy().astype(np.int64)
    return dict(zip(shown, np.split(numbers, np.cumsum([len(one) for one in lists])[:-1]), strict=True))


def _listed(text: str) -> Any:
    """The ids of a party as an Arrow column."""
    import pyarrow as pa
    import pyarrow.compute as pc

    return pc.split_pattern(pa.array([text], pa.large_string()), _BETWEEN)[0].values


def _as_numbers(texts: Any) -> Any:
    """Whole numbers, which take a third of the memory; None unless each text is what its number is written as."""
    import pyarrow as pa

    try:
        numbers = texts.cast(pa.int64())
    except pa.ArrowInvalid:
        return None
    return numbers if numbers.cast(pa.large_string()).equals(texts) else None


def _pairs(ids: dict[str, Array], hub: str, outside: Array) -> dict[str, dict[str, dict[str, Array]]]:
    """For hub and parties, where the rows are that the two of them have, but not every party."""
    own = np.full(len(outside), -1)
    own[ids.get(hub, np.empty(0, np.int64))] = np.arange(len(ids.get(hub, ())))
    own[~outside] = -1
    found: dict[str, dict[str, dict[str, Array]]] = {}
    for name, numbers in ids.items():
        at = np.flatnonzero(own[numbers] >= 0)
        if name != hub and len(at):
            found[name] = {"paired": {PAIRED: at}}
            found.setdefault(hub, {"paired": {}})["paired"][paired_with(name)] = own[numbers[at]]
    return found


def _places(holders: Array, parties: int) -> dict[str, Any]:
    """Which rows every party has, and which some: from how many have each."""
    return {
        "shared": np.flatnonzero(holders == parties),
        "some": np.flatnonzero((holders > 1) & (holders < parties)),
    }
