// Dimensions that only the run knows, computed inside the graph. They come from the shapes of the graph's inputs where
// that is possible: those keep their axis order, so that nothing has to be transposed back to be asked for its shape.
#pragma once

#include "layout/builder.h"

namespace lowtide::core {

// An i32 list of one element with the value of a symbolic dimension; absent when nothing tells it.
Val run_time_dim(Builder& b, Dim dim);

}  // namespace lowtide::core
