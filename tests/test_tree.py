import inspect
from collections.abc import Iterator
from dataclasses import replace

import pytest

from rlhfdoctor.model import Cause, Evidence, Finding, Location, Onset, Rival, Severity, Skip
from rlhfdoctor.profile import rules
from rlhfdoctor.tree import TREE, Ask, Ends, Or, walk

CODES = {rule.code for rule in rules()}


def found(
    code: str, step: int = 10, severity: Severity = "critical", kind: str = "metric", low: int = 0
) -> Finding:
    evidence = Evidence(kind, "x", 1.0, Location("log.jsonl"))  # type: ignore[arg-type]
    return Finding(severity, (evidence,), onset=Onset(step, low or step, step), code=code, text="t")


def causes(*findings: Finding, skipped: tuple[str, ...] = ()) -> tuple[Cause, ...]:
    looked = CODES - {item.code for item in findings} - set(skipped)
    return walk(findings, sorted(looked), [Skip(code, ("x",)) for code in skipped])[1]


def names(*findings: Finding, skipped: tuple[str, ...] = ()) -> list[str]:
    return [cause.name for cause in causes(*findings, skipped=skipped)]


def asks(node: Ask | Ends | None) -> Iterator[Ask]:
    if isinstance(node, Ask):
        yield node
        for branch in (node.yes, node.no, node.unknown):
            yield from asks(branch)


def may_accuse(code: str) -> bool:
    """Whether a rule's source names a severity above information."""
    (rule,) = [rule for rule in rules() if rule.code == code]
    source = inspect.getsource(inspect.getmodule(rule.judge) or rule.judge)
    named = '"warning"' in source or '"critical"' in source
    return named or ("alarms(" in source and 'severity=lambda level: "info"' not in source)


EVERY = [ask for root in TREE for ask in asks(root)]
RIVALS = [
    rival
    for ask in EVERY
    for end in (ask.yes, ask.no, ask.unknown)
    if isinstance(end, Ends)
    for rival in end.rivals
]


@pytest.mark.parametrize("ask", EVERY, ids=lambda ask: ask.code)
def test_a_question_is_answered_by_rules_that_exist(ask: Ask) -> None:
    assert ask.question.endswith("?")
    assert set(ask.rules) <= CODES


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.cause)
def test_a_rival_is_told_apart_by_rules_that_exist(rival: Or) -> None:
    assert {*rival.rules, *rival.against} <= CODES
    assert not {*rival.rules} & {*rival.against}
    assert rival.command.format(run="run", samples="samples.jsonl").count("{") == 0


def test_every_rule_that_may_accuse_stands_in_the_tree() -> None:
    asked = {code for ask in EVERY for code in ask.rules}
    quiet = {code for code in CODES - asked if not may_accuse(code)}
    assert CODES - asked == quiet


def test_roots_stand_in_the_order_of_their_letters() -> None:
    codes = [root.code for root in TREE]
    assert codes == sorted(codes)
    assert len(set(codes)) == len(codes)


def test_nothing_found_means_no_cause() -> None:
    assert names() == []


