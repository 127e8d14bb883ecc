"""Sampled responses that are cut at the length limit, as they always were."""

from collections.abc import Iterator
from dataclasses import dataclass

from rlhfdoctor.measures import finite_rows
from rlhfdoctor.model import Finding, Run, Severity, Skip
from rlhfdoctor.rules import rule
from rlhfdoctor.rules._reward import reward_of, rises
from rlhfdoctor.rules._shares import File, cut, each, files, told


@dataclass(frozen=True, slots=True)
class Limits:
    """Which share of cut responses is a fault."""

    few: float = 0.1  # share of responses: verl's "often truncating too much"
    most: float = 0.5  # share of responses: a warning
    start: float = 0.25  # share at the first step from which the limit was too low all along
    fewest: int = 8  # responses a sampled step
    alone: int = 20  # responses of a file without steps


@rule(
    "LEN010",
    signal="length",
    any_of=["samples.truncated", "samples.token_ids"],
    limits=Limits,
    text="{level:.1%} of the responses in {source} are cut at the length limit ({before})",
    brief="{level:.0%} of responses cut at the length limit",
)
def cut_samples(run: Run, limits: Limits) -> Iterator[Finding | Skip]:
    """The samples themselves say that many answers were cut: by a field, or by no end token.

    verl's guide calls more than a tenth "often truncating too much"; above one half the limit, not
    the policy, decides what is answered: a warning, and mere information where the logged reward
    rises all the same. It is no collapse: a base model that thinks at length is cut as often. A cut
    that came with training is LEN011's; where a log tells the share, LEN003 and LEN009 judge. [H]

    Remedy: as for LEN009.
    """
    known = files(run, limits.fewest, each(cut), limits.alone)
    if not known:
        yield Skip("", ("samples that tell how they ended",))
    reward = reward_of(run)
    earns = reward is not None and rises(reward.values)

    def grade(file: File) -> Severity | None:
        grew = file.since is not None and file.start < limits.start
        if grew or file.level <= limits.few or finite_rows(run, "truncation_rate"):
            return None
        return "warning" if file.level > limits.most and not earns else "info"

    yield from told(run, known, grade, limits.few, subject="samples.truncated")
