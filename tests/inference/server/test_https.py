"""The real thing: servers in processes of their own, HTTPS, tokens, client certificates, parties asked live."""

import json
import shutil
import socket
import ssl
import subprocess
import sys
import time
from contextlib import contextmanager
from http.client import HTTPSConnection

import numpy as np
import pandas
import pytest
from click.testing import CliRunner

from benchmarks.certificates import write_certificates
from laconic.cli import main
from laconic.core import Question, encode
from laconic.inference.bundle import load_part
from laconic.inference.predict import cut_name
from tests.inference.server.conftest import HEADERS, TOKEN

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def place(trained, folder, tmp_path_factory):
    """Everything that the servers need: certificates, tokens, the model, and new rows of each party."""
    path = tmp_path_factory.mktemp("place")
    write_certificates(path)
    write_certificates(path, "stranger", ["intruder"])
    (path / "tokens.txt").write_text(TOKEN + "\n")
    (path / "shop.toml").write_text(
        'name = "shop"\n[data]\nsource = "shop.csv"\nkey = "id"\n[allow]\nmethods = ["FedOnce"]\n'
    )
    shutil.copytree(folder, path / "model")
    for name, table in trained.federation.tables.items():
        new = table.as_new("test")
        frame = pandas.DataFrame(new.raw, columns=[column.name for column in new.columns])
        frame.insert(0, "id", new.keys)
        frame.to_csv(path / f"{name}.csv", index=False)
    return path


@contextmanager
def serving(place, model, *words):
    """A server in a process of its own, and its port."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "laconic", "serve", model, "--port", str(port), *words]
    command += ["--certificate", "server.pem", "--key", "server.key"]
    process = subprocess.Popen(command, cwd=place, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(600):
            if process.poll() is not None:
                raise AssertionError(process.stderr.read())
            with socket.socket() as line:
                if line.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.1)
        yield port, process
    finally:
        process.terminate()
        process.communicate(timeout=30)


def ask(place, port, path="/health", body=None, *, certificate=None, headers=HEADERS):
    context = ssl.create_default_context(cafile=str(place / "authority.pem"))
    if certificate is not None:
        context.load_cert_chain(place / f"{certificate}.pem", place / f"{certificate}.key")
    line = HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
    line.request("GET" if body is None else "POST", path, None if body is None else json.dumps(body), headers)
    answer = line.getresponse()
    return answer.status, json.loads(answer.read())


def refuse_other_questions(place, port):
    """A party answers the questions of predictions only, and only who has the token."""
    statuses = {}
    context = ssl.create_default_context(cafile=str(place / "authority.pem"))
    for step, headers in (("learn_and_send", HEADERS), ("find_rows", HEADERS), ("find_rows", {})):
        payload = {"ids": ["1", "2"], "rows": cut_name(["1", "2"])} if step == "find_rows" else {}
        line = HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
        line.request("POST", "/answer", encode(Question(step, "fit", 1, payload)), headers)
        statuses[step, bool(headers)] = line.getresponse().status
    assert statuses == {("learn_and_send", True): 403, ("find_rows", True): 200, ("find_rows", False): 401}


def test_parties_are_asked_live_and_made_up_for_when_they_are_gone(place, trained):
    ids = trained.federation.tables["bank"].as_new("test").keys.tolist()
    expected = trained.predict("test")
    tokens = ("--tokens", "tokens.txt")
    with (
        serving(place, "model/shop", "--party", "shop.toml", *tokens) as (shop, process),
        serving(place, "model/insurer", "--no-rules", "--files", "insurer.csv", *tokens) as (insurer, _),
    ):
        where = ("--ask", f"shop=https://127.0.0.1:{shop}", "--ask", f"insurer=https://127.0.0.1:{insurer}")
        words = ("--ask-token", "tokens.txt", "--ask-authority", "authority.pem", "--files", "bank.csv", *tokens)
        words = ("--deadline", "30", *words)
        with serving(place, "model/bank", *where, *words) as (hub, _):
            status, answer = ask(place, hub, "/predict", {"ids": ids})
            assert status == 200
            found = np.float32([one["probabilities"]["benign"] for one in answer["scores"]])
            assert {one["answered_by"] for one in answer["scores"]} == {"all"}
            assert np.allclose(found, expected, atol=1e-6)
            refuse_other_questions(place, shop)
            process.terminate()
            process.wait(timeout=30)
            for way in ("refit", "zeros", "abstain"):
                scores = ask(place, hub, "/predict", {"ids": ids, "absent": way})[1]["scores"]
                assert {one["answered_by"] for one in scores} == {way}
                assert {tuple(one["parties"]) for one in scores} == {("insurer",)}
    words = [entry.words for entry in load_part(place / "model" / "shop").ledger.entries]
    assert "which of these people it knows" in words


def test_a_client_certificate_lets_in_and_no_other_does(place):
    with serving(place, "model", "--client-authority", "authority.pem") as (port, _):
        assert ask(place, port, certificate="client", headers={})[0] == 200
        for stranger in (None, "intruder"):
            with pytest.raises((ssl.SSLError, ConnectionError)):
                ask(place, port, certificate=stranger, headers={})


def test_plain_http_is_refused_where_others_could_listen(place):
    words = ["serve", str(place / "model"), "--host", "0.0.0.0", "--tokens", str(place / "tokens.txt")]  # noqa: S104
    outcome = CliRunner().invoke(main, words)
    assert outcome.exit_code == 2
    assert "HTTPS is needed" in outcome.stderr
