// SPDX-License-Identifier: Apache-2.0
// Bernoulli, Multinomial, RandomNormal, RandomUniform and their Like forms: refused. Even with a seed each runtime
// draws numbers of its own, so that no conversion could be compared with its model.
#include "layout/lower/lowering.h"

namespace lowtide::layout {

void lower_random(Lowering& lo) {
  lo.unsupported("random numbers: another runtime draws others, with a seed too",
                 "make the numbers an input of the model, or an initializer");
}

}  // namespace lowtide::layout
