"""Writing files whole or not at all, and finding out before the work whether a file can be written."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryFile

from laconic.core.errors import DataError


def write_whole(path: Path, content: bytes) -> None:
    """Write a file by way of one beside it, so that nobody ever finds half of it.

    Raises:
        DataError: it cannot be written; says why, and nothing stays.
    """
    part = _part_of(path)
    with _explained(path):
        try:
            part.write_bytes(content)
            part.replace(path)
        except BaseException:
            part.unlink(missing_ok=True)
            raise


def refuse_unwritable(*paths: Path | None) -> None:
    """Refuse files that could not be written, before the work whose outcome they are to hold; None is no file.

    Raises:
        DataError: says which file, and what is in the way.
    """
    for path in paths:
        if path is None:
            continue
        if not path.absolute().parent.is_dir():
            raise DataError(f"cannot write {path}: there is no folder {path.parent}; make it first")
        # Permissions do not tell: some places take no new file from anybody. Trying does, under the name to be used.
        part = _part_of(path)
        with _explained(path):
            part.touch()
            part.unlink()
            if path.exists():
                path.open("ab").close()


def refuse_unwritable_folder(folder: Path) -> None:
    """Refuse a folder in which, or above which if it is still to be made, nothing could be written.

    Raises:
        DataError: says which folder, and what is in the way.
    """
    there = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
    with _explained(folder), TemporaryFile(dir=there):
        pass


def _part_of(path: Path) -> Path:
    return path.with_name(path.name + ".part")


@contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as problem:
        reason = (problem.strerror or str(problem)).lower()
        raise DataError(f"cannot write {path}: {reason}; choose another place, or make this one writable") from problem
