"""Results that are kept are those that a fresh run gives, and a cache never costs a run anything."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplint import cache
from amplint.cache import FOLDER, Cache, clean
from amplint.check import CheckResult, check_views
from amplint.config import Settings, load_settings
from amplint.fixing import fix
from amplint.scope import views

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))
import warm

TRAIN = """import torch
from torch.cuda.amp import autocast

from engine import step


def train(model, batches, optimizer, scaler):
    for batch in batches:
        with autocast():
            loss = step(model, batch)
        scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()


model = torch.nn.Linear(2, 2).cuda()
train(model, [torch.ones(2, 2).cuda()], torch.optim.SGD(model.parameters()), torch.amp.GradScaler())
model.eval()
"""
ENGINE = """import torch


def step(model, batch):
    return torch.log(torch.sigmoid(model(batch)) + 1e-8).mean()
"""
FILES = {
    "train.py": TRAIN,
    "engine.py": ENGINE,
    "plain.py": "import os\n\n\ndef name():\n    return os.name\n",
    "amplint.toml": "",
}
OLD = 10**9


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project whose files seem old to a run, so that their times count."""
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(cache, "_GRAIN", 0)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*paths: Path, settings: Settings | None = None, kept: Cache | None = None) -> CheckResult:
    given = views(paths, lambda start: settings or load_settings(start))
    return check_views(given, cache=kept or Cache())


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[], bool]:
    """Whether something was judged since the last time that somebody asked."""
    from amplint import groups

    calls: list[int] = []
    real = groups.judge_group

    def counted(*given: object) -> object:
        calls.append(1)
        return real(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(groups, "judge_group", counted)

    def was() -> bool:
        found = bool(calls)
        calls.clear()
        return found

    return was


Judged = Callable[[], bool]


def test_what_is_kept_is_what_was_found_fixes_included(project: Path, judged: Judged) -> None:
    cold = check(project)
    assert {finding.code for finding in cold.findings} == {"AMP305", "AMP403", "AMP501"}
    assert any(finding.fix is not None and finding.fix.edits for finding in cold.findings)
    assert judged()
    assert check(project) == cold
    assert not judged()


def test_a_run_over_all_serves_one_over_a_file(project: Path, judged: Judged) -> None:
    whole = check(project)
    judged()
    alone = check(project / "engine.py")
    assert not judged()
    assert alone.findings == tuple(one for one in whole.findings if one.path == "engine.py") != ()


@pytest.mark.parametrize(
    "text",
    [
        "import os\n\n\ndef other():\n    return os.sep\n",
        "class A:\n    def forward(self):\n        return 'engine'\n",
        "",
    ],
)
def test_an_edit_in_a_file_that_nobody_reads_costs_nothing(project: Path, judged: Judged, text: str) -> None:
    check(project)
    judged()
    (project / "plain.py").write_text(text)
    result = check(project)
    assert not judged()
    assert result.findings == check_views(views([project], load_settings)).findings
    judged()
    check(project)
    assert not judged()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        pytest.param("engine.py", "def step(model, batch):\n    return model(batch).mean()\n", id="read"),
        pytest.param("plain.py", "import torch\nx = torch.cuda.amp.autocast\n", id="passes the gate"),
        pytest.param("plain.py", "from train import train\ntrain()\n", id="mentions"),
        pytest.param("plain.py", "from train import *\n", id="mentions by a star"),
        pytest.param("plain.py", b"\xff\xfe\0", id="cannot be decoded"),
        pytest.param("plain.py", None, id="gone"),
        pytest.param("new.py", "", id="new"),
        pytest.param("amplint.toml", "ignore = ['AMP305']\n", id="settings"),
        pytest.param("requirements.txt", "torch==1.12\n", id="torch"),
    ],
)
def test_what_may_count_is_judged_anew(
    project: Path, judged: Judged, name: str, text: str | bytes | None
) -> None:
    check(project)
    judged()
    path = project / name
    if text is None:
        path.unlink()
    else:
        path.write_bytes(text.encode() if isinstance(text, str) else text)
    result = check(project)
    assert judged()
    assert result == check_views(views([project], load_settings))


