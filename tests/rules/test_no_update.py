import pytest

from tests.builders import clear, judge, only, run_of, skipped
from tests.rules.shapes import NAN, halves, log_of, logged, silent


@pytest.mark.parametrize(
    ("norms", "dead"),
    [
        pytest.param([0.0, 0.0], True, id="two rows of zero prove it"),
        pytest.param([0.0, NAN], False, id="one finite row of zero proves nothing"),
        pytest.param([0.0] * 20, True, id="zeros throughout"),
        pytest.param([0.0] * 19 + [1e-12], False, id="a tiny norm is an update"),
        pytest.param([0.0] * 10 + [1.0] * 10, False, id="zeros at first that recovered"),
        pytest.param([0.0] * 10 + [NAN] * 10, True, id="NaN is no update"),
    ],
)
def test_a_gradient_norm_of_zero_in_every_row(norms: list[float], dead: bool) -> None:
    assert silent("UPD001", run_of(grad_norm=norms)) is not dead


@pytest.mark.parametrize(
    ("norms", "dead"),
    [
        pytest.param(9, False, id="nine norms in twenty rows are no proof"),
        pytest.param(10, True, id="ten norms in twenty rows are a proof"),
    ],
)
def test_the_norm_is_needed_in_half_of_the_rows(norms: int, dead: bool) -> None:
    run = run_of(grad_norm=[0.0] * norms + [None] * (20 - norms), loss_total=[1.0] * 20)
    assert silent("UPD001", run) is not dead


def test_it_is_critical_alone_and_from_the_first_step() -> None:
    finding = only("UPD001", run_of(steps=range(5, 55, 5), grad_norm=[0.0] * 10))
    assert finding.severity == "critical"
    assert finding.alone
    assert finding.onset is not None
    assert (finding.onset.low, finding.onset.step, finding.onset.high) == (5, 5, 5)
    evidence = finding.evidence[0]
    assert logged(evidence, "grad_norm", "L2 norm")
    assert evidence.observed == 0.0
    assert (evidence.first_step, evidence.last_step) == (5, 50)
    assert "all 10 logged rows" in finding.message
    assert "gradient norm 0" in finding.summary


def test_the_gradient_norm_outweighs_every_other_sign() -> None:
    run = run_of(grad_norm=[0.0] * 20, kl_ref_token=[0.1] * 20, reward_raw_mean=halves(9.0))
    assert only("UPD001", run).severity == "critical"


@pytest.mark.parametrize(
    "sign",
    [
        pytest.param("kl_ref_token", id="a KL per token"),
        pytest.param("kl_ref_response", id="a KL per response"),
        pytest.param("kl_unknown", id="a KL of unknown unit"),
        pytest.param("kl_old_token", id="a KL to the policy that sampled"),
        pytest.param("clip_frac", id="a clip fraction"),
        pytest.param("dpo_margin", id="a margin"),
        pytest.param("dpo_reward_chosen", id="a log-ratio of the chosen answers"),
    ],
)
def test_a_sign_that_left_zero_shows_updates(sign: str) -> None:
    assert clear("UPD001", log_of({sign: [0.0] * 19 + [0.001]}))
    assert skipped("UPD001", log_of({sign: [0.0] * 20}))
    assert skipped("UPD001", log_of({sign: [NAN] * 20}))


@pytest.mark.parametrize(
    "trend",
    [
        pytest.param("loss_total", id="a loss"),
        pytest.param("reward_raw_mean", id="a reward"),
        pytest.param("entropy", id="an entropy"),
        pytest.param("entropy_unknown", id="an entropy of unknown unit"),
        pytest.param("response_length_mean", id="a length"),
    ],
)
@pytest.mark.parametrize(
    ("errors", "shows"),
    [
        pytest.param(3.9, False, id="that moved by 3.9 standard errors may be noise"),
        pytest.param(4.1, True, id="that rose by 4.1 standard errors shows updates"),
        pytest.param(-4.1, True, id="that fell by 4.1 standard errors shows updates"),
    ],
)
def test_a_trend_of_four_standard_errors_shows_updates(
    trend: str, errors: float, shows: bool
) -> None:
    run = log_of({trend: halves(errors, centre=50.0)})
    assert clear("UPD001", run) is shows
    assert skipped("UPD001", run) is not shows


def test_a_gradient_norm_of_nan_says_nothing() -> None:
    assert skipped("UPD001", run_of(grad_norm=[NAN] * 20))
    assert clear("UPD001", run_of(grad_norm=[NAN] * 20, kl_ref_token=[0.1] * 20))


