"""The file of budgets on disk: read as bytes, replaced as a whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from pytest_roofline.budgets.document import raw_bytes
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.specs.plain_data import LARGEST_BYTES, decoded
from pytest_roofline.whole_file import obstacle_of

BOM = b"\xef\xbb\xbf"
_ATTEMPTS = 3


def check_writable(path: str, name: str) -> None:
    """RooflineUsageError where it is known already that the file cannot be replaced, or made."""
    if obstacle := obstacle_of(path):
        raise RooflineUsageError(f"--roofline-update-budgets: {name!r} cannot be written: {obstacle}")


class BudgetsText:
    """The text of one file, which need not be there yet; links are followed, so that they stay links."""

    def __init__(self, path: str, name: str) -> None:
        self.path = os.path.realpath(path)
        self.name = name

    def rewrite(self, change: Callable[[str | None], str | None]) -> None:
        """Put `change(text)` in place of the text, which is None where there is no file; None changes nothing.

        Line ends and a byte order mark are kept, and mode and owner of the file. `change` is asked again where somebody
        else has written meanwhile. OSError where it cannot be written: then what was there is there still.
        """
        for _ in range(_ATTEMPTS):
            before = self._content()
            text = change(self._text(before))
            if text is None:
                return
            mark = BOM if before is not None and before.startswith(BOM) else b""
            content = mark + text.encode("utf-8")
            if len(content) > LARGEST_BYTES:
                raise RooflineUsageError(f"{self.name}: would be over {LARGEST_BYTES:,} bytes: give patterns instead")
            if self._replaced(before, content):
                return
        raise OSError(f"{self.name}: somebody else writes it, too; try again")

    def _content(self) -> bytes | None:
        return raw_bytes(self.path, self.name) if os.path.lexists(self.path) else None

    def _text(self, content: bytes | None) -> str | None:
        if content is None:
            return None
        decoded(Path(self.name), content)  # what is not UTF-8 is an error that names the file
        return content.decode("utf-8-sig")

    def _replaced(self, before: bytes | None, content: bytes) -> bool:
        """Whether the file holds the new content now; False where it does not hold `before` any more."""
        if before is not None and not os.access(self.path, os.W_OK):
            raise PermissionError(13, "is not to be written", self.path)
        folder, base = os.path.split(self.path)
        os.makedirs(folder, exist_ok=True)
        made = os.path.join(folder, f".{base[:100]}.{secrets.token_hex(8)}.tmp")
        try:
            file = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
            with os.fdopen(file, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fsync(stream.fileno())
            if before is not None:
                _copy_rights(self.path, made)
            if self._content() != before:
                return False
            os.replace(made, self.path)
            return True
        finally:
            with suppress(FileNotFoundError):
                os.unlink(made)


def _copy_rights(source: str, target: str) -> None:
    """Mode, and owner where the system lets us."""
    status = os.stat(source)
    if hasattr(os, "chown"):
        with suppress(OSError):
            os.chown(target, status.st_uid, status.st_gid)
    os.chmod(target, status.st_mode & 0o7777)
