// SPDX-License-Identifier: Apache-2.0
// The .tflite file of a plan as a Source that can be read before (or without) being written: the header, payloads by
// running their recipes, zeros between them.
//
// Compression and verification read from here, so that the expected contents of a file are defined in one place.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "emit/plan.h"
#include "stream/file/budget.h"
#include "stream/file/file.h"
#include "stream/recipe/recipe_reader.h"

namespace lowtide::emit {

class PlannedFile final : public stream::Source {
 public:
  // `plan` and `budget` outlive it. `name` is for messages.
  PlannedFile(const Plan& plan, stream::Budget& budget, std::string name)
      : plan_(plan), budget_(budget), name_(std::move(name)) {}
  uint64_t size() const override { return plan_.file_bytes; }
  const std::string& name() const override { return name_; }
  // Fastest in ascending order, in pieces of some hundred KiB, with `out` aligned in memory as `offset` is in the file
  // (16). Throws the errors of reading weights, with the name of the tensor.
  void read_at(uint64_t offset, std::span<std::byte> out) const override;

 private:
  void read_payload(size_t payload, uint64_t begin, uint64_t end, std::byte* out) const;
  stream::RecipeReader& reader(size_t payload) const;

  const Plan& plan_;
  stream::Budget& budget_;
  std::string name_;
  mutable std::mutex mutex_;  // guards the reader of the payload that was read last
  mutable std::unique_ptr<stream::RecipeReader> reader_;
  mutable size_t reader_of_ = 0;
};

}  // namespace lowtide::emit
