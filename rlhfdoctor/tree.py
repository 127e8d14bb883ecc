"""The decision tree as a literal, and the walk that keeps the path.

Roots stand in the order in which an experienced engineer asks: A is the log whole, B is anything
not finite, C did the weights move, D is the reference what it should be, E is there a learning
signal, F are the updates sound, G is the objective the right one, H does preference training
displace, I is a setting out of its range, J are samples broken that nothing compares with. A
question is answered by rules: yes where one of them found something, no where at least one looked
and none did, unknown where none could look. A cause names its rivals, the test that would tell them
apart, and how that test came out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from rlhfdoctor.model import Answer, Cause, Confidence, Finding, Onset, Reply, Rival, Skip

REPETITION = ("SMP001", "SMP002")
"""Rules that find a policy which began to repeat itself."""

PAID = ("RWD001", "RWD002", "RWD004", "RWD005", "RWD012", "RWD013")
"""Rules that find what the reward pays for in place of the task."""

RECOMPUTE = "rlhfdoctor diagnose {run} --reference MODEL"
SAMPLES = "rlhfdoctor samples {samples} --ngrams 3"
"""Commands that run a test; the doctor fills in the run and its samples."""


@dataclass(frozen=True, slots=True)
class Or:
    """A rival of a cause, and the test that tells them apart.

    rules: those whose finding speaks for the rival; it is ruled out where all of them that looked
    found nothing. against: rules whose finding speaks for the cause itself. command: what would run
    the test; empty where no file can tell.
    """

    cause: str
    test: str
    rules: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    command: str = ""


@dataclass(frozen=True, slots=True)
class Ends:
    """A cause.

    leads: the rules that name it, put first on its path. proof: rules without any of which it is
    possible at most. taints: what later letters find may follow from it, so that it leads even
    where no finding of its own is critical.
    """

    cause: str
    confidence: Confidence
    remedy: str
    caveat: str = ""
    leads: tuple[str, ...] = ()
    proof: tuple[str, ...] = ()
    taints: bool = False
    rivals: tuple[Or, ...] = ()


@dataclass(frozen=True, slots=True)
class Ask:
    """A question.

    information: findings of severity info answer it with yes too. grave: only critical ones do.
    """

    code: str
    question: str
    rules: tuple[str, ...]
    yes: Ask | Ends
    no: Ask | Ends | None = None
    unknown: Ask | Ends | None = None
    information: bool = False
    grave: bool = False


SLACK = 0.1
"""How much later than another's onset, as a share of it, a cause may begin and still lead."""

OVER_OPTIMISATION = "reward over-optimisation"
INTERRUPTED = "interrupted"
NO_SIGNAL = "no learning signal"
NO_UPDATE = "no weight update"
WRONG_REFERENCE = "wrong reference"
CUT_OFF = "answers cut at the length limit"
UNMEASURED = "a metric that is not finite"
MISMEASURED = "a KL that is mismeasured"
MEASUREMENT = (UNMEASURED, MISMEASURED)
"""Causes that are faults of what was logged: the weights may be sound, nothing is rolled back."""
NOTHING_LEARNT = (NO_SIGNAL, NO_UPDATE)
"""Causes under which, once confirmed, there is nothing to lose and nothing to go back to."""

_REFERENCE = Or(
    "wrong reference",
    "recompute the KL against the base, the supervised and the first saved model",
    rules=("REF002", "REF003", "REF004", "REF005"),
    command=RECOMPUTE,
)
_REWARD = Or(
    OVER_OPTIMISATION,
    "score late samples with a second reward model",
    rules=PAID,
)
_LOOPS = Or(
    "repetition collapse",
    "read late samples for loops",
    rules=REPETITION,
    command=SAMPLES,
)
_MISMATCH = Or(
    "rollout and trainer disagree",
    "replay one batch at learning rate 0 and compare both log-probabilities",
    rules=("MIS001", "MIS002", "MIS003", "MIS005"),
)
_CUT = Or(
    CUT_OFF,
    "score answers that were not cut",
    rules=("LEN007", "LEN008", "LEN009", "LEN010"),
)

