# SPDX-License-Identifier: Apache-2.0
"""bench/zoo: the tables of networks are coherent. Neither torch nor transformers is needed."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from bench.zoo.__main__ import cells_of, totals
from bench.zoo.judge import SIZES, Outcome
from bench.zoo.network import VOCABULARY
from bench.zoo.table import FAMILIES, NETWORKS

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_the_zoo_is_large_enough_and_names_are_unique():
    assert len(NETWORKS) == sum(map(len, FAMILIES.values())) >= 80
    assert sum(bool(network.dynamic) for network in NETWORKS.values()) * 3 >= len(NETWORKS)
    assert len({network.model for network in NETWORKS.values()}) >= 60
    assert all(re.fullmatch(r"[a-z0-9-]+", name) for name in NETWORKS)


@pytest.mark.parametrize("network", NETWORKS.values(), ids=lambda network: network.name)
def test_a_row_is_coherent(network):
    small, second = network.sizes
    assert small.keys() == second.keys() and small != second
    dims = {dim for given in network.all_inputs() for dim in given.dims if isinstance(dim, str)}
    assert {name for name in small if name.isupper()} <= dims <= small.keys()
    assert set(network.dynamic) <= dims
    if network.dynamic:  # the two sizes are of one file
        assert {name for name in small if small[name] != second[name]} <= set(network.dynamic)
    assert network.outputs.split() and set(network.variants()) <= SIZES.keys()
    names = [given.name for given in network.all_inputs()]
    assert len(set(names)) == len(names)
    for which in ("small", "second", *(["large"] if network.large else [])):
        assert not any(name.isupper() for name in network.configuration(which))
        for given in network.all_inputs():
            array = given.array(network.size(which))
            assert array.shape == given.shape(network.size(which)) and array.dtype in (np.float32, np.int64)
            assert given.kind != "tokens" or array.max() < VOCABULARY
    if network.model.startswith("own."):
        source = (ROOT / "bench/zoo/modules.py").read_text()  # not imported: it needs torch
        assert f"class {network.model[4:]}(nn.Module):" in source


def test_large_sizes_are_kept_of_the_former_benchmark():
    large = {network.name for network in NETWORKS.values() if network.large}
    assert large >= {"segformer", "upernet-swin", "dpt-segmentation", "sam-encoder", "detr", "whisper-encoder", "gpt2"}


def test_reading_the_tables_loads_no_torch():
    code = "import sys, bench.zoo.table; sys.exit(bool({'torch', 'transformers'} & sys.modules.keys()))"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_totals_name_what_is_not_right():
    outcomes = {
        ("bert", "script", "small"): Outcome("right", "", 12, 3, 2**20, {"kernels": 1e-7, "xnnpack": 2e-6}),
        ("bert", "script", "dynamic"): Outcome("refused", "node 'n': no"),
        ("bert", "dynamo", "small"): "TimeoutError",
    }
    text = totals(outcomes)
    assert (
        "2 files" in text
        and "1 convert and are right" in text
        and "* bert.script.dynamic: refused: node 'n': no" in text
    )
    assert "bert.dynamo.small" in text
    assert cells_of(outcomes, "bert", "script") == [
        "bert",
        "script",
        "12 / 3",
        "-",
        "1 MiB",
        "1e-07",
        "2e-06",
        "refused",
    ]
    assert cells_of(outcomes, "bert", "dynamo") is None
