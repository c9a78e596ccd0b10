// SPDX-License-Identifier: Apache-2.0
// lowtide: the command line. Errors become one line on stderr and the exit status of their kind (docs/errors.md).
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>
#include <string>
#include <system_error>
#include <variant>

#include "emit/events.h"
#include "emit/refusal.h"
#include "stream/error.h"
#include "stream/file/system_call.h"
#include "stream/file/temporary.h"
#include "stream/file/temporary_folder.h"
#include "tools/lowtide/commands.h"
#include "tools/lowtide/log.h"
#include "tools/lowtide/messages.h"

namespace {

using lowtide::stream::Code;
using lowtide::stream::Error;
using lowtide::stream::exit_status;
using lowtide::tools::Messages;

// `text` and `json` end with a newline. By stdio, which does not throw when stderr cannot be written.
int fail(const Messages& messages, Code code, const std::string& text, const std::string& json) {
  lowtide::tools::log_error(text.substr(0, text.find('\n')));
  if (messages.json)
    std::fputs(json.c_str(), stderr);
  else
    std::fprintf(stderr, "lowtide: %s", text.c_str());
  if (messages.progress_fd >= 0) lowtide::tools::write_event(messages.progress_fd, json);
  return exit_status(code);
}

int fail(const Messages& messages, const Error& error) {
  return fail(messages, error.code(), error.what() + std::string("\n"), lowtide::emit::error_line(error));
}

// If stdin, stdout or stderr are closed, the next file that is opened gets their number, and messages would be written
// into it.
void open_standard_streams() {
  while (true) {
    const int number = open("/dev/null", O_RDWR);
    if (number > STDERR_FILENO) close(number);
    if (number < 0 || number > STDERR_FILENO) return;
  }
}

// Ctrl-C and SIGTERM leave no temporary file.
void interrupted(int) {
  lowtide::stream::remove_temporaries();
  lowtide::stream::remove_temporary_folder();
  // On a terminal the cursor may be at the end of the progress bar.
  constexpr char kText[] = "\nlowtide: interrupted [interrupted]\n";
  const int skipped = isatty(STDERR_FILENO) == 1 ? 0 : 1;
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kText + skipped, sizeof kText - 1 - skipped);
  _exit(exit_status(Code::kInterrupted));
}

// `lowtide inspect FILE | head`: the reader has closed the pipe, and SIGPIPE ends the program as it does others.
void unread(int signal) {
  lowtide::stream::remove_temporaries();
  lowtide::stream::remove_temporary_folder();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

void handle_signals() {
  struct sigaction action;
  std::memset(&action, 0, sizeof action);
  action.sa_handler = interrupted;
  for (int signal : {SIGINT, SIGTERM, SIGHUP}) sigaction(signal, &action, nullptr);
  action.sa_handler = unread;
  sigaction(SIGPIPE, &action, nullptr);
  std::signal(SIGXFSZ, SIG_IGN);  // a write beyond the file-size limit is an error, not the end of the process
}

// One heap without arenas for threads; large blocks are returned to the system when they are freed. Not the arrays that
// each pass makes of a graph, of four bytes for each value: their memory would be the system's and ours in turns.
void keep_heap_small() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 2 << 20);
  mallopt(M_TRIM_THRESHOLD, 2 << 20);
  mallopt(M_MXFAST, 0);  // otherwise every large request visits all small blocks that were freed: a sixth of the time
}

// Tells the exception in flight; returns the exit status of its kind.
int fail_with_current(const Messages& messages) {
  try {
    throw;
  } catch (const lowtide::emit::Refusal& refusal) {
    return fail(messages, Code::kUnsupported, refusal_text(refusal), refusal_line(refusal));
  } catch (const Error& error) {
    return fail(messages, error);
  } catch (const std::system_error& error) {  // thrown by fmt when stdout or stderr cannot be written
    return fail(messages, lowtide::stream::unwritable_output(error.code().value()));
  } catch (const std::bad_alloc&) {
    if (!messages.json && messages.progress_fd < 0) {  // without allocating
      std::fputs("lowtide: out of memory: see ulimit -v and -d, and --max-rss [budget]\n", stderr);
      return exit_status(Code::kBudget);
    }
    return fail(messages, Error(Code::kBudget, "out of memory: see ulimit -v and -d, and --max-rss"));
  } catch (const std::exception& error) {
    return fail(messages, Error(Code::kInternal, error.what()));
  }
}

// Each command's function takes its own options. The exit status is returned.
struct Run {
  const Messages& messages;
  int operator()(const lowtide::tools::Answer& answer) const {
    fmt::print("{}", answer.text);
    return 0;
  }
  int operator()(const lowtide::tools::ConvertCommand& command) const {
    lowtide::tools::start_log(command.verbose, command.log);
    return convert_models(command, [this] { return fail_with_current(messages); });
  }
  int operator()(const lowtide::tools::MergeCommand& command) const {
    lowtide::tools::start_log(command.verbose, command.log);
    merge(command);
    return 0;
  }
  int operator()(const lowtide::tools::CheckCommand& command) const {
    lowtide::tools::start_log(command.verbose, command.log);
    check_model(command);
    return 0;
  }
  int operator()(const lowtide::tools::ExtractCommand& command) const {
    extract_model(command);
    return 0;
  }
  int operator()(const lowtide::tools::PartitionCommand& command) const {
    partition_model(command);
    return 0;
  }
  int operator()(const lowtide::tools::InspectCommand& command) const {
    inspect_model(command);
    return 0;
  }
  int operator()(const lowtide::tools::MakeModelCommand& command) const {
    make_test_model(command);
    return 0;
  }
  int operator()(const lowtide::tools::OpsCommand& command) const {
    list_operators(command);
    return 0;
  }
  int operator()(const lowtide::tools::DoctorCommand& command) const {
    examine_machine(command);
    return 0;
  }
  int operator()(const lowtide::tools::DocsCommand& command) const {
    generate_docs(command);
    return 0;
  }
};

int run(int argc, char** argv, const Messages& messages) {
  const int status = std::visit(Run{messages}, lowtide::tools::parse_command_line(argc, argv));
  lowtide::tools::flush_output();
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  open_standard_streams();
  keep_heap_small();
  handle_signals();
  const Messages messages = lowtide::tools::find_messages(argc, argv);
  try {
    return run(argc, argv, messages);
  } catch (...) {
    return fail_with_current(messages);
  }
}
