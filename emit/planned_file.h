// SPDX-License-Identifier: Apache-2.0
// The .tflite file that a plan describes, as bytes that can be read anywhere before (or without) being written: the
// header as it is, payloads by running their recipes, zeros between them.
//
// What is compressed, verified or compared is read from here, so that there is one answer to what a file should hold.
#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "emit/plan.h"
#include "stream/file/budget.h"
#include "stream/file/file.h"
#include "stream/recipe/pour.h"

namespace lowtide::emit {

class PlannedFile final : public stream::Source {
 public:
  // `plan` and `budget` outlive it. `name` is for messages.
  PlannedFile(const Plan& plan, stream::Budget& budget, std::string name)
      : plan_(plan), budget_(budget), name_(std::move(name)) {}
  uint64_t size() const override { return plan_.file_bytes; }
  const std::string& name() const override { return name_; }
  // Fastest in ascending order, in steps of some hundred KiB, `out` aligned in memory as `offset` is in the file (16).
  // Throws what reading the sources of the weights throws, naming the tensor.
  void read_at(uint64_t offset, std::span<std::byte> out) const override;

 private:
  void read_payload(size_t payload, uint64_t begin, uint64_t end, std::byte* out) const;
  stream::Pourer& pourer(size_t payload) const;

  const Plan& plan_;
  stream::Budget& budget_;
  std::string name_;
  mutable std::mutex mutex_;  // guards the pourer of the payload that was read last
  mutable std::unique_ptr<stream::Pourer> pourer_;
  mutable size_t pourer_of_ = 0;
};

}  // namespace lowtide::emit
