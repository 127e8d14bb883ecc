import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from rlhfdoctor.cli import run_cli
from rlhfdoctor.doctor import diagnose
from rlhfdoctor.model import Acceptance, Checkpoint, Diagnosis, Note, Run, Severity
from rlhfdoctor.reports import Gated, Page
from rlhfdoctor.reports.html import html
from rlhfdoctor.runs import read_runs
from tests import chromium
from tests.builders import FIXTURES, RUNS, began, run_of, scored

LONG = "w" * 40
"""A run's name of a kind that is common, as long as stands on one line."""

VOID = {"meta", "br", "hr", "img", "input", "link"}
LARGEST = 400_000
"""Bytes that the page of a run of the fixtures may have."""

HOSTILE = [
    pytest.param("</script><script>pwned = 1</script>", id="a script"),
    pytest.param("<img src=x onerror='pwned = 1'>", id="an image that fails"),
    pytest.param("' onmouseover='pwned = 1' x=\"\" onfocus=\"pwned = 1", id="attributes"),
    pytest.param("javascript:pwned=1 http://e.vil/ data:text/html,x", id="addresses"),
    pytest.param("</style><style>*{background:url(http://e.vil)}</style>", id="a style"),
    pytest.param("</title></svg><svg onload=pwned=1>", id="an SVG"),
    pytest.param("{{ 7 * 7 }}{% raw %}", id="a template"),
    pytest.param("a\u202eb\u200bc\x00d\x1b[31me\u2028f", id="controls"),
    pytest.param("\u05d0\u05d1\u05d2 \u0627\u0644\u0644\u0647", id="right to left"),
    pytest.param("a" * 5000, id="a very long word"),
    pytest.param("--><!-- ]]> <![CDATA[", id="comments"),
    pytest.param("&lt;b&gt;&#x3c;script&#x3e;", id="entities"),
]


