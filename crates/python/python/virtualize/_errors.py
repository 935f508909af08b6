"""Exceptions, diagnostics and warnings."""

from typing import Literal, NamedTuple


class Diagnostic(NamedTuple):
    """A decision of the mapping that could surprise a user.

    Parameters
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
    """Base class of all errors of this package. The message is one line that names the file."""


class OptionError(Error, ValueError):
    """An option is unknown, has an invalid value, or contradicts another."""


class NotFoundError(Error, FileNotFoundError):
    """The file or object does not exist."""


class AccessDeniedError(Error, PermissionError):
    """The credentials do not permit access."""


class ChangedError(Error):
    """The file is no longer the one that was opened."""


class UnavailableError(Error, OSError):
    """The network, a disk or a store failed after all retries."""


class FileError(Error, ValueError):
    """The file is damaged, of another format, or cannot be read."""


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
