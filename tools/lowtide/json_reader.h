// SPDX-License-Identifier: Apache-2.0
// What readers of JSON files from users share: descriptions of targets, measured costs. A file is not as its schema
// says: Error(kMalformed) with the file and the field.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "stream/dtype.h"
#include "tools/lowtide/number_range.h"
#include "tools/lowtide/shipped_targets.h"

namespace lowtide::tools {

// The text of a file of at most so many bytes; `what` names it in the error: "a target's description". Throws
// Error(kNotFound, kIo, kMalformed).
std::string text_of_file(const std::string& path, uint64_t most_bytes, const std::string& what);
// The description of a target: a shipped one by its name, or that of a file FILE.json. Throws Error(kUsage) for an
// unknown name; `option` is the one that it was given with.
std::string text_of_target(const std::string& option, const std::string& name_or_path,
                           std::span<const ShippedTarget> shipped);

// `what` names the value in errors.
class JsonReader {
 protected:
  explicit JsonReader(std::string file) : file_(std::move(file)) {}

  nlohmann::json parsed(const std::string& text) const;
  [[noreturn]] void fail(const std::string& text) const;
  // That it is an object with known fields only, and with all that are needed.
  void check_fields(const std::string& what, const nlohmann::json& value, std::initializer_list<const char*> known,
                    std::initializer_list<const char*> needed) const;
  std::string word(const std::string& what, const nlohmann::json& value) const;
  bool flag(const std::string& what, const nlohmann::json& value) const;
  int64_t number(const std::string& what, const nlohmann::json& value, int64_t least = INT64_MIN) const;
  NumberRange range(const std::string& what, const nlohmann::json& value, int64_t least = INT64_MIN) const;
  stream::DType dtype(const std::string& what, const nlohmann::json& value) const;

 private:
  std::string file_;
};

}  // namespace lowtide::tools