def test_the_name_of_a_file_counts(project: Path, judged: Judged) -> None:
    check(project)
    judged()
    (project / "engine.py").rename(project / "enginf.py")
    result = check(project)
    assert judged()
    assert result == check_views(views([project], load_settings))


def test_a_name_that_was_looked_for_in_unread_files_counts(project: Path, judged: Judged) -> None:
    """Whether a fix may drop a name depends on who imports it; where a method is called by name, on who defines it."""
    (project / "train.py").write_text(
        "from torch.cuda.amp import autocast\n\n\ndef run(model, batch):\n    with autocast():\n"
        "        return model.calculate_loss(batch)\n"
    )
    check(project)
    judged()
    (project / "plain.py").write_text(
        "class Model:\n    def calculate_loss(self, batch):\n        return batch\n"
    )
    result = check(project)
    assert judged()
    assert result == check_views(views([project], load_settings))
    (project / "plain.py").write_text("from train import autocast\n")
    result = check(project)
    assert judged()
    assert result == check_views(views([project], load_settings))


def test_size_and_time_alone_are_not_believed(project: Path, judged: Judged) -> None:
    check(project)
    judged()
    path = project / "engine.py"
    times = path.stat()
    path.write_text(FILES["engine.py"].replace("1e-8", "1e-3"))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    check(project)
    assert judged()


@pytest.mark.parametrize("stamp", [[1, OLD, 0, 1], [1, 0, OLD, 1]])
def test_the_time_of_a_young_file_is_not_believed(
    project: Path, monkeypatch: pytest.MonkeyPatch, stamp: list[int]
) -> None:
    """It may change again within a tick of the clock that files are stamped with."""
    monkeypatch.setattr(cache, "_GRAIN", 10)
    monkeypatch.setattr(cache, "_now", lambda: OLD + 1)
    monkeypatch.setattr(cache, "stamp_of", lambda path: stamp)
    before = check(project)
    (project / "engine.py").write_text("def step(model, batch):\n    return model(batch).mean()\n")
    assert check(project) != before


