"""The decision tree as a literal, and the walk that keeps the path.

Roots stand in the order in which an experienced engineer asks: A is the log whole, B is anything
not finite, C did the weights move, D is the reference what it should be, E is there a learning
signal, G is the objective the right one, H does preference training displace. A question is
answered by rules: yes where one of them found something, no where at least one looked and none
did, unknown where none could look.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from rlhfdoctor.model import Answer, Cause, Confidence, Finding, Onset, Skip


@dataclass(frozen=True, slots=True)
class Ends:
    """A cause.

    leads: the rules that name it, put first on its path. proof: rules without any of which it is
    possible at most.
    """

    cause: str
    confidence: Confidence
    remedy: str
    caveat: str = ""
    leads: tuple[str, ...] = ()
    proof: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A question. ``information``: findings of severity info answer it with yes too."""

    code: str
    question: str
    rules: tuple[str, ...]
    yes: Ask | Ends
    no: Ask | Ends | None = None
    unknown: Ask | Ends | None = None
    information: bool = False


SLACK = 0.1
"""How much later than another's onset, as a share of it, a cause may begin and still lead."""

OVER_OPTIMISATION = "reward over-optimisation"
INTERRUPTED = "interrupted"
NO_SIGNAL = "no learning signal"
NO_UPDATE = "no weight update"
NOTHING_LEARNT = (NO_SIGNAL, NO_UPDATE)
"""Causes under which there is nothing to lose and nothing to go back to."""

_OVER_OPTIMISED = Ends(
    OVER_OPTIMISATION,
    "probable",
    "repair the reward first; a stronger KL penalty or a lower learning rate only delays it",
    proof=("RWD001", "RWD002"),
)
_DRIFT = Ends(
    "policy drift",
    "possible",
    "lower the learning rate or raise the KL penalty; the reward does not explain the distance",
)
_REFERENCE_MOVED = Ends(
    "the reference moved",
    "probable",
    "recompute the KL against the initial model; switch the reference update off or slow it down",
    caveat="from two sample files; not recomputed",
    leads=("REF001",),
)
_REPETITION = Ends(
    "repetition collapse",
    "probable",
    "go back to before it; raise the KL penalty, lower the learning rate",
)
_NO_SIGNAL = Ends(
    NO_SIGNAL,
    "confirmed",
    "check the reward's parser and the prompt template, then easier (or harder) prompts",
    leads=("GRP001",),
)
_NO_UPDATE = Ends(
    NO_UPDATE,
    "confirmed",
    "find out why no parameter is trained (adapter, frozen layers, masked labels), then restart",
)


_DISPLACEMENT = Ends(
    "likelihood displacement",
    "probable",
    "learning rate ten times lower, then beta, then a supervised term",
    leads=("DPO001",),
)


def _reward(code: str, otherwise: Ends) -> Ask:
    return Ask(
        code,
        "Does the reward rise with it?",
        ("RWD001", "RWD002", "RWD003"),
        yes=_OVER_OPTIMISED,
        no=otherwise,
        unknown=otherwise,
        information=True,
    )


_CALMER = Ask(
    "D4a",
    "Is the logged KL calmer than the recomputed one?",
    ("REF003",),
    yes=Ends(
        "the reference moved",
        "confirmed",
        "judge by the recomputed KL; switch the reference update off or slow it down",
        leads=("REF003", "REF001"),
    ),
)

