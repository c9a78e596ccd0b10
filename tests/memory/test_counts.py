# SPDX-License-Identifier: Apache-2.0
"""Many nodes, many initializers, many files: memory and time go with the nodes, and few files are open at once.

`bench/scale.py nodes` does the same with up to 100,000.
"""

import resource

from tests.support import converter

KIB, MIB = 2**10, 2**20


def make(folder, nodes, *options):
    model = folder / "m.onnx"
    converter.run("make-model", "many-nodes", "--nodes", nodes, "--quiet", "-o", model, *options, check=True)
    return model


def test_a_node_takes_less_than_one_and_a_half_kib(tmp_path):
    peaks = {}
    for nodes in (4000, 12000):
        done = converter.convert(make(tmp_path, nodes), tmp_path / "m.tflite")
        assert done.status == "converted", done.reason
        peaks[nodes] = done.peak_rss
    assert (peaks[12000] - peaks[4000]) / 8000 < 1.5 * KIB, peaks


def test_more_files_than_may_be_open(tmp_path):
    one, many = tmp_path / "one", tmp_path / "many"
    for folder, options in ((one, []), (many, ["--files", "150"])):
        folder.mkdir()
        model = make(folder, 2000, *options)
        done = converter.run(
            "convert",
            model,
            "-o",
            folder / "m.tflite",
            "--threads=4",
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)),
        )
        assert done.returncode == 0, done.stderr
    assert len(list(many.glob("m.onnx.data.*"))) == 150
    assert (one / "m.tflite").read_bytes() == (many / "m.tflite").read_bytes()
