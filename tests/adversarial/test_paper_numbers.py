"""What broke, or tried to break, the figures and the words of ``roofline predict``, ``curve`` and ``specs``."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from model_files import Tensor, llama_safetensors, llama_tensors
from paper_street import (
    CARD,
    checkpoint,
    config_folder,
    gguf,
    spec_file,
    street,
)

from pytest_roofline import cli
from pytest_roofline.errors import RooflineUsageError
from pytest_roofline.readers.checkpoint import read_model

# -- wrong numbers ----------------------------------------------------------------------------------------------------

INCOMPLETE: dict[str, Callable[[Tensor], bool]] = {
    "no feed-forward": lambda tensor: "ffn" not in tensor[0],
    "no keys": lambda tensor: "attn_k" not in tensor[0],
    "no second block": lambda tensor: not tensor[0].startswith("blk.1."),
    "no table and no head": lambda tensor: tensor[0] not in ("token_embd.weight", "output.weight"),
}


@pytest.mark.parametrize("what", INCOMPLETE)
def test_a_gguf_file_that_lacks_tensors_is_refused(what: str, tmp_path: Path) -> None:
    """Half a model decodes twice as fast on paper, and nowhere else."""
    file = gguf(tmp_path, [tensor for tensor in llama_tensors() if INCOMPLETE[what](tensor)])
    with pytest.raises(RooflineUsageError, match=re.escape(str(file))):
        read_model(file)


def test_a_gguf_file_of_fewer_blocks_than_it_says_is_refused(tmp_path: Path) -> None:
    """``block_count`` 3 with the tensors of two is a part of a model."""
    with pytest.raises(RooflineUsageError, match="block_count"):
        read_model(gguf(tmp_path, llama__block_count=3))


def test_a_strange_tensor_does_not_stand_for_missing_ones(tmp_path: Path) -> None:
    """One element called ``foo`` is no feed-forward of two layers."""
    tensors = {name: entry for name, entry in llama_safetensors().items() if ".mlp." not in name}
    folder = checkpoint(tmp_path / "part", {**tensors, "foo.weight": ("F16", (1, 1))})
    with pytest.raises(RooflineUsageError, match="mlp"):
        read_model(folder)


def test_an_empty_tensor_is_no_weight(tmp_path: Path) -> None:
    """``down_proj`` of shape (0, 96) in every layer."""
    empty = {name: ("F16", (0, 96)) for name in llama_safetensors() if "down_proj" in name}
    with pytest.raises(RooflineUsageError, match="down_proj"):
        read_model(checkpoint(tmp_path / "empty", {**llama_safetensors(), **empty}))


@pytest.mark.parametrize("changed", [{"head_dim": 1024}, {"num_key_value_heads": 4}, {"hidden_size": 128}])
def test_the_config_of_another_model_is_refused(changed: dict[str, int], tmp_path: Path) -> None:
    """Unquantized matrices have the shapes that their config says, or it is not theirs."""
    with pytest.raises(RooflineUsageError, match=r"model\.layers\.\*\.self_attn"):
        read_model(checkpoint(tmp_path / "other", llama_safetensors(), **changed))


def test_layers_that_the_config_does_not_have_are_not_idle(tmp_path: Path) -> None:
    """A config of one layer beside the weights of two."""
    with pytest.raises(RooflineUsageError, match="num_hidden_layers"):
        read_model(checkpoint(tmp_path / "less", llama_safetensors(), num_hidden_layers=1))


def test_a_name_of_two_cards_is_not_guessed(capsys: pytest.CaptureFixture[str]) -> None:
    """``RTX 4070`` is said of a card of 504 GB/s and of one of 480, and 'GeForce RTX 4070' is refused for that."""
    assert cli.main(["predict", "--params", "8B", "--device", "GeForce RTX 4070"]) == 2
    assert cli.main(["predict", "--params", "8B", "--device", "RTX 4070"]) == 2
    assert "rtx-4070-gddr6" in capsys.readouterr().err


@pytest.mark.parametrize("more", [(), ("--draft", "llama-3.2-1b")])
def test_a_pass_yields_a_token_at_least(more: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    """With a draft and without."""
    assert cli.main(["predict", "llama-3.1-8b", *CARD, "--tokens-per-pass", "0.2", *more]) == 2
    assert "tokens" in capsys.readouterr().err


def test_parameters_are_whole(capsys: pytest.CaptureFixture[str]) -> None:
    """``--params 0.4`` is what remains of ``0.4B`` when the B is forgotten."""
    assert cli.main(["predict", "--params", "0.4", *CARD]) == 2
    assert "--params" in capsys.readouterr().err


@pytest.mark.parametrize(("over", "option"), [("batch", "--batch"), ("context", "--context")])
def test_a_curve_does_not_drop_what_was_given(over: str, option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """``--over batch --batch 64`` means something else than it does."""
    assert cli.main(["curve", "llama-3.1-8b", *CARD, "--over", over, option, "4096"]) == 2
    assert option in capsys.readouterr().err


# -- tracebacks -------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_said() -> None:
    """``roofline predict ... > /dev/full``."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with open("/dev/full", "wb") as full:
        _, _, err = street("predict", "--params", "8B", *CARD, stdout=full.fileno())
    assert "Traceback" not in err
    assert "space" in err


