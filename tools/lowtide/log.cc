// SPDX-License-Identifier: Apache-2.0
#include "tools/lowtide/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "stream/error.h"
#include "stream/file/file.h"
#include "stream/file/system_call.h"
#include "stream/file/temporary.h"
#include "stream/printable.h"

namespace lowtide::tools {
namespace {

using stream::Code;
using stream::Error;

constexpr const char* kFileLogger = "file";

// Lines are appended, so a file that is no log, a model for example, is not touched.
void check_is_log(const std::string& path) {
  const auto file = stream::open_file(path);
  std::array<char, 11> first = {};  // "2026-01-31 "
  if (file->size() == 0) return;
  file->read_at(0, std::as_writable_bytes(std::span(first)).first(std::min<uint64_t>(first.size(), file->size())));
  constexpr std::string_view kForm = "dddd-dd-dd ";
  for (size_t i = 0; i < kForm.size(); ++i)
    if (kForm[i] == 'd' ? first[i] < '0' || first[i] > '9' : first[i] != kForm[i])
      throw Error(Code::kUsage, fmt::format("--log: {} exists and is not a log of lowtide", path));
}

// With the same words as of other files that are written.
void check_log_file(const std::string& path) {
  if (const auto folder = stream::system_folder(path))
    throw Error(Code::kUnsafePath, fmt::format("no log is written to {}", folder->string()), {.file = path});
  std::error_code none;
  const bool is_there = std::filesystem::exists(path, none);
  if (is_there) check_is_log(path);
  const int number = stream::uninterrupted(
      [&] { return open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666); });
  if (number >= 0) {
    close(number);
    return;
  }
  const int error = errno;
  if (!is_there) throw stream::creation_error(path, error);
  throw Error(stream::opening_code(error), fmt::format("cannot be written: {}", std::strerror(error)), {.file = path});
}

}  // namespace

void start_log(bool verbose, const std::string& file) {
  std::vector<spdlog::sink_ptr> sinks;
  if (verbose) {
    auto to_stderr = std::make_shared<spdlog::sinks::stderr_sink_st>();
    to_stderr->set_pattern("%v");
    sinks.push_back(std::move(to_stderr));
  }
  if (!file.empty()) {
    check_log_file(file);
    try {
      auto to_file = std::make_shared<spdlog::sinks::basic_file_sink_st>(file);
      to_file->set_pattern("%Y-%m-%d %H:%M:%S.%e %l %v");
      sinks.push_back(to_file);
      spdlog::register_logger(std::make_shared<spdlog::logger>(kFileLogger, std::move(to_file)));
    } catch (const spdlog::spdlog_ex& error) {
      throw Error(Code::kNotFound, error.what(), {.file = file});
    }
  }
  auto logger = std::make_shared<spdlog::logger>("lowtide", sinks.begin(), sinks.end());
  logger->set_level(sinks.empty() ? spdlog::level::off : spdlog::level::debug);
  logger->flush_on(spdlog::level::debug);  // a process that is killed has its last line there
  spdlog::set_default_logger(std::move(logger));
}

void log_error(const std::string& text) {
  if (const auto logger = spdlog::get(kFileLogger)) {
    logger->error("{}", stream::printable(text));
    logger->flush();
  }
}

}  // namespace lowtide::tools