def test_the_working_directory_counts(project: Path, judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    check(project)
    judged()
    monkeypatch.chdir(project.parent)
    result = check(project)
    assert judged()
    assert result.findings[0].path.startswith(project.name)


def test_another_amplint_counts(project: Path, judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    check(project)
    judged()
    monkeypatch.setattr(cache, "_amplint", lambda: ("99",))
    check(project)
    assert judged()


def results_in(folder: Path) -> list[Path]:
    return sorted(folder.glob("amplint-*.json"))


@pytest.mark.parametrize(
    "damaged",
    [
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"AMP305", b"AMP302"),
        lambda data: b"",
        lambda data: b"\x80\x04\x95",
        lambda data: _signed(b"[]"),
        lambda data: _signed(b"{}"),
        lambda data: _signed(data.partition(b"\n")[2].replace(b'"AMP305"', b"7,7")),
        lambda data: _signed(b'{"paths":' + b"[" * 100_000),
    ],
)
def test_what_is_damaged_counts_as_nothing(
    project: Path, judged: Judged, damaged: Callable[[bytes], bytes]
) -> None:
    cold = check(project)
    judged()
    (result,) = results_in(project / FOLDER)
    result.write_bytes(damaged(result.read_bytes()))
    assert check(project) == cold
    assert judged()
    assert check(project) == cold
    assert not judged()


def _signed(data: bytes) -> bytes:
    from amplint.source.decoding import digest_of_bytes

    return digest_of_bytes(data).encode() + b"\n" + data


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owner here")
def test_what_another_user_wrote_counts_as_nothing(
    project: Path, judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    cold = check(project)
    judged()
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert check(project) == cold
    assert judged()


@pytest.mark.parametrize("step", ["mkstemp", "replace", "mkdir"])
def test_a_result_that_cannot_be_kept_costs_nothing(
    project: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    cold = check_views(views([project], load_settings))
    owner = {"mkstemp": cache.tempfile, "replace": os, "mkdir": Path}[step]
    monkeypatch.setattr(owner, step, full)
    assert check(project) == cold
    assert not (project / FOLDER).exists() or not list((project / FOLDER).glob("*.*s*"))


def test_what_changes_while_a_run_goes_on_is_not_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from amplint import groups

    real = groups.judge_group

    def meanwhile(*given: object) -> object:
        found = real(*given)  # type: ignore[arg-type]
        (project / "plain.py").write_text("import torch\nwith torch.autocast('cuda'):\n    loss.backward()\n")
        return found

    with monkeypatch.context() as patched:
        patched.setattr(groups, "judge_group", meanwhile)
        check(project)
    assert not results_in(project / FOLDER)
    assert check(project) == check_views(views([project], load_settings))


def test_a_file_that_could_not_be_read_may_be_readable_later(
    project: Path, judged: Judged, monkeypatch: pytest.MonkeyPatch
) -> None:
    from amplint import gating
    from amplint.source import decoding, texts

    (project / "engine.py").unlink()
    (project / "plain.py").write_text("")
    real, real_bytes = decoding.read_bytes, Path.read_bytes

    def refused(path: str | os.PathLike[str]) -> bytes:
        if os.fspath(path).endswith("plain.py"):
            raise decoding.Unreadable("cannot read the file: Permission denied")
        return real(path)

    def refused_too(path: Path) -> bytes:
        if path.name == "plain.py":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real_bytes(path)

    (project / "train.py").write_text(
        "from plain import *\n" + TRAIN.replace("from engine import step\n", "")
    )
    with monkeypatch.context() as patched:
        for module in (gating, texts):
            patched.setattr(module, "read_bytes", refused)
        patched.setattr(Path, "read_bytes", refused_too)
        assert "AMP902" in {finding.code for finding in check(project).findings}
    monkeypatch.setattr(cache, "stamp_of", lambda path: [1, 2, 3, 4])
    assert "AMP902" not in {finding.code for finding in check(project).findings}


def test_a_file_that_goes_meanwhile_is_no_error(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check(project)
    (project / "plain.py").write_text("import sys\n")
    real = cache.read_bytes

    def gone(path: str | os.PathLike[str]) -> bytes:
        if os.fspath(path).endswith("plain.py"):
            raise cache.Unreadable("cannot read the file: No such file or directory")
        return real(path)

    monkeypatch.setattr(cache, "read_bytes", gone)
    assert check(project) == check_views(views([project], load_settings))


def test_a_link_to_a_folder_of_sources_does_it_no_harm(project: Path) -> None:
    (project / "src").mkdir()
    (project / FOLDER).symlink_to(project / "src")
    check(project)
    assert [path.name for path in (project / "src").iterdir()] == [results_in(project / "src")[0].name]


def test_marks_are_written_whole_or_not_at_all(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "replace", fails)
        check(project)
    assert list((project / FOLDER).iterdir()) == []
    check(project)
    assert (project / FOLDER / ".gitignore").read_text()


def test_the_format_of_the_report_does_not_count(project: Path, judged: Judged) -> None:
    for output_format in ("full", "json"):
        check(project, settings=Settings(project, project_root=project, output_format=output_format))
    assert judged()
    check(project, settings=Settings(project, project_root=project, output_format="concise"))
    assert not judged()


def test_a_repository_without_python_gets_no_folder(tmp_path: Path) -> None:
    (tmp_path / ".git").mkdir()
    check(tmp_path)
    assert not (tmp_path / FOLDER).exists()


def test_the_folder_keeps_itself_out_of_git_and_backups(project: Path) -> None:
    check(project)
    assert (project / FOLDER / ".gitignore").read_text().splitlines()[-1] == "*"
    assert (
        (project / FOLDER / "CACHEDIR.TAG")
        .read_text()
        .startswith("Signature: 8a477f597d28d172789f06886806bc55")
    )
    (
        project / FOLDER / "CACHEDIR.TAG"
    ).unlink()  # as after a process that was killed while it made the folder
    (project / "engine.py").write_text("")
    check(project)
    assert (project / FOLDER / "CACHEDIR.TAG").exists()


def test_its_size_is_bounded(project: Path, judged: Judged, monkeypatch: pytest.MonkeyPatch) -> None:
    check(project)
    left = project / FOLDER / "amplint-x.tmp"
    left.touch()
    os.utime(left, (OLD, OLD))
    foreign = project / FOLDER / f"{'f' * 32}.json"
    foreign.touch()
    monkeypatch.setattr(cache, "_MOST_RUNS", 3)
    first = results_in(project / FOLDER)[0]
    for number in range(5):
        (project / "amplint.toml").write_text(f"extend-exclude = ['{number}']\n")
        check(project)
        (project / "amplint.toml").write_text("")
        judged()
        check(project)
        assert not judged()  # what is used stays
    assert first.exists()
    assert len(results_in(project / FOLDER)) == 3
    assert foreign.exists()
    assert not left.exists()


def test_clean_takes_what_is_ours(project: Path) -> None:
    check(project)
    assert clean(project / FOLDER) == 1
    assert not (project / FOLDER).exists()
    assert clean(project / FOLDER) == 0
    elsewhere = project / "mine"
    elsewhere.mkdir()
    (elsewhere / ".gitignore").write_text("*.log\n")
    check(project, kept=Cache(elsewhere))
    assert clean(elsewhere) == 1
    assert [path.name for path in elsewhere.iterdir()] == [".gitignore"]


def test_a_script_that_belongs_to_no_project_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    settings = Settings(tmp_path)
    assert check(tmp_path / "train.py", settings=settings).findings
    assert not (tmp_path / FOLDER).exists()
    assert check(tmp_path / "train.py", settings=settings, kept=Cache(tmp_path / "kept")).findings
    assert len(results_in(tmp_path / "kept")) == 1


def test_a_run_that_crashed_is_not_kept(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from amplint.analysis import Analysis

    def fails(*_: object) -> None:
        raise RuntimeError("a bug")

    with monkeypatch.context() as patched:
        patched.setattr(Analysis, "run", fails)
        assert check(project).crashes
    assert not check(project).crashes
    assert check(project).findings


def test_fixing_begins_with_what_is_kept(project: Path, judged: Judged) -> None:
    cold = fix(views([project], load_settings), unsafe=True)
    check(project)
    judged()
    kept = Cache()
    warmed = fix(views([project], load_settings), unsafe=True, cache=kept)
    assert warmed.changes == cold.changes != ()
    warmed.write()
    judged()
    assert check(project) == check_views(views([project], load_settings))


def test_runs_at_the_same_time_do_not_meet(project: Path) -> None:
    command = [sys.executable, "-m", "amplint", "check", "--output-format", "json", "."]
    running = [subprocess.Popen(command, cwd=project, stdout=subprocess.PIPE) for _ in range(4)]
    outputs = {process.communicate()[0] for process in running}
    again = subprocess.run(command, cwd=project, stdout=subprocess.PIPE, check=False)
    assert outputs == {again.stdout}
    assert len(results_in(project / FOLDER)) == 1


def test_whatever_happens_to_the_files_a_warm_run_is_a_cold_one(project: Path) -> None:
    for number in range(6):
        (project / f"plain{number}.py").write_text(f"def f{number}(x):\n    return x + {number}\n")
    found = warm.compare(project, steps=60)
    assert found.differing == []
    assert 15 <= found.warm <= 55