TREE: tuple[Ask, ...] = (
    Ask(
        "A",
        "Was the log cut short?",
        ("LOG001", "LOG004"),
        yes=Ends(
            INTERRUPTED,
            "possible",
            "find the tail of the log; resume from the last complete checkpoint, nothing changed",
            caveat="why it ended is not in the log",
        ),
        information=True,
    ),
    Ask(
        "B",
        "Is any number not finite?",
        ("NUM001", "CKP002"),
        yes=Ends(
            "non-finite values",
            "confirmed",
            "last finite checkpoint before the first anomaly; change precision or learning rate",
        ),
    ),
    Ask(
        "C",
        "Did the weights never move?",
        ("UPD001", "UPD002", "CKP003", "CKP006", "REF006"),
        yes=Ask(
            "C1",
            "Is there no reward spread in any group?",
            ("GRP001",),
            yes=_NO_SIGNAL,
            no=_NO_UPDATE,
            unknown=_NO_UPDATE,
        ),
    ),
    Ask(
        "D1",
        "Was the policy apart from the reference before its first update?",
        ("REF002",),
        yes=Ends(
            "wrong reference",
            "probable",
            "recompute against base and supervised model; restart with the right reference",
            caveat="or log-probabilities that disagree; not recomputed",
            leads=("REF002",),
        ),
    ),
    Ask("D2", "Do two files remember different references?", ("REF001",), yes=_REFERENCE_MOVED),
    Ask(
        "D3",
        "Was the KL measured against another model than training started from?",
        ("REF004",),
        yes=Ends(
            "wrong reference",
            "confirmed",
            "restart from where training started, with itself as the reference",
            leads=("REF004",),
        ),
    ),
    Ask(
        "D4",
        "Was the reference captured anew?",
        ("REF005",),
        yes=Ends(
            "the reference was captured anew",
            "confirmed",
            "go back to before that step; give the reference by its path when resuming",
            leads=("REF005",),
        ),
        no=_CALMER,
        unknown=_CALMER,
    ),
    Ask("E", "Is there no reward spread in any group?", ("GRP001",), yes=_NO_SIGNAL),
    Ask(
        "G1",
        "Is the policy too far from the reference?",
        ("KL002", "KL003", "KL005", "KL006", "PPL002"),
        yes=Ask(
            "G1a",
            "Did the reference itself move?",
            ("REF001", "REF003"),
            yes=_REFERENCE_MOVED,
            no=_reward("G1b", _DRIFT),
            unknown=_reward("G1b", _DRIFT),
        ),
    ),
    Ask(
        "G2",
        "Did perplexity or entropy fall too low?",
        ("ENT001", "PPL001", "PPL003"),
        yes=Ask(
            "G2a",
            "Do the samples repeat themselves?",
            ("SMP001",),
            yes=_reward("G2b", _REPETITION),
            no=Ends(
                "entropy collapse",
                "probable",
                "go back to before entropy halved; raise the upper clip range or the temperature",
            ),
            unknown=Ends(
                "entropy collapse",
                "possible",
                "go back to before entropy halved; raise the upper clip range or the temperature",
                caveat="no samples to read",
            ),
        ),
    ),
    Ask(
        "G3",
        "Did the response length explode?",
        ("LEN003", "LEN004", "LEN005"),
        yes=Ask(
            "G3a",
            "Do the samples repeat themselves?",
            ("SMP001",),
            yes=_reward("G3b", _REPETITION),
            no=Ask(
                "G3c",
                "Does the reward follow the length?",
                ("RWD001",),
                yes=Ends(
                    "length explosion",
                    "probable",
                    "take the length out of the reward; penalise overlong answers",
                ),
                no=Ends(
                    "length explosion",
                    "possible",
                    "penalise overlong answers, or raise the limit if it was too low",
                ),
            ),
            unknown=Ends(
                "length explosion",
                "possible",
                "read samples; penalise overlong answers if they ramble",
                caveat="no samples to read",
            ),
        ),
    ),
    Ask(
        "G4",
        "Do the samples repeat themselves?",
        ("SMP001",),
        yes=_reward("G4a", _REPETITION),
    ),
    Ask(
        "H",
        "Does preference training push the chosen answers down?",
        ("DPO001", "DPO002", "DPO003"),
        yes=Ask(
            "H1",
            "Did the policy get worse at the pairs than it was untrained?",
            ("DPO002", "DPO003"),
            yes=Ends(
                "preference training diverged",
                "probable",
                "learning rate ten times lower; check that chosen and rejected are not swapped",
                leads=("DPO001", "DPO002", "DPO003"),
            ),
            no=_DISPLACEMENT,
            unknown=_DISPLACEMENT,
        ),
    ),
)