_DIVERGED = Or(
    "divergence before it",
    "look whether gradient norm or KL left their level first",
    rules=("OPT001", "KL002", "KL003"),
)

_OVER_OPTIMISED = Ends(
    OVER_OPTIMISATION,
    "probable",
    "repair the reward first; a stronger KL penalty or a lower learning rate only delays it",
    proof=PAID,
    rivals=(
        Or(
            "policy drift",
            "score late samples with a second reward model",
            against=PAID,
        ),
        _REFERENCE,
        _LOOPS,
    ),
)
_DRIFT = Ends(
    "policy drift",
    "possible",
    "lower the learning rate or raise the KL penalty; the reward does not explain the distance",
    rivals=(_REWARD, _REFERENCE, _MISMATCH),
)
_REFERENCE_MOVED = Ends(
    "the reference moved",
    "probable",
    "recompute the KL against the initial model; switch the reference update off or slow it down",
    caveat="from two sample files; not recomputed",
    leads=("REF001",),
    taints=True,
    rivals=(_REFERENCE,),
)
_REPETITION = Ends(
    "repetition collapse",
    "probable",
    "go back to before it; raise the KL penalty, lower the learning rate",
    rivals=(
        Or(
            "logits that are not finite",
            'one character over and over ("!!!!") is token 0: look for NaN in the rollout engine',
            rules=("NUM001", "CKP002", "SMP003"),
        ),
        _REWARD,
    ),
)
_NAN_LOGITS = Ends(
    "logits that are not finite",
    "possible",
    "compare the rollout engine's log-probabilities with the trainer's; other attention kernel or "
    "precision; look at the weights it was sent",
    caveat="from the text alone: no number of the log shows it",
    rivals=(
        Or(
            "repetition collapse",
            "look whether entropy or perplexity fell before, and loops of other text came first",
            rules=("ENT001", "PPL001", "PPL003"),
        ),
        Or("NaN in log or weights", "look for it in both", rules=("NUM001", "CKP002")),
    ),
)
_NO_SIGNAL = Ends(
    NO_SIGNAL,
    "confirmed",
    "check the reward's parser and the prompt template, then easier (or harder) prompts",
    leads=("GRP001",),
    rivals=(_CUT,),
)
_ONE_ANSWER = Ends(
    "policy collapse",
    "probable",
    "go back to before it; an entropy bonus, a lower learning rate, a balanced reward",
    rivals=(
        Or(NO_SIGNAL, "look for reward spread within a group", rules=("GRP001",)),
        _LOOPS,
    ),
)
_NO_UPDATE = Ends(
    NO_UPDATE,
    "confirmed",
    "find out why no parameter is trained (adapter, frozen layers, masked labels), then restart",
    rivals=(
        Or(NO_SIGNAL, "look for reward spread within a group", rules=("GRP001",)),
        Or(
            "the trained weights were not saved",
            "compare the checkpoints' bytes with the initial model's",
            rules=("CKP003", "CKP007"),
            command=RECOMPUTE,
        ),
    ),
)
_DISPLACEMENT = Ends(
    "likelihood displacement",
    "probable",
    "learning rate ten times lower, then beta, then a supervised term",
    leads=("DPO001", "DPO004"),
    rivals=(
        Or(
            "the ordinary fall of both log-probabilities",
            "perplexity of the chosen answers against the supervised model's; greedy samples",
            against=("DPO001", "DPO004"),
            command=RECOMPUTE,
        ),
    ),
)
_WRONG_REFERENCE = Ends(
    WRONG_REFERENCE,
    "probable",
    "recompute against base and supervised model; restart with the right reference",
    caveat="or log-probabilities that disagree; not recomputed",
    leads=("REF002",),
    taints=True,
    rivals=(
        Or(
            "log-probabilities that disagree",
            "recompute one batch with batch size 1 and right padding",
            rules=("REF007", "MIS001", "MIS002", "MIS003"),
            command=RECOMPUTE,
        ),
    ),
)
_CUT_OFF = Ends(
    CUT_OFF,
    "probable",
    "raise the limit or ask for shorter answers; a reward on a cut answer teaches nothing",
    rivals=(
        Or(
            "answers that never end",
            "look whether the end-of-sequence token is masked or is the padding",
            rules=("LEN004", "LEN008"),
        ),
        Or(NO_SIGNAL, "look for reward spread within a group", rules=("GRP001",)),
    ),
)


