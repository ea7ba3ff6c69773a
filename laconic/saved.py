"""Results from the files that `laconic run --save` and `laconic compare` write."""

from pathlib import Path

import msgspec

from laconic.core.errors import DataError
from laconic.core.result import Result
from laconic.jobs import Record, read_records


def read_results(path: Path) -> list[Result]:
    """The results in a file: one JSON object, or JSON lines.

    Raises:
        DataError: there is no such file, or it holds no result.
    """
    if not path.is_file():
        raise DataError(
            f"there is no result file {path}; make one with: laconic run FedOnce --data digits --save {path}"
        )
    reason: Exception = ValueError("no line of it is a run")
    try:
        return [Result.from_json(path.read_bytes())]
    except (msgspec.DecodeError, UnicodeDecodeError) as problem:
        if path.suffix == ".json":
            reason = problem
    try:
        found = [result_of(record) for record in read_records(path) if is_run(record)]
    except (msgspec.ValidationError, UnicodeDecodeError) as problem:
        found, reason = [], problem
    if not found:
        raise DataError(
            f"{path} holds no result ({reason}); give files that `laconic run --save` or `laconic compare` wrote"
        )
    return found


def is_run(record: object) -> bool:
    """Whether a line of a file is a run that `laconic compare` kept."""
    return isinstance(record, dict) and "key" in record and "result" in record


def result_of(record: Record) -> Result:
    """The result in such a line."""
    return msgspec.convert(record["result"], Result)
