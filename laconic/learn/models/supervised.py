"""Learning labels: what every learner can do; a net, a task and rows in, plain arrays out, and predictions from them.

Many models are fitted at once; shards that hold one class only are models too.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from math import prod
from typing import Any, ClassVar, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from laconic.errors import PlanError, WireError
from laconic.learn.device import device_now
from laconic.learn.models.cox import fit_cox
from laconic.learn.nets.layers import torch_generator, uniform
from laconic.learn.nets.nets import AnyNet, Net, initialise, load, to_tensor, weights_of
from laconic.learn.train import losses as heads
from laconic.learn.train.sgd import Pulls, PullTrainer, Sgd, Trainer, evaluate
from laconic.tables.task import Task
from laconic.threads import limit_threads
from laconic.values import Array, Rng, Settings, Weights, flat

FILL = ("fill.mean", "fill.sd", "fill.block")
GAPS = "gaps.mean"
"""The array of a model that holds what takes the place of gaps; only a model that learnt from gaps has it."""

_HIDDEN = 0.15
"""The share of a batch's rows for which a block that is missing elsewhere is taken away."""


def learn_gaps(x: Array) -> Weights:
    """What takes the place of gaps: the mean of each column where it is known; nothing if there is no gap."""
    missing = np.isnan(x)
    if not missing.any():
        return {}
    total = np.where(missing, 0.0, x).sum(axis=0, dtype=np.float64)
    return {GAPS: (total / np.maximum(len(x) - missing.sum(axis=0), 1)).astype(np.float32)}


def without_gaps(weights: Weights, x: Array) -> Array:
    """The rows with their gaps filled; with zeros, if the model never learnt from gaps."""
    missing = np.isnan(x)
    return np.where(missing, weights.get(GAPS, np.float32(0)), x).astype(x.dtype) if missing.any() else x


def apart(weights: Weights) -> Weights:
    """A model's weights without what takes the place of gaps."""
    return {name: values for name, values in weights.items() if name != GAPS}


