// SPDX-License-Identifier: Apache-2.0
// Bernoulli, Multinomial, RandomNormal, RandomUniform and their Like forms: refused. Even with a seed every runtime
// draws different numbers, so a conversion cannot be compared with its model.
#include "layout/lower/lowering.h"

namespace lowtide::layout {

void lower_random(Lowering& lo) {
  lo.unsupported("random numbers are not supported: every runtime draws different ones, even with a seed",
                 "make the numbers an input of the model or an initializer");
}

}  // namespace lowtide::layout
