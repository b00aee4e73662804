"""The recipes for CI systems: they are sound for their system, and what they run leaves what they keep."""

from __future__ import annotations

import importlib.resources
import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from documentation import BLOCKS, FIXTURES, PLUGIN, Block, outcomes, pytest_here, roofline_here

SLURM = "roofline.sbatch"
SCHEMAS = {
    ".github/workflows/roofline.yml": "github-workflows",
    ".gitlab-ci.yml": "gitlab-ci",
    ".buildkite/pipeline.yml": "buildkite",
}
"""Of each file the name that check-jsonschema has for its schema."""
FILES = {
    match[1]: block
    for block in BLOCKS
    if (match := re.match(r"(?:#!.*\n)?# ([\w./-]+\.(?:yml|yaml|sbatch))\n", block.text)) is not None
}
BUDGETS = "budgets.yaml"
LOCKS = "PYTEST_ROOFLINE_LOCK_FOLDER"
TEST = """
def test_decode(roofline, llama):
    roofline.decode(llama.step, model=llama.model, reset=llama.reset)
"""


def loaded(name: str) -> Any:
    """A recipe in YAML, as its system reads it: `on` is a word, no truth."""

    class Loader(yaml.SafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {
        first: [(tag, expression) for tag, expression in found if tag != "tag:yaml.org,2002:bool"]
        for first, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"true|false"), ["t", "f"])
    return yaml.load(FILES[name].text, Loader)


def scripts_of(name: str) -> list[str]:
    """What a recipe runs, as lines of a shell."""
    if name == SLURM:
        return re.sub(r"\\\n\s*", "", FILES[name].text).splitlines()
    document = loaded(name)
    if name == ".gitlab-ci.yml":
        lines = document["roofline"]["script"]
    elif name == ".buildkite/pipeline.yml":
        lines = [line for step in document["steps"] for line in step["commands"]]
    else:
        steps = [step for job in document["jobs"].values() for step in job["steps"]]
        lines = [step["run"] for step in steps if "run" in step]
    return [line.strip() for text in lines for line in re.sub(r"\\\n\s*", "", text).splitlines()]


def measuring(name: str) -> list[str]:
    """The arguments of its pytest."""
    (line,) = [line for line in scripts_of(name) if re.search(r"(^|[ /])pytest tests/", line)]
    return shlex.split(line[line.index("pytest tests/") :].replace("${SLURM_JOB_ID}", "7"))[1:]


def kept_by(name: str) -> set[str]:
    """Files that it keeps."""
    if name == SLURM:
        return {part for word in measuring(name) for part in re.findall(r"results/[\w.-]+", word)}
    document = loaded(name)
    if name == ".gitlab-ci.yml":
        artifacts = document["roofline"]["artifacts"]
        return {*artifacts["paths"], *artifacts["reports"].values()}
    if name == ".buildkite/pipeline.yml":
        return set(document["steps"][0]["artifact_paths"])
    steps = document["jobs"]["decode"]["steps"]
    (upload,) = [step for step in steps if "upload-artifact" in step.get("uses", "")]
    return set(upload["with"]["path"].split())


def project(folder: Path, efficiency: float) -> None:
    """What a recipe expects to be checked out: tests, and the file of budgets of the reference."""
    tests = folder / "tests" / "performance"
    tests.mkdir(parents=True)
    (tests / "conftest.py").write_text(FIXTURES.format(efficiency=efficiency), encoding="utf-8")
    (tests / "test_decode.py").write_text(TEST, encoding="utf-8")
    (folder / BUDGETS).write_text(FILES[BUDGETS].text, encoding="utf-8")
    (folder / "results").mkdir()


def test_there_is_a_recipe_for_each_system() -> None:
    """And a file of budgets, which all of them name."""
    assert set(FILES) == {*SCHEMAS, SLURM, BUDGETS}


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.language == "yaml"], ids=str)
def test_a_block_of_yaml_is_yaml(block: Block) -> None:
    """A mapping, without a key that stands twice on one level."""
    document = yaml.safe_load(block.text)
    assert isinstance(document, dict)
    top = re.findall(r"^([\w-]+):", block.text, flags=re.MULTILINE)
    assert len(top) == len(set(top))


@pytest.mark.parametrize("name", SCHEMAS)
def test_a_recipe_is_what_its_system_reads(name: str) -> None:
    """By the schema that check-jsonschema ships for it."""
    pytest.importorskip("check_jsonschema")
    import jsonschema

    folder = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((folder / f"{SCHEMAS[name]}.json").read_text(encoding="utf-8"))
    validator = jsonschema.validators.validator_for(schema)
    found = validator(schema, registry=_with_no_network()).iter_errors(loaded(name))
    assert [error.message for error in found] == []


def test_a_schema_refuses_what_is_wrong() -> None:
    """So that the test above could fail: a job without a runner, a step that is none."""
    pytest.importorskip("check_jsonschema")
    import jsonschema

    folder = importlib.resources.files("check_jsonschema") / "builtin_schemas" / "vendor"
    schema = json.loads((folder / "github-workflows.json").read_text(encoding="utf-8"))
    document = loaded(".github/workflows/roofline.yml")
    del document["jobs"]["decode"]["runs-on"]
    validator = jsonschema.validators.validator_for(schema)
    assert not validator(schema, registry=_with_no_network()).is_valid(document)


