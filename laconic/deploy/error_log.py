"""What went wrong at a party, for its own eyes: details go to a file of its own, and others hear fixed words.

An error may quote cells, ids, paths or passwords. None of that is for whoever asked.
"""

import secrets
import traceback
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from laconic.atomic_files import append_private

_MOST = 1 << 20
"""Bytes after which a log begins anew: whoever asks may cause any number of errors. The one before stays."""
_LONGEST = 1 << 16
"""The most characters of one error."""


class ErrorLog:
    """The log of one party.

    Args:
        path: where; made with the first error, and readable by its owner only.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, problem: BaseException) -> str:
        """Write an error down; returns what others hear after its name: a reference, and nothing of the error."""
        reference = secrets.token_hex(8)
        trace = "".join(traceback.format_exception(problem))[-_LONGEST:]
        when = datetime.now(UTC).isoformat(timespec="seconds")
        with suppress(OSError):  # On a full disk, the words must leave all the same.
            if self.path.exists() and self.path.stat().st_size > _MOST:
                self.path.replace(self.path.with_suffix(".old.log"))
            with append_private(self.path) as log:
                log.write(f"{when} reference {reference}\n{trace}\n".encode(errors="backslashreplace"))
        return f"could not answer; its own log has the details under reference {reference}"
