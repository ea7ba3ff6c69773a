import json

import pytest

from laconic.deploy.result import Job, read_records, run_jobs


def job(number, ran):
    def measure():
        ran.append(number)
        return {"score": number * 10}

    return Job({"number": number}, measure)


def test_a_job_that_is_done_is_not_run_again(tmp_path):
    path, ran = tmp_path / "runs.jsonl", []
    run_jobs([job(1, ran)], path)
    records = run_jobs([job(1, ran), job(2, ran)], path)
    assert ran == [1, 2]
    assert [record["score"] for record in records] == [10, 20]


def test_what_is_done_stays_when_a_later_job_is_stopped(tmp_path):
    path, ran = tmp_path / "runs.jsonl", []

    def stop():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_jobs([job(1, ran), Job({"number": 2}, stop)], path)
    run_jobs([job(1, ran), job(2, ran)], path)
    assert ran == [1, 2]


def test_a_line_that_was_cut_off_is_run_again_and_spoils_no_other(tmp_path):
    path, ran = tmp_path / "runs.jsonl", []
    run_jobs([job(1, ran), job(2, ran)], path)
    path.write_text(path.read_text()[:-20])
    run_jobs([job(1, ran), job(2, ran), job(3, ran)], path)
    assert ran == [1, 2, 2, 3]
    assert [record["key"]["number"] for record in read_records(path)] == [1, 2, 3]
    assert all(json.loads(line) for line in path.read_text().splitlines()[2:])


def test_whoever_listens_is_told_of_new_jobs_only(tmp_path):
    path, heard = tmp_path / "runs.jsonl", []
    for _ in range(2):
        run_jobs([job(1, [])], path, lambda one, record: heard.append((one.key["number"], record["score"])))
    assert heard == [(1, 10)]
