"""Errors that a user can act on: one line that says what is wrong, one that says what to do."""

from __future__ import annotations

import importlib
from collections.abc import Iterable
from types import ModuleType


class DoctorError(Exception):
    """An expected failure. The command line prints both lines and exits with 2."""

    def __init__(self, message: str, hint: str) -> None:
        """Keep the two lines apart, so that every report can show them its own way."""
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __reduce__(self) -> tuple[type[DoctorError], tuple[str, str]]:
        """Travel between processes with both lines."""
        return type(self), (self.message, self.hint)


class UnreadableRun(DoctorError):
    """The path holds nothing that any reader understands."""


class BadProfile(DoctorError):
    """A profile or a ``--set`` names a rule or a limit that does not exist, or a wrong type."""


def bug(error: Exception) -> DoctorError:
    """Return what is told of an error that nobody expected."""
    told = f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return DoctorError(f"a bug in rlhfdoctor ({told})", "please report it with --debug's output")


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or its kind where it says nothing."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "; did you mean X?" where a known word is close (difflib's ratio), else nothing."""
    import difflib

    close = difflib.get_close_matches(word, list(known), n=1, cutoff=cutoff)
    return f"; did you mean {close[0]}?" if close else ""


def need(package: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional package, or say which extra installs it and what it is needed for."""
    try:
        return importlib.import_module(package)
    except ImportError as error:
        raise DoctorError(
            f"{purpose} needs the package {package}, which is not installed",
            f"in the checkout: pip install '.[{extra}]'; "
            f"elsewhere: pip install 'rlhfdoctor[{extra}] @ URL' of the checkout or the wheel",
        ) from error
