from pathlib import Path

import pytest

from laconic import Result
from laconic.report.tracking import track
from tests.report.results import look, paid, result

mlflow = pytest.importorskip("mlflow", reason="needs pip install 'laconic-fl[mlflow]'")


def test_a_result_becomes_a_run_in_a_local_file_store(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    store = f"file:{tmp_path}/runs"
    one = result(privacy=paid(), curve=(look(4000, 4, 0.8), look(8000, 8, 0.9)))
    first, second = track([one, result(seed=1)], store, "people")
    client = mlflow.tracking.MlflowClient(tracking_uri=store)
    run = client.get_run(first)
    assert run.info.status == "FINISHED"
    assert run.data.params["method.trainer.lr"] == "0.001"
    assert run.data.params["seed"] == "0"
    assert run.data.metrics["auc"] == 0.98
    assert run.data.metrics["fit.bytes_up"] == 1400
    assert (run.data.metrics["epsilon"], run.data.metrics["open_releases"]) == (2.0, 1.0)
    assert [point.value for point in client.get_metric_history(first, "look.auc")] == [0.8, 0.9]
    assert "epsilon" not in client.get_run(second).data.metrics
    assert {file.path for file in client.list_artifacts(first)} == {"report.html", "result.json"}
    assert Result.from_json(Path(client.download_artifacts(first, "result.json")).read_bytes()) == one
    assert client.get_experiment_by_name("people").experiment_id == run.info.experiment_id