def _reward(code: str, otherwise: Ends) -> Ask:
    return Ask(
        code,
        "Does the reward rise with it?",
        ("RWD001", "RWD002", "RWD003", "RWD012"),
        yes=_OVER_OPTIMISED,
        no=otherwise,
        unknown=otherwise,
        information=True,
    )


_SEAM = Ask(
    "D4b",
    "Did the KL fall to nothing where the run was resumed?",
    ("REF008",),
    yes=Ends(
        "the reference was captured anew",
        "possible",
        "recompute the KL against the initial model; name the reference when resuming",
        leads=("REF008",),
        taints=True,
        rivals=(_REFERENCE,),
    ),
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
        taints=True,
    ),
    no=_SEAM,
    unknown=_SEAM,
)
_STOPPED = Ask(
    "C2",
    "Did the weights stop moving?",
    ("UPD003",),
    yes=Ends(
        "the updates stopped",
        "probable",
        "find out what became constant at that step: the answers, or the learning rate",
        rivals=(
            Or(NO_SIGNAL, "look for reward spread within a group", rules=("GRP001",)),
            Or(
                "a schedule that ended",
                "look at the learning rate from there on",
                rules=("OPT006",),
            ),
        ),
    ),
)
_PEAKED = Or(
    "a start that was peaked already",
    "compare with the entropy of the supervised model",
    rules=("ENT003",),
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
        "A2",
        "Was a checkpoint saved wrongly?",
        ("CKP004", "CKP005", "CKP007"),
        yes=Ends(
            "a checkpoint that was saved wrongly",
            "probable",
            "do not go back to it; gather all parameters before saving, and save anew",
            rivals=(_DIVERGED,),
        ),
    ),
    Ask(
        "B",
        "Is any number not finite?",
        ("NUM001", "CKP002"),
        yes=Ask(
            "B1",
            "Is it the weights, the loss or the reward, to the end?",
            ("NUM001", "CKP002"),
            grave=True,
            yes=Ends(
                "non-finite values",
                "confirmed",
                "last finite checkpoint before the first anomaly; other precision or learning rate",
                rivals=(_DIVERGED,),
            ),
            no=Ends(
                UNMEASURED,
                "probable",
                "look at what the finding suspects; the weights may be sound",
                rivals=(_DIVERGED,),
            ),
        ),
    ),
    Ask(
        "B2",
        "Are answers one character over and over?",
        ("SMP003",),
        yes=_reward("B2a", _NAN_LOGITS),
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
        no=_STOPPED,
        unknown=_STOPPED,
    ),
    Ask(
        "D1",
        "Was the policy apart from the reference before its first update?",
        ("REF002", "DPO005", "DPO007", "DPO008"),
        yes=_WRONG_REFERENCE,
    ),
    Ask("D2", "Do two files remember different references?", ("REF001",), yes=_REFERENCE_MOVED),
    Ask(
        "D3",
        "Was the KL measured against another model than training started from?",
        ("REF004",),
        yes=Ends(
            WRONG_REFERENCE,
            "confirmed",
            "restart from where training started, with itself as the reference",
            leads=("REF004",),
            taints=True,
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
            taints=True,
        ),
        no=_CALMER,
        unknown=_CALMER,
    ),
    Ask(
        "D5",
        "Was the policy apart from the one that sampled, before its first update?",
        ("REF007",),
        yes=Ends(
            "log-probabilities that disagree",
            "probable",
            "recompute one batch with batch size 1 and right padding: position ids, attention mask "
            "or temperature",
            taints=True,
            rivals=(_MISMATCH,),
        ),
    ),
    Ask(
        "D6",
        "Is the logged KL one that cannot be?",
        ("KL008", "KL009", "KL010"),
        yes=Ends(
            MISMEASURED,
            "probable",
            "recompute it from the checkpoints before judging by it; look at masks, clamps and "
            "sampling settings",
            rivals=(
                Or(
                    "sampling that differs from scoring",
                    "score with the temperature and the truncation of the rollouts",
                    rules=("CFG005",),
                ),
                Or(
                    "noise of the k1 estimator",
                    "look whether the sign changes from row to row",
                    against=("KL010",),
                ),
                _REFERENCE,
            ),
        ),
    ),
    Ask("E", "Is there no reward spread in any group?", ("GRP001", "CFG008"), yes=_NO_SIGNAL),
    Ask(
        "E1",
        "Do the answers never end before the limit, from the start?",
        ("LEN007", "LEN008", "LEN009", "LEN010"),
        yes=_CUT_OFF,
    ),
    Ask(
        "F1",
        "Do rollout engine and trainer disagree on the same weights?",
        ("MIS001", "MIS002", "MIS003", "MIS005"),
        yes=Ends(
            "rollout and trainer disagree",
            "probable",
            "find out which first: engine, stale weights, temperature, re-tokenisation; then "
            "importance weights that are truncated",
            taints=True,
            rivals=(
                Or(
                    "stale weights after a sync",
                    "look whether it grows with the step on fixed data",
                    rules=("MIS004", "MIS005"),
                ),
                Or(
                    "temperature or truncated sampling",
                    "look whether the ratio is off by one constant factor",
                    rules=("MIS003",),
                ),
                Or(
                    "precision of half floats",
                    "look at the spread: a mean of 0 with wide tails harms long answers alone",
                ),
            ),
        ),
    ),
    Ask(
        "F2",
        "Are the updates too large?",
        ("OPT001", "OPT002", "OPT003", "OPT004", "OPT005", "OPT006", "OPT007"),
        yes=Ends(
            "unstable updates",
            "possible",
            "lower the learning rate, fewer updates on one batch; go back to before the first rise",
            rivals=(_MISMATCH, _REWARD),
        ),
    ),
    Ask(
        "F3",
        "Is the value model worse than a constant?",
        ("VAL001", "VAL002"),
        yes=Ends(
            "a value model that does not follow",
            "possible",
            "train the value model first or faster; normalise the reward",
            rivals=(
                Or(
                    "a consequence of a collapse",
                    "look whether entropy or KL left their level before",
                    rules=("ENT001", "KL002", "KL003"),
                ),
            ),
        ),
    ),
    Ask(
        "G0",
        "Does the reward rise while the task is done no better?",
        ("RWD004", "RWD005", "RWD013"),
        yes=_OVER_OPTIMISED,
    ),
    Ask(
        "G1",
        "Is the policy too far from the reference?",
        ("KL002", "KL003", "KL005", "KL006", "KL012", "PPL002"),
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
            (*REPETITION, "PPL005"),
            yes=_reward("G2b", _REPETITION),
            no=Ends(
                "entropy collapse",
                "probable",
                "go back to before entropy halved; raise the upper clip range or the temperature",
                rivals=(_PEAKED, _REWARD),
            ),
            unknown=Ends(
                "entropy collapse",
                "possible",
                "go back to before entropy halved; raise the upper clip range or the temperature",
                caveat="no samples to read",
                rivals=(_LOOPS, _PEAKED, _REWARD),
            ),
        ),
    ),
    Ask(
        "G3",
        "Did the response length explode?",
        ("LEN003", "LEN004", "LEN005", "LEN011"),
        yes=Ask(
            "G3a",
            "Do the samples repeat themselves?",
            REPETITION,
            yes=_reward("G3b", _REPETITION),
            no=Ask(
                "G3c",
                "Does the reward follow the length?",
                ("RWD001",),
                yes=Ends(
                    "length explosion",
                    "probable",
                    "take the length out of the reward; penalise overlong answers",
                    rivals=(_LOOPS,),
                ),
                no=Ends(
                    "length explosion",
                    "possible",
                    "penalise overlong answers, or raise the limit if it was too low",
                    rivals=(_LOOPS, _CUT),
                ),
            ),
            unknown=Ends(
                "length explosion",
                "possible",
                "read samples; penalise overlong answers if they ramble",
                caveat="no samples to read",
                rivals=(_LOOPS, _CUT),
            ),
        ),
    ),
    Ask(
        "G4",
        "Do the samples repeat themselves?",
        REPETITION,
        yes=_reward("G4a", _REPETITION),
    ),
    Ask(
        "G5",
        "Did entropy or perplexity explode, or the text leave its script?",
        ("ENT002", "PPL004", "SMP006"),
        yes=Ends(
            "entropy explosion",
            "possible",
            "no entropy bonus, a lower upper clip range; read samples for gibberish",
            rivals=(
                Or(
                    "an entropy bonus",
                    "look whether the entropy coefficient is above 0",
                ),
                _MISMATCH,
                _LOOPS,
            ),
        ),
    ),
    Ask(
        "G6",
        "Did the answers shrink to nothing?",
        ("LEN006", "SMP004"),
        yes=Ends(
            "length collapse",
            "possible",
            "do not punish long answers by cutting them; average the loss over tokens",
            rivals=(
                Or(
                    "a task of short answers",
                    "look at the held-out score while they shrink",
                    rules=("RWD003",),
                    against=("RWD004",),
                ),
            ),
        ),
    ),
    Ask(
        "G7",
        "Did the answers stop depending on the question?",
        ("RWD006", "RWD007", "SMP005"),
        yes=Ask(
            "G7a",
            "Do the samples repeat themselves?",
            REPETITION,
            yes=_reward("G7b", _REPETITION),
            no=_ONE_ANSWER,
            unknown=_ONE_ANSWER,
        ),
    ),
    Ask(
        "G8",
        "Does the reward fall?",
        ("RWD008",),
        yes=Ends(
            "training makes the policy worse",
            "possible",
            "check the reward's sign and definition, then a lower learning rate",
            rivals=(_MISMATCH, _CUT),
        ),
    ),
    Ask(
        "G9",
        "Did it break in the last rows of the log?",
        ("RWD011",),
        yes=Ends(
            "a collapse that the log ends in",
            "probable",
            "go back to before it; read the answers of the last row and the batch of the first; "
            "lower the learning rate",
            caveat="the log ends two to four rows after it began",
            rivals=(
                _DIVERGED,
                Or(
                    "a switch of the data",
                    "look whether the prompts changed at that step; let it run five rows more",
                ),
                _MISMATCH,
            ),
        ),
    ),
    Ask(
        "H",
        "Does preference training push the chosen answers down?",
        ("DPO001", "DPO002", "DPO003", "DPO004", "DPO012"),
        yes=Ask(
            "H1",
            "Did the policy get worse at the pairs than it was untrained?",
            ("DPO002", "DPO003", "DPO012"),
            yes=Ends(
                "preference training diverged",
                "probable",
                "learning rate ten times lower; check that chosen and rejected are not swapped",
                leads=("DPO001", "DPO002", "DPO003"),
                rivals=(
                    Or(
                        WRONG_REFERENCE,
                        "look for rewards of 0 and a loss of ln 2 before the first update",
                        rules=("DPO005", "DPO007", "DPO008"),
                    ),
                ),
            ),
            no=_DISPLACEMENT,
            unknown=_DISPLACEMENT,
        ),
    ),
    Ask(
        "H2",
        "Does it learn the pairs by heart?",
        ("DPO006", "DPO009"),
        yes=Ends(
            "overfitting to the pairs",
            "probable",
            "the checkpoint of the best evaluation; fewer epochs, a lower learning rate",
            rivals=(
                Or(
                    "pairs that are trivially apart",
                    "train a classifier on length or first words to tell chosen from rejected",
                ),
            ),
        ),
    ),
    Ask(
        "I",
        "Is a setting out of its range?",
        ("CFG001", "CFG002"),
        yes=Ends(
            "configuration",
            "possible",
            "bring the setting into the range that its algorithm is used with",
        ),
    ),
    Ask(
        "J",
        "Are most samples broken, with none from before to compare with?",
        ("SMP010",),
        yes=Ends(
            "broken samples of unknown origin",
            "possible",
            "sample the initial model with the same prompts; whether training did it shows there",
            rivals=(
                _LOOPS,
                _CUT,
                Or("a task or a model that always did it", "sample the initial model and compare"),
            ),
        ),
    ),
)


