"""Cox: times to an event, censored ones too, learnt from sums that parties send once, or until all rows are matched.

One exchange: each party fits Cox's model to its own rows and sends how its likelihood falls about that: a slope and a
curvature, whose sums over parties give the most likely model of all together. It compares a row only with others at the
same party. With `steps`, Newton's method goes on from there over sums at each time of an event, and ends at the model
of the pooled rows. Lu and others: WebDISCO (2015); ties as Efron has them.
"""

from collections.abc import Iterator, Mapping
from math import ceil
from typing import Any, ClassVar, Literal

import numpy as np

from laconic.core.method import Method, task_of
from laconic.core.party import Party
from laconic.core.peers import Peers
from laconic.core.step import Ask, Opening, step
from laconic.errors import Refused, WireError
from laconic.learn.models.cox import (
    Hazard,
    RiskSums,
    event_times,
    fit_local,
    log_hazard,
    newton_move,
    predict_cox,
    risk_sums,
    step_of,
)
from laconic.methods.families.rows import labelled
from laconic.methods.families.sums import SecureSums, agree_keys, confirm_present, share_secrets, unmask
from laconic.tables.task import events_of, signed_times
from laconic.values import Array, Weights, check_above_zero, check_least

_SMALL_MOVE = 1e-5
"""A move this small is the last: Newton's method squares the distance, or nearly so."""

_SPREADS = 8.0
"""Times farther than so many spreads beyond the mean count as that, where all have to agree on times beforehand."""

_GIVES = (
    "the slope and the curvature of the likelihood about its own model: as many numbers as columns, and a matrix of "
    "sums of products of columns; how many rows and events it has, and how many events by the horizon; with few events "
    "the columns of the rows that had them can be estimated, and from few rows all of them can be worked out, so a "
    "party with fewer than least_rows sends none"
)


