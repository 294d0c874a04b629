"""The harness of contrib/perf/bench; ``test_measuring.py`` has its judgement."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from testlib.environment import HG, ROOT

PERF = ROOT / "contrib" / "perf"
sys.path.insert(0, str(PERF))

from bench import (  # type: ignore[import-not-found,unused-ignore]  # noqa: E402
    benchmark,
    repository,
    results,
    runner,
    selfcheck,
    subject,
    tables,
)
from bench.benchmarks import BENCHMARKS  # type: ignore[import-not-found,unused-ignore]  # noqa: E402
from bench.instruments import INSTRUMENTS  # type: ignore[import-not-found,unused-ignore]  # noqa: E402
from bench.report import (  # type: ignore[import-not-found,unused-ignore]  # noqa: E402
    comparison,
    documents,
    pages,
    plots,
    summary,
)

from hgext3rd.amalgam.perf.passes import Disagreement  # noqa: E402

FIRST = [0.0532, 0.0541, 0.0529, 0.0587, 0.0533, 0.0530, 0.0561]
AGAIN = [0.0531, 0.0535, 0.0602, 0.0528, 0.0540, 0.0533, 0.0529]
LONGER = [0.1033, 0.1029, 0.1041, 0.1180, 0.1030, 0.1036, 0.1032]


def made(
    subjects: dict[str, list[float]], benchmark: str = "export"
) -> results.Results:
    """Return results as if each subject had been timed so often."""
    machine = {"cpu": "a cpu", "cores": 2, "memory_bytes": 2**33, "platform": "x"}
    found = results.Results({**machine, "load_average": [0.5]})
    found.subjects = {name: f"{name} <1.0>" for name in subjects if "again" not in name}
    for size in (100, 1000, 10000):
        name = f"linear:changesets={size}"
        found.repositories[name] = {"changesets": size, "tip": "0" * 40}
        found.samples += [
            results.Sample(
                benchmark,
                name,
                who,
                "time",
                number,
                {"seconds": seconds * size, "cpu_seconds": seconds * size},
            )
            for who, taken in subjects.items()
            for number, seconds in enumerate(taken, start=1)
        ]
    return found


def test_subjects_of_one_run_are_compared_with_the_first() -> None:
    found = made({"slow": LONGER, "one": FIRST, "one (again)": AGAIN})
    found.subjects = {"one": "", "slow": ""}
    lines = list(comparison.within(found))
    assert [(line.base, line.other) for line in lines[:2]] == [
        ("one", "one (again)"),
        ("one", "slow"),
    ]
    assert [line.verdict.differs for line in lines[:2]] == [False, True]


def test_the_exponent_is_that_of_processor_time_above_the_start() -> None:
    found = made({"one": FIRST})
    start = [
        dataclasses.replace(one, benchmark="start", values={"cpu_seconds": 0.5})
        for one in found.samples
    ]
    sizes = dict(zip(found.repositories, (100, 1000, 10000), strict=True))
    rising = [
        dataclasses.replace(
            one,
            values={
                "cpu_seconds": 0.5 + sizes[one.repository],
                "user_seconds": 0,
            },
        )
        for one in found.samples
    ]
    served = [
        dataclasses.replace(one, benchmark="served", values={"cpu_seconds": 0.5})
        for one in found.samples
    ]
    found.samples = [*start, *rising, *served]
    assert list(comparison.exponents(found)) == [
        "export linear: one 100: 100.000 s, 1,000: 1000.000 s, 10,000: 10000.000 s "
        "above start; exponent 1.00",
        "served linear: one 100: 0.500 s, 1,000: 0.500 s, 10,000: 0.500 s; "
        "exponent 0.00",
    ]


def test_results_survive_the_disk(tmp_path: Path) -> None:
    found = made({"one": FIRST, "two": LONGER})
    found.write(tmp_path / "found.json")
    assert results.Results.read(tmp_path / "found.json") == found


class Reader(HTMLParser):
    """Notes what a page refers to, and whether its elements are closed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.sources: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [v or "" for k, v in attrs if k in ("src", "href")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_holds_everything_and_fetches_nothing() -> None:
    found = made({"one": FIRST, "one (again)": AGAIN, "two": LONGER})
    found.skipped = ["three: there is no <three>"]
    found.tables = [row("read", **{"median.wall": 0.5}), row("mmap", reason="not cold")]
    reader = Reader()
    text = pages.outcome(found)
    reader.feed(text)
    assert reader.open == []
    # the summary, bars of three repositories, and their scaling
    assert len(reader.sources) == 5
    assert text.index("<img ") < text.index("<h2>")
    assert all(source.startswith("data:") for source in reader.sources)
    assert "there is no &lt;three&gt;" in text
    assert "<td>93.8 % more</td>" in text
    for cells in (["read", "500.0 (0.0 MB)"], ["mmap", "not cold"]):
        assert "".join(f"<td>{cell}</td>" for cell in cells) in text


def row(who: str, **more: Any) -> dict[str, Any]:
    plain = {"title": "t", "subject": who, "cache": "cold", "changesets": 9}
    return {**plain, "read_bytes": 1, **more}


def test_docs_have_a_table_an_operation_and_a_column_a_size() -> None:
    where = "00changelog (9 revisions, 0.1 MB)"
    rows = [
        row("read", title=f"open {where}, all", **{"median.wall": 0.5}),
        row("mmap", title=f"open {where}, all", reason="not cold"),
    ]
    assert tables.as_rst(rows).splitlines()[1:] == [
        ".. csv-table:: open the changelog, all",
        "   :header-rows: 1",
        "",
        '   "","9, cold"',
        '   "read","500.0 (0.0 MB)"',
        '   "mmap","not cold"',
    ]


def page_with_results(directory: Path, target: str) -> Path:
    begin, end = documents.BEGIN.format(target), documents.END.format(target)
    page = directory / "page.rst"
    page.write_text(f"before\n{begin}stale\n{end}after\n")
    return page


def test_page_has_a_place_for_results_and_their_pictures() -> None:
    page = ROOT / "docs" / "performance.rst"
    text = page.read_text()
    assert documents.BEGIN.format(documents.EXPLANATION) in text
    assert documents.END.format(documents.EXPLANATION) in text
    for picture in re.findall(r"image:: (\S+)", text):
        assert (page.parent / picture).exists()


def peers() -> results.Results:
    """Return results of two programs, with processor time and memory, and of growth."""
    found = made({"one": FIRST, "one (again)": AGAIN, "two": LONGER})
    samples = []
    for sample in found.samples:
        taken = sample.values["seconds"]
        samples.append(
            dataclasses.replace(sample, values={"seconds": 9.0, "cpu_seconds": taken})
        )
        peak = 3e6 if sample.subject == "two" else 2e6
        memory = {"peak_pss_bytes": peak + sample.number}
        samples.append(dataclasses.replace(sample, instrument="memory", values=memory))
    return dataclasses.replace(found, samples=samples)


def test_the_summary_has_a_sentence_a_repository_and_goes_by_processor_time() -> None:
    (first, *others) = summary.sentences(peers())
    assert first == (
        "first export, linear (100 changesets): one takes 5.330 s of "
        "processor time and 2.0 MB of memory. two takes 93.8% more processor time "
        "and 50.0% more memory."
    )
    assert len(others) == 2


def test_the_picture_has_each_ratio_and_a_dark_side() -> None:
    drawn = summary.draw(peers())
    shown = [text.strip() for text in re.findall(r"<text [^>]*>([^<]*)</text>", drawn)]
    assert shown.count("1.9 \N{MULTIPLICATION SIGN}") == 3
    assert shown.count("1.5 \N{MULTIPLICATION SIGN}") == 3
    assert "first export, linear (10,000 changesets)" in shown
    assert "prefers-color-scheme: dark" in drawn
    # each colour of ours is one that the dark side knows, or is good on both
    colours = set(re.findall(r'style="[^"]*?(#[0-9a-f]{6})', drawn))
    dark = set(re.findall(r"#[0-9a-f]{6}", drawn.partition("</style>")[0]))
    assert colours - dark <= {plots.ORANGE, plots.GREY}


def test_programs_that_are_the_same_are_called_so() -> None:
    found = made({"one": FIRST, "one (again)": AGAIN, "two": AGAIN})
    samples = [
        dataclasses.replace(one, values={"cpu_seconds": one.values["seconds"]})
        for one in found.samples
    ]
    found = dataclasses.replace(found, samples=samples)
    assert ">same</text>" in re.sub(r">\s*same\s*<", ">same<", summary.draw(found))
    assert "two takes the same processor time." in next(summary.sentences(found))


def test_the_page_of_docs_gets_pictures_sentences_and_tables(tmp_path: Path) -> None:
    page = page_with_results(tmp_path, documents.EXPLANATION)
    found = peers()
    title = "look up the last node in 00changelog (9 revisions, 0.1 MB)"
    found.tables = [row("read", title=title, **{"median.wall": 0.5})]
    documents.explanation(found, page)
    text = page.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "stale" not in text
    assert '"first export, linear (100 changesets)","two","10.33","3"' in text
    assert '"read","500.0 (0.0 MB)"' in text
    pictures = re.findall(r"image:: (\S+)", text)
    assert pictures == ["performance.svg", "performance-growth.svg"]
    drawn = [(tmp_path / name).read_text() for name in pictures]
    assert all(picture.startswith("<svg") for picture in drawn)
    assert "exponent 1.00" in re.sub("<!--|-->", "", drawn[1])
    documents.explanation(found, page)
    assert page.read_text() == text


@pytest.mark.parametrize("text", ["name", "=x", "a=nonsense:/bin/true", "a=/nowhere"])
def test_what_is_no_subject_is_refused(text: str) -> None:
    with pytest.raises(benchmark.InputError):
        subject.Subject.parse(text, None)


def test_a_kind_may_be_its_own_name(tmp_path: Path) -> None:
    parsed = subject.Subject.parse("git=/bin/true", Path("/bin/hg"))
    assert (parsed.kind, parsed.hg) == ("git", Path("/bin/hg"))
    assert subject.Subject.parse("old=hg:/bin/true", None).kind == "hg"
    assert subject.Subject.parse("before=/bin/true", None).kind == "amalgam"


class Writes(benchmark.Benchmark):
    """Writes what the subject is called."""

    name = "writes"
    kinds = ("git", "hg")

    def setup(self, job: benchmark.Job) -> None:
        job.fresh("made")

    def run(self, job: benchmark.Job) -> benchmark.Command:
        words = f"echo {job.subject.kind} > made"
        return benchmark.Command(["sh", "-c", words], {}, job.work)

    def answer(self, job: benchmark.Job) -> benchmark.Answer:
        return {"made": (job.work / "made").read_text()}


def plan(tmp_path: Path, *subjects: str, **more: Any) -> runner.Plan:
    parsed = [subject.Subject.parse(text, None) for text in subjects]
    fields: dict[str, Any] = {
        "benchmarks": [Writes()],
        "repositories": [repository.Repository("r", tmp_path, 1, "0" * 40)],
        "subjects": parsed,
        "instruments": [INSTRUMENTS["time"]],
        "passes": 2,
        "directory": tmp_path / "work",
        "limit_seconds": 60,
    }
    return runner.Plan(**{**fields, **more})


def test_the_first_subject_is_measured_twice_in_each_pass(tmp_path: Path) -> None:
    found = results.Results({})
    runner.run(
        plan(tmp_path, "one=git:/bin/true", "two=git:/bin/true"), found, lambda _: None
    )
    taken = sorted((sample.subject, sample.number) for sample in found.samples)
    assert taken == [
        (name, number) for name in ("one", "one (again)", "two") for number in (1, 2)
    ]


def test_nothing_is_measured_if_answers_differ(tmp_path: Path) -> None:
    found = results.Results({})
    with pytest.raises(Disagreement, match="made is hg"):
        runner.run(
            plan(tmp_path, "one=git:/bin/true", "two=hg:/bin/true"),
            found,
            lambda _: None,
        )
    assert found.samples == []


def test_who_fails_or_takes_too_long_is_named_and_left_out(tmp_path: Path) -> None:
    class Sleeps(Writes):
        def run(self, job: benchmark.Job) -> benchmark.Command:
            return benchmark.Command(["sleep", "60"])

    found = results.Results({})
    more = {"benchmarks": [Sleeps()], "limit_seconds": 0.1}
    runner.run(plan(tmp_path, "one=git:/bin/true", **more), found, lambda _: None)
    assert found.samples == []
    assert "more than 0.1 s: sleep 60" in found.skipped[0]


def test_the_environment_of_a_user_is_kept_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HGRCPATH", "/somewhere")
    monkeypatch.setenv("GIT_DIR", "/somewhere")
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    environment = benchmark.Command([]).full_environment()
    assert environment["HGRCPATH"] == ""
    assert "GIT_DIR" not in environment
    assert "PYTHONDONTWRITEBYTECODE" not in environment


def test_memory_is_seen_over_time_in_all_processes(tmp_path: Path) -> None:
    child = "import time; x = bytearray(40_000_000); time.sleep(0.3)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', '{child}'])"
    command = benchmark.Command([sys.executable, "-c", code])
    measured = INSTRUMENTS["memory"].measure(command, tmp_path)
    assert measured.values["peak_pss_bytes"] > 40_000_000
    assert max(measured.series["processes"]) == 2
    assert len(set(map(len, measured.series.values()))) == 1


@pytest.mark.torture
@pytest.mark.slow
def test_one_command_measures_and_another_shows_it(tmp_path: Path) -> None:
    output, cache = tmp_path / "found.json", tmp_path / "cache"
    words = ["run", "log", "lookup", "-m", f"amalgam={HG}", "-m", f"hg={HG}"]
    words += ["-r", "linear:changesets=20,files=2", "--passes", "3"]
    done = bench(*words, "--cache", str(cache), "-o", str(output))
    assert done.returncode == 0, done.stderr
    found = json.loads(output.read_text())
    assert len(found["samples"]) == 2 * 3 * 3
    assert found["subjects"]["hg"].startswith("hg, Mercurial Distributed SCM")
    page = tmp_path / "page.html"
    assert bench("report", str(output), "-o", str(page)).returncode == 0
    assert "log of linear:changesets=20,files=2: time" in page.read_text()
    assert bench("compare", str(output), str(output)).stdout.count("no difference") == 2


def test_bad_input_is_one_line(tmp_path: Path) -> None:
    done = bench("report", str(tmp_path / "missing.json"))
    assert done.returncode == 1
    assert done.stderr.startswith(f"bench: {tmp_path}/missing.json: no results: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.torture
@pytest.mark.slow
def test_the_benchmark_of_the_readme_works(tmp_path: Path) -> None:
    text = (PERF / "README.rst").read_text().partition(".. code-block:: python\n")[2]
    lines = itertools.takewhile(
        lambda line: line.startswith("    ") or not line, text.splitlines()
    )
    names: dict[str, Any] = vars(benchmark).copy()
    exec(compile(textwrap.dedent("\n".join(lines)), "README.rst", "exec"), names)
    more = {
        "benchmarks": [names["Verify"]()],
        "repositories": [
            repository.prepare("linear:changesets=9,files=2", tmp_path, HG)
        ],
        "passes": 1,
    }
    found = results.Results({})
    subjects = (f"amalgam={HG}", f"hg={HG}")
    runner.run(plan(tmp_path, *subjects, **more), found, lambda _: None)
    assert found.skipped == []
    assert len(found.samples) == 3


@pytest.mark.slow
def test_one_change_is_served_and_replicated(tmp_path: Path) -> None:
    names = ("fetch-one", "push-one", "replicate-seven-hidden", "replicate-pulled")
    sizes = "names-and-heads:changesets=9,files=2,names=9"
    more = {
        "benchmarks": [BENCHMARKS[name] for name in names],
        "repositories": [repository.prepare(sizes, tmp_path, HG)],
        "instruments": [INSTRUMENTS["cpu"]],
        "passes": 1,
    }
    found = results.Results({})
    git = shutil.which("git")
    subjects = (f"amalgam={HG}", f"git={git}")
    given = plan(tmp_path, *subjects, **more)
    with_hg = dataclasses.replace(given.subjects[1], hg=HG)
    given = dataclasses.replace(given, subjects=[given.subjects[0], with_hg])
    runner.run(given, found, lambda _: None)
    assert found.skipped == []
    assert {sample.benchmark for sample in found.samples} == {*names}
    # a server's time is above zero, and not that of a whole start
    served = [one for one in found.samples if one.benchmark == "fetch-one"]
    assert all(one.values["cpu_seconds"] > 0 for one in served)


def test_a_program_that_is_slowed_down_does_the_same(tmp_path: Path) -> None:
    hg = subject.Subject.parse(f"amalgam={HG}", None)
    slower = selfcheck._with_loop(hg, tmp_path / "slower", 5)
    outputs = [one.command("version", "-v").output() for one in (hg, slower)]
    assert re.sub(r"  loop .*\n", "", outputs[1]) == outputs[0]
    assert outputs[1] != outputs[0]


def test_each_benchmark_fits_a_screen() -> None:
    for node in ast.parse((PERF / "bench" / "benchmarks.py").read_text()).body:
        if isinstance(node, ast.ClassDef):
            assert (node.end_lineno or 0) - node.lineno < 50, node.name


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "bench", *words]
    environment = {**os.environ, "PYTHONPATH": str(PERF)}
    return subprocess.run(command, env=environment, capture_output=True, text=True)
