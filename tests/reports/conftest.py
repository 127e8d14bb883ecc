import pytest

from rlhfdoctor.model import Diagnosis
from rlhfdoctor.reports import Page
from tests.reports.gates import ROOT, judged


@pytest.fixture
def gated(monkeypatch: pytest.MonkeyPatch) -> tuple[list[Diagnosis], Page]:
    """A gate on a run of each kind, in the repository's folder."""
    monkeypatch.chdir(ROOT)
    return judged()
