# SPDX-License-Identifier: Apache-2.0
"""TfIdfVectorizer over integers."""

import numpy as np

from tests.support.case import Case

CASES = []
X = np.array([[1, 1, 3, 3, 3, 7], [8, 6, 7, 5, 6, 8], [5, 6, 5, 6, 7, 8]])
POOL = "ngram_counts=[0,4,10], ngram_indexes=[0,1,2,3,4,5,6,7], pool_int64s=[2,3,5,6,5,6,7,8,6,7,3,3,7]"
WEIGHTS = "weights=[0.5,2.0,1.5,0.25,3.0,0.75,4.0,1.25]"
for mode in ("TF", "IDF", "TFIDF"):
    for least, most, skips in ((1, 1, 2), (1, 2, 0), (2, 2, 3), (1, 3, 1), (2, 3, 0), (3, 3, 1)):
        CASES.append(
            Case(
                f"tf_idf/{mode.lower()}_{least}_to_{most}_skips_{skips}",
                "int64[3,6] x",
                f'y = TfIdfVectorizer<mode="{mode}", min_gram_length={least}, max_gram_length={most}, max_skip_count={skips}, {POOL}, {WEIGHTS}>(x)',
                feeds={"x": X.astype(np.int64)},
                outputs="float[3,8] y",
            )
        )
HOW = 'mode="TF", min_gram_length=1, max_gram_length=2, max_skip_count=1'
CASES += [
    Case(
        "tf_idf/one_row_int32",
        "int32[6] x",
        f"y = TfIdfVectorizer<{HOW}, {POOL}>(x)",
        feeds={"x": X[1].astype(np.int32)},
        outputs="float[8] y",
    ),
    Case(
        "tf_idf/shared_and_empty_places",
        "int64[3,6] x",
        f"y = TfIdfVectorizer<{HOW}, ngram_counts=[0,2], ngram_indexes=[4,1,4,2], pool_int64s=[5,6,7,8,5,6]>(x)",
        feeds={"x": X.astype(np.int64)},
        outputs="float[3,5] y",
    ),
    Case(
        "tf_idf/weights_go_with_n_grams",
        "int64[3,6] x",
        'y = TfIdfVectorizer<mode="TFIDF", min_gram_length=1, max_gram_length=2, max_skip_count=1, ngram_counts=[0,2], ngram_indexes=[4,1,4,2], '
        "pool_int64s=[5,6,7,8,5,6], weights=[2.0,0.5,3.0,1.5]>(x)",
        feeds={"x": X.astype(np.int64)},
        outputs="float[3,5] y",
    ),
    Case(
        "tf_idf/presence_by_weight",
        "int64[3,6] x",
        'y = TfIdfVectorizer<mode="IDF", min_gram_length=1, max_gram_length=2, max_skip_count=1, ngram_counts=[0,2], ngram_indexes=[3,1,4,2], '
        "pool_int64s=[5,6,7,8,5,6], weights=[2.0,0.5,3.0,1.5]>(x)",
        feeds={"x": X.astype(np.int64)},
        outputs="float[3,5] y",
    ),
    Case(
        "tf_idf/presence_at_shared_places",
        "int64[3,6] x",
        'y = TfIdfVectorizer<mode="IDF", min_gram_length=1, max_gram_length=2, max_skip_count=1, ngram_counts=[0,2], ngram_indexes=[4,1,4,2], '
        "pool_int64s=[5,6,7,8,5,6]>(x)",
        feeds={"x": X.astype(np.int64)},
        outputs="float[3,5] y",
    ),
    *(
        Case(
            f"tf_idf/too_short_{name}",
            f"int64[{dims}] x",
            f'y = TfIdfVectorizer<mode="TF", min_gram_length=2, max_gram_length=2, max_skip_count=1, {POOL}>(x)',
            feeds={"x": np.full([2 if dim == "N" else int(dim) for dim in dims.split(",")], 5, np.int64)},
            outputs=f"float[{'' if name in ('row', 'nothing') else '2,'}8] y",
        )
        for name, dims in {"row": "1", "nothing": "0", "rows": "2,1", "batch": "N,1"}.items()
    ),
    Case(
        "tf_idf/dynamic_batch",
        "int64[N,6] x",
        f"y = TfIdfVectorizer<{HOW}, {POOL}>(x)",
        feeds={"x": X.astype(np.int64)},
        outputs="float[N,8] y",
    ),
]
