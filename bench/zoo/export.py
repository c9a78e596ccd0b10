# SPDX-License-Identifier: Apache-2.0
"""Builds networks of the zoo with random weights and exports them. No downloads. Needs bench/zoo/requirements.txt.

    python -m bench.zoo.export FOLDER [NAME ...] [--exporter both] [--size small] [--variant small] [--limit 180]

A file a network, exporter and variant: FOLDER/bert.script.small.onnx; what is there is left as it is. Each network is exported in
a process of its own with a time limit. Why one was not exported is written into FOLDER/bert.script.small.txt.
"""

import argparse
import multiprocessing
import os
import pathlib
import sys
import warnings

os.environ.update(HF_HUB_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TRANSFORMERS_VERBOSITY="error")

import torch
import transformers

from bench.zoo import modules
from bench.zoo.table import NETWORKS

OPSETS = {"script": 17, "dynamo": 20}


class Fed(torch.nn.Module):
    """A model with its inputs in order and the wanted fields of its answer as a tuple."""

    def __init__(self, model, network):
        super().__init__()
        self.model, self.network = model, network
        self.names = [given.name for given in network.inputs]

    def forward(self, *values):
        known = dict(zip(self.names, values))
        if self.network.cache:
            return self.with_cache(known, values[len(self.names) :])
        answer = self.model(**known)
        if isinstance(answer, torch.Tensor):
            return answer
        return tuple(answer[field] for field in self.network.outputs.split())

    def with_cache(self, known, past):
        cache = transformers.DynamicCache()
        for layer in range(self.network.cache[0]):
            cache.update(past[2 * layer], past[2 * layer + 1], layer)
        answer = self.model(**known, past_key_values=cache, use_cache=True)
        kept = [part for layer in cache.layers for part in (layer.keys, layer.values)]
        return (*(answer[field] for field in self.network.outputs.split()), *kept)


def output_names(network):
    layers = network.cache[0] if network.cache else 0
    return [*network.outputs.split(), *(f"present_{i}_{what}" for i in range(layers) for what in ("key", "value"))]


def measure_statistics(model, arrays):
    """Batch normalisations get the statistics of what they are given, layer by layer, as training would give them, and
    weights about 1: with those of a new network, the signal is gone after some layers of random weights."""

    def measure(module, given):
        value = given[0]
        axes = [axis for axis in range(value.dim()) if axis != 1]
        variance, mean = torch.var_mean(value, axes, correction=0)
        module.running_mean.copy_(mean)
        # A channel that is nearly constant in these inputs would be divided by almost nothing.
        module.running_var.copy_(variance.clamp(min=float(variance.mean()) * 0.1 + 1e-6))

    normalisations = [module for module in model.modules() if getattr(module, "running_var", None) is not None]
    hooks = [module.register_forward_pre_hook(measure) for module in normalisations]
    if hooks:
        with torch.no_grad():
            for module in normalisations:
                module.weight.copy_(torch.empty_like(module.weight).uniform_(0.5, 1.5))
            model(*arrays)
    for hook in hooks:
        hook.remove()


def build(network, size, attention):
    """The model with random weights: seeded, and not all zero where a model begins with zeros."""
    torch.manual_seed(17)
    config = network.configuration(size)
    if network.model.startswith("own."):
        model = getattr(modules, network.model[4:])(**config)
    else:
        kind = getattr(transformers, network.model)
        model = kind(kind.config_class(**config))
    if network.part:
        model = getattr(model, network.part)
    for module in model.modules():
        if hasattr(module, "config"):
            module.config._attn_implementation = attention
    with torch.no_grad():
        for value in model.parameters():
            if value.is_floating_point() and value.numel() and not value.any():
                value.normal_(0, 0.1)
            if network.spread and value.is_floating_point() and value.dim() > 1 and value.numel() > 1:
                value.mul_((value[0].numel() ** -0.5 / value.std()).clamp(min=1))
    fed = Fed(model.eval(), network)
    measure_statistics(fed, tuple(map(torch.cat, zip(*(examples(network, size, seed) for seed in range(8))))))
    return fed