class Cox(Method, frozen=True):
    """Cox's proportional hazards with a ridge penalty, from sums over parties.

    Attributes:
        penalty: weight of half the squared coefficients of standardised columns, per row.
        steps: how many Newton steps to take after the first exchange, one exchange each; they end early once nothing
            moves. 0 stays with the model of the first exchange, which lays far less open.
        every: round times up to multiples of this, in the unit of the label; 0 takes them as they are. Coarser times
            say less of single rows.
        least_rows: a party with fewer training rows sends nothing, and is not in the model.
        sums: add up parties' sums under masks, so that the server sees the total alone; with `steps` this needs
            `every`, by which all know beforehand at which times there may be events.
    """

    kind: ClassVar[Literal["vertical", "horizontal"]] = "horizontal"
    uses: ClassVar[tuple[str, ...]] = ("train",)
    tasks: ClassVar[tuple[str, ...]] = ("survival",)

    penalty: float = 0.1
    steps: int = 0
    every: float = 0.0
    least_rows: int = 50
    sums: SecureSums | None = None

    agree_keys, share_secrets = agree_keys, share_secrets
    confirm_present, unmask = confirm_present, unmask

    def __post_init__(self) -> None:
        """Refuse no penalty, and secure sums at times that nobody knows."""
        check_above_zero(penalty=self.penalty)
        check_least(0, steps=self.steps, every=self.every, least_rows=self.least_rows)
        if self.sums is not None and self.steps and not self.every:
            raise ValueError(
                "secure sums at each time of an event need times that all know beforehand: say every, such as 30 for "
                "months where the label is in days, or leave out steps"
            )

    @property
    def rounds(self) -> int | None:
        """One exchange, or one question more per step at most; a secure sum takes several."""
        if self.steps:
            return None
        return 1 if self.sums is None else self.sums.questions

    def fit_opening(self) -> Opening:
        """The first question, which parties may answer before it is asked."""
        if self.sums is not None:
            return Opening((Ask.known(self.agree_keys),))
        if self.steps:
            return Opening((Ask.known(self.give_start),))
        return Opening((Ask.known(self.give_estimate),), then="ends")

    def predict_opening(self, rows: str) -> Opening:
        """Nobody is asked anything."""
        return Opening((), then="ends")

    def fit(self, hub: Party, peers: Peers, /) -> Iterator[None]:
        """Put the parties' likelihoods together, then go on by Newton's method."""
        width = hub.data.shape[0]
        start = self._added(hub, peers, self._start_like(hub, width))
        if not start["events"] > 0:
            raise ValueError(
                f"no party with {max(self.least_rows, 1)} rows has an event to learn from; lower least_rows"
            )
        penalty, curvature = self.penalty * start["rows"], _whole(start["curvature"], width)
        beta = np.linalg.solve(curvature + penalty * np.eye(width), start["slope"])
        hub.memory["model"] = _model(beta, np.log(max(start["by horizon"], 0.5) / max(start["exposed"], 0.5)))
        yield
        times, counts = start.get("times", np.empty(0)), start.get("counts", np.empty(0))
        times, counts = times[counts > 0], counts[counts > 0]
        hazard: Hazard | None = None
        for _ in range(self.steps):
            sums = self._sums_at(hub, peers, beta, times, counts, hazard)
            found = step_of(sums, counts, start["columns"], beta)
            # Products need the hazard that these very sums give: until then they are as at the parameters before.
            move = newton_move(found.slope, curvature if hazard is None else found.curvature, beta, penalty)
            beta, hazard = beta + move, found.hazard
            hub.memory["model"] = _model(beta, log_hazard(times, hazard, task_of(hub).horizon))
            yield
            if np.abs(move).max() < _SMALL_MOVE:
                break

    def predict(self, hub: Party, peers: Peers, rows: str, /) -> Array:
        """The logarithm of the events that each row expects by the horizon."""
        return predict_cox(hub.memory["model"], hub.data.part(rows)[0])

    @step(takes=None, gives=_GIVES, by_row=False)
    def give_estimate(self, party: Party) -> Any:
        """Fit a model to this party's own rows, and give how the likelihood falls about it."""
        return self._hidden(party, self._estimate(party))

    @step(
        takes=None,
        gives="the times of its events, how many it had at each, and the sum of the columns of its rows with an event, "
        f"which of a single event is that row; and {_GIVES}",
        by_row=False,
    )
    def give_start(self, party: Party) -> Any:
        """The same, with the times of this party's events."""
        self._refuse_without_steps(party)
        sent = self._estimate(party)
        x, y = self._rows(party)
        kept = 0 if self._few(y) else len(y)
        times, counts, columns = event_times(x[:kept], y[:kept])
        if self.sums is not None:
            grid = self._grid(party)
            by_time = np.bincount(np.searchsorted(grid, times), counts, len(grid))
            return self._hidden(party, sent | {"counts": by_time, "columns": columns})
        return sent | {"times": times, "counts": counts, "columns": columns}

    @step(
        takes="the times of all events, and the parameters and the hazard of the model so far, made from all rows",
        gives="at each time of an event, over its rows still watched, the sum of risks and of columns by risk, the "
        "same over those with the event at that time, and a matrix of products of columns; rows that stop being "
        "watched between two neighbouring times can be read off the difference, a single one as it is",
        by_row=False,
    )
    def give_sums(self, party: Party, times: Array, beta: Array, hazard: Array, tied: Array) -> Any:
        """Sum risks and columns over this party's rows still watched at each time."""
        self._refuse_without_steps(party)
        x, y = self._rows(party)
        found = risk_sums(x, y, beta, times, Hazard(hazard, tied))
        sent = found._asdict() | {"products": _half(found.products)}
        return self._hidden(party, {name: 0 * part for name, part in sent.items()} if self._few(y) else sent)

    def _refuse_without_steps(self, party: Party) -> None:
        if not self.steps:
            raise Refused(f"this method's settings take no Newton steps, for which alone {party.name} gives times")

    def _few(self, y: Array) -> bool:
        return len(y) < max(self.least_rows, 1)

    def _hidden(self, party: Party, sent: dict[str, Any]) -> Any:
        return sent if self.sums is None else self.sums.hide(party, sent, often=self.steps > 0)

    def _rows(self, party: Party) -> tuple[Array, Array]:
        """A party's training rows, with times rounded as all round them."""
        x, y = labelled(party, "train")
        times = np.abs(y)
        if self.every:
            times = self.every * np.ceil(times / self.every)
        if self.sums is not None and self.steps:
            times = np.minimum(times, self._grid(party)[-1])
        return x.astype(np.float64), signed_times(times, events_of(y))

    def _grid(self, party: Party) -> Array:
        """The times at which there may be events, as all know them beforehand."""
        scale = task_of(party).scale
        most = task_of(party).horizon + (_SPREADS * scale.spread if scale else 0.0)
        return self.every * np.arange(ceil(most / self.every) + 1)

    def _estimate(self, party: Party) -> dict[str, Any]:
        """How the likelihood of this party's rows falls about its own model; zeros for few rows."""
        x, y = self._rows(party)
        width = x.shape[1]
        if self._few(y):
            # Under masks nobody sees who has few rows: zeros add nothing.
            return _nothing(width)
        # About the model of a stranger's rows curvature says little, so that a weight beyond 1 has to be earned.
        own = fit_local(x, y, max(self.penalty * len(y), float(width)))
        events, exposed = own.expected(task_of(party).horizon)
        return {
            "curvature": _half(own.step.curvature),
            "slope": own.step.curvature @ own.beta + own.step.slope,
            "rows": float(len(y)),
            "events": float(own.counts.sum()),
            "by horizon": events,
            "exposed": exposed,
        }

    def _start_like(self, hub: Party, width: int) -> dict[str, Any]:
        """What parties send first, in its names and shapes."""
        like = _nothing(width)
        if self.sums is None or not self.steps:
            return like
        return like | {"counts": np.zeros(len(self._grid(hub))), "columns": np.zeros(width)}

    def _added(self, hub: Party, peers: Peers, like: Mapping[str, Any]) -> dict[str, Any]:
        """What all parties sent first, added up."""
        question = self.give_start if self.steps else self.give_estimate
        if self.sums is not None:
            found = self.sums.over(self, peers, question, like).parts
            return found | ({"times": self._grid(hub), "counts": np.round(found["counts"])} if self.steps else {})
        answers = peers.tolerant.ask(question)
        if not answers:
            raise ValueError("no party answered, so that there is nothing to learn from")
        sent = [_checked(name, answer, like, timed=bool(self.steps)) for name, answer in answers.items()]
        total: dict[str, Any] = {name: sum(one[name] for one in sent) for name in like}
        hub.memory["asked"] = list(answers)
        if self.steps:
            times, places = np.unique(np.concatenate([one["times"] for one in sent]), return_inverse=True)
            counts = np.bincount(places, np.concatenate([one["counts"] for one in sent]), len(times))
            total |= {"times": times, "counts": counts, "columns": sum(one["columns"] for one in sent)}
        return total

    def _sums_at(
        self, hub: Party, peers: Peers, beta: Array, times: Array, counts: Array, hazard: Hazard | None
    ) -> RiskSums:
        """The sums over all parties' rows."""
        width, before = len(beta), hazard or Hazard(np.zeros(len(times)), np.zeros(len(times)))
        asked = {"times": times, "beta": beta, "hazard": before.all_rows, "tied": before.tied}
        by_time = np.zeros((len(times), width))
        like = {"risks": np.zeros(len(times)), "columns": by_time, "tied_risks": np.zeros(len(times))}
        like |= {"tied_columns": by_time, "products": np.zeros(width * (width + 1) // 2)}
        if self.sums is not None:
            total = self.sums.over(self, peers, self.give_sums, like, **asked).parts
        else:
            # Whoever was in the first exchange is in the counts of events, so that its rows are needed to the end.
            answers = peers.only(tuple(hub.memory["asked"])).ask(self.give_sums, **asked)
            sent = [_checked(name, answer, like) for name, answer in answers.items()]
            total = {name: sum(one[name] for one in sent) for name in like}
        return RiskSums(**total | {"products": _whole(total["products"], width)})


def _nothing(width: int) -> dict[str, Any]:
    half = width * (width + 1) // 2
    numbers = dict.fromkeys(("rows", "events", "by horizon", "exposed"), 0.0)
    return {"curvature": np.zeros(half), "slope": np.zeros(width)} | numbers


def _checked(name: str, answer: Any, like: Mapping[str, Any], *, timed: bool = False) -> dict[str, Any]:
    """A party's sums, if they are of the names and shapes due, and finite."""
    parts = answer if isinstance(answer, dict) else {}
    sound = like.keys() <= parts.keys() and all(
        np.shape(parts[key]) == np.shape(one) and np.isfinite(parts[key]).all() for key, one in like.items()
    )
    if sound and timed:
        times, counts, columns = (np.asarray(parts.get(key, np.nan)) for key in ("times", "counts", "columns"))
        sound = times.ndim == 1 and times.shape == counts.shape and columns.shape == np.shape(parts["slope"])
        sound = sound and bool(np.isfinite(columns).all() and (times >= 0).all() and (counts > 0).all())
    if not sound:
        raise WireError(f"{name} did not send the sums of this model; check that its plan and columns are the same")
    return parts


def _half(matrix: Array) -> Array:
    return matrix[np.triu_indices(len(matrix))]


def _whole(half: Array, width: int) -> Array:
    matrix = np.zeros((width, width))
    matrix[np.triu_indices(width)] = half
    return matrix + np.triu(matrix, 1).T


def _model(beta: Array, intercept: float) -> Weights:
    return {"coefficients": beta, "intercept": np.array([intercept])}