def walk(
    findings: Sequence[Finding], clear: Sequence[str], skipped: Sequence[Skip]
) -> tuple[tuple[Answer, ...], tuple[Cause, ...]]:
    """Ask every root; return the answers in the order asked and the causes, the first leading.

    A cause that several roots reach is one cause with one path, dated by the first of them. The
    earliest letter leads that does not begin clearly after another cause, which it could then not
    explain; the rest stand in the order of their onsets. Those without a critical finding come
    last, unless what a critical finding saw may follow from them. A consequence therefore never
    leads: zero spread after a collapse, a log cut after it.
    """
    answers: dict[str, Answer] = {}
    causes: dict[str, Cause] = {}
    tainting: set[str] = set()
    told: dict[str, tuple[Or, ...]] = {}
    for root in TREE:
        for asked, end in _follow(root, findings, clear, skipped):
            for answer in asked:
                answers.setdefault(answer.code, answer)
            if end is not None:
                cause = _cause(end, asked, findings)
                known = causes.get(cause.name)
                causes[cause.name] = _merge(known, cause) if known else cause
                told.setdefault(cause.name, end.rivals)
                tainting |= {cause.name} if end.taints else set()
    found = list(causes.values())
    order = sorted(found, key=lambda cause: cause.onset.step if cause.onset else 0)
    lead = next((one for one in found if not any(_after(one, other) for other in found)), None)
    grave = {finding.code for finding in findings if finding.severity == "critical"}

    def rank(cause: Cause) -> tuple[bool, bool]:
        leads = lead is not None and cause.name == lead.name
        explains = leads and cause.name in tainting
        return not (explains or grave & {*cause.path}), not leads

    judged = [
        replace(
            cause,
            rivals=tuple(
                _rival(rival, cause, findings, clear, skipped)
                for rival in told[cause.name]
                if rival.cause != cause.name
            ),
        )
        for cause in order
    ]
    return tuple(answers.values()), tuple(sorted(judged, key=rank))