def examples(network, variant, seed=0):
    """Inputs of a network; those of seed 0 are what it is exported with."""
    size = network.size(variant)
    return tuple(torch.from_numpy(given.array(size, seed)) for given in network.all_inputs())


def dynamic_axes(network):
    """{input: {axis: name}} of the open sizes."""
    axes = {}
    for given in network.all_inputs():
        found = {axis: dim for axis, dim in enumerate(given.dims) if dim in network.dynamic}
        if found:
            axes[given.name] = found
    return axes


def export(network, exporter, variant, path):
    # Eager attention is what the older exporter has written for years; the newer one sees scaled_dot_product_attention.
    model = build(network, variant, "eager" if exporter == "script" else "sdpa")
    arrays = examples(network, variant)
    names = [given.name for given in network.all_inputs()]
    axes = dynamic_axes(network) if variant == "dynamic" else {}
    how = dict(input_names=names, output_names=output_names(network), opset_version=OPSETS[exporter])
    with torch.no_grad():
        if exporter == "script":
            how.update(dynamo=False, do_constant_folding=True, dynamic_axes=axes)
        else:
            how.update(dynamo=True, external_data=variant == "large", verbose=False)
            if axes:
                shapes = tuple(dict.fromkeys(axes.get(name, {}), torch.export.Dim.DYNAMIC) for name in names)
                how.update(dynamic_shapes={"values": shapes})
        torch.onnx.export(model, arrays, str(path), **how)


def export_all(network, wanted):
    """In a process of its own: each (exporter, variant, path) of `wanted`."""
    torch.set_num_threads(1)
    torch.backends.mha.set_fastpath_enabled(
        False
    )  # one operator for all of attention, which the older exporter does not know
    warnings.filterwarnings("ignore")
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)  # exporters print whole graphs
    os.dup2(sink, 2)
    for exporter, variant, path in wanted:
        part = path.with_suffix(".part")
        try:
            export(network, exporter, variant, part)
            part.rename(path)
        except Exception as error:  # one that cannot be exported does not keep the others from it
            part.unlink(missing_ok=True)
            text = " ".join(str(error).split())
            path.with_suffix(".txt").write_text(f"{type(error).__name__}: {text[:600]}\n")


def run(network, wanted, limit):
    worker = multiprocessing.get_context("fork").Process(target=export_all, args=(network, wanted))
    worker.start()
    worker.join(limit)
    if worker.is_alive():
        worker.kill()
        worker.join()
    for _, _, path in wanted:
        path.with_suffix(".part").unlink(missing_ok=True)
        reason = path.with_suffix(".txt")
        if not path.exists() and not reason.exists():
            reason.write_text(
                f"no answer within {limit} s\n" if worker.exitcode == -9 else f"exporter ended with {worker.exitcode}\n"
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--exporter", choices=[*OPSETS, "both"], default="both")
    parser.add_argument("--size", choices=["small", "large"], default="small")
    parser.add_argument("--variant", choices=["small", "second", "dynamic"], help="this one alone")
    parser.add_argument("--limit", type=float, default=180, help="seconds for one network")
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or NETWORKS:
        if name not in NETWORKS:
            sys.exit(f"no network {name}: {', '.join(NETWORKS)}")
        network = NETWORKS[name]
        if options.size == "large" and not network.large:
            continue
        variants = ("large",) if options.size == "large" else network.variants()
        variants = [variant for variant in variants if options.variant in (None, variant)]
        exporters = OPSETS if options.exporter == "both" else [options.exporter]
        paths = [(e, v, options.folder / f"{name}.{e}.{v}.onnx") for e in exporters for v in variants]
        wanted = [row for row in paths if not row[2].exists() and not row[2].with_suffix(".txt").exists()]
        if wanted:
            run(network, wanted, options.limit)
        missing = [p for _, _, p in paths if not p.exists()]
        print(f"{name}: {len(paths) - len(missing)} of {len(paths)} exported", flush=True)
        for path in missing:
            print(f"  {path.stem}: {path.with_suffix('.txt').read_text()[:200].strip()}", flush=True)


if __name__ == "__main__":
    main()