@pytest.mark.parametrize(
    ("findings", "first"),
    [
        pytest.param([found("KL003"), found("RWD003", severity="info")], "reward over-optimisation",
                     id="distance that the reward explains"),
        pytest.param([found("KL003")], "policy drift", id="distance that earns nothing"),
        pytest.param([found("KL005"), found("REF001")], "the reference moved", id="two references"),
        pytest.param([found("REF002", 1, "warning")], "wrong reference", id="apart at the start"),
        pytest.param([found("REF003", severity="warning")], "the reference moved",
                     id="a log calmer than the weights"),
        pytest.param([found("REF004", severity="warning")], "wrong reference",
                     id="a log that is another model's"),
        pytest.param([found("REF005", severity="warning")], "the reference was captured anew",
                     id="a log that falls alone"),
        pytest.param([found("KL006", kind="checkpoint")], "policy drift",
                     id="recomputed distance that earns nothing"),
        pytest.param([found("PPL003", kind="checkpoint"), found("SMP001")], "repetition collapse",
                     id="recomputed perplexity with loops"),
        pytest.param([found("REF006", kind="checkpoint"), found("GRP001")], "no learning signal",
                     id="weights that are the reference's for want of a signal"),
        pytest.param([found("REF006", kind="checkpoint")], "no weight update",
                     id="weights that are the reference's"),
        pytest.param([found("ENT001")], "entropy collapse", id="entropy without repetition"),
        pytest.param([found("ENT001"), found("SMP001")], "repetition collapse", id="repetition"),
        pytest.param([found("LEN003"), found("RWD001", severity="warning")], "length explosion",
                     id="length that is paid"),
        pytest.param([found("LEN003"), found("SMP001"), found("RWD002", severity="warning")],
                     "reward over-optimisation", id="length with loops that are paid"),
        pytest.param([found("UPD001"), found("GRP001")], "no learning signal",
                     id="no update for want of a signal"),
        pytest.param([found("UPD001")], "no weight update", id="no update all the same"),
        pytest.param([found("CKP003"), found("GRP001")], "no learning signal",
                     id="identical checkpoints for want of a signal"),
        pytest.param([found("CKP003")], "no weight update", id="identical checkpoints"),
        pytest.param([found("CKP006")], "no weight update", id="an adapter that is zero"),
        pytest.param([found("NUM001")], "non-finite values", id="NaN"),
        pytest.param([found("CKP002", kind="checkpoint")], "non-finite values",
                     id="NaN in the weights"),
        pytest.param([found("SMP003")], "logits that are not finite", id="one character"),
        pytest.param([found("SMP003"), found("RWD002", severity="warning")],
                     "reward over-optimisation", id="one character that is paid"),
        pytest.param([found("SMP002")], "repetition collapse", id="loops alone"),
        pytest.param([found("SMP010", severity="warning")], "broken samples of unknown origin",
                     id="loops that nothing compares with"),
        pytest.param([found("SMP004")], "length collapse", id="silence"),
        pytest.param([found("SMP005")], "policy collapse", id="one answer to all"),
        pytest.param([found("SMP005"), found("SMP002")], "repetition collapse",
                     id="one looping answer to all"),
        pytest.param([found("SMP006", severity="warning")], "entropy explosion",
                     id="another script"),
        pytest.param([found("LEN010", severity="warning")], "answers cut at the length limit",
                     id="samples that were cut from the start"),
        pytest.param([found("LEN011")], "length explosion", id="samples that came to be cut"),
        pytest.param([found("RWD013", severity="warning")], "reward over-optimisation",
                     id="a part of the reward that is lost"),
        pytest.param([found("DPO001")], "likelihood displacement", id="chosen answers unlearnt"),
        pytest.param([found("DPO001"), found("DPO003")], "preference training diverged",
                     id="worse at the pairs than untrained"),
        pytest.param([found("LOG001", severity="info")], "interrupted", id="a log cut short"),
    ],
)  # fmt: skip
def test_a_signature_leads_to_its_cause(findings: list[Finding], first: str) -> None:
    assert names(*findings)[0] == first


def test_the_rule_that_names_the_cause_stands_first_on_its_path() -> None:
    assert causes(found("UPD001"), found("GRP001"))[0].path == ("GRP001", "UPD001")


def test_a_stale_save_is_no_missing_update() -> None:
    assert names(found("CKP007", severity="warning")) == ["a checkpoint that was saved wrongly"]


def test_non_finite_values_are_dated_by_the_log_before_the_checkpoints() -> None:
    (cause,) = causes(found("NUM001", 55), found("CKP002", 40, kind="checkpoint"))
    assert cause.path == ("NUM001", "CKP002")
    assert cause.onset is not None
    assert cause.onset.step == 55


def test_information_answers_no_question_of_faults() -> None:
    assert names(found("KL003", severity="info")) == []


@pytest.mark.parametrize(
    ("severity", "expected"),
    [
        pytest.param("info", [], id="information"),
        pytest.param("warning", ["interrupted"], id="a warning for what lasted long"),
    ],
)
def test_what_is_over_answers_a_question_only_as_a_fault(
    severity: Severity, expected: list[str]
) -> None:
    over = Finding(severity, (Evidence("log", "x", 1.0, Location("f")),), code="LOG001", text="t")
    assert names(replace(over, recovered_at=9)) == expected


