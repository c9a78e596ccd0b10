# SPDX-License-Identifier: Apache-2.0
"""Einsum: contractions, diagonals, sums, outer products, ellipses, one to three operands."""

from tests.support.case import Case

A, B3, M, N = "float[2,3,4] a", "float[2,4,5] b", "float[3,4] m", "float[4,5] n"

CASES = [
    Case(f"einsum/{name}", inputs, f'y = Einsum<equation="{equation}">({operands})', weights, outputs=outputs)
    for name, inputs, equation, operands, weights, outputs in [
        ("matmul", f"{M}, {N}", "ij,jk->ik", "m, n", {}, "y"),
        ("matmul_constant", M, "ij,jk->ik", "m, w", {"w": (4, 5)}, "y"),
        ("matmul_swapped_result", f"{M}, {N}", "ij,jk->ki", "m, n", {}, "y"),
        ("implicit", f"{M}, {N}", "ij,jk", "m, n", {}, "y"),
        ("batch", f"{A}, {B3}", "bij,bjk->bik", "a, b", {}, "y"),
        ("batch_at_the_end", f"{A}, {B3}", "bij,bjk->ikb", "a, b", {}, "y"),
        ("attention_scores", "float[2,5,3,4] q, float[2,6,3,4] k", "bqhd,bkhd->bhqk", "q, k", {}, "y"),
        ("attention_values", "float[2,3,5,6] p, float[2,6,3,4] v", "bhqk,bkhd->bqhd", "p, v", {}, "y"),
        ("heads_projection", "float[2,5,12] x", "bsd,dhe->bshe", "x, w", {"w": (12, 3, 4)}, "y"),
        ("two_contracted", "float[2,3,4] a, float[4,3,5] b", "aij,jik->ak", "a, b", {}, "y"),
        ("sum_of_one_side", f"{A}, {M}", "bij,ik->bk", "a, m", {}, "y"),
        ("outer", "float[3] a, float[4] b", "i,j->ij", "a, b", {}, "y"),
        ("elementwise", "float[3,4] a, float[3,4] b", "ij,ij->ij", "a, b", {}, "y"),
        ("inner", "float[4] a, float[4] b", "i,i->", "a, b", {}, "float y"),
        ("row_scale", f"{M}, float[3] b", "ij,i->ij", "m, b", {}, "y"),
        ("transpose", A, "abc->cab", "a", {}, "y"),
        ("sum", A, "abc->b", "a", {}, "y"),
        ("sum_all", M, "ij->", "m", {}, "float y"),
        ("trace", "float[4,4] a", "ii->", "a", {}, "float y"),
        ("diagonal", "float[4,4] a", "ii->i", "a", {}, "y"),
        ("diagonal_around", "float[4,3,4] a", "iji->ji", "a", {}, "float[3,4] y"),
        ("ellipsis", "float[2,3,4,5] a, float[2,3,5,6] b", "...ij,...jk->...ik", "a, b", {}, "y"),
        ("ellipsis_of_two_ranks", "float[2,3,4,5] a, float[5,6] b", "...ij,jk->...ik", "a, b", {}, "float[2,3,4,6] y"),
        ("ellipsis_transpose", "float[2,3,4,5] a", "...ij->...ji", "a", {}, "y"),
        ("three_operands", f"{M}, {N}, float[5,2] p", "ij,jk,kl->il", "m, n, p", {}, "y"),
        ("three_with_a_shared_label", f"{M}, {N}, float[4] p", "ij,jk,j->ik", "m, n, p", {}, "y"),
    ]
]
CASES.append(
    Case(
        "einsum/dynamic_batch",
        "float[N,3,4] a, float[N,4,5] b",
        'y = Einsum<equation="bij,bjk->bik">(a, b)',
        shapes={"a": (6, 3, 4), "b": (6, 4, 5)},
    )
)


def einsum(name, equation, *shapes, opset=13, constant=(), **more):
    inputs = ", ".join(
        f"float[{','.join(map(str, dims))}] {letter}" for letter, dims in zip("abcd", shapes) if letter not in constant
    )
    weights = {letter: tuple(dims) for letter, dims in zip("abcd", shapes) if letter in constant}
    CASES.append(
        Case(
            "einsum/" + name,
            inputs,
            f'y = Einsum<equation="{equation}">({", ".join("abcd"[: len(shapes)])})',
            weights,
            opset=opset,
            **more,
        )
    )


