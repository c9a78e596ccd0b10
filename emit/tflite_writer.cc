// SPDX-License-Identifier: Apache-2.0
#include "emit/tflite_writer.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include "emit/back_to_front.h"
#include "emit/compressed.h"
#include "emit/make_plan.h"
#include "emit/verify.h"
#include "stream/error.h"
#include "stream/file/out_file.h"
#include "stream/file/seekable_source.h"
#include "stream/file/system_call.h"
#include "stream/progress.h"

namespace lowtide::emit {
namespace {

// All files from which constants are read, or in which they stay, in an order that the model decides.
std::vector<const stream::Source*> sources(const Plan& plan) {
  std::vector<const stream::Source*> out;
  std::set<const stream::Source*> listed;
  std::set<const stream::Recipe*> seen;
  std::vector<const stream::Recipe*> open;
  for (const Payload& payload : plan.payloads) open.push_back(payload.recipe.get());
  for (const InPlace& constant : plan.in_place) open.push_back(constant.recipe.get());
  while (!open.empty()) {
    const stream::Recipe* recipe = open.back();
    open.pop_back();
    if (!seen.insert(recipe).second) continue;
    if (const auto* stored = std::get_if<stream::step::Stored>(&recipe->step))
      if (listed.insert(stored->source.get()).second) out.push_back(stored->source.get());
    for (const auto& input : recipe->from) open.push_back(input.get());
  }
  return out;
}

// Reads the temporary file back from the disk. A difference means a fault of the disk, the memory or this program.
void verify_output(const Plan& plan, stream::OutFile& out, stream::Budget& budget, const WriteOptions& options) {
  out.to_disk();
  std::shared_ptr<stream::Source> written = stream::open_file(out.temporary());
  if (options.zstd_level) written = stream::open_seekable(written, budget);
  verify_payloads(plan, written, budget, options.progress, [&](const VerifiedTensor& tensor) {
    if (tensor.difference)
      throw stream::Error(
          stream::Code::kIo,
          fmt::format("byte {} of its data differs on the disk from what was written", *tensor.difference),
          {.slot = fmt::format("tensor '{}'", tensor.tensor)});
    options.on_verified(tensor);
  });
}

void write_plain(const Plan& plan, stream::OutFile& out, stream::Budget& budget, const WriteOptions& options) {
  for_each_data(plan, [&](stream::Range range) { out.reserve(range); });
  if (options.progress) options.progress->begin("writing", plan.file_bytes - plan.header.size());
  write_payloads(plan, out, budget, options);
  out.write_at(0, plan.header);
}

// Of the finished temporary, to a pipe, say.
void copy_to(int descriptor, stream::OutFile& out) {
  constexpr size_t kPiece = size_t{256} << 10;
  const auto written = stream::open_file(out.temporary(), stream::Access::kRead);
  std::vector<std::byte> piece(kPiece);
  for (uint64_t at = 0; at < written->size();) {
    const auto some = std::span(piece).first(std::min<uint64_t>(kPiece, written->size() - at));
    written->read_at(at, some);
    at += some.size();
    for (std::span<const std::byte> rest = some; !rest.empty();) {
      const ssize_t done = stream::uninterrupted([&] { return write(descriptor, rest.data(), rest.size()); });
      if (done < 0) throw stream::unwritable_output(errno);
      rest = rest.subspan(static_cast<size_t>(done));
    }
  }
}

// No space is reserved: the compressed size is not known.
stream::OutFile compressed_output(const Plan& plan, const std::filesystem::path& path) {
  const uint64_t bound = compressed_bound(plan);
  return {path, bound, bound};
}

stream::OutFile plain_output(const Plan& plan, const std::filesystem::path& path) {
  uint64_t data = 0;
  for_each_data(plan, [&](stream::Range range) { data += range.bytes(); });
  return {path, plan.file_bytes, data};
}

}  // namespace

WriteResult summary(const Plan& plan) {
  return {.external = plan.external,
          .file_bytes = plan.file_bytes,
          .header_bytes = plan.header.size(),
          .payload_bytes = plan.payload_bytes,
          .tensors = plan.tensors,
          .operators = plan.operators,
          .transposes = plan.transposes,
          .files = plan.files,
          .unaligned_bytes = plan.unaligned_bytes};
}

uint64_t least_budget(const Plan& plan, const WriteOptions& options) {
  uint64_t least = options.zstd_level ? least_for_compressing(plan, *options.zstd_level) : least_for_writing(plan);
  if (!options.on_verified) return least;
  uint64_t reading = 0;
  if (options.zstd_level) reading = stream::least_for_seekable(plan.file_bytes / kFrameBytes + 1, kFrameBytes);
  return std::max(least, reading + least_for_verifying(plan));
}

WriteResult write_tflite(const Plan& plan, const std::filesystem::path& path, stream::Budget& budget,
                         const WriteOptions& options) {
  WriteResult result = summary(plan);
  stream::OutFile out = options.zstd_level ? compressed_output(plan, path) : plain_output(plan, path);
  if (options.zstd_level) {
    result.compressed_bytes = write_compressed(plan, *options.zstd_level, out, budget, options);
    out.shorten(result.compressed_bytes);
  } else {
    write_plain(plan, out, budget, options);
  }
  if (options.on_verified) verify_output(plan, out, budget, options);
  for (const stream::Source* source : sources(plan)) source->check_unchanged();
  if (options.copy_to) {
    copy_to(*options.copy_to, out);
  } else {
    out.commit();
  }
  return result;
}

WriteResult write_tflite(const core::Model& model, const std::filesystem::path& path, stream::Budget& budget,
                         const WriteOptions& options) {
  return write_tflite(plan_tflite(model, options), path, budget, options);
}

}  // namespace lowtide::emit