def _rival(
    rival: Or,
    cause: Cause,
    findings: Sequence[Finding],
    clear: Sequence[str],
    skipped: Sequence[Skip],
) -> Rival:
    """Say how the test came out that tells a rival from the cause.

    What led to the cause speaks for no rival: it would be evidence of both.
    """
    stand = {item.code for item in findings if item.recovered_at is None}
    speak = [code for code in rival.rules if code in stand and code not in cause.path]
    deny = [code for code in rival.against if code in stand]
    quiet = [code for code in rival.rules if code in clear]
    missing = [
        f"{skip.code}: {', '.join(skip.missing)}" for skip in skipped if skip.code in rival.rules
    ]
    reply: Reply = "unknown"
    why = "; ".join(missing) or "no rule tells it"
    if speak:
        reply, why = "yes", f"{', '.join(speak)} found it"
    elif deny:
        reply, why = "no", f"{', '.join(deny)} found the other"
    elif quiet:
        reply, why = "no", f"{', '.join(quiet)} found no sign of it"
    return Rival(rival.cause, rival.test, reply, why, rival.command if reply == "unknown" else "")


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
        and (finding.severity != "info" or (ask.information and finding.recovered_at is None))
        and (finding.severity == "critical" or not ask.grave)
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
    grave = any(item.severity == "critical" for item in findings if item.code in codes)
    confidence = end.confidence
    if end.proof and not {*end.proof} & {*codes}:
        confidence = "possible"
    elif end.cause in NOTHING_LEARNT and not grave:
        confidence = "probable"
    ordered = sorted(dict.fromkeys(codes), key=lambda code: code not in end.leads)
    return Cause(
        name=end.cause,
        confidence=confidence,
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