def test_no_samples_leave_an_entropy_collapse_possible() -> None:
    (cause,) = causes(found("ENT001"), skipped=("SMP001", "SMP002", "PPL005"))
    assert (cause.name, cause.confidence) == ("entropy collapse", "possible")
    assert "no samples" in cause.caveat


def test_a_question_that_no_rule_could_look_at_is_unknown() -> None:
    answers, _ = walk([], [], [Skip("SMP001", ("samples",))])
    reply = {answer.code: answer for answer in answers}["G4"]
    assert reply.reply == "unknown"
    assert "SMP001: samples" in reply.why


@pytest.mark.parametrize(
    ("earlier", "later", "first"),
    [
        pytest.param(found("KL003", 50), found("LOG001", 60, "info"), "policy drift",
                     id="a log cut after a collapse does not lead"),
        pytest.param(found("KL003", 50), found("GRP001", 150), "policy drift",
                     id="zero spread after a collapse does not lead"),
        pytest.param(found("DPO001", 6), found("KL005", 26, kind="samples"),
                     "likelihood displacement", id="distance long after displacement"),
        pytest.param(found("ENT001", 49), found("KL003", 50), "policy drift",
                     id="an earlier letter leads where they begin together"),
        pytest.param(found("LEN003", 9), found("KL005", 81), "length explosion",
                     id="a letter does not lead long after"),
    ],
)  # fmt: skip
def test_a_consequence_never_leads(earlier: Finding, later: Finding, first: str) -> None:
    assert names(earlier, later)[0] == first


def test_a_logged_metric_dates_a_cause_before_samples_do() -> None:
    (cause,) = causes(found("KL003", 50), found("KL005", 31, kind="samples"))
    assert cause.onset == Onset(50, 50, 50)


def test_reward_and_distance_that_rise_together_are_no_proof_of_the_reward() -> None:
    rise = found("RWD003", severity="info")
    (bare,) = causes(found("KL003"), rise)
    (paid,) = causes(found("KL003"), rise, found("RWD002", severity="warning"))
    assert (bare.confidence, paid.confidence) == ("possible", "probable")


def test_causes_without_a_critical_finding_stand_last() -> None:
    assert names(found("LEN003", 5, "warning"), found("KL003", 50))[0] == "policy drift"


@pytest.mark.parametrize("code", ["REF003", "REF004", "REF005"])
def test_a_recomputation_confirms_what_became_of_the_reference(code: str) -> None:
    (cause,) = causes(found(code, severity="warning", kind="checkpoint"))
    assert (cause.confidence, cause.caveat, cause.path) == ("confirmed", "", (code,))


def test_a_recomputation_confirms_what_two_files_remember() -> None:
    (bare,) = causes(found("REF001", 10, "warning"))
    (told,) = causes(found("REF001", 10, "warning"), found("REF003", 20, "warning"))
    assert (bare.confidence, told.confidence) == ("probable", "confirmed")
    assert told.name == bare.name == "the reference moved"
    assert told.path == ("REF001", "REF003")
    assert told.caveat == ""


def test_a_recomputation_confirms_that_the_reference_is_the_wrong_one() -> None:
    (cause,) = causes(found("REF002", 1, "warning"), found("REF004", 1, "warning"))
    assert (cause.name, cause.confidence, cause.caveat) == ("wrong reference", "confirmed", "")
    assert cause.path == ("REF002", "REF004")


def test_a_reference_captured_anew_is_not_asked_whether_it_moved() -> None:
    found_causes = causes(found("REF005", severity="warning"), found("REF003", severity="warning"))
    assert [cause.name for cause in found_causes] == ["the reference was captured anew"]
    assert names(found("REF003", severity="warning"), skipped=("REF005",)) == [
        "the reference moved"
    ]


def test_information_about_a_policy_that_hardly_moved_is_no_missing_update() -> None:
    assert names(found("REF006", severity="info")) == []


