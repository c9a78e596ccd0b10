"""Einsum: contractions, diagonals, sums, outer products, ellipses, one to three operands."""

from case import Case

A, B3, M, N = "float[2,3,4] a", "float[2,4,5] b", "float[3,4] m", "float[4,5] n"

CASES = [Case(f"einsum/{name}", inputs, f'y = Einsum<equation="{equation}">({operands})', weights, outputs=outputs) for
         name, inputs, equation, operands, weights, outputs in [
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
]]
CASES.append(Case("einsum/dynamic_batch", "float[N,3,4] a, float[N,4,5] b", 'y = Einsum<equation="bij,bjk->bik">(a, b)',
                  shapes={"a": (6, 3, 4), "b": (6, 4, 5)}))