class Strict(HTMLParser):
    """A page whose elements are all closed in order; what it holds is kept for questions."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[str] = []
        self.feed(page)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = [name for name, _ in attrs]
        assert len(set(names)) == len(names), (tag, names)
        self.elements.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag, (tag, self.getpos())

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    @property
    def text(self) -> str:
        return "".join(self.texts)

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]


def checked(page: str) -> Strict:
    """Parse a page and require of it what every page must be."""
    found = Strict(page)
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    policy = [item for item in found.all("meta") if "http-equiv" in item]
    assert [item["content"].split(";")[0] for item in policy] == ["default-src 'none'"]
    for tag, attributes in found.elements:
        assert tag not in {"script", "link", "iframe", "object", "embed", "img", "base", "form"}
        assert not [name for name in attributes if name.startswith("on") or name == "style"]
        assert not {"src", "srcset", "action", "data", "xlink:href"} & set(attributes), tag
        if "href" in attributes:
            assert attributes["href"][0] == "#"
            assert attributes["href"][1:] in ids
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert "url(" not in style
    assert "@import" not in style
    for picture in found.all("svg"):
        if picture["class"] == "figure":
            assert picture["role"] == "img"
            title, description = picture["aria-labelledby"].split()
            assert {title, description} <= set(ids)
    for text in re.findall(r"<(?:title|desc) id[^>]*>([^<]*)<", page):
        assert text.strip()
    return found


def of_fixture(name: str) -> Diagnosis:
    return diagnose(read_runs(FIXTURES / name)[0])


def named(evil: str) -> Run:
    """A sick run in which everything that a run can say is this."""
    said = [
        {"step": step, "prompt": evil, "response": f"{evil} {'ha ' * step}", "source": evil}
        for step in range(0, 30, 3)
    ]
    run = run_of(
        kl_ref_token=[0.01] * 10 + [5.0] * 20,
        entropy=[3.0] * 10 + [0.1] * 20,
        loss_total=[1.0, float("nan")] * 15,
        samples=said,
        config={"learning_rate": 1e-3},
        scores=[
            began(evil, samples_file=evil),
            scored(5, 3.0, reference=evil, samples_file=evil, checkpoint=evil),
        ],
        checkpoints=[Checkpoint(2, evil, evil, complete=True), Checkpoint(5, evil, evil)],
    )
    notes = (Note(evil, evil),)
    return replace(run, name=evil, path=evil, framework=evil, notes=notes)


@pytest.mark.parametrize("name", RUNS)
def test_the_page_of_a_run_is_whole_small_and_alone(name: str) -> None:
    diagnosis = of_fixture(name)
    page = html.render([diagnosis], Page(0))
    found = checked(page)
    assert len(page.encode()) < LARGEST
    assert diagnosis.headline.replace(" -> ", " \u2192 ") in found.text
    for finding in diagnosis.findings:
        assert finding.message in found.text
        assert finding.evidence[0].where.file in found.text
    for skip in diagnosis.skipped:
        assert skip.code in found.text
    for checkpoint in diagnosis.run.policies:
        assert checkpoint.name in found.text


def test_a_page_tells_the_same_each_time() -> None:
    assert html.render([of_fixture("ppo_late")], Page(0)) == html.render(
        [of_fixture("ppo_late")], Page(0)
    )


def test_a_collapse_shows_its_onset_its_path_its_loops_and_the_way_back() -> None:
    page = html.render([of_fixture("grpo_late")], Page(0))
    found = checked(page)
    assert "onset 50 (49-51)" in found.text
    assert "go back to checkpoint-40" in found.text
    assert "90th percentile of 10" in found.text
    assert "Onset at step 50 (49-51)." in found.text
    assert "checkpoint-40, at step 41." in found.text
    assert "Does the reward rise with it?" in found.text
    assert len(re.findall(r"<mark> ?LORD", page)) == 3
    assert "resume_from_checkpoint" in found.text
    assert "rlhfdoctor diagnose" in found.text


def test_what_was_recomputed_is_drawn_where_unit_and_estimator_are_those_of_the_log() -> None:
    run = run_of(
        kl_ref_token=[0.01 * step for step in range(1, 31)],
        estimators={"kl_ref_token": "k3"},
        scores=[began("base"), scored(5, 0.05, kl_k3_token=0.071), scored(9, 0.09)],
        checkpoints=[Checkpoint(5, "a", "checkpoint-5"), Checkpoint(9, "b", "checkpoint-9")],
    )
    assert "highest 0.09" in html.render([diagnose(run)], Page(0))
    other = replace(run, columns={**run.columns})
    other.columns["kl_ref_token"] = replace(run.columns["kl_ref_token"], estimator=None)  # type: ignore[index]
    (first, *_) = re.findall(r"<desc[^>]*>([^<]*)", html.render([diagnose(other)], Page(0)))
    assert "recomputed" not in first


def test_a_recomputed_number_that_is_none_is_no_point() -> None:
    scores = [began("base"), scored(5, 0.05, kl_k3_token=float("nan")), scored(9, 0.09)]
    run = run_of(kl_ref_token=[0.1] * 30, estimators={"kl_ref_token": "k3"}, scores=scores)
    found = checked(html.render([diagnose(run)], Page(0)))
    assert "recomputed against base, samples.jsonl" in found.text


def test_a_checkpoint_far_behind_the_log_does_not_squeeze_the_curves() -> None:
    far = Checkpoint(10**12, "c", "checkpoint-far", complete=True)
    page = html.render([diagnose(run_of(entropy=[3.0] * 30, checkpoints=[far]))], Page(0))
    (path,) = re.findall(r'class="line c0" d="([^"]*)"', page)
    assert "L760.0 " in path


def test_a_perplexity_that_a_sample_file_claims_is_called_so() -> None:
    found = checked(html.render([of_fixture("grpo_late")], Page(0)))
    told = "samples of each checkpoint, by the log-probabilities in samples_fresh.jsonl"
    assert f"{told}: 33.4 at step 1" in found.text
    assert "recomputed, samples_fresh.jsonl" not in found.text


def test_rows_that_are_not_finite_are_gaps_that_are_counted() -> None:
    values = [1.0] * 10 + [float("nan")] * 3 + [1.5] * 10 + [float("inf")] + [2.0] * 3
    page = html.render([diagnose(run_of(grad_norm=values))], Page(0))
    assert "4 rows not finite, the first at step 11" in checked(page).text
    (path,) = re.findall(r'class="line c0" d="([^"]*)"', page)
    assert path.count("M") == 3


def test_an_empty_run_says_what_could_not_be_looked_at() -> None:
    found = checked(html.render([diagnose(run_of())], Page(0)))
    assert "inconclusive" in found.text
    assert "No checkpoints were found." in found.text
    assert "Required, and not looked at:" in found.text


def test_several_runs_have_an_overview_and_a_section_each() -> None:
    page = html.render([of_fixture("ppo_healthy"), of_fixture("ppo_crashed")], Page(0))
    found = checked(page)
    assert [item["id"] for item in found.all("main")] == ["run-1", "run-2"]
    targets = [item["href"] for item in found.all("a")]
    assert targets[:2] == ["#run-1", "#run-2"]


def test_no_run_at_all_is_said() -> None:
    assert "There was no run to report on." in checked(html.render([], Page(0))).text


def test_a_gate_tells_its_word_what_was_accepted_and_what_was_not_judged() -> None:
    sound, sick, other = of_fixture("ppo_healthy"), of_fixture("ppo_crashed"), diagnose(run_of())
    known = Acceptance("ignore", "the <b>old</b> tokenizer", "2027-01-31")
    first, *rest = sick.findings
    sick = replace(sick, findings=(replace(first, accepted=known), *rest))
    failed = ({"path": "x<y", "exit_code": 2, "error": "cannot read x<y", "hint": "look"},)
    page = Page(1, gate=Gated("critical", (0, 1, 3), failed))
    found = checked(html.render([sound, sick, other], page))
    for told in ("gate: PASS", "gate: FAIL", "gate: UNKNOWN", "cannot read x<y", "(look)"):
        assert told in found.text
    assert "accepted (ignore, until 2027-01-31): the <b>old</b> tokenizer" in found.text
    assert "FAIL" not in found.text.partition("Not judged")[2].partition("x<y")[0]
    assert "UNKNOWN x<y: cannot read x<y" in found.text


@pytest.mark.parametrize(
    ("fail_on", "told"),
    [
        pytest.param("critical", "of severity critical fails a run.", id="nothing is graver"),
        pytest.param("warning", "of severity critical or warning fails a run.", id="warning"),
        pytest.param("info", "of severity critical or warning or info fails a run.", id="all"),
    ],
)
def test_a_gate_says_which_severities_fail(fail_on: Severity, told: str) -> None:
    page = Page(1, gate=Gated(fail_on, (3, 3)))
    assert told in checked(html.render([diagnose(run_of())] * 2, page)).text


@pytest.mark.parametrize("evil", HOSTILE)
def test_nothing_that_a_run_says_becomes_markup(evil: str) -> None:
    page = html.render([diagnose(named(evil)), diagnose(named("plain"))], Page(0))
    found = checked(page)
    harmless = checked(html.render([diagnose(named("plain"))] * 2, Page(0)))
    assert {tag for tag, _ in found.elements} <= {tag for tag, _ in harmless.elements}
    assert not re.search("[\x00-\x08\x0b-\x1f\u200b-\u200f\u2028-\u202e]", page)
    assert "49" not in found.text or "7 * 7" not in evil


def test_secrets_are_masked() -> None:
    secret = "sk-proj-" + "Ab1" * 16
    said = [{"step": step, "response": f"use {secret} now", "prompt": secret} for step in range(9)]
    run = run_of(kl_ref_token=[0.1] * 20, samples=said)
    run = replace(run, notes=(Note("log.jsonl", f"api_key={secret}"),))
    page = html.render([diagnose(run)], Page(0))
    assert secret not in page
    assert page.count("[masked]") >= 3


def test_a_secret_in_the_name_of_a_checkpoint_is_drawn_in_no_curve() -> None:
    secret = "sk-proj-" + "Ab1" * 16
    saved = Checkpoint(5, "a", secret, complete=True)
    found = diagnose(run_of(kl_ref_token=[0.1] * 20, checkpoints=[saved]))
    plan = replace(found.rollback, checkpoint=saved, needed=True)
    page = html.render([replace(found, rollback=plan)], Page(0))
    assert "go back to" in page
    assert secret[:28] not in page


def test_a_sample_keeps_its_lines_and_a_name_is_cut_where_it_would_cover_the_page() -> None:
    said = [{"step": 1, "response": "one\n<b>two</b>\r\x00three", "prompt": "why?"}]
    run = replace(run_of(kl_ref_token=[0.1] * 20, samples=said), name="n" * 9000)
    page = html.render([diagnose(run)], Page(0))
    assert "one\n&lt;b&gt;two&lt;/b&gt;\\r\\x00three" in page
    assert "n" * 300 not in page
    assert "n [...] n" in page


def test_a_response_of_a_megabyte_is_cut_and_counted() -> None:
    run = run_of(kl_ref_token=[0.1] * 20, samples=[{"step": 1, "response": "x y" * 350_000}])
    page = html.render([diagnose(run)], Page(0))
    assert len(page) < 100_000
    assert re.search("1,0[0-9,]* characters are not shown", checked(page).text)


def test_a_long_run_is_no_larger_a_page() -> None:
    count = 60_000
    values = [float(step * 7919 % 1000) / 10 for step in range(count)]
    run = run_of(
        kl_ref_token=values,
        entropy=values,
        response_length_mean=values,
        reward_raw_mean=values,
        grad_norm=values,
    )
    page = html.render([diagnose(run)], Page(0))
    assert len(page) < LARGEST
    checked(page)


def test_thousands_of_checkpoints_and_notes_are_counted_not_listed() -> None:
    saved = [Checkpoint(step, f"c/{step}", f"checkpoint-{step}") for step in range(1, 3001)]
    run = run_of(kl_ref_token=[0.1] * 3000, entropy=[3.0] * 3000, checkpoints=saved)
    run = replace(run, notes=tuple(Note("log", f"line {line}") for line in range(3000)))
    page = html.render([diagnose(run)], Page(0))
    assert len(page) < LARGEST
    assert "2,750 more: --format json has all." in checked(page).text


def test_held_out_curves_are_told_from_training() -> None:
    run = run_of(dpo_margin=[0.1] * 20, eval_dpo_margin=[0.05] * 20)
    found = checked(html.render([diagnose(run)], Page(0)))
    assert "chosen minus rejected reward, evaluation" in found.text


def test_the_command_line_writes_a_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "report.html"
    run = FIXTURES / "ppo_healthy"
    assert run_cli(["diagnose", str(run), "--output", f"html={place}"]) == 0
    assert capsys.readouterr().out.startswith("HEALTHY")
    checked(place.read_text(encoding="utf-8"))


def test_jinja_is_loaded_for_a_page_alone() -> None:
    script = (
        "import json, sys\n"
        "from rlhfdoctor.cli import run_cli\n"
        "seen = []\n"
        "for form in ('terminal', 'html'):\n"
        "    run_cli(['diagnose', 'fixtures/ppo_healthy', '--format', form])\n"
        "    seen.append('jinja2' in sys.modules)\n"
        "print(json.dumps(seen), file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stderr) == [False, True]


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[chromium.Tab]:
    if chromium.PROGRAM is None:
        pytest.skip("no chromium here (Debian: apt-get install chromium)")
    with chromium.tab(tmp_path_factory.mktemp("profile")) as found:
        yield found


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("pages")
    evil = [diagnose(named(str(item.values[0]))) for item in HOSTILE]
    told = {
        "collapsed": [of_fixture("grpo_late")],
        "hostile": evil,
        "empty": [diagnose(run_of())],
        "overview": [
            of_fixture("grpo_late"),
            replace(evil[0], run=replace(evil[0].run, name=LONG)),
        ],
    }
    for name, diagnoses in told.items():
        (folder / f"{name}.html").write_text(html.render(diagnoses, Page(0)), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in told}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("name", ["collapsed", "hostile", "empty"])
def test_a_browser_renders_it_requests_nothing_and_runs_nothing(
    tab: chromium.Tab, pages: dict[str, Path], name: str, width: int, scheme: str
) -> None:
    tab.open(pages[name], width, scheme)
    wide = tab.ask("document.documentElement.scrollWidth")
    assert wide <= width, tab.ask(
        "[...document.querySelectorAll('body *')].filter(e => !e.closest('.box, pre, svg') &&"
        " e.getBoundingClientRect().right > innerWidth + 1).map(e => e.outerHTML.slice(0, 200))"
    )
    assert tab.ask("typeof pwned") == "undefined"
    assert tab.ask("document.scripts.length") == 0
    assert tab.ask("document.querySelectorAll('h1').length") >= 1
    dark = tab.ask("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 27)"
    assert dark == (scheme == "dark")
    asked = [told for method, told in tab.events if method == "Network.requestWillBeSent"]
    assert [item["request"]["url"] for item in asked] == [pages[name].as_uri()]
    noisy = ("Log.entryAdded", "Runtime.consoleAPICalled", "Runtime.exceptionThrown")
    assert [told for method, told in tab.events if method in noisy] == []


def test_a_browser_draws_each_curve_over_the_whole_step_axis(
    tab: chromium.Tab, pages: dict[str, Path]
) -> None:
    tab.open(pages["collapsed"], 1280)
    widths = tab.ask(
        "[...document.querySelectorAll('svg.plot')].map(plot => {"
        "const line = plot.querySelector('path.line'), all = plot.getBoundingClientRect();"
        "return line ? line.getBoundingClientRect().width / all.width : 1})"
    )
    assert len(widths) >= 5
    assert min(widths) > 0.9


def test_a_browser_breaks_no_name_of_the_overview(
    tab: chromium.Tab, pages: dict[str, Path]
) -> None:
    tab.open(pages["overview"], 1280)
    lines = (
        "[...document.querySelectorAll('.runs tbody th bdi')].map(e => e.getClientRects().length)"
    )
    assert tab.ask(lines) == [1, 1]
