"""Learning labels: a net, a task and rows in, plain arrays out; and predictions from them."""

from collections.abc import Sequence

from laconic.core.task import Task
from laconic.core.values import Array, Rng, Weights
from laconic.learn import heads
from laconic.learn.nets import AnyNet, initialise, load, to_tensor, weights_of
from laconic.learn.sgd import Trainer, evaluate


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
        inputs: arrays with a row for each label.
        y: the labels, as the task codes them.
        trainer: how to train.
        rng: chance for first weights, order of rows and dropout.
        valid: inputs and labels to stop early by, if the trainer has patience; no rows are as good as None.
        what: a name for the work, shown with its progress.

    Returns:
        The net's weights, and for regression the labels' scale.
    """
    scale = heads.scale_of(task, y)
    valid = valid if valid is not None and len(valid[1]) else None
    module = initialise(net.model([x.shape[1:] for x in inputs], task.outputs), rng)
    trainer.fit(
        module,
        [to_tensor(x) for x in inputs],
        heads.to_targets(task, y, scale),
        heads.loss_of(task),
        rng,
        valid=valid and ([to_tensor(x) for x in valid[0]], heads.to_targets(task, valid[1], scale)),
        what=what,
    )
    return {**weights_of(module), **scale}


def predict_supervised(net: AnyNet, task: Task, weights: Weights, inputs: Sequence[Array]) -> Array:
    """Predictions for rows, from the same net, task and what `fit_supervised` returned."""
    scale = {name: values for name, values in weights.items() if name in (heads.MEAN, heads.SD)}
    module = net.model([x.shape[1:] for x in inputs], task.outputs)
    load(module, {name: values for name, values in weights.items() if name not in scale})
    return heads.to_predictions(task, evaluate(module, [to_tensor(x) for x in inputs]), scale)
