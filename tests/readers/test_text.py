import io
from pathlib import Path

import pytest

from rlhfdoctor.readers._text import LONGEST, Segment, cleaned, segments, segments_of


def split(data: bytes) -> list[Segment]:
    return list(segments(io.BufferedReader(io.BytesIO(data))))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param(
            "\x1b[36m(Runner pid=12)\x1b[0m step:1 - a:2", "step:1 - a:2", id="Ray, coloured"
        ),
        pytest.param("[36m(Runner pid=12)[0m step:1", "step:1", id="colours without their escape"),
        pytest.param("(pid=12) a b", "a b", id="Ray before the task has a name"),
        pytest.param("(Runner pid=12, ip=10.0.0.1) a b", "a b", id="Ray on another node"),
        pytest.param("(Runner pid=12)     'a': 1,", "    'a': 1,", id="indentation stays"),
        pytest.param(
            "(Runner pid=1) step:1 [repeated 3x across cluster]", "step:1", id="Ray's repetition"
        ),
        pytest.param("2026-01-01 00:00:00,123 [INFO] my.name: loss 1", "loss 1", id="logging"),
        pytest.param("[2026-01-01 00:00:00] [INFO] loss 1", "loss 1", id="brackets"),
        pytest.param("2026-01-01T00:00:00.123Z loss 1", "loss 1", id="a container's time"),
        pytest.param("[rank0]: loss 1", "loss 1", id="torchrun"),
        pytest.param("0: {'loss': 1}", "{'loss': 1}", id="srun --label"),
        pytest.param("W0609 02:30:43.179000 48703 a/run.py:793] text", "text", id="glog"),
        pytest.param("INFO 05-06 14:11:33 __init__.py:190] text", "text", id="vLLM"),
        pytest.param(
            "[INFO|trainer.py:2409] 2026-01-01 00:00:00,123 >> text", "text", id="transformers"
        ),
        pytest.param(
            "[2026-01-01 00:00:00,1] [INFO] [a.py:96:log] [Rank 0] text", "text", id="DeepSpeed"
        ),
        pytest.param("2026-01-01 00:00:00 - INFO - step:3 - a:1", "step:3 - a:1", id="no logger"),
        pytest.param("2026-01-01 00:00:00 loss: 1", "loss: 1", id="a pair is no logger"),
        pytest.param("10:00:01    INFO Step 1 | a: 2", "Step 1 | a: 2", id="a time alone"),
        pytest.param(" [2026-01-01 00:00:00] iteration 5", "iteration 5", id="Megatron"),
        pytest.param(
            "2026-01-01 00:00:00.000 | INFO     | __main__:train:12 - Step 1", "Step 1", id="loguru"
        ),
        pytest.param("a\x00\x00b", "ab", id="NUL bytes"),
        pytest.param("plain text", "plain text", id="nothing before it"),
    ],
)
def test_what_surrounds_a_message_is_removed(text: str, expected: str) -> None:
    assert cleaned(text, 1).text == expected


def test_the_process_and_its_rank_are_kept() -> None:
    found = cleaned("[rank3]: 2026-01-01 00:00:00 text", 7)
    assert (found.rank, found.tag, found.stamped, found.line) == (3, "rank 3", True, 7)
    assert cleaned("(Runner pid=12) text", 1).tag == "Runner pid=12"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        pytest.param(b"a\nb\n", [("a", 1, True), ("b", 2, True)], id="lines"),
        pytest.param(b"a\r\nb\r\n", [("a", 1, True), ("b", 2, True)], id="Windows lines"),
        pytest.param(b"a\rb\rc\n", [("a", 1, True), ("b", 1, True), ("c", 1, True)], id="bars"),
        pytest.param(b"a\nb", [("a", 1, True), ("b", 2, False)], id="the last line is open"),
        pytest.param("a\nü\n".encode("utf-16"), [("a", 1, True), ("ü", 2, True)], id="UTF-16"),
        pytest.param("\ufeffa\n".encode(), [("a", 1, True)], id="a byte order mark"),
        pytest.param(b"a\xffb\n", [("a\ufffdb", 1, True)], id="no UTF-8"),
        pytest.param(b"", [], id="nothing"),
    ],
)
def test_text_is_cut_at_line_ends_and_carriage_returns(
    data: bytes, expected: list[tuple[str, int, bool]]
) -> None:
    assert [(item.text, item.line, item.closed) for item in split(data)] == expected


def test_a_line_without_end_is_not_held(tmp_path: Path) -> None:
    path = tmp_path / "a.log"
    path.write_bytes(b"x" * (5 * LONGEST) + b"\nnext\n")
    with path.open("rb") as file:
        found = list(segments(file))
    assert [(item.text, item.line, item.whole) for item in found] == [
        ("", 1, False),
        ("next", 2, True),
    ]


def test_texts_without_lines_of_their_own_have_no_numbers() -> None:
    found = list(segments_of(["a\nb", "c\r\n"]))
    assert [(item.text, item.line) for item in found] == [("a", None), ("b", None), ("c", None)]
