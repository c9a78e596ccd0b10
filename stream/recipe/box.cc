// SPDX-License-Identifier: Apache-2.0
#include "stream/recipe/box.h"

namespace lowtide::stream {

Shape dense_strides(std::span<const Dim> dims) {
  Shape strides(dims.size());
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= dims[i];
  }
  return strides;
}

Shape broadcast_strides(std::span<const Dim> size, std::span<const Dim> box) {
  Shape strides = dense_strides(size);
  for (size_t i = 0; i < size.size(); ++i)
    if (size[i] != box[i]) strides[i] = 0;
  return strides;
}

void Nest::collapse(int arrays) {
  size_t kept = 0;
  for (size_t axis = 0; axis < size.size(); ++axis) {
    if (size[axis] == 1) continue;
    bool merges = kept > 0;
    for (int k = 0; k < arrays && merges; ++k) merges = strides[k][kept - 1] == strides[k][axis] * size[axis];
    if (merges) {
      size[kept - 1] *= size[axis];
    } else {
      size[kept++] = size[axis];
    }
    for (int k = 0; k < arrays; ++k) strides[k][kept - 1] = strides[k][axis];
  }
  size.resize(kept);
  for (int k = 0; k < arrays; ++k) strides[k].resize(kept);
}

}  // namespace lowtide::stream
