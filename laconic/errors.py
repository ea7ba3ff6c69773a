"""The handful of errors a user meets; everything else is a `ValueError` or `TypeError`."""

from difflib import get_close_matches


def closest(word: str, known: list[str], introduction: str = "Allowed", path: str = "") -> str:
    """What to say after an unknown word: the nearest known ones, under their path, and all of them.

    Example:
        >>> closest("fedonse", ["FedOnce", "Solo"])
        'did you mean FedOnce? Allowed: FedOnce, Solo'
    """
    folded = {name.casefold(): name for name in known}
    near = [folded[match] for match in get_close_matches(word.casefold(), list(folded), n=2)]
    hint = f"did you mean {' or '.join(f'{path}.{name}' if path else name for name in near)}? " if near else ""
    return f"{hint}{introduction}: {', '.join(known) or 'none'}"


class LaconicError(Exception):
    """Anything that Laconic raises on purpose; the command line prints it without a stack trace."""


class DataError(LaconicError, ValueError):
    """A party's data cannot be used; names the party, file or column, and what to do."""


class PlanError(LaconicError, ValueError):
    """A plan or setting cannot be used; names the key, what was given and what is allowed."""


class WireError(LaconicError):
    """A blob is not what this package writes, or is beyond the limits."""


class StepError(LaconicError):
    """A step broke its declaration, or failed at a party; names both."""


class PartyAbsent(LaconicError):
    """A party did not answer in time, and cannot be done without: by the method, or while rows are matched."""

    def __init__(self, names: tuple[str, ...], step: str, *, matching: bool = False, method: str = "") -> None:
        self.names = names
        self.step = step
        parties = " and ".join(names)
        instead = "use a method that can do without it (FedOnce can)"
        if matching:
            instead = "make a plan without it: rows are matched among all parties"
        elif method == "FedOnce":
            instead = "leave it out: whoever joins later has to answer, and everybody while method.more trains"
        super().__init__(
            f"{parties} did not answer the question `{step}` in time; start the party again, raise the deadline, or "
            f"{instead}"
        )


class BudgetSpent(LaconicError):
    """A run would pass its limit of bytes; what was learnt so far is kept."""


class Refused(LaconicError):
    """A party's own rules forbid what was asked of it; names the rule, what was asked, and where the rule stands.

    Attributes:
        words: what whoever asked may read: it holds nothing of rows.
    """

    def __init__(self, words: str, details: str = "") -> None:
        self.words = words
        super().__init__(words + details)


class Waiting(LaconicError):
    """The run stops here with questions open; start it again when their answers are in, and it goes on."""

    def __init__(self, names: tuple[str, ...], step: str) -> None:
        self.names = names
        self.step = step
        super().__init__(
            f"waiting for the answers of {' and '.join(names)} to the question `{step}`; start the run again when they "
            "are in, and it goes on from its journal"
        )


class StoreError(LaconicError):
    """A file in which Laconic keeps its records cannot be used: locked, full, of a newer version; says what to do."""


class TornFile(StoreError):
    """A file does not fit its checksum: a crash or a bad disk tore it."""


class JournalError(StoreError):
    """A journal cannot be used for this run; says why and what to do."""


class ContractBroken(LaconicError):
    """A method does not keep the contract; `check_method` says which clause and what it saw."""


class PackageNotUsed(UserWarning):
    """Another package offers a method that cannot be used; names the package and says why."""


class MissingExtra(LaconicError, ImportError):
    """An optional dependency is not installed; names the extra that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        super().__init__(f"this needs {package}, which is not installed; run: pip install 'laconic-fl[{extra}]'")
