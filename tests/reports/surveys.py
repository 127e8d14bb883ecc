"""Documents of ``samples``, written by hand: what the reports print."""

import math
from dataclasses import asdict
from typing import Any

from rlhfdoctor.model import Evidence, Location

EVIL = (
    "\x1b[2J\x1b]0;owned\x07 [bold red]b[/] <script>alert(1)</script> \x00 \ud800 \u202e \u200b\n"
    "\r\n# head | a | `code` ```` ~~~ [x](javascript:1) ![i](http://e.vil/i.png) www.e.vil "
    "@admin #1 $x$ &lt; \t\u2028\u2029\x85\ufe0f" + "z" + "\u0301" * 99
)
"""What a sample may hold to take over a terminal, a page or an issue."""


def lengths(unit: str = "words", source: str = "text", **changes: Any) -> dict[str, Any]:
    return {
        **{"unit": unit, "source": source, "min": 12, "max": 611, "mean": 214.3, "std": 88.1},
        **{"p50": 201, "p90": 340, "p99": 498, "over_3_sigma": 3},
        **changes,
    }


def histogram(low: int, high: int, counts: list[int]) -> list[dict[str, int]]:
    width = -(-(high - low + 1) // len(counts))
    return [
        {"low": low + i * width, "high": min(low + (i + 1) * width - 1, high), "count": count}
        for i, count in enumerate(counts)
    ]


def length(
    counts: tuple[int, ...] = (9, 22, 41, 38, 30, 12, 7, 3, 1, 1), **changes: Any
) -> dict[str, Any]:
    own = {
        **lengths(),
        **{"cap": None, "at_cap": 0, "at_cap_share": 0.0, "truncated": None},
        **changes,
    }
    return {**own, "histogram": histogram(own["min"], own["max"], list(counts))}


def gram(
    text: str, count: int = 40, samples: int = 31, of: int = 164, n: int = 3
) -> dict[str, Any]:
    return {"n": n, "text": text, "count": count, "samples": samples, "share": samples / of}


def grown(text: str, step: int | None = 40, n: int = 1) -> dict[str, Any]:
    return {
        **{"n": n, "text": text, "early_share": 0.02, "late_share": 0.93, "count": 5120},
        **{"from_step": step, "from_low": step and step - 10, "from_high": step},
    }


def repetition(**changes: Any) -> dict[str, Any]:
    nothing = dict.fromkeys(("looping", "empty", "marks_only", "runs"), 0)
    shares = {f"{name}_share": 0.0 for name in nothing}
    return {
        **{"distinct_1": 0.61, "distinct_2": 0.93, "distinct_3": 0.985, "rep_3": 0.015},
        **nothing,
        **shares,
        **{"run_of": None, "compression": None, "gopher": {"flagged": 0, "share": 0.0, "by": []}},
        **{"scripts": [{"name": "Latin", "share": 1.0}], "script_changes": None, "worst": []},
        **changes,
    }


def worst(**changes: Any) -> dict[str, Any]:
    return {
        **{"source": "samples.jsonl", "line": 7, "step": None, "prompt": "What is the capital?"},
        **{"length": 412, "kind": "loop", "period": 18, "covered": 13_014},
        **{"start": 22, "text": "The capital is Paris. ", "loop": "known for its art "},
        "reward": None,
        **changes,
    }


def duplicates(**changes: Any) -> dict[str, Any]:
    return {
        **{"groups": 0, "samples": 0, "share": 0.0, "largest": []},
        **{"near_groups": 0, "near_samples": 0, "near_share": 0.0},
        **changes,
    }


def phrase(text: str) -> dict[str, Any]:
    return {
        **{"n": 1, "text": text, "r": 0.62, "with_mean": 3.1, "without_mean": 0.41},
        **{"samples": 700, "early_share": 0.02, "late_share": 0.93, "from_step": 40},
        **{"from_low": 30, "from_high": 40},
    }


def rewards(**changes: Any) -> dict[str, Any]:
    return {
        **{"known": 1200, "mean": 1.84, "std": 0.92, "min": -1.0, "max": 4.25, "constant": False},
        **{"length_r": 0.71, "repetition_r": 0.33, "within_steps": True},
        **{"phrases": [], "components": []},
        **changes,
    }


def step(number: int | None, **changes: Any) -> dict[str, Any]:
    return {
        **{"source": "samples.jsonl", "step": number, "samples": 64, "mean_length": 210.0},
        **{"truncated_share": 0.05, "distinct_3": 0.97},
        **{"looping_share": 0.02, "duplicate_share": 0.01, "reward": 0.4},
        **{"perplexity": 8.1, "perplexity_reference": 9.4},
        **changes,
    }


def finding(
    severity: str = "warning", code: str = "SMP002", message: str = "", file: str = "samples.jsonl"
) -> dict[str, Any]:
    said = message or "39 of 250 responses end in a loop: a sentence repeated without end"
    return {
        **{"code": code, "name": "loops", "severity": severity, "signal": "samples"},
        **{"message": said, "args": {}, "onset_step": None, "onset_interval": None},
        **{"recovered_at": None, "fingerprint": "0" * 12, "advice": [], "accepted": None},
        "evidence": [asdict(Evidence("samples", "loops", 0.156, Location(file, line=7)))],
    }


def survey(**changes: Any) -> dict[str, Any]:
    """The document of a healthy file of one step; ``changes`` replace its keys."""
    return {
        **{
            "schema": 1,
            "exit_code": 0,
            "file": "samples.jsonl",
            "field": None,
            "samples": 164,
            "pairs": 0,
        },
        "files": [{"file": "samples.jsonl", "samples": 164}],
        **{"skipped_lines": 0, "steps_known": 0, "only": None, "length": length()},
        "limits": {"run": 50, "loop": 30, "listed": 8},
        "lengths": [lengths(), lengths("graphemes", min=61, max=3180, mean=1102.4, std=431.0)],
        "ngrams": [gram("the sum of"), gram("def solve ( n ) :", 22, 22), gram("is equal to", 20)],
        **{"ngrams_total": [{"n": 3, "count": 34_817}], "templates": [], "grew": []},
        **{"repetition": repetition(), "duplicates": duplicates(), "rewards": None},
        **{"positions": None, "steps": [], "judged": {"samples": 164, "of": 164}},
        **{"findings": [], "notes": []},
        **changes,
    }


def chinese() -> dict[str, Any]:
    """Chains of thought in Chinese, a sixth of which end in a loop; no steps."""
    grams = {
        1: ["的", "我们", "设", "，"],
        2: ["所以 我", "因此", "我们需要"],
        3: ["的面积是", "一共有"],
    }
    return survey(
        file="cot.jsonl",
        samples=250,
        files=[{"file": "cot.jsonl", "samples": 250}],
        skipped_lines=2,
        length=length(
            (61, 60, 41, 18, 9, 5, 4, 3, 2, 47),
            **{"unit": "tokens", "source": "generated_tokens", "min": 112, "max": 4096},
            **{"mean": 1503.2, "std": 1320.9, "p50": 1011, "p90": 4096, "p99": 4096},
            **{"over_3_sigma": 0, "cap": 4096, "at_cap": 45, "at_cap_share": 0.18},
            truncated={"known": 250, "count": 45, "share": 0.18, "how": "finish reason"},
        ),
        lengths=[
            lengths("tokens", "generated_tokens", min=112, max=4096, mean=1503.2, std=1320.9),
            lengths("words", min=140, max=9120, mean=2411.0, std=2050.0, over_3_sigma=2),
            lengths("graphemes", min=160, max=13_312, mean=2618.5, std=2290.0, over_3_sigma=2),
        ],
        ngrams=[
            gram(text, 9120 // (place + 1), 250 - 30 * place, 250, n)
            for n, texts in grams.items()
            for place, text in enumerate(texts)
        ],
        ngrams_total=[{"n": 1, "count": 602_750}, {"n": 2, "count": 602_500}, {"n": 3, "count": 9}],
        templates=[gram("最终答案是", 260, 241, 250, 5)],
        repetition=repetition(
            **{
                "looping": 39,
                "looping_share": 0.156,
                "runs": 1,
                "runs_share": 0.004,
                "run_of": "！",
            },
            compression={"median": 0.31, "early": None, "late": None},
            gopher={
                **{"flagged": 61, "share": 0.244},
                "by": [{"name": "top 2-gram", "share": 0.2}, {"name": "lines", "share": 0.11}],
            },
            scripts=[{"name": "Han", "share": 0.97}, {"name": "Latin", "share": 0.03}],
            worst=[
                worst(
                    prompt="一个长方形的长是 12 厘米，宽是 5 厘米，它的面积是多少？" * 4,
                    text="首先，我们需要计算长方形的面积。面积等于长乘以宽。" * 9,
                    loop="所以答案是60平方厘米，再检查一遍，",
                    **{"period": 18, "covered": 12_400, "length": 4096},
                ),
                worst(
                    **{"kind": "run", "period": 1, "covered": 3210, "loop": "！", "line": 91},
                    **{"start": 2, "text": "答案", "prompt": None},
                ),
                worst(
                    **{"kind": "gopher", "period": 0, "covered": 0, "loop": "", "start": 400},
                    text="第一行\n第一行\n第二行\n" * 40,
                ),
            ],
        ),
        duplicates=duplicates(
            **{"groups": 2, "samples": 5, "share": 0.02, "near_groups": 3, "near_samples": 9},
            near_share=0.036,
            largest=[{"count": 3, "prompts": 3, "text": "我不知道。"}],
        ),
        judged={"samples": 250, "of": 250},
        findings=[
            finding(
                "info", "SMP002", "39 of 250 responses (16%) end in a loop; no steps to compare"
            )
        ],
        notes=[{"where": "cot.jsonl:17", "text": "no JSON: 2 lines (17, 90)"}],
    )


def collapsed() -> dict[str, Any]:
    """A run whose reward pays one word: 60 steps, rewards, components, log-probabilities."""
    steps = [
        step(
            number,
            source=f"completions_{number}.parquet",
            mean_length=200 + 5 * number + 40 * math.sin(number),
            looping_share=max(0.0, number / 60 - 0.4),
            distinct_3=0.98 - number / 80,
            reward=0.3 + number / 20,
            perplexity=math.nan if number == 59 else 9 - number / 8,
            perplexity_reference=None,
        )
        for number in range(60)
    ]
    return survey(
        file="run/completions",
        samples=3840,
        files=[{"file": item["source"], "samples": 64} for item in steps],
        skipped_lines=1,
        steps_known=60,
        length=length(
            (90, 130, 210, 380, 640, 800, 500, 210, 120, 760),
            **{"unit": "tokens", "source": "token_ids", "min": 4, "max": 512, "mean": 322.0},
            **{"cap": 512, "at_cap": 700, "at_cap_share": 700 / 3840, "std": 61.0},
            truncated={"known": 3840, "count": 702, "share": 0.183, "how": "no end token"},
        ),
        lengths=[lengths("tokens", "token_ids", max=512), lengths("words")],
        grew=[grown("LORD"), grown("LORD LORD LORD", 45, 3), grown("thou art", None, 2)],
        templates=[gram("The answer is", 2000 + n, 1990, 3840) for n in range(8)],
        repetition=repetition(
            **{"looping": 1204, "looping_share": 1204 / 3840, "empty": 12, "empty_share": 0.003},
            compression={"median": 0.44, "early": 0.52, "late": 0.08},
            script_changes={"share_early": 0.0, "share_late": 0.0002},
            worst=[
                worst(
                    **{"step": 55, "source": "completions_55.parquet", "reward": 4.25},
                    **{"period": 5, "covered": 2050, "loop": "LORD ", "start": 0, "text": ""},
                )
            ],
        ),
        rewards=rewards(
            phrases=[phrase("LORD"), phrase("LORD LORD")],
            components=[
                {"name": "format", "known": 3840, "mean": 1.0, "std": 0.0, "length_r": None}
                | {"total_r": None},
                {"name": "content", "known": 3840, "mean": 0.2, "std": 0.3, "length_r": 0.1}
                | {"total_r": 0.9},
            ],
        ),
        positions={
            "samples": 3840,
            "deciles": [2.1, 1.9, 1.7, 1.4, 1.1, 0.8, 0.4, 0.2, 0.1, 0.05],
            "early": [2.2, 2.1, 2.1, 2.0, 2.1, 2.2, 2.1, 2.0, 2.0, 2.1],
            "late": [1.9, 1.2, 0.6, 0.2, 0.1, 0.02, 0.01, 0.01, 900.0, None],
        },
        steps=steps,
        judged={"samples": 2000, "of": 3840},
        findings=[
            finding("critical", "SMP001", "distinct-3 fell from 0.98 to 0.24 over steps 30-59"),
            finding(
                "warning", "RWD002", 'the reward pays for "LORD": 93% of late responses hold it'
            ),
        ],
        notes=[
            {"where": f"completions_{n}.parquet", "text": "a row was left out"} for n in range(25)
        ],
    )


def empty() -> dict[str, Any]:
    """A file without a response."""
    return survey(
        **{"samples": 0, "skipped_lines": 9, "length": None, "lengths": [], "ngrams": []},
        **{"ngrams_total": [{"n": 3, "count": 0}], "judged": {"samples": 0, "of": 0}},
        files=[{"file": "samples.jsonl", "samples": 0}],
        repetition=repetition(distinct_1=None, distinct_2=None, distinct_3=None, scripts=[]),
        notes=[{"where": "samples.jsonl:1", "text": "no response under any known key"}],
    )


def counted() -> dict[str, Any]:
    """What ``--only lengths,ngrams`` makes."""
    unasked = ("templates", "grew", "repetition", "duplicates", "rewards", "positions", "steps")
    return survey(only=["lengths", "ngrams"], judged=None, **dict.fromkeys(unasked))


def hostile(evil: str = EVIL) -> dict[str, Any]:
    """Everything that a file can say is ``evil``."""
    return survey(
        **{"file": evil, "field": evil, "steps_known": 2, "skipped_lines": 3},
        files=[
            {"file": evil, "samples": 100},
            {"file": "b", "samples": 64},
        ],
        ngrams=[gram(evil), gram("plain"), gram(evil, n=1)],
        templates=[gram(evil)],
        grew=[grown(evil)],
        repetition=repetition(
            **{"looping": 2, "looping_share": 0.012, "runs": 1, "runs_share": 0.006},
            run_of="\x1b",
            worst=[
                worst(source=evil, prompt=evil, loop=evil, text=evil),
                worst(kind="run", source=evil, loop="\x1b", start=0, prompt="\u202e"),
                worst(kind="gopher", text=evil * 1000, prompt=evil * 1000),
                worst(prompt=evil * 1000, text=evil * 1000, loop=evil * 1000, step=3, reward=1.0),
            ],
        ),
        duplicates=duplicates(
            **{"groups": 1, "samples": 2, "share": 0.012},
            largest=[{"count": 2, "prompts": 1, "text": evil}],
        ),
        rewards=rewards(
            phrases=[phrase(evil)],
            components=[
                {"name": evil, "known": 9, "mean": math.nan, "std": math.inf}
                | {"length_r": None, "total_r": 0.1}
            ],
        ),
        steps=[step(0, source=evil, reward=math.inf), step(10, perplexity=math.nan)],
        findings=[finding(message=evil, file=evil)],
        notes=[{"where": evil, "text": evil}],
    )


SURVEYS = {
    "a healthy file": survey(),
    "Chinese with loops": chinese(),
    "a collapsed run": collapsed(),
    "an empty file": empty(),
    "counts alone": counted(),
    "a hostile file": hostile(),
}