def hide_blocks(module: nn.Module, x: Array, gaps: Weights, rng: Rng) -> None:
    """Have a net's last input lack some blocks, drawn anew for each batch, while it is trained.

    Args:
        x: the last input's rows with their gaps: columns that are missing together are a block.
        gaps: what takes their place.
    """
    blocks, draws, mean = blocks_of(flat(x)).reshape(x.shape[1:]), torch_generator(rng), to_tensor(gaps[GAPS])
    masks = [torch.tensor(blocks == number, device=device_now()) for number in range(int(blocks.max()) + 1)]

    def hide(module: nn.Module, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
        rows: Tensor = inputs[-1]
        for mask in masks if module.training else ():
            drawn = (uniform((len(rows),), draws) < _HIDDEN).to(device_now())
            rows = torch.where(drawn.view(-1, *[1] * (rows.dim() - 1)) & mask, mean, rows)
        return (*inputs[:-1], rows)

    module.register_forward_pre_hook(hide)


def blocks_of(x: Array) -> Array:
    """For each column the number of its block, columns that are missing in the same rows; -1 if it is never missing."""
    missing = np.isnan(x)
    known: dict[bytes, int] = {}
    found = np.full(x.shape[1], -1, dtype=np.int32)
    for column in np.flatnonzero(missing.any(axis=0)):
        found[column] = known.setdefault(np.packbits(missing[:, column]).tobytes(), len(known))
    return found


def learn_fill(x: Array, blocks: Array) -> Weights:
    """What `filled` needs: mean and standard deviation of each column, and its block."""
    known = ~np.isnan(x)
    count = np.maximum(known.sum(axis=0), 1)
    mean = np.where(known, x, 0.0).sum(axis=0, dtype=np.float64) / count
    sd = np.sqrt((np.where(known, x - mean, 0.0) ** 2).sum(axis=0) / count)
    return dict(zip(FILL, (mean, np.where(sd > 0, sd, 1.0), blocks), strict=True))


def filled(fill: Weights, x: Array, farthest: float | None = None) -> Array:
    """Standardised columns with zeros for what is missing, and beside them a mark for each block that is missing."""
    mean, sd, blocks = (fill[name] for name in FILL)
    numbers = np.nan_to_num((x - mean) / sd, nan=0.0)
    if farthest is not None:
        numbers = np.clip(numbers, -farthest, farthest)
    first = [int(np.argmax(blocks == number)) for number in range(int(blocks.max(initial=-1)) + 1)]
    return np.concatenate([numbers, np.isnan(x[:, first])], axis=1, dtype=np.float32)


Shard: TypeAlias = tuple[Array, Array]
"""Prepared rows and their labels."""

CONSTANT = "constant"
"""The one array of a model that always says the same class, or the same number."""


class Learner(Settings, frozen=True):
    """Abstract: settings that learn labels from rows.

    To bring a model of your own, write a frozen subclass with `fit` and `predict`; what is learnt must be plain arrays,
    for it is sent and kept as such. Override `fit_many` where many models are faster together, and `check` to refuse
    arrays that your `predict` could not stand. Such a class is known to your own process only: plans and parties in
    other processes take the classes of `laconic.learn.models.learners`.
    """

    takes_gaps: ClassVar[bool] = False
    """Whether rows may have NaN where a party sent nothing."""

    @property
    def cuts(self) -> tuple[str, ...]:
        """The rows that `fit` looks at: training rows, unless it also validates."""
        return ("train",)

    @abstractmethod
    def fit(self, task: Task, x: Array, y: Array, rng: Rng, valid: Shard | None = None) -> Weights:
        """Learn from rows, of at least two classes if there are classes; `valid` is for learners that stop early."""

    def fit_all(
        self,
        task: Task,
        x: Array,
        y: Array,
        rng: Rng,
        valid: Shard | None = None,
        judged: int | None = None,
        groups: Array | None = None,
        own: int = 0,
    ) -> Weights:
        """Learn from rows of which the first `judged` are like those to be predicted; None for all of them.

        `groups` are numbers, the same for rows that belong together; learners that hold rows out keep these together.
        The first `own` columns are the label holder's, so that learners that choose may do without all others.
        """
        return self.fit(task, x, y, rng, valid)

    @abstractmethod
    def predict(self, task: Task, weights: Weights, x: Array) -> Array:
        """Probabilities or numbers for rows, in the shape of `Task.shape`."""

    def fit_many(self, task: Task, shards: Sequence[Shard], rng: Rng) -> list[Weights]:
        """A model for each shard."""
        return [self.fit(task, x, y, own) for (x, y), own in zip(shards, rng.spawn(len(shards)), strict=True)]

    def check(self, task: Task, weights: Weights, shape: tuple[int, ...]) -> None:
        """Raise an error if these arrays, which may come from anyone, are not a model for rows of this shape."""


def fit_each(fit: Callable[[Array], Weights], y: Array) -> Weights:
    """A model of the labels, or one of each of several numbers per row, its arrays named `0/...`, `1/...`."""
    if y.ndim == 1:
        return fit(y)
    models = [fit(np.ascontiguousarray(numbers)) for numbers in y.T]
    return {f"{place}/{name}": values for place, model in enumerate(models) for name, values in model.items()}


def predict_each(predict: Callable[[Weights], Array], weights: Weights) -> Array:
    """What the model, or each of several, predicts."""
    models: dict[str, Weights] = {}
    for key, values in weights.items():
        place, _, name = key.rpartition("/")
        models.setdefault(place, {})[name] = values
    found = [predict(model) for model in models.values()]
    return found[0] if "" in models else np.column_stack(found)


def refuse_missing(model: str, x: Array) -> None:
    """Refuse rows that lack numbers, for a model that cannot learn from them."""
    lacking = int(np.isnan(flat(x)).any(axis=1).sum())
    if lacking:
        raise PlanError(
            f"{model} takes no missing numbers, and {lacking:,} of {len(x):,} rows lack some; use Best(), Boosted() or "
            "Forest(), or an Estimator whose pipeline begins with sklearn.impute.SimpleImputer"
        )


def fit_models(learner: Learner, task: Task, shards: Sequence[Shard], rng: Rng) -> list[Weights]:
    """A model for each shard that has rows; for a shard of one class or number, the model that always says it."""
    filled = [(x, y) for x, y in shards if len(y)]
    models: list[Weights] = [{CONSTANT: np.unique(y)} for _, y in filled]
    varied = [place for place, model in enumerate(models) if len(model[CONSTANT]) > 1]
    for place, model in zip(varied, learner.fit_many(task, [filled[i] for i in varied], rng), strict=True):
        models[place] = model
    return models


def predict_model(learner: Learner, task: Task, weights: Weights, x: Array) -> Array:
    """Probabilities or numbers for rows from one of the models of `fit_models`."""
    if CONSTANT not in weights:
        return learner.predict(task, weights, x)
    if task.kind == "regression":
        return np.full(len(x), float(weights[CONSTANT][0]))
    code = int(weights[CONSTANT][0])
    if task.kind == "binary":
        return np.full(len(x), float(code), dtype=np.float32)
    return np.repeat(np.eye(len(task.classes), dtype=np.float32)[[code]], len(x), axis=0)


def classes_of(learner: Learner, task: Task, models: Sequence[Weights], x: Array) -> Array:
    """The class that each model gives each row, shape (models, rows)."""
    decided = [task.decide(predict_model(learner, task, weights, x)) for weights in models]
    return np.array(decided, dtype=np.int64).reshape(len(models), len(x))


def numbers_of(learner: Learner, task: Task, models: Sequence[Weights], x: Array) -> Array:
    """The mean of the numbers that models give each row."""
    return np.asarray(np.mean([predict_model(learner, task, weights, x) for weights in models], axis=0))


def check_model(learner: Learner, task: Task, weights: object, shape: tuple[int, ...], sender: str) -> Weights:
    """The weights, if they can be a model of this learner for rows of this shape; else a `WireError` says why not."""
    try:
        model = _arrays(weights)
        if CONSTANT in model:
            _check_constant(model, task)
        else:
            learner.check(task, model, shape)
    except (ValueError, KeyError, TypeError) as problem:
        raise WireError(
            f"the model from {sender} is no {type(learner).__name__} for these rows: {problem}"
        ) from problem
    return model


def _arrays(weights: object) -> Weights:
    if not isinstance(weights, dict) or not all(isinstance(one, np.ndarray) for one in weights.values()):
        raise ValueError("it is not arrays by name")
    if not all(array.dtype.kind in "iuf" for array in weights.values()):
        raise ValueError("it holds something else than numbers")
    if not all(np.isfinite(array).all() for array in weights.values()):
        raise ValueError("it holds numbers that are not finite; if the party trained it so, a smaller lr may help")
    return weights


def _check_constant(model: Weights, task: Task) -> None:
    code, classes = model[CONSTANT], len(task.classes)
    if task.kind == "regression":
        if len(model) != 1 or code.shape != (1,) or code.dtype.kind != "f":
            raise ValueError("a constant must be one number")
        return
    if len(model) != 1 or code.shape != (1,) or code.dtype.kind not in "iu" or not 0 <= code[0] < classes:
        raise ValueError(f"a constant must be one class code from 0 to {classes - 1}")


def fit_supervised(
    net: AnyNet,
    task: Task,
    inputs: Sequence[Array],
    y: Array,
    trainer: Trainer,
    rng: Rng,
    *,
    valid: tuple[Sequence[Array], Array] | None = None,
    what: str = "training",
) -> Weights:
    """Train a net on labelled rows.

    Args:
        net: an `Mlp` or `Cnn` for one input; a `Joint` for (own, received), or for (received) alone.
        task: what the labels are.
        inputs: arrays with a row for each label; the last may have gaps, NaN where a party sent nothing.
        y: the labels, as the task codes them.
        trainer: how to train.
        rng: randomness for first weights, order of rows and dropout.
        valid: inputs and labels to stop early by, if the trainer has patience; no rows are as good as None.
        what: a name for the work, shown with its progress.

    Returns:
        The net's weights, for regression the labels' scale, unless parties agreed on one, and what fills gaps.
    """
    scale, gaps = heads.scale_of(task, y), learn_gaps(inputs[-1])
    valid = valid if valid is not None and len(valid[1]) else None
    module = initialise(net.model([x.shape[1:] for x in inputs], task.outputs), rng)
    if gaps:
        hide_blocks(module, inputs[-1], gaps, rng)
    trainer.fit(
        module,
        [to_tensor(without_gaps(gaps, x)) for x in inputs],
        heads.to_targets(task, y, scale),
        heads.loss_of(task),
        rng,
        valid=valid and ([to_tensor(without_gaps(gaps, x)) for x in valid[0]], heads.to_targets(task, valid[1], scale)),
        what=what,
    )
    return {**weights_of(module), **heads.kept_scale(task, scale), **gaps}


def predict_supervised(net: AnyNet, task: Task, weights: Weights, inputs: Sequence[Array]) -> Array:
    """Predictions for rows, from the same net, task and what `fit_supervised` returned."""
    scale = heads.scale_in(task, weights)
    module = net.model([x.shape[1:] for x in inputs], task.outputs)
    load(module, {name: values for name, values in apart(weights).items() if name not in scale})
    return heads.to_predictions(task, evaluate(module, [to_tensor(without_gaps(weights, x)) for x in inputs]), scale)


def fit_linear(task: Task, x: Array, y: Array, penalty: float) -> Weights:
    """Fit by the library's own exact solvers; `penalty` weighs the squared size of the coefficients."""
    from sklearn.linear_model import LogisticRegression, Ridge

    flat = x.reshape(len(x), -1).astype(np.float64)
    if task.kind == "survival":
        return fit_cox(task, flat, y, penalty)
    if task.by_log:
        from sklearn.linear_model import PoissonRegressor

        with limit_threads():
            # The library weighs the penalty against the mean of losses, not their sum.
            poisson = PoissonRegressor(alpha=penalty / len(y), max_iter=1000).fit(flat, y)
        return {"coefficients": poisson.coef_[None], "intercept": np.array([poisson.intercept_])}
    if task.kind == "regression":
        with limit_threads():  # The library may just have been loaded, with threads of its own.
            ridge = Ridge(alpha=penalty).fit(flat, y)
        return {"coefficients": ridge.coef_[None], "intercept": np.array([ridge.intercept_])}
    if len(np.unique(y)) == 1:
        return _shares_only(task, flat, y)
    with limit_threads():
        model = LogisticRegression(C=1.0 / penalty, max_iter=1000).fit(flat, y)
    coefficients, intercept = model.coef_, model.intercept_
    if task.kind == "multiclass":
        if len(model.classes_) == 2:
            # The library gives one row of coefficients for two classes: the second against the first.
            coefficients, intercept = np.vstack([0 * coefficients, coefficients]), np.append(0.0, intercept)
        coefficients, intercept = (
            _at(model.classes_, coefficients, 0.0, task),
            _at(model.classes_, intercept, -1e3, task),
        )
    return {"coefficients": coefficients, "intercept": intercept}


def _shares_only(task: Task, x: Array, y: Array) -> Weights:
    """The linear model of rows that are all of one class, which the solver refuses: smoothed shares of the classes."""
    logits = np.log(np.bincount(y, minlength=len(task.classes)) + 0.5)
    intercept = logits[1:] - logits[:1] if task.kind == "binary" else logits
    return {"coefficients": np.zeros((len(intercept), x.shape[1])), "intercept": intercept}


def predict_linear(task: Task, weights: Weights, x: Array) -> Array:
    """Probabilities, numbers, or risks, for rows."""
    from scipy.special import expit, softmax

    outputs = x.reshape(len(x), -1).astype(np.float64) @ weights["coefficients"].T + weights["intercept"]
    if task.kind == "multiclass":
        return np.asarray(softmax(outputs, axis=1))
    if task.by_log:
        return np.asarray(np.exp(np.minimum(outputs[:, 0], np.log(heads.agreed_scale(task)[heads.MEAN]) + 10.0)))
    return np.asarray(expit(outputs[:, 0]) if task.kind == "binary" else outputs[:, 0])


def _at(classes: Array, values: Array, otherwise: float, task: Task) -> Array:
    """Values of the classes seen, in the places of all classes; `otherwise` for a class never seen."""
    full = np.full((task.outputs, *values.shape[1:]), otherwise)
    full[classes] = values
    return full


def fit_from(
    net: Net,
    task: Task,
    start: Weights,
    rows: tuple[Array, Array],
    trainer: Sgd | PullTrainer,
    rng: Rng,
    *,
    pull: float = 0.0,
    push: Weights | None = None,
) -> Weights:
    """Train on labelled rows from given weights; without rows the weights stay as they are.

    Args:
        net: the form of the net.
        task: classes, or numbers of whose scale parties agreed.
        start: the weights to start from.
        rows: prepared rows and their labels.
        trainer: how to train.
        rng: randomness for the order of rows.
        pull: weight of half the squared distance from `start`, which is added to the loss.
        push: added to the gradient of every step, by name; None for nothing.
    """
    x, y = rows
    if len(y) == 0:
        return start
    module = load(net.build(x.shape[1:], task.outputs), start)
    anchors = {name: values.detach().clone() for name, values in module.named_parameters()}
    pushes = {name: to_tensor(values) for name, values in (push or {}).items()}
    targets = heads.to_targets(task, y, heads.agreed_scale(task))
    if not isinstance(trainer, Sgd):
        pulls = _pulls(pull, anchors, pushes) if pull or pushes else None
        trainer.fit(module, [to_tensor(x)], targets, heads.loss_of(task), rng, what="local rows", pulls=pulls)
        return {name: values.copy() for name, values in weights_of(module).items()}

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        total = heads.loss(task, outputs, targets)
        for name, values in module.named_parameters():
            if pull:
                total = total + pull / 2 * (values - anchors[name]).square().sum()
            if pushes:
                # A term whose gradient is the push itself.
                total = total + (values * pushes[name]).sum()
        return total

    trainer.fit(module, [to_tensor(x)], targets, loss, rng, what="local rows")
    return {name: values.copy() for name, values in weights_of(module).items()}


def _pulls(pull: float, anchors: dict[str, Tensor], pushes: dict[str, Tensor]) -> Pulls:
    """What the pull to an anchor and a push add to a gradient."""

    def added(name: str, values: Tensor) -> Tensor:
        return pull * (values - anchors[name]) + (pushes[name] if pushes else 0.0)

    return added


def fit_to_shares(net: Net, task: Task, start: Weights, rows: tuple[Array, Array], trainer: Sgd, rng: Rng) -> Weights:
    """Train from given weights towards probabilities or numbers, shape as `Task.shape`: distillation."""
    x, shares = rows
    wanted = (
        heads.to_targets(task, shares, heads.agreed_scale(task)) if task.kind == "regression" else to_tensor(shares)
    )
    module = load(net.build(x.shape[1:], task.outputs), start)

    def loss(outputs: Tensor, targets: Tensor) -> Tensor:
        if task.kind == "binary":
            return functional.binary_cross_entropy_with_logits(outputs.squeeze(1), targets)
        return functional.cross_entropy(outputs, targets) if task.classes else heads.loss(task, outputs, targets)

    trainer.fit(module, [to_tensor(x)], wanted, loss, rng, what="distilling")
    return {name: values.copy() for name, values in weights_of(module).items()}


def mean_of(models: list[Weights], shares: list[float]) -> Weights:
    """The mean of models, weighted by shares that need not sum to 1."""
    total = sum(shares)
    if total <= 0:
        raise ValueError("no party has any rows to learn from; deal the rows anew")
    parts = list(zip(models, shares, strict=True))
    return {
        name: np.sum([share / total * model[name].astype(np.float64) for model, share in parts], axis=0).astype(
            np.float32
        )
        for name in models[0]
    }


Top: TypeAlias = AnyNet | Learner
"""A net of own columns and received numbers, or a learner that sees all of them side by side."""


def fit_top(
    top: Top,
    task: Task,
    inputs: Sequence[Array],
    y: Array,
    trainer: Trainer,
    rng: Rng,
    *,
    valid: tuple[Sequence[Array], Array] | None = None,
    judged: int | None = None,
    groups: Array | None = None,
) -> Weights:
    """Learn labels from own columns and received numbers; `judged` and `groups`: see `Learner.fit_all`."""
    if isinstance(top, Learner):
        own = prod(inputs[0].shape[1:]) if len(inputs) > 1 else 0
        return top.fit_all(task, _beside(inputs), y, rng, valid and (_beside(valid[0]), valid[1]), judged, groups, own)
    return fit_supervised(top, task, inputs, y, trainer, rng, valid=valid, what="label holder")


def predict_top(top: Top, task: Task, weights: Weights, inputs: Sequence[Array]) -> Array:
    """Predictions for rows, from the same model and what `fit_top` returned."""
    if isinstance(top, Learner):
        return top.predict(task, weights, _beside(inputs))
    return predict_supervised(top, task, weights, inputs)


def _beside(inputs: Sequence[Array]) -> Array:
    return np.concatenate([x.reshape(len(x), prod(x.shape[1:])) for x in inputs], axis=1)