def walk(
    findings: Sequence[Finding], clear: Sequence[str], skipped: Sequence[Skip]
) -> tuple[tuple[Answer, ...], tuple[Cause, ...]]:
    """Ask every root; return the answers in the order asked and the causes, the first leading.

    A cause that several roots reach is one cause with one path, dated by the first of them. The
    earliest letter leads that does not begin clearly after another cause, which it could then not
    explain; the rest stand in the order of their onsets, those without a critical finding last. A
    consequence therefore never leads: zero spread after a collapse, a log cut after it.
    """
    answers: dict[str, Answer] = {}
    causes: dict[str, Cause] = {}
    for root in TREE:
        for asked, end in _follow(root, findings, clear, skipped):
            for answer in asked:
                answers.setdefault(answer.code, answer)
            if end is not None:
                cause = _cause(end, asked, findings)
                known = causes.get(cause.name)
                causes[cause.name] = _merge(known, cause) if known else cause
    found = list(causes.values())
    order = sorted(found, key=lambda cause: cause.onset.step if cause.onset else 0)
    lead = next((one for one in found if not any(_after(one, other) for other in found)), None)
    grave = {finding.code for finding in findings if finding.severity == "critical"}
    order.sort(key=lambda cause: (not grave & {*cause.path}, cause is not lead))
    return tuple(answers.values()), tuple(order)


def _after(one: Cause, other: Cause) -> bool:
    """Say whether a cause begins clearly after another: beyond its interval and a tenth more."""
    if one.onset is None or other.onset is None:
        return False
    return one.onset.step > other.onset.high + max(1.0, SLACK * other.onset.high)


def _follow(
    root: Ask, findings: Sequence[Finding], clear: Sequence[str], skipped: Sequence[Skip]
) -> Iterator[tuple[list[Answer], Ends | None]]:
    asked: list[Answer] = []
    node: Ask | Ends | None = root
    while isinstance(node, Ask):
        answer = _answer(node, findings, clear, skipped)
        asked.append(answer)
        node = {"yes": node.yes, "no": node.no, "unknown": node.unknown}[answer.reply]
    yield asked, node


def _answer(
    ask: Ask, findings: Sequence[Finding], clear: Sequence[str], skipped: Sequence[Skip]
) -> Answer:
    saying = [
        finding
        for finding in findings
        if finding.code in ask.rules
        and finding.recovered_at is None
        and (ask.information or finding.severity != "info")
    ]
    if saying:
        codes = tuple(dict.fromkeys(finding.code for finding in saying))
        return Answer(ask.code, ask.question, "yes", saying[0].message, codes)
    looked = [code for code in ask.rules if code in clear or _found(code, findings)]
    missing = tuple(
        f"{skip.code}: {', '.join(skip.missing)}" for skip in skipped if skip.code in ask.rules
    )
    if looked:
        return Answer(ask.code, ask.question, "no", f"{', '.join(looked)} looked", (), missing)
    why = "could not look: " + "; ".join(missing) if missing else "no rule looked"
    return Answer(ask.code, ask.question, "unknown", why, (), missing)


def _found(code: str, findings: Sequence[Finding]) -> bool:
    return any(finding.code == code for finding in findings)


def _cause(end: Ends, asked: Sequence[Answer], findings: Sequence[Finding]) -> Cause:
    codes = [code for answer in asked for code in answer.findings]
    ordered = sorted(dict.fromkeys(codes), key=lambda code: code not in end.leads)
    return Cause(
        name=end.cause,
        confidence="possible" if end.proof and not {*end.proof} & {*codes} else end.confidence,
        remedy=end.remedy,
        path=tuple(ordered),
        answers=tuple(answer.code for answer in asked),
        onset=_earliest(asked[0].findings, findings),
        caveat=end.caveat,
    )


def _earliest(codes: Sequence[str], findings: Sequence[Finding]) -> Onset | None:
    """Return the earliest onset; logged metrics go before samples, few and far apart."""
    dated = [
        (any(item.kind != "metric" for item in finding.evidence), finding.onset)
        for finding in findings
        if finding.code in codes and finding.onset
    ]
    dated.sort(key=lambda entry: (entry[0], entry[1].step, entry[1].low))
    return dated[0][1] if dated else None


def _merge(first: Cause, second: Cause) -> Cause:
    """Join two ways to one cause; the earlier letter dates it, the surer way says how sure."""
    order = ("confirmed", "probable", "possible")
    surer = min(first, second, key=lambda cause: order.index(cause.confidence))
    return Cause(
        name=first.name,
        confidence=surer.confidence,
        remedy=surer.remedy,
        path=tuple(dict.fromkeys((*first.path, *second.path))),
        answers=tuple(dict.fromkeys((*first.answers, *second.answers))),
        onset=first.onset or second.onset,
        caveat=surer.caveat,
    )