def test_what_does_not_depend_on_updates_shows_none() -> None:
    assert skipped("UPD001", run_of(lr=halves(50.0), step_time=halves(50.0, centre=9.0)))


@pytest.mark.parametrize(
    ("rows", "looks"),
    [
        pytest.param(1, False, id="one row is too few"),
        pytest.param(2, True, id="two rows are enough"),
    ],
)
def test_two_rows_are_needed(rows: int, looks: bool) -> None:
    assert skipped("UPD001", run_of(grad_norm=[1.0] * rows)) is not looks


@pytest.mark.parametrize(
    ("column", "value", "proves"),
    [
        pytest.param("frac_reward_zero_std", 0.98, True, id="some groups have a spread"),
        pytest.param("frac_reward_zero_std", 1.0, False, id="no group has one"),
        pytest.param("frac_reward_zero_std", 0.995, False, id="hardly a group has one"),
        pytest.param("reward_group_std", 1.5e-5, True, id="a spread above rounding"),
        pytest.param("reward_group_std", 9e-6, False, id="a spread that is rounding"),
    ],
)
@pytest.mark.parametrize(
    ("rows", "severity"),
    [
        pytest.param(1, "info", id="in one row, which proves nothing"),
        pytest.param(2, "critical", id="in two rows"),
        pytest.param(9, "critical", id="in nine rows"),
    ],
)
def test_a_gradient_of_zero_beside_a_spread_of_rewards(
    rows: int, severity: str, column: str, value: float, proves: bool
) -> None:
    run = log_of({column: [value] * rows}, grad_norm=[0.0] * rows)
    assert skipped("UPD001", run) is not proves
    if proves:
        assert only("UPD001", run).severity == severity


def test_one_row_is_said_to_prove_nothing() -> None:
    run = run_of(steps=[5], grad_norm=[0.0], frac_reward_zero_std=[0.0])
    finding = only("UPD001", run)
    assert not finding.alone
    assert finding.onset is not None
    assert finding.onset.step == 5
    assert logged(finding.evidence[0], "grad_norm", "L2 norm")
    assert "exactly 0 in the one logged row, step 5: rewards differ" in finding.message
    assert skipped("UPD001", run_of(grad_norm=[0.0]))
    assert skipped("UPD001", run_of(grad_norm=[0.4], frac_reward_zero_std=[0.0]))


def test_ten_rows_of_zero_are_a_proof_even_without_a_spread() -> None:
    run = run_of(grad_norm=[0.0] * 10, frac_reward_zero_std=[1.0] * 10)
    assert only("UPD001", run).severity == "critical"


def test_a_spread_in_other_rows_says_nothing_of_these() -> None:
    run = run_of(grad_norm=[0.0] * 3 + [None] * 3, frac_reward_zero_std=[1.0] * 3 + [0.0] * 3)
    assert skipped("UPD001", run)


def test_the_limits_can_be_set() -> None:
    few: dict[str, list[float | None]] = {"frac_reward_zero_std": [1.0] * 6}
    assert only("UPD001", log_of(few, grad_norm=[0.0] * 6), still=6)
    assert only("UPD001", log_of(few, grad_norm=[0.0] * 6), share=1.1)
    tiny: dict[str, list[float | None]] = {"reward_group_std": [1e-7] * 6}
    assert only("UPD001", log_of(tiny, grad_norm=[0.0] * 6), float_noise=1e-8)
    run = run_of(grad_norm=[0.0] * 5)
    assert judge("UPD001", run)
    assert silent("UPD001", run, rows=6)
    assert clear("UPD001", run_of(loss_total=halves(3.0)), standard_errors=2.5)


@pytest.mark.parametrize(
    ("rows", "proves"),
    [
        pytest.param(9, False, id="nine rows of learning rate 0 may be a warm-up"),
        pytest.param(10, True, id="ten rows of learning rate 0 update nothing"),
    ],
)
def test_a_learning_rate_of_zero_throughout_updates_nothing(rows: int, proves: bool) -> None:
    run = run_of(lr=[0.0] * rows, grad_norm=[0.4] * rows)
    outcome = judge("UPD001", run)
    assert isinstance(outcome, list)
    assert [finding.severity for finding in outcome] == ["critical"] * proves
    if proves:
        assert outcome[0].alone
        assert "learning rate is exactly 0" in outcome[0].message


def test_a_warm_up_that_begins_at_zero_is_none() -> None:
    assert judge("UPD001", run_of(lr=[0.0] * 12 + [1e-6], grad_norm=[0.4] * 13)) == []
