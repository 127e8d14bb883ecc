"""One phrase that takes over the samples while the reward rises with it."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain

from rlhfdoctor.measures import Batch, sample_evidence
from rlhfdoctor.model import Finding, Run, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._ladder import onset_between, rewarded, standing_from, too_few
from rlhfdoctor.rules._shares import above, density, occurrences, partial
from rlhfdoctor.series import LIKELY
from rlhfdoctor.text import count_ngrams, joined


@dataclass(frozen=True, slots=True)
class Limits:
    """Which phrase is paid."""

    documents: float = 0.7  # share of the last responses that hold it
    words: float = 0.2  # share of all their n-grams that it is
    times: float = 2.0  # occurrences in a response of the last step; a format holds it once
    growth: float = 2.0  # times its share among the first responses
    correlation: float = 0.5  # r of its count in a response and the reward, length held equal
    fewest: int = 8  # responses a sampled step


@rule(
    "RWD002",
    signal="reward",
    needs=["samples.reward", "samples.steps"],
    limits=Limits,
    text="'{phrase}' is in {documents_share:.0%} of the last responses and makes {share:.0%} of "
    "their {n}-grams ({before:.0%} at the start); the reward follows its count (r = {r:.2f} "
    "at equal length)",
    brief="the reward pays for '{phrase}'",
)
def reward_pays_phrase(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The policy repeats one phrase, and responses that hold more of it earn more.

    Over-optimised policies end in "thanks", in "Sssss", in one word (TRL 322). A learnt format also
    appears in every response, but once: a paid phrase is a fifth of all the policy writes. A
    healthy run's favourite word reached 44 % of the responses, so 70 % is asked for. Longer answers
    hold more of every word, so length is held equal; of several phrases the one is named that the
    reward follows most. It is dated where its share within a response rises above that of the first
    step for good, by more than two standard errors: long before it takes over. [H]

    Remedy: repair the reward before anything else; a stronger KL penalty only delays it. Rescore
    late samples with a second reward model or a judge.
    """
    files = rewarded(run, limits.fewest)
    if not files:
        yield too_few(limits.fewest, "and a finite reward each")
    for ladder in files:
        for n in (1, 2, 3):
            found = _paid(ladder, n, limits)
            if found is None:
                continue
            phrase, share, before, documents, r = found
            bad = _since(ladder, phrase, limits)
            if bad is None:
                continue
            yield Finding(
                "warning",
                (
                    sample_evidence(
                        ladder[bad],
                        ladder[-1],
                        "samples.response",
                        share,
                        unit=f"share of {n}-grams",
                        limit_high=limits.words,
                    ),
                ),
                {
                    "phrase": joined(phrase),
                    "share": share,
                    "before": before,
                    "documents_share": documents,
                    "n": n,
                    "r": r,
                },
                onset=onset_between(run, ladder, bad),
            )
            return


def _paid(
    ladder: list[Batch], n: int, limits: Limits
) -> tuple[tuple[str, ...], float, float, float, float] | None:
    last = ladder[-1]
    counts, documents = count_ngrams([item.words for item in last.items], n)
    total = counts.total()
    paid = []
    for phrase, count in counts.most_common(3):
        share, held = count / total, documents[phrase] / len(last.items)
        before = _share(ladder[0], phrase)
        if count < limits.times * len(last.items):
            continue
        if share <= limits.words or held < limits.documents or share < limits.growth * before:
            continue
        items = list(chain.from_iterable(batch.items for batch in ladder))
        r = partial(
            [float(occurrences(item.words, phrase)) for item in items],
            [item.reward for item in items if item.reward is not None],
            [float(item.length) for item in items],
        )
        if r is not None and r > limits.correlation:
            paid.append((phrase, share, before, held, r))
    return max(paid, key=lambda found: found[-1], default=None)


def _since(ladder: list[Batch], phrase: tuple[str, ...], limits: Limits) -> int | None:
    """Return the first step from which the phrase is more frequent than at the first, or rife."""
    shares = [[(item, density(item.words, phrase)) for item in batch.items] for batch in ladder]
    return standing_from(
        [
            above(shares[0], values) > LIKELY or _share(batch, phrase) > limits.words
            for batch, values in zip(ladder, shares, strict=True)
        ]
    )


def _share(batch: Batch, phrase: tuple[str, ...]) -> float:
    n = len(phrase)
    total = sum(max(len(item.words) - n + 1, 0) for item in batch.items)
    return sum(occurrences(item.words, phrase) for item in batch.items) / total if total else 0.0
