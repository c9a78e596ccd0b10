"""Einsum: every way in which a letter can stand in operands and result."""

import numpy as np

from case import Case

CASES = []


def einsum(name, equation, *shapes, opset=13, constant=(), **more):
    inputs = ", ".join(f"float[{','.join(map(str, dims))}] {letter}" for letter, dims in zip("abcd", shapes) if letter not in constant)
    weights = {letter: tuple(dims) for letter, dims in zip("abcd", shapes) if letter in constant}
    CASES.append(Case("einsum_forms/" + name, inputs, f'y = Einsum<equation="{equation}">({", ".join("abcd"[: len(shapes)])})', weights, opset=opset, **more))


einsum("transpose", "ijk->kij", (3, 4, 5))
einsum("sum_of_one", "ijk->ki", (3, 4, 5))
einsum("sum_of_all", "ij->", (3, 4))
einsum("implicit_result", "ba", (3, 4), same_as="y = Transpose(a)", outputs="float[4,3] y")
einsum("implicit_contraction", "ij,jk", (3, 4), (4, 5))
einsum("implicit_capitals_first", "aB", (3, 4), same_as="y = Transpose(a)", outputs="float[4,3] y")
einsum("spaces", " i j , j k -> i k ", (3, 4), (4, 5))
einsum("diagonal", "ii->i", (4, 4))
einsum("trace", "ii", (4, 4))
einsum("batched_diagonal", "iji->ji", (4, 3, 4))
einsum("diagonal_of_three", "iiij->ji", (3, 3, 3, 4))
einsum("diagonal_in_product", "iij,jk->ik", (3, 3, 4), (4, 5))
einsum("ellipsis_diagonal", "...ii->...i", (2, 3, 4, 4))
einsum("product", "ij,jk->ik", (3, 4), (4, 5))
einsum("product_transposed", "ij,kj->ki", (3, 4), (5, 4))
einsum("batched", "bij,bjk->bik", (2, 3, 4), (2, 4, 5))
einsum("attention_scores", "bhqd,bhkd->bhqk", (2, 3, 5, 4), (2, 3, 7, 4))
einsum("attention_scores_heads_inside", "bqhd,bkhd->bhqk", (2, 5, 3, 4), (2, 7, 3, 4))
einsum("attention_values", "bhqk,bkhd->bqhd", (2, 3, 5, 7), (2, 7, 3, 4))
einsum("two_contracted", "abcd,cdef->abef", (2, 3, 4, 5), (4, 5, 6, 7))
einsum("two_contracted_crossed", "abcd,dcef->efba", (2, 3, 4, 5), (5, 4, 6, 7))
einsum("channels_scale", "nchw,nc->nchw", (2, 3, 4, 5), (2, 3))
einsum("image_and_matrix", "nctv,vw->nctw", (2, 3, 4, 5), (5, 6))
einsum("image_and_matrix_constant", "nctv,vw->nctw", (2, 3, 4, 5), (5, 6), constant="b")
einsum("constant_left", "vw,nctv->nctw", (5, 6), (2, 3, 4, 5), constant="a")
einsum("two_graphs", "nkctv,kvw->nctw", (2, 3, 4, 5, 6), (3, 6, 7))
einsum("outer", "i,j->ij", (3,), (4,))
einsum("outer_transposed", "i,j->ji", (3,), (4,))
einsum("inner", "i,i", (5,), (5,))
einsum("elementwise", "ij,ij->ij", (3, 4), (3, 4))
einsum("summed_alone", "ijm,jk->ik", (3, 4, 6), (4, 5))
einsum("summed_alone_on_both", "ij,kl->ik", (3, 4), (5, 6))
einsum("ellipsis", "...ij,...jk->...ik", (2, 3, 4), (2, 4, 5))
einsum("ellipsis_broadcast", "...ij,...jk->...ik", (6, 2, 3, 4), (2, 4, 5), same_as="y = MatMul(a, b)", outputs="float[6,2,3,5] y")
einsum("ellipsis_ones", "...ij,...jk->...ik", (6, 1, 3, 4), (1, 2, 4, 5))
einsum("ellipsis_moved", "i...j->j...i", (2, 3, 4, 5))
einsum("ellipsis_summed", "...ij->ij", (2, 3, 4, 5), same_as="s = Constant<value_ints=[0,1]>() y = ReduceSum<keepdims=0>(a, s)", outputs="float[4,5] y")
einsum("ellipsis_implicit", "...ij,jk", (2, 3, 4, 5), (5, 6))
einsum("ellipsis_empty", "...ij,...j->...i", (3, 4), (4,))
einsum("scalar", "ij,->ij", (3, 4), (), same_as="y = Mul(a, b)", constant="b")
einsum("three", "ij,jk,kl->il", (2, 3), (3, 4), (4, 5))
einsum("three_bilinear", "bi,oij,bj->bo", (2, 3), (5, 3, 4), (2, 4))
einsum("four", "ij,jk,kl,lm->mi", (2, 3), (3, 4), (4, 5), (5, 6))
einsum("six_axes", "abcde,abcfe->abcdf", (2, 1, 3, 4, 5), (2, 1, 3, 6, 5))
CASES += [
    Case("einsum_forms/int32", "int32[3,4] a, int32[4,5] b", 'y = Einsum<equation="ij,jk->ki">(a, b)', ranges={"a": (-9, 9), "b": (-9, 9)}),
    Case("einsum_forms/dynamic_batch", "float[N,3,4] a, float[N,4,5] b", 'y = Einsum<equation="bij,bjk->bki">(a, b)', shapes={"a": [2, 3, 4], "b": [2, 4, 5]}),
    Case("einsum_forms/dynamic_batch_constant", "float[N,3,T,4] a", 'y = Einsum<equation="nctv,vw->nwtc">(a, b)', {"b": (4, 5)}, shapes={"a": [2, 3, 6, 4]},
         outputs="float[N,5,T,3] y"),
]
