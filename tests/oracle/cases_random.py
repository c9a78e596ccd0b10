# SPDX-License-Identifier: Apache-2.0
"""Seeded random chains between convolutions: movements of axes and elements in any order, where every layout decision
shows. All dimensions differ as far as the chain lets them.
"""

import numpy as np

from tests.support.case import Case, i64

COUNT = 60  # more by random_chain(seed) for any seed


class Chain:
    """With a dynamic batch, axis 0 stays what and where it is."""

    def __init__(self, seed, dynamic):
        self.rng = np.random.default_rng(seed)
        self.first = int(dynamic)  # the first axis that steps may touch
        self.shape = [int(n) for n in self.rng.permutation([2, 3, 5, 6])]
        self.start = tuple(self.shape)
        self.inputs = f"float[{self.spelled()}] x"
        self.lines, self.weights, self.value = [], {}, "x"
        self.seen = []  # (value, shape) of before, for branches to meet

    def constant(self, array):
        name = f"k{len(self.weights)}"
        self.weights[name] = array
        return name

    def emit(self, text, shape):
        name = f"v{len(self.lines)}"
        self.lines.append(f"{name} = {text.format(self.value)}")
        self.value, self.shape = name, [int(n) for n in shape]

    def spelled(self):
        return ",".join(["N"] * self.first + [str(n) for n in self.shape[self.first :]])

    def axis(self):
        return int(self.rng.integers(self.first, len(self.shape)))

    def target(self, shape):  # of a Reshape: 0 keeps the batch
        return self.constant(i64(*[0] * self.first, *shape[self.first :]))

    def some_axis(self):  # of either sign
        axis = self.axis()
        return axis, axis - len(self.shape) if self.rng.random() < 0.3 else axis

    # ---- steps: each leaves the shape as it is when it cannot do its work ----
    def conv(self):
        if len(self.shape) != 4:
            return
        n, c, h, w = self.shape
        out, kh, kw = (
            int(self.rng.integers(2, 8)),
            int(self.rng.integers(1, min(h, 3) + 1)),
            int(self.rng.integers(1, min(w, 3) + 1)),
        )
        name = self.constant((self.rng.uniform(-1, 1, (out, c, kh, kw)) / np.sqrt(c * kh * kw)).astype(np.float32))
        self.emit(f"Conv({{}}, {name})", (n, out, h - kh + 1, w - kw + 1))

    def transpose(self):
        perm = [0] * self.first + [int(p) + self.first for p in self.rng.permutation(len(self.shape) - self.first)]
        self.emit(f"Transpose<perm={perm}>({{}})".replace(" ", ""), [self.shape[p] for p in perm])

    def to_last(self):
        if len(self.shape) == 4:
            self.emit("Transpose<perm=[0,2,3,1]>({})", [self.shape[p] for p in (0, 2, 3, 1)])

    def to_first(self):
        if len(self.shape) == 4:
            self.emit("Transpose<perm=[0,3,1,2]>({})", [self.shape[p] for p in (0, 3, 1, 2)])

    def merge(self):
        if len(self.shape) < 3:
            return
        at = int(self.rng.integers(self.first, len(self.shape) - 1))
        shape = self.shape[:at] + [self.shape[at] * self.shape[at + 1]] + self.shape[at + 2 :]
        self.emit(f"Reshape({{}}, {self.target(shape)})", shape)

    def divide(self):
        axis = self.axis()
        factors = [f for f in (2, 3, 5) if self.shape[axis] % f == 0 and self.shape[axis] > f]
        if not factors or len(self.shape) > 4:
            return
        factor = int(self.rng.choice(factors))
        shape = self.shape[:axis] + [factor, self.shape[axis] // factor] + self.shape[axis + 1 :]
        self.emit(f"Reshape({{}}, {self.target(shape)})", shape)

    def regroup(self):
        total = int(np.prod(self.shape))
        if self.first:
            self.emit(f"Reshape({{}}, {self.constant(i64(0, -1))})", (self.shape[0], total // self.shape[0]))
            return
        first = int(self.rng.choice([d for d in range(1, total + 1) if total % d == 0]))
        self.emit(f"Reshape({{}}, {self.constant(i64(first, -1))})", (first, total // first))

    def slice(self):
        axis, said = self.some_axis()
        n = self.shape[axis]
        step = int(self.rng.choice([1, 1, 2, -1]))
        begin, end = (0, n) if n < 3 else sorted(self.rng.choice(n + 1, 2, replace=False))
        begin, end = (int(end) - 1, int(begin) - 1 if begin else -(2**31)) if step < 0 else (int(begin), int(end))
        length = len(range(n)[slice(begin, end if end >= 0 else None, step)])
        shape = list(self.shape)
        shape[axis] = length
        names = [self.constant(i64(v)) for v in (begin, end, said, step)]
        self.emit(f"Slice({{}}, {', '.join(names)})", shape)

    def pad(self):
        before, after = self.rng.integers(0, 3, (2, len(self.shape)))
        before[: self.first] = after[: self.first] = 0
        mode = str(self.rng.choice(["constant", "edge", "reflect"]))
        if mode == "reflect":
            before, after = (np.minimum(p, np.array(self.shape) - 1) for p in (before, after))
        self.emit(
            f'Pad<mode="{mode}">({{}}, {self.constant(i64(*before, *after))})', before + np.array(self.shape) + after
        )

    def concat(self):
        axis, said = self.some_axis()
        shape = list(self.shape)
        shape[axis] *= 2
        self.emit(f"Concat<axis={said}>({{0}}, {{0}})", shape)

    def concat_constant(self):
        if self.first:
            return
        axis, said = self.some_axis()
        other = list(self.shape)
        other[axis] = 2
        shape = list(self.shape)
        shape[axis] += 2
        self.emit(
            f"Concat<axis={said}>({self.constant(self.rng.uniform(-1, 1, other).astype(np.float32))}, {{}})", shape
        )

    def split(self):
        axis, said = self.some_axis()
        n = self.shape[axis]
        if n < 2:
            return
        first = int(self.rng.integers(1, n))
        before, at = self.value, len(self.lines)
        self.lines.append(f"v{at}, w{at} = Split<axis={said}>({before}, {self.constant(i64(first, n - first))})")
        self.value = f"w{at}"
        self.shape[axis] = n - first

    def gather(self):
        axis, said = self.some_axis()
        indices = self.rng.integers(-self.shape[axis], self.shape[axis], int(self.rng.integers(1, 5)))
        shape = list(self.shape)
        shape[axis] = len(indices)
        self.emit(f"Gather<axis={said}>({{}}, {self.constant(indices.astype(np.int64))})", shape)

    def gather_one(self):
        if len(self.shape) < 2 + self.first:
            return
        axis, said = self.some_axis()
        index = int(self.rng.integers(self.shape[axis]))
        self.emit(
            f"Gather<axis={said}>({{}}, {self.constant(np.int64(index))})", self.shape[:axis] + self.shape[axis + 1 :]
        )

    def tile(self):
        axis = self.axis()
        repeats = [1] * len(self.shape)
        repeats[axis] = 2
        self.emit(f"Tile({{}}, {self.constant(i64(*repeats))})", np.array(self.shape) * repeats)

    def unsqueeze(self):
        if len(self.shape) < 5:
            axis = int(self.rng.integers(self.first, len(self.shape) + 1))
            self.emit(f"Unsqueeze({{}}, {self.constant(i64(axis))})", self.shape[:axis] + [1] + self.shape[axis:])

    def squeeze(self):
        ones = [a for a, n in enumerate(self.shape) if n == 1 and a >= self.first]
        if ones and len(self.shape) > 1:
            axis = int(self.rng.choice(ones))
            self.emit(f"Squeeze({{}}, {self.constant(i64(axis))})", self.shape[:axis] + self.shape[axis + 1 :])

    def expand(self):
        ones = [a for a, n in enumerate(self.shape) if n == 1 and a >= self.first]
        if ones:
            shape = list(self.shape)
            shape[int(self.rng.choice(ones))] = 3
            self.emit(f"Expand({{}}, {self.constant(i64(*[1] * self.first, *shape[self.first :]))})", shape)

    def reduce(self):
        axis, said = self.some_axis()
        keep = int(self.rng.integers(2)) if len(self.shape) > 1 + self.first else 1
        op = str(self.rng.choice(["ReduceMax", "ReduceMean", "ReduceMin"]))
        shape = list(self.shape)
        shape[axis : axis + 1] = [1] if keep else []
        self.emit(f"{op}<axes=[{said}], keepdims={keep}>({{}})", shape)

    def softmax(self):
        self.emit(f"Softmax<axis={self.some_axis()[1]}>({{}})", self.shape)

    def relu(self):
        self.emit("Relu({})", self.shape)

    def add(self):
        other = [n if self.rng.random() < 0.5 and a >= self.first else 1 for a, n in enumerate(self.shape)][
            int(self.rng.integers(len(self.shape))) :
        ]
        self.emit(f"Add({{}}, {self.constant(self.rng.uniform(-1, 1, other).astype(np.float32))})", self.shape)

    def multiply_by_its_mean(self):
        axis = self.axis()
        at = len(self.lines)
        self.lines.append(f"m{at} = ReduceMean<axes=[{axis}], keepdims=1>({self.value})")
        self.lines.append(f"v{at + 1} = Mul({self.value}, m{at})")
        self.value = f"v{at + 1}"

    def pool(self):
        if len(self.shape) == 4 and self.shape[2] > 1 and self.shape[3] > 2:
            n, c, h, w = self.shape
            self.emit("MaxPool<kernel_shape=[2,3]>({})", (n, c, h - 1, w - 2))

    def join(self):
        known = [value for value, shape in self.seen if shape == self.shape and value != self.value]
        if known and self.rng.random() < 0.7:
            self.emit(f"{self.rng.choice(['Add', 'Mul', 'Max', 'Sub'])}({{}}, {self.rng.choice(known)})", self.shape)
            return
        for value, shape in reversed(self.seen):
            differ = [a for a, (n, m) in enumerate(zip(shape, self.shape, strict=False)) if n != m]
            if value != self.value and len(shape) == len(self.shape) and len(differ) <= 1:
                axis = differ[0] if differ else self.axis()
                if axis < self.first:
                    continue
                joined = list(self.shape)
                joined[axis] += shape[axis]
                self.emit(f"Concat<axis={axis}>({{}}, {value})", joined)
                return

    def go_back(self):
        if self.seen:
            self.value, shape = self.seen[int(self.rng.integers(len(self.seen)))]
            self.shape = list(shape)

    def where(self):
        mask = (
            self.rng.random([n if self.rng.random() < 0.5 and a >= self.first else 1 for a, n in enumerate(self.shape)])
            < 0.5
        )
        self.emit(f"Where({self.constant(mask)}, {{}}, {self.constant(np.float32(0.5))})", self.shape)

    def batch_norm(self):
        if len(self.shape) < 2:
            return
        names = [self.constant(self.rng.uniform(0.5, 1.5, self.shape[1]).astype(np.float32)) for _ in range(4)]
        self.emit(f"BatchNormalization({{}}, {', '.join(names)})", self.shape)

    def matmul(self):
        if len(self.shape) < 2:
            return
        n = int(self.rng.integers(2, 6))
        weight = (self.rng.uniform(-1, 1, (self.shape[-1], n)) / self.shape[-1]).astype(np.float32)
        self.emit(f"MatMul({{}}, {self.constant(weight)})", self.shape[:-1] + [n])

    def matmul_by_itself(self):
        if len(self.shape) < 2 + self.first:
            return
        perm = list(range(len(self.shape)))
        perm[-2:] = perm[:-3:-1]
        at = len(self.lines)
        self.lines.append(f"t{at} = Transpose<perm={perm}>({self.value})".replace(", ", ","))
        self.lines.append(f"v{at + 1} = MatMul({self.value}, t{at})")
        self.value, self.shape = f"v{at + 1}", [*self.shape[:-1], self.shape[-2]]

    def depth_to_space(self):
        if len(self.shape) == 4 and self.shape[1] % 4 == 0:
            n, c, h, w = self.shape
            mode = str(self.rng.choice(["DCR", "CRD"]))
            self.emit(f'DepthToSpace<blocksize=2, mode="{mode}">({{}})', (n, c // 4, 2 * h, 2 * w))

    def space_to_depth(self):
        if len(self.shape) == 4 and self.shape[2] % 2 == 0 and self.shape[3] % 2 == 0:
            n, c, h, w = self.shape
            self.emit("SpaceToDepth<blocksize=2>({})", (n, c * 4, h // 2, w // 2))

    def resize(self):
        if len(self.shape) == 4:
            n, c, h, w = self.shape
            scales = self.constant(np.array([1, 1, 2, 2], np.float32))
            mode = 'mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor"'
            mode = mode if self.rng.random() < 0.5 else 'mode="linear", coordinate_transformation_mode="half_pixel"'
            self.emit(f"Resize<{mode}>({{}}, , {scales})", (n, c, 2 * h, 2 * w))

    def layer_norm(self):
        scale = self.constant(self.rng.uniform(0.5, 1.5, self.shape[-1]).astype(np.float32))
        bias = self.constant(self.rng.uniform(-1, 1, self.shape[-1]).astype(np.float32))
        self.emit(f"LayerNormalization({{}}, {scale}, {bias})", self.shape)

    def cumsum(self):
        self.emit(f"CumSum({{}}, {self.constant(np.int64(self.some_axis()[1]))})", self.shape)

    def flatten(self):
        axis = 1 if self.first else int(self.rng.integers(len(self.shape) + 1))
        self.emit(f"Flatten<axis={axis}>({{}})", (int(np.prod(self.shape[:axis])), int(np.prod(self.shape[axis:]))))

    def back_to_4d(self):
        if len(self.shape) == 3:
            self.unsqueeze()


STEPS = [
    name
    for name, member in vars(Chain).items()
    if callable(member)
    and not name.startswith("_")
    and name not in ("constant", "emit", "spelled", "axis", "target", "some_axis")
]


def random_chain(seed, dynamic=False):
    chain = Chain(seed, dynamic)
    chain.conv()
    for _ in range(int(chain.rng.integers(3, 16))):
        before = len(chain.lines)
        getattr(
            chain,
            str(chain.rng.choice([*STEPS, "conv", "transpose", "to_last", "to_first", "back_to_4d", "join", "join"])),
        )()
        if chain.rng.random() < 0.5 and chain.value != "x":
            chain.seen.append((chain.value, list(chain.shape)))
        if len(chain.lines) > before and chain.rng.random() < 0.25:
            chain.relu()
        if np.prod(chain.shape) > 4000 and len(chain.shape) > chain.first:
            chain.reduce()
        if len(chain.shape) == chain.first:
            break
    chain.conv()
    chain.emit("Identity({})", chain.shape)
    name = f"random/{'dynamic_' if dynamic else ''}{seed}"
    return Case(
        name,
        chain.inputs,
        " ".join(chain.lines),
        chain.weights,
        opset=17,
        outputs=f"float[{chain.spelled()}] {chain.value}",
        shapes={"x": chain.start} if dynamic else {},
        tolerance=1e-3,
    )


CASES = [random_chain(seed, dynamic) for dynamic in (False, True) for seed in range(COUNT)]
