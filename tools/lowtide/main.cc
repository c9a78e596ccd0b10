// lowtide: the command line. Errors become one line on stderr and the exit status of their kind (docs/errors.md).
#include <fmt/format.h>
#include <malloc.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <new>

#include "stream/error.h"
#include "stream/file.h"
#include "tools/lowtide/commands.h"

namespace {

using lowtide::stream::Code;
using lowtide::stream::exit_status;

int fail(Code code, const char* line) {
  fmt::print(stderr, "lowtide: {}\n", line);
  return exit_status(code);
}

// Nothing is left behind by Ctrl-C or a kill: the one thing that lives outside the process is the temporary.
void interrupted(int) {
  lowtide::stream::remove_temporaries();
  constexpr char kText[] = "\nlowtide: interrupted [interrupted]\n";
  [[maybe_unused]] ssize_t written = write(STDERR_FILENO, kText, sizeof kText - 1);
  _exit(exit_status(Code::kInterrupted));
}

// `lowtide inspect FILE | head`: nobody reads on, so the program ends as others do then.
void unread(int signal) {
  lowtide::stream::remove_temporaries();
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
  std::signal(SIGXFSZ, SIG_IGN);  // a file-size limit is an error of the write, not the end of the process
}

// One heap, whose large blocks go back to the system when they are freed: threads have no arenas of their own.
void keep_heap_small() {
  mallopt(M_ARENA_MAX, 1);
  mallopt(M_MMAP_THRESHOLD, 256 * 1024);
  mallopt(M_TRIM_THRESHOLD, 256 * 1024);
}

int run(int argc, char** argv) {
  CLI::App app{
      "Converts very large ONNX models to TFLite in little memory: weights stay on disk until they are written.",
      "lowtide"};
  app.set_version_flag("--version", "lowtide " LOWTIDE_VERSION);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return fmt::format("lowtide: {} (try lowtide --help) [usage]\n", error.what());
  });
  add_convert(app);
  add_inspect(app);
  add_make_model(app);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    int status = app.exit(error);
    return status == 0 ? 0 : exit_status(Code::kUsage);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  keep_heap_small();
  handle_signals();
  try {
    return run(argc, argv);
  } catch (const Exit& exit) {
    return exit.status;
  } catch (const lowtide::stream::Error& error) {
    return fail(error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(Code::kBudget, "the system has no more memory (see ulimit -v) [budget]");
  } catch (const std::exception& error) {
    return fail(Code::kInternal, fmt::format("{} [internal]", error.what()).c_str());
  }
}
