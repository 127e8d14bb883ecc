import json
import pickle
import sys

import pytest

from rlhfdoctor.errors import BadProfile, DoctorError, UnreadableRun, need


@pytest.mark.parametrize("kind", [DoctorError, UnreadableRun, BadProfile])
def test_an_error_keeps_what_is_wrong_and_what_to_do_apart(kind: type[DoctorError]) -> None:
    error = kind("it broke", "mend it")
    assert isinstance(error, DoctorError)
    assert (error.message, error.hint, str(error)) == ("it broke", "mend it", "it broke")


def test_what_is_needed_is_imported() -> None:
    assert need("json", extra="recompute", purpose="reading") is json


def test_what_is_missing_is_named_with_the_extra_that_brings_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(DoctorError) as caught:
        need("torch", extra="recompute", purpose="scoring samples")
    assert caught.value.message == (
        "scoring samples needs the package torch, which is not installed"
    )
    assert caught.value.hint == (
        "in the checkout: pip install '.[recompute]'; "
        "elsewhere: pip install 'rlhfdoctor[recompute] @ URL' of the checkout or the wheel"
    )
    assert isinstance(caught.value.__cause__, ImportError)


@pytest.mark.parametrize("kind", [DoctorError, BadProfile, UnreadableRun])
def test_an_error_travels_between_processes(kind: type[DoctorError]) -> None:
    error = pickle.loads(pickle.dumps(kind("what", "do that")))
    assert (type(error), str(error), error.message, error.hint) == (kind, "what", "what", "do that")