einsum("sum_of_one", "ijk->ki", (3, 4, 5))
einsum("implicit_result", "ba", (3, 4), same_as="y = Transpose(a)", outputs="float[4,3] y")
einsum("implicit_capitals_first", "aB", (3, 4), same_as="y = Transpose(a)", outputs="float[4,3] y")
einsum("spaces", " i j , j k -> i k ", (3, 4), (4, 5))
einsum("trace_implicit", "ii", (4, 4))
einsum("diagonal_of_three", "iiij->ji", (3, 3, 3, 4))
einsum("diagonal_in_product", "iij,jk->ik", (3, 3, 4), (4, 5))
einsum("ellipsis_diagonal", "...ii->...i", (2, 3, 4, 4))
einsum("two_contracted_crossed", "abcd,dcef->efba", (2, 3, 4, 5), (5, 4, 6, 7))
einsum("image_and_matrix", "nctv,vw->nctw", (2, 3, 4, 5), (5, 6))
einsum("constant_left", "vw,nctv->nctw", (5, 6), (2, 3, 4, 5), constant="a")
einsum("two_graphs", "nkctv,kvw->nctw", (2, 3, 4, 5, 6), (3, 6, 7))
einsum("outer_transposed", "i,j->ji", (3,), (4,))
einsum("summed_alone", "ijm,jk->ik", (3, 4, 6), (4, 5))
einsum("summed_alone_on_both", "ij,kl->ik", (3, 4), (5, 6))
einsum(
    "ellipsis_broadcast",
    "...ij,...jk->...ik",
    (6, 2, 3, 4),
    (2, 4, 5),
    same_as="y = MatMul(a, b)",
    outputs="float[6,2,3,5] y",
)
einsum("ellipsis_ones", "...ij,...jk->...ik", (6, 1, 3, 4), (1, 2, 4, 5))
einsum(
    "one_against_depth",
    "ij,jk->ik",
    (3, 1),
    (4, 5),
    same_as="s = Constant<value_ints=[0]>() r = ReduceSum<keepdims=0>(b, s) y = Mul(a, r)",
    outputs="float[3,5] y",
)
einsum("one_against_batch", "bij,bjk->bik", (1, 3, 4), (2, 4, 5), same_as="y = MatMul(a, b)", outputs="float[2,3,5] y")
einsum("one_against_all", "ij,ij->ij", (3, 1), (1, 4), same_as="y = Mul(a, b)", outputs="float[3,4] y")
einsum("ones_on_both", "ij,jk->ik", (3, 1), (1, 5))
einsum("ellipsis_moved", "i...j->j...i", (2, 3, 4, 5))
einsum(
    "ellipsis_summed",
    "...ij->ij",
    (2, 3, 4, 5),
    same_as="s = Constant<value_ints=[0,1]>() y = ReduceSum<keepdims=0>(a, s)",
    outputs="float[4,5] y",
)
einsum("ellipsis_implicit", "...ij,jk", (2, 3, 4, 5), (5, 6))
einsum("ellipsis_empty", "...ij,...j->...i", (3, 4), (4,))
einsum("scalar", "ij,->ij", (3, 4), (), same_as="y = Mul(a, b)", constant="b")
einsum("three_bilinear", "bi,oij,bj->bo", (2, 3), (5, 3, 4), (2, 4))
einsum("four", "ij,jk,kl,lm->mi", (2, 3), (3, 4), (4, 5), (5, 6))
einsum("six_axes", "abcde,abcfe->abcdf", (2, 1, 3, 4, 5), (2, 1, 3, 6, 5))
CASES += [
    Case(
        "einsum/int32",
        "int32[3,4] a, int32[4,5] b",
        'y = Einsum<equation="ij,jk->ki">(a, b)',
        ranges={"a": (-9, 9), "b": (-9, 9)},
    ),
    Case(
        "einsum/dynamic_batch_moved",
        "float[N,3,4] a, float[N,4,5] b",
        'y = Einsum<equation="bij,bjk->bki">(a, b)',
        shapes={"a": [2, 3, 4], "b": [2, 4, 5]},
    ),
    Case(
        "einsum/dynamic_batch_constant",
        "float[N,3,T,4] a",
        'y = Einsum<equation="nctv,vw->nwtc">(a, b)',
        {"b": (4, 5)},
        shapes={"a": [2, 3, 6, 4]},
        outputs="float[N,5,T,3] y",
    ),
]