@pytest.mark.parametrize(
    ("name", "variables"),
    [("na\u00efve", {"PYTHONIOENCODING": "ascii"}), ("bad\udcff", {"PYTHONIOENCODING": "utf-8"})],
    ids=["ascii", "a name that is no UTF-8"],
)
def test_a_name_that_the_terminal_cannot_show(name: str, variables: dict[str, str], tmp_path: Path) -> None:
    """The model is still predicted."""
    folder = config_folder(tmp_path / name)
    status, out, err = street("predict", str(folder), *CARD, variables=variables)
    assert (status, err) == (0, "")
    assert "tok/s" in out


def test_a_folder_whose_name_begins_with_a_tilde(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no user of that name, and the folder is there."""
    config_folder(tmp_path / "~no-such-user")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["predict", "~no-such-user", *CARD]) == 0


HOSTILE_ENTRIES = {
    "infinity in a config": ("show", "models: [{id: own, name: Own, source: doc, config: {rope_theta: .inf}}]"),
    "a date in a list": ("show", "models: [{id: own, name: Own, source: doc, config: {kinds: [2024-01-01]}}]"),
    "a date for a name": ("list", "models: [{id: own, name: 2024-01-01, parameters: {value: 7, source: doc}}]"),
    "no number for a name, listed": ("list", "formats: [{id: own, name: .nan}]"),
    "no number for a name, shown": ("show", "formats: [{id: own, name: .nan}]"),
}


@pytest.mark.parametrize("what", HOSTILE_ENTRIES)
def test_json_of_an_entry_that_validate_would_refuse(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One JSON object, or a usage error that names the file; never a traceback."""
    action, text = HOSTILE_ENTRIES[what]
    file = spec_file(tmp_path, text)
    status = cli.main(["specs", action, *(["own"] if action == "show" else []), "--specs", file, "--json"])
    out, err = capsys.readouterr()
    if status == 0:
        assert json.loads(out)["schema"] == 1
    assert status == 0 or file in err


def test_a_dollar_in_the_name_of_a_model(tmp_path: Path) -> None:
    """matplotlib takes what stands between two dollars for mathematics."""
    pytest.importorskip("matplotlib")
    folder = config_folder(tmp_path / r"$\x$")
    assert cli.main(["curve", str(folder), *CARD, "--picture", str(tmp_path / "a.svg")]) == 0


def test_a_picture_that_is_called_by_its_suffix_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """``--picture .png``: a file of that name, or a usage error."""
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["curve", "--params", "8B", *CARD, "--picture", ".png"]) in (0, 2)


def test_a_backend_of_matplotlib_that_is_none() -> None:
    """The picture needs none: another program's variable is not this one's fault."""
    pytest.importorskip("matplotlib")
    _, _, err = street(
        "curve", "--params", "8B", *CARD, "--picture", "/no/such/folder/a.png", variables={"MPLBACKEND": "garbage"}
    )
    assert "Traceback" not in err


# -- what holds -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["--bandwidth", "--peak", "--memory", "--params", "--link", "--link-latency"])
@pytest.mark.parametrize("text", ["-1", "0", "nan", "inf", "-inf", "1e400", "1e-400", "", "0x10", "3,5TB/s", "1Gb"])
def test_a_figure_that_is_none_names_its_option(option: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Zero, negative, infinite, too small, bits, and the comma of other countries."""
    model = () if option == "--params" else ("--params", "8B")
    assert cli.main(["predict", *model, *CARD, "--tp", "2", f"{option}={text}"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.startswith(f"roofline predict: {option}: ")) == ("", True)


@pytest.mark.parametrize(
    "option",
    [
        *("--batch=0", "--batch=-1", "--batch=1e9", "--batch=\u0661", "--context=-1", f"--context={10**30}", "--tp=0"),
        *("--offload=1.5", "--offload=nan", "--offload=-0.1", "--tokens-per-pass=0", "--tokens-per-pass=inf"),
        *("--prompt=0", "--draft-tokens=0"),
    ],
)
def test_a_count_that_is_none_names_its_option(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 2 and nothing on stdout."""
    draft = ("--draft", "llama-3.2-1b") if option.startswith("--draft-tokens") else ()
    assert cli.main(["predict", "llama-3.1-8b", *CARD, *draft, option]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert option.partition("=")[0] in err


def test_the_largest_figures_that_are_taken_stay_finite(capsys: pytest.CaptureFixture[str]) -> None:
    """One JSON object without NaN or infinity."""
    most = str(10**15 - 1)
    options = ["--params", "1e24", "--kv-per-token", "1e24B", "--batch", most, "--context", most, "--prompt", most]
    assert cli.main(["predict", *options, "--bandwidth", "1e-12B/s", "--peak", "1e-12FLOP/s", "--json"]) == 0
    json.loads(capsys.readouterr().out, parse_constant=lambda word: pytest.fail(word))


def test_a_card_that_is_claimed_twice_is_not_chosen(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file of the user's that says what an H100 is."""
    file = spec_file(
        tmp_path,
        "devices:\n  - id: h100-sxm\n    name: Mine\n    vendor: me\n    device_names: [Mine]\n"
        "    memory_bytes: {value: 1.0e+12, source: doc}\n    bandwidth_bytes_per_s: {value: 9.9e+13, source: doc}\n",
    )
    assert cli.main(["predict", "--params", "8B", *CARD, "--specs", file]) == 2
    assert "this id is taken" in capsys.readouterr().err
