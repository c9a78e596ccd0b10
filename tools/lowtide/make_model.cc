// SPDX-License-Identifier: Apache-2.0
// lowtide make-model: writes a test model of any size while its weights are made.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>

#include "bench/models.h"
#include "stream/printable.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/terminal.h"

namespace lowtide::tools {
namespace {

/// One line that is rewritten for each percent, where the terminal can do that.
bench::Progress progress_line(bool quiet) {
  if (quiet || !can_rewrite_lines()) return {};
  return [shown = uint64_t{0}](uint64_t done, uint64_t total) mutable {
    const uint64_t percent = static_cast<uint64_t>(100.0 * static_cast<double>(done) / static_cast<double>(total));
    if (percent == shown) return;
    shown = percent;
    fmt::print(stderr, "\r{:3} % of {:.1f} MB{}", percent, static_cast<double>(total) / 1e6, done == total ? "\n" : "");
    std::fflush(stderr);
  };
}

}  // namespace

void make_test_model(const MakeModelCommand& options) {
  const bench::MadeModel made = bench::make_model(options.spec, options.output, progress_line(options.quiet));
  if (options.quiet) return;
  const std::string output = stream::printable(options.output);
  fmt::print("{}: {} bytes", output, made.model_bytes);
  if (made.data_bytes > 0)
    fmt::print(", {}.data{}: {} bytes", output, options.spec.files > 1 ? ".*" : "", made.data_bytes);
  fmt::print(", weights: {:.1f} MB\n", static_cast<double>(made.weight_bytes) / 1e6);
}

}  // namespace lowtide::tools
