"""Exceptions, diagnostics and warnings."""

import os
import warnings
from typing import Any, Literal, NamedTuple


class Diagnostic(NamedTuple):
    """A decision of the mapping that could surprise a user.

    Attributes
    ----------
    code
        Stable code, such as ``fill-value-dropped``.
    severity
        ``"info"``, ``"warning"`` or ``"error"``.
    path
        Absolute path of the node; ``"/"`` for the whole file.
    message
        What happened and why, in one line.
    remedy
        What can be done, if anything.
    """

    code: str
    severity: Literal["info", "warning", "error"]
    path: str
    message: str
    remedy: str | None = None

    def __str__(self) -> str:
        remedy = f" ({self.remedy})" if self.remedy else ""
        return f"{self.path}: {self.message}{remedy} [{self.code}]"


class Error(Exception):
    """Base class of all errors of this package. The message is one line that names the file and ends with the code.

    Attributes
    ----------
    code
        Stable code, such as ``source-not-found``. ``virtualize explain CODE`` prints cause and remedy.
    """

    code: str = "internal"

    def __str__(self) -> str:
        text = super().__str__()
        return text if f"[{self.code}]" in text else f"{text} [{self.code}]"


class OptionError(Error, ValueError):
    """An option is unknown, has an invalid value, or contradicts another."""

    code = "usage"


class NotFoundError(Error, FileNotFoundError):
    """The file or object does not exist."""

    code = "source-not-found"


class AccessDeniedError(Error, PermissionError):
    """The credentials do not permit access."""

    code = "source-denied"


class ChangedError(Error):
    """The file is no longer the one that was opened."""

    code = "source-changed"


class UnavailableError(Error, OSError):
    """The network, a disk or a store failed after all retries."""

    code = "source-unavailable"


class FileError(Error, ValueError):
    """The file is damaged, of another format, or cannot be read."""

    code = "file-malformed"


class RefusedError(FileError):
    """The file cannot be mapped without loss.

    Attributes
    ----------
    diagnostics
        The reasons, at least one.
    """

    diagnostics: "list[Diagnostic]" = []


class VirtualizeWarning(UserWarning):
    """A diagnostic of a file that was mapped.

    Attributes
    ----------
    diagnostic
        The diagnostic.
    """

    def __init__(self, name: str, diagnostic: Diagnostic) -> None:
        super().__init__(f"{name}: {diagnostic}")
        self.diagnostic = diagnostic

    @property
    def code(self) -> str:
        """Stable code of the diagnostic, such as ``fill-value-dropped``."""
        return self.diagnostic.code


def warn(warning: Warning) -> None:
    """Emit a warning about the code that called this package."""
    warnings.warn(warning, skip_file_prefixes=(os.path.dirname(__file__),))


def warn_of(file: Any) -> None:
    """Warn of what the mapping of a file omits or changes."""
    for diagnostic in file.diagnostics:
        if diagnostic.severity == "warning":
            warn(VirtualizeWarning(file.name, diagnostic))


def warn_filled(file: Any) -> None:
    """Warn of chunks that read as the fill value because their file is missing or has changed."""
    for path, reason in file.filled():
        message = f"{reason}; the chunk reads as the fill value"
        warn(VirtualizeWarning(file.name, Diagnostic("values-unreadable", "warning", f"/{path}", message)))
