// SPDX-License-Identifier: Apache-2.0
#include "layout/raise/table.h"

#include <fmt/format.h>

#include <array>

#include "layout/raise/families.h"
#include "stream/error.h"

namespace lowtide::layout {
namespace {

constexpr size_t kRaisedKinds = 256;  // all codes are below

struct RaiseRows {
  std::array<const RaiseRow*, kRaisedKinds> by_kind{};

  RaiseRows() {
    for (std::span<const RaiseRow> family : {raised_arithmetic(), raised_activations(), raised_images(),
                                             raised_products(), raised_moves(), raised_slices(), raised_reductions(),
                                             raised_scatters(), raised_bits(), raised_control(), raised_custom_ops()})
      for (const RaiseRow& row : family) {
        const RaiseRow*& place = by_kind[static_cast<size_t>(row.kind)];
        if (place)
          throw stream::Error(stream::Code::kInternal, fmt::format("two rows raise {}", core::kind_name(row.kind)));
        place = &row;
      }
  }
};

}  // namespace

const RaiseRow* raise_row(core::Kind kind) {
  static const RaiseRows rows;
  const auto code = static_cast<size_t>(kind);
  return code < kRaisedKinds ? rows.by_kind[code] : nullptr;
}

}  // namespace lowtide::layout
