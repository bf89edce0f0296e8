from __future__ import annotations

from pathlib import Path

import pytest

from amplint.config import DEFAULT_EXCLUDE, ConfigError, Settings, load_settings, with_option


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_without_a_file_there_are_the_defaults(project: Path) -> None:
    settings = load_settings(Path("src"))
    assert settings == Settings(root=project)
    assert settings.excluded == DEFAULT_EXCLUDE


def test_every_key(project: Path) -> None:
    Path("pyproject.toml").write_text(
        """
        [tool.amplint]
        select = ["AMP1", "half-model"]
        extend-select = ["AMP501"]
        ignore = ["step-in-autocast"]
        errors-only = ["scratch/"]
        exclude = ["old"]
        extend-exclude = ["*_pb2.py"]
        force-exclude = true
        torch-version = ">=2.3,<2.9"
        device = "cpu"
        autocast-contexts = ["my.project.region"]
        backward-functions = ["my.project.backward"]
        output-format = "concise"
        [tool.amplint.per-file-ignores]
        "tests/*" = ["ALL"]
        """
    )
    assert load_settings(project) == Settings(
        root=project,
        source=project / "pyproject.toml",
        select=("AMP1", "half-model"),
        extend_select=("AMP501",),
        ignore=("step-in-autocast",),
        per_file_ignores=(("tests/*", ("ALL",)),),
        errors_only=("scratch/",),
        exclude=("old",),
        extend_exclude=("*_pb2.py",),
        force_exclude=True,
        torch=((2, 3), (2, 8)),
        torch_from=f"{project / 'pyproject.toml'}: torch-version",
        device="cpu",
        autocast_contexts=("my.project.region",),
        backward_functions=("my.project.backward",),
        output_format="concise",
    )


def test_the_nearest_file_counts(project: Path) -> None:
    Path("src/deep").mkdir(parents=True)
    Path("amplint.toml").write_text('device = "xpu"\n')
    Path("src/pyproject.toml").write_text('[project]\nname = "amplint-user"\n')
    assert load_settings(Path("src/deep")).device == "xpu"
    Path("src/pyproject.toml").write_text('[tool.amplint]\ndevice = "cpu"\n')
    assert load_settings(Path("src/deep/missing.py")).device == "cpu"
    Path("src/.amplint.toml").write_text('device = "mps"\n')
    settings = load_settings(Path("src/deep"))
    assert (settings.device, settings.root) == ("mps", project / "src")
    assert load_settings(Path("src/deep"), isolated=True) == Settings(root=project, with_baseline=False)
    assert load_settings(Path("src/deep"), Path("amplint.toml")).device == "xpu"


def test_another_projects_broken_pyproject_is_none_of_our_business(project: Path) -> None:
    Path("pyproject.toml").write_text("[[[")
    assert load_settings(project).source is None


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[tool", "is not valid TOML"),
        ("ignroe = []", 'unknown key "ignroe" (did you mean "ignore"?)'),
        ("torch_version = '2.4'", 'did you mean "torch-version"?'),
        ("select = 'AMP1'", 'expected a list of strings, not the string "AMP1"'),
        ("select = [1]", "expected a list of strings, not this list"),
        ("select = ['AMP9999']", 'unknown rule "AMP9999"'),
        ("select = ['missing-flaot']", 'did you mean "missing-float"?'),
        ("force-exclude = 'yes'", "expected true or false"),
        ("device = 'cdua'", 'did you mean "cuda"?'),
        ("device = 3", "expected a string, not 3"),
        ("torch-version = 'new'", '"new" is no torch version'),
        ("torch-version = '>2.5,<2.3'", "is no torch version"),
        ("output-format = 'xml'", '"xml" is none of full, concise'),
        ("autocast-contexts = ['my region']", '"my region" is no dotted name'),
        ("per-file-ignores = []", "expected a table"),
        ("[per-file-ignores]\n'a.py' = ['AMP9999']", 'per-file-ignores."a.py": unknown rule'),
        ("[tool]\namplint = 3", "[tool.amplint] has to be a table"),
    ],
)
def test_a_wrong_setting_is_an_error_that_names_file_and_key(project: Path, text: str, message: str) -> None:
    Path("amplint.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_settings(project)
    assert message in str(caught.value)
    assert str(project / "amplint.toml") in str(caught.value)


def test_options_go_through_the_same_checks(project: Path) -> None:
    settings = Settings(root=project)
    assert with_option(settings, "select", ["AMP2"], "--select").select == ("AMP2",)
    with pytest.raises(ConfigError, match=r'^--device: "gpu" is none of cuda, cpu, xpu, mps'):
        with_option(settings, "device", "gpu", "--device")


def test_a_file_extends_another(project: Path) -> None:
    Path("shared/lint").mkdir(parents=True)
    Path("shared/base.toml").write_text('level = "error"\nextend-exclude = ["old"]\nproject-root = "lint"\n')
    Path("shared/middle.toml").write_text('extend = "base.toml"\ndevice = "xpu"\nignore = ["AMP1"]\n')
    Path("amplint.toml").write_text(
        'extend-exclude = ["new", "old"]\nignore = ["AMP501"]\nextend = "shared/middle.toml"\n'
    )
    settings = load_settings(project)
    assert (settings.root, settings.source) == (project, project / "amplint.toml")
    assert (settings.level, settings.device) == ("error", "xpu")
    assert settings.ignore == ("AMP501",)
    assert settings.extend_exclude == ("old", "new")
    assert settings.project_root == project / "shared/lint"
    origins = {key: path.name for key, path in settings.origins}
    assert origins == {
        "level": "base.toml",
        "extend-exclude": "amplint.toml",
        "project-root": "base.toml",
        "device": "middle.toml",
        "ignore": "amplint.toml",
    }


def test_a_pyproject_extends_the_table_of_another(project: Path) -> None:
    Path("package").mkdir()
    Path("pyproject.toml").write_text('[tool.amplint]\nselect = ["AMP2"]\n')
    Path("package/pyproject.toml").write_text(
        '[tool.amplint]\nextend = "../pyproject.toml"\ndevice = "cpu"\n'
    )
    settings = load_settings(Path("package"))
    assert (settings.select, settings.device, settings.root) == (("AMP2",), "cpu", project / "package")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extend = 3", "extend: expected a string, not 3"),
        ("extend = 'none.toml'", "extend: cannot read the configuration file"),
        ("extend = '.'", "extend: cannot read the configuration file"),
        ('extend = "\\u0000"', "extend: cannot read the configuration file"),
        ("extend = 'amplint.toml'", "amplint.toml, and so itself"),
        ("extend = 'circle.toml'", "amplint.toml extends"),
        ("extend = 'broken.toml'", "extend: .*broken.toml is not valid TOML"),
        ("extend = 'bad.toml'", "bad.toml: device: expected a string"),
        ("extnd = 'bad.toml'", 'did you mean "extend"'),
    ],
)
def test_what_cannot_be_extended_is_an_error(project: Path, text: str, message: str) -> None:
    Path("circle.toml").write_text('extend = "amplint.toml"\n')
    Path("broken.toml").write_text("[[[")
    Path("bad.toml").write_text("device = 3\n")
    Path("amplint.toml").write_text(f"{text}\n")
    with pytest.raises(ConfigError, match=message):
        load_settings(project)