@pytest.mark.parametrize(
    ("reward", "confidence"),
    [
        pytest.param((), None, id="no reward"),
        pytest.param(("RWD003",), "possible", id="a reward that rises"),
        pytest.param(("RWD003", "RWD002"), "probable", id="a reward that pays a phrase"),
        pytest.param(("RWD003", "RWD001"), "probable", id="a reward that pays length"),
    ],
)
def test_a_recomputed_distance_and_the_reward(
    reward: tuple[str, ...], confidence: str | None
) -> None:
    paid = [found(code, severity="info" if code == "RWD003" else "warning") for code in reward]
    (cause,) = causes(found("KL006", kind="checkpoint"), *paid)
    expected = "policy drift" if confidence is None else "reward over-optimisation"
    assert cause.name == expected
    assert cause.confidence == (confidence or "possible")


def test_two_ways_to_one_cause_are_one_cause() -> None:
    rise = found("RWD003", severity="info")
    found_causes = causes(found("KL003", 50), found("ENT001", 53), found("SMP001", 60), rise)
    assert [cause.name for cause in found_causes] == ["reward over-optimisation"]
    assert found_causes[0].path == ("KL003", "RWD003", "ENT001", "SMP001")
    assert found_causes[0].onset == Onset(50, 50, 50)


def told(rival: str, *findings: Finding, skipped: tuple[str, ...] = ()) -> Rival:
    first = causes(*findings, skipped=skipped)[0]
    return {item.name: item for item in first.rivals}[rival]


def test_a_rival_that_a_rule_found_is_named_with_it() -> None:
    low = found("LEN007", severity="warning")
    rival = told("answers cut at the length limit", found("GRP001"), low)
    assert (rival.reply, rival.why, rival.command) == ("yes", "LEN007 found it", "")


def test_a_rival_that_no_rule_found_is_told_from_the_cause() -> None:
    rival = told("repetition collapse", found("KL003"), found("RWD002"))
    assert (rival.reply, rival.command) == ("no", "")
    assert rival.why == "SMP001, SMP002 found no sign of it"


def test_a_test_that_was_not_run_is_told_with_its_command() -> None:
    unread = ("SMP001", "SMP002")
    rival = told("repetition collapse", found("KL003"), found("RWD002"), skipped=unread)
    assert (rival.reply, rival.why) == ("unknown", "SMP001: x; SMP002: x")
    assert rival.command == "rlhfdoctor samples {samples} --ngrams 3"


def test_what_led_to_the_cause_speaks_against_its_rival_and_for_none() -> None:
    paid = told("policy drift", found("KL003"), found("RWD002"), found("RWD003", severity="info"))
    assert (paid.reply, paid.why) == ("no", "RWD002 found the other")
    bare = told("policy drift", found("KL003"), found("RWD003", severity="info"))
    assert (bare.reply, bare.why) == ("unknown", "no rule tells it")
    cut = told("answers that never end", found("LEN008", severity="warning"), skipped=("LEN004",))
    assert cut.reply == "unknown"


def test_no_cause_is_its_own_rival() -> None:
    for cause in causes(found("LEN008", severity="warning"), found("GRP001", severity="warning")):
        assert cause.name not in {rival.name for rival in cause.rivals}


@pytest.mark.parametrize(
    ("severity", "confidence"), [("critical", "confirmed"), ("warning", "probable")]
)
def test_that_nothing_was_learnt_is_confirmed_by_a_critical_finding_alone(
    severity: Severity, confidence: str
) -> None:
    assert causes(found("GRP001", severity=severity))[0].confidence == confidence


@pytest.mark.parametrize(
    ("step", "first"),
    [
        pytest.param(40, "rollout and trainer disagree", id="that began before"),
        pytest.param(50, "rollout and trainer disagree", id="that began with it"),
        pytest.param(90, "policy drift", id="that began after it"),
    ],
)
def test_a_fault_that_later_findings_may_follow_from_leads_them(step: int, first: str) -> None:
    assert names(found("MIS001", step, "warning"), found("KL003", 50))[0] == first


def test_updates_that_are_too_large_follow_what_is_critical() -> None:
    assert names(found("OPT001", 40, "warning"), found("KL003", 50))[0] == "policy drift"
