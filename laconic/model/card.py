"""Who can predict what: which parties must be there for which answer, what crosses, how good it is expected to be."""

import msgspec


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """What a party is asked at each prediction.

    Attributes:
        step: the question. gives, takes: in the step's words, what crosses; None for nothing made from rows.
        bytes_up: of its answer, for each row. bytes_down: of the question, for each row.
        bytes_fixed: both ways, whatever the number of rows.
        needed: whether the method itself cannot predict without this party.
    """

    party: str
    step: str
    gives: str | None
    takes: str | None
    bytes_up: float
    bytes_down: float
    bytes_fixed: float
    needed: bool


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """How good predictions are expected to be when only some parties are there.

    Attributes:
        present: the parties, beside the hub, that answer.
        answer: how the others are made up for.
        metric, value: the headline figure on validation rows; None where there is no answer.
        rows: how many validation rows it was measured on.
    """

    present: tuple[str, ...]
    answer: str
    metric: str
    value: float | None
    rows: int


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """What is printed on saving.

    Attributes:
        hub: who predicts. label: what.
        asked: what parties are asked.
        kept: whether the hub keeps parties' answers, and so can predict those rows, and refit, without asking.
        rows: for how many rows it does.
        bytes: what had to cross for that; 0 where the hub had the answers from training.
        expected: for each pattern of presence and each way to make up for the absent.
    """

    method: str
    hub: str
    label: str
    asked: tuple[Asked, ...]
    kept: bool
    rows: int
    bytes: int
    expected: tuple[Expected, ...]