def _with_no_network() -> Any:
    """What a schema refers to by its address is left open: nothing is fetched."""
    import referencing
    import referencing.jsonschema

    return referencing.Registry(
        retrieve=lambda _: referencing.Resource.from_contents({}, referencing.jsonschema.DRAFT7)
    )


def test_the_sbatch_is_sound() -> None:
    """By bash; it ends with the status of pytest, which is its last command."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    done = subprocess.run([bash, "-n"], input=FILES[SLURM].text, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = FILES[SLURM].text.splitlines()
    assert lines[0] == "#!/bin/bash"
    directives = [at for at, line in enumerate(lines) if line.startswith("#SBATCH")]
    first = next(at for at, line in enumerate(lines) if line and not line.startswith("#"))
    assert max(directives) < first, "Slurm reads no directive behind the first command"
    assert "pytest" in scripts_of(SLURM)[-1]


@pytest.mark.parametrize("name", [*SCHEMAS, SLURM])
def test_a_recipe_asks_for_all_of_it(name: str) -> None:
    """A device, budgets, results, a page and an export; the locks lie where all jobs of the machine see them."""
    given = " ".join(measuring(name))
    for flag in ("=require", "-budgets=", "-json=", "-html=", "-export="):
        assert f"--roofline{flag}" in given, flag
    assert re.search(rf"{LOCKS}(:|=) ?/var/lib/roofline$", FILES[name].text, flags=re.MULTILINE)


@pytest.mark.parametrize("name", [*SCHEMAS, SLURM])
def test_a_recipe_leaves_what_it_keeps(tmp_path: Path, name: str) -> None:
    """Run on the fake device: every file that is kept is there, and one that is there is kept."""
    pytest.importorskip("plotly")
    project(tmp_path, 0.9)
    summary = tmp_path / "summary.md"
    before = {path for path in tmp_path.rglob("*") if path.is_file()}
    done = pytest_here(tmp_path, *PLUGIN, *measuring(name), GITHUB_STEP_SUMMARY=str(summary), GITHUB_ACTIONS="true")
    assert outcomes(done) == {"passed": 1}, done.stdout + done.stderr
    made = {path for path in tmp_path.rglob("*") if path.is_file() and "__pycache__" not in path.parts} - before
    names = {path.relative_to(tmp_path).as_posix() for path in made} - {"pytest.ini", "summary.md"}
    assert names == kept_by(name)
    assert all(path.stat().st_size > 0 for path in made)
    assert summary.exists() == ("github-summary," in " ".join(measuring(name)))


@pytest.mark.parametrize("name", [*SCHEMAS, SLURM])
def test_a_recipe_is_red_where_the_code_is_slow(tmp_path: Path, name: str) -> None:
    """At 30 % of the device the budgets of the file are missed, and what is kept is there all the same."""
    pytest.importorskip("plotly")
    project(tmp_path, 0.3)
    done = pytest_here(tmp_path, *PLUGIN, *measuring(name), GITHUB_STEP_SUMMARY=str(tmp_path / "summary.md"))
    assert done.returncode == 1
    assert outcomes(done) == {"failed": 1}, done.stdout
    assert [file for file in kept_by(name) if not (tmp_path / file).exists()] == []


def test_the_comparison_of_the_workflow_runs(tmp_path: Path) -> None:
    """With the results of the main branch: 0 where nothing got slower, 1 where it did."""
    (line,) = [line for line in scripts_of(".github/workflows/roofline.yml") if line.startswith("roofline compare")]
    for name, efficiency in (("roofline-main", 0.9), ("roofline", 0.9), ("slower", 0.5)):
        folder = tmp_path / name
        folder.mkdir()
        project(folder, efficiency)
        pytest_here(folder, *PLUGIN, "tests", f"--roofline-json={tmp_path / name}.json")
    arguments = shlex.split(line)[1:]
    assert roofline_here(tmp_path, *arguments).returncode == 0
    shutil.copy(tmp_path / "slower.json", tmp_path / "roofline.json")
    assert roofline_here(tmp_path, *arguments).returncode == 1


def test_the_budgets_of_the_reference_are_read(tmp_path: Path) -> None:
    """By the reader of the package, with the figures that it shows."""
    from pytest_roofline.budgets.document import read_budgets

    path = tmp_path / BUDGETS
    path.write_text(FILES[BUDGETS].text, encoding="utf-8")
    flat = read_budgets(str(path)).flat()
    assert flat["", "*", "at_least"] == 0.55
    assert flat["tests/performance/test_decode.py::*", "H200*", "at_least"] == 0.7
    assert flat["tests/performance/test_decode.py::test_long[x-1]", "*", "at_least"] == 0.62
    assert flat["tests/performance/test_decode.py::test_small", "*", "at_least"] is None


def test_the_spec_of_the_reference_is_sound(tmp_path: Path) -> None:
    """`roofline specs validate` finds nothing in it."""
    (block,) = [block for block in BLOCKS if block.language == "yaml" and "devices:" in block.text]
    (tmp_path / "my.yaml").write_text(block.text, encoding="utf-8")
    done = roofline_here(tmp_path, "specs", "validate", "my.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
