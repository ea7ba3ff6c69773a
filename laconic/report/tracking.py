"""Results in MLflow: settings as params, figures as metrics, the page as an artifact."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from laconic.deploy.result import Result
from laconic.errors import MissingExtra
from laconic.report.comparisons import costs_of, flatten
from laconic.report.page import render_page

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

_LONGEST = 6000
"""The most letters that MLflow takes for a param."""


def track(
    results: Sequence[Result], store: str, experiment: str = "laconic", *, commands: Mapping[str, str] | None = None
) -> list[str]:
    """Write each result as one MLflow run, with its page and its JSON as artifacts; gives the ids of the runs.

    Args:
        store: where MLflow keeps runs: a server's address, `sqlite:///file.db`, or `file:folder`. MLflow asks for
            MLFLOW_ALLOW_FILE_STORE=true before it writes to a folder.
        experiment: the runs' experiment; made if it is not there.
        commands: how to run them again, for the page.
    """
    client = _client(store)
    found = client.get_experiment_by_name(experiment)
    place = client.create_experiment(experiment) if found is None else found.experiment_id
    return [_write(client, place, result, commands or {}) for result in results]


def _write(client: "MlflowClient", place: str, result: Result, commands: Mapping[str, str]) -> str:
    name = f"{result.method['type']}, seed {result.seed}"
    run = client.create_run(place, run_name=name, tags={"laconic.method": str(result.method["type"])})
    known = str(run.info.run_id)
    try:
        for key, value in _params(result).items():
            client.log_param(known, key, str(value)[:_LONGEST])
        for key, number in _metrics(result).items():
            client.log_metric(known, key, number)
        for step, look in enumerate(result.curve):
            client.log_metric(known, f"look.{look.score.metric}", look.score.value, step=step)
            client.log_metric(known, "look.bytes", float(look.bytes), step=step)
        client.log_text(known, render_page([result], commands), "report.html")
        client.log_text(known, result.to_json().decode(), "result.json")
    except BaseException:
        client.set_terminated(known, "FAILED")
        raise
    client.set_terminated(known)
    return known


def _params(result: Result) -> dict[str, object]:
    settings = {f"method.{key}": value for key, value in flatten(result.method).items()}
    facts = {"data": result.data.get("name"), "parties": ", ".join(result.parties), "hub": result.hub}
    facts |= {"seed": result.seed, "stopped": result.stopped}
    return settings | facts | {f"version.{name}": version for name, version in result.versions.items()}


def _metrics(result: Result) -> dict[str, float]:
    """Figures with one number; an epsilon only beside the count of what it does not cover."""
    found = dict(result.metrics)
    for name, cost in costs_of(result).items():
        for key in ("bytes_up", "bytes_down", "rounds", "seconds"):
            found[f"{name}.{key}"] = float(getattr(cost, key))
    found["open_releases"] = float(sum(release.label == "open" for release in result.releases))
    if result.privacy is not None and result.privacy.epsilon is not None:
        found |= {"epsilon": result.privacy.epsilon, "delta": result.privacy.delta}
    return found


def _client(store: str) -> "MlflowClient":
    try:
        from mlflow.tracking import MlflowClient
    except ImportError as problem:
        raise MissingExtra("MLflow", "mlflow") from problem

    return MlflowClient(tracking_uri=store)
