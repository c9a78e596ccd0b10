// SPDX-License-Identifier: Apache-2.0
// The one exception type of the library, and where an error happened.
//
// Malformed input stops at once with an Error. A node that cannot be expressed throws Unsupported, which the lowering
// gathers so that a user sees all of them together. Asserts are for our own bugs, never for input.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>

namespace lowtide::stream {

// What kind of error it is; error.cc holds the one table of names and exit statuses (docs/errors.md mirrors it).
enum class Code : uint8_t {
  kUsage,        // the command line or an option's value
  kNotFound,     // a file that does not exist or cannot be opened
  kIo,           // reading or writing failed, or a source changed while being read
  kNoSpace,      // the output does not fit on the disk
  kMalformed,    // the file is not what its format demands
  kUnsafePath,   // external data outside the model's folder, links, devices
  kUnsupported,  // a valid model that cannot be expressed exactly
  kBudget,       // the memory budget is too small; the text names the smallest that would do
  kInterrupted,  // Ctrl-C or SIGTERM
  kInternal,     // a bug of ours
  kDifferent,    // two models that should be the same are not
};

// Short name such as "malformed", printed in brackets after the error's text.
std::string_view code_name(Code code);
// Process exit status for an error of this kind, 2 and up (1 is left to crashes and libraries).
int exit_status(Code code);

// Where it happened; empty fields are not printed.
struct Where {
  std::string file = {};                // path as the user gave it
  std::optional<uint64_t> offset = {};  // byte offset in the file
  std::string node = {};                // name of the ONNX node (or its first output when it has none)
  std::string op = {};                  // operator, e.g. "Conv" or "com.microsoft.Gelu"
  std::string slot = {};                // e.g. "input 1 'w17'" or "attribute 'pads'"
};

class Error : public std::exception {
 public:
  // `text` is one line without a full stop; it says what is wrong and, where possible, what to do.
  Error(Code code, std::string text, Where where = {});

  Code code() const { return code_; }
  const Where& where() const { return where_; }
  const std::string& text() const { return text_; }
  // "net.onnx: node 'conv_17' (Conv), input 1 'w17': group 3 does not divide 64 channels [malformed]"
  const char* what() const noexcept override { return line_.c_str(); }

  // Fills the empty fields of its place from `outer`: done while the error travels up.
  void add_place(const Where& outer);

 private:
  Code code_;
  std::string text_;
  Where where_;
  std::string line_;
};

// A valid node that has no exact expression. `hint` (may be empty) says what the user can do about it.
class Unsupported : public Error {
 public:
  explicit Unsupported(std::string reason, std::string hint = {}, Where where = {});
  const std::string& reason() const { return reason_; }
  const std::string& hint() const { return hint_; }

 private:
  std::string reason_;
  std::string hint_;
};

}  // namespace lowtide::stream
