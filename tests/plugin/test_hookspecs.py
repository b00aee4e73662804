"""The hooks: each example of a docstring is run, and wrong answers are refused."""

from __future__ import annotations

import inspect
import re
from textwrap import dedent
from typing import Any

import pytest
from inner_runs import FAKE, Run

from pytest_roofline import hookspecs

HOOKS = [hook for name, hook in vars(hookspecs).items() if name.startswith("pytest_")]


def example_of(hook: Any) -> dict[str, str]:
    """The files of a hook's example, by name."""
    text = inspect.getdoc(hook) or ""
    parts = re.split(r"^ +# (\w+\.py)\n", text, flags=re.MULTILINE)
    return {name: dedent(body) for name, body in zip(parts[1::2], parts[2::2], strict=True)}


def test_every_hook_is_in_the_list() -> None:
    """None is forgotten by the tests below."""
    assert sorted(hook.__name__ for hook in HOOKS) == [
        "pytest_roofline_backends",
        "pytest_roofline_checks",
        "pytest_roofline_probe_finished",
        "pytest_roofline_traffic",
        "pytest_roofline_verdict_reached",
    ]


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_the_plugin_declares_what_is_described(pytestconfig: pytest.Config, hook: Any) -> None:
    """The same name with the same arguments and options: the plugin declares its hooks without the words."""
    declared = getattr(pytestconfig.hook, hook.__name__).spec
    assert list(declared.argnames) == list(inspect.signature(hook).parameters)
    described = getattr(hook, "pytest_spec", {"firstresult": False})
    assert bool(declared.opts["firstresult"]) is bool(described["firstresult"])


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_the_example_of_a_hook_runs(run: Run, hook: Any) -> None:
    """What the docstring shows works as it stands."""
    example = example_of(hook)
    assert set(example) == {"conftest.py", "test_example.py"}
    assert f"def {hook.__name__}(" in example["conftest.py"]
    run(example["test_example.py"], conftest=example["conftest.py"]).assert_outcomes(passed=1)


@pytest.mark.parametrize("hook", HOOKS, ids=lambda hook: hook.__name__)
def test_the_docstring_says_when_where_and_what_none_means(hook: Any) -> None:
    """When it is called, for which implementations, and what becomes of what they return."""
    text = inspect.getdoc(hook) or ""
    assert "Called " in text
    assert "implementations" in text
    assert "None" in text or "ignored" in text


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ("42", "pytest_roofline_backends returned a int; it must return a list, or None"),
        ("['fake']", "pytest_roofline_backends returned 'fake', which is not a backend"),
    ],
)
def test_a_wrong_backend_is_refused(run: Run, answer: str, message: str) -> None:
    """At the tests that measure; others go on."""
    conftest = FAKE.replace("return [BACKEND]", f"return {answer}")
    result = run("def test_it(roofline): pass\n\ndef test_other(): pass\n", "-rE", conftest=conftest)
    result.assert_outcomes(errors=1, passed=1)
    result.stdout.fnmatch_lines([f"UsageError: {message}"])


def test_a_wrong_check_is_refused(run: Run) -> None:
    """A check has to be callable."""
    conftest = FAKE + "\ndef pytest_roofline_checks(config):\n    return ['drifted']\n"
    result = run("def test_it(roofline): pass\n", conftest=conftest)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["UsageError: pytest_roofline_checks returned 'drifted', which is not a check"])


COUNTED = FAKE + dedent(
    """
    def pytest_roofline_traffic(config, model, batch, context):
        if model == "llama-8b" or hasattr(model, "weight_bytes"):
            return {answer}
    """
)


def test_the_bytes_of_a_model_that_a_plugin_counts_are_declared_ones(run: Run) -> None:
    """Twice what the traced pass reads is as bogus as if the test had said so itself; a name is asked about, too."""
    source = """
        import pytest
        from pytest_roofline import BogusMeasurement

        def test_name(roofline):
            assert roofline.traffic("llama-8b", context=7).bytes_per_pass == 4e9
            assert roofline.ceiling("llama-8b").traffic.bytes_per_pass == 4e9

        def test_decode(roofline, model):
            with pytest.raises(BogusMeasurement, match="bytes-disagree"):
                roofline.decode(model.step, model=model)
    """
    run(dedent(source), conftest=COUNTED.format(answer="4e9")).assert_outcomes(passed=2)


def test_a_plugin_that_does_not_know_the_model_is_not_heard(run: Run) -> None:
    """None leaves the counting to us."""
    source = "def test_it(roofline, model):\n    roofline.decode(model.step, model=model)\n"
    run(source, conftest=COUNTED.format(answer="None")).assert_outcomes(passed=1)


def test_wrong_traffic_is_refused(run: Run) -> None:
    """Where it is asked for, with what was returned."""
    source = "def test_it(roofline, model):\n    roofline.decode(model.step, model=model)\n"
    result = run(source, conftest=COUNTED.format(answer="'much'"))
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*pytest_roofline_traffic returned a str for a FakeModel; it must return a Traffic*"])


def test_none_adds_nothing(run: Run) -> None:
    """An implementation may decline."""
    conftest = FAKE + "\ndef pytest_roofline_checks(config):\n    return None\n"
    source = "def test_it(roofline_device):\n    assert roofline_device.id == 'fake:0'\n"
    run(source, conftest=conftest).assert_outcomes(passed=1)


def test_a_check_of_a_plugin_decides(run: Run) -> None:
    """Its finding counts like ours: bogus raises, and the name of the check is shown."""
    conftest = FAKE + dedent(
        """
        from pytest_roofline import Finding

        def never(evidence):
            return Finding(check="never", severity="bogus", message="this machine is not to be believed")

        def pytest_roofline_checks(config):
            return [never]
        """
    )
    result = run("def test_it(roofline, model):\n    roofline.decode(model.step, model=model)\n", conftest=conftest)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["BOGUS * - BogusMeasurement: this machine is not to be believed [[]never[]]"])


def test_what_a_listener_raises_comes_out_of_the_measurement(run: Run) -> None:
    """A verdict may be refused by raising."""
    conftest = FAKE + "\ndef pytest_roofline_verdict_reached(result, item):\n    raise RuntimeError('not here')\n"
    result = run("def test_it(roofline, model):\n    roofline.decode(model.step, model=model)\n", conftest=conftest)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["E*RuntimeError: not here"])
