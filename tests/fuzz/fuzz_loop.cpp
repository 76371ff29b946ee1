#include "tests/fuzz/fuzz_loop.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <new>

#include "shared/base/error.h"
#include "shared/base/program.h"
#include "shared/cli/cli.h"

// The global operators count what they have given out.
namespace {

std::size_t live = 0, peak = 0;

void* counted(std::size_t size) {
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) throw std::bad_alloc();
  live += ::malloc_usable_size(memory);
  peak = std::max(peak, live);
  return memory;
}

void give_back(void* memory) noexcept {
  if (memory != nullptr) live -= ::malloc_usable_size(memory);
  std::free(memory);
}

}  // namespace

// The array forms call these.
void* operator new(std::size_t size) {
  return counted(size);
}
void operator delete(void* memory) noexcept {
  give_back(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  give_back(memory);
}

namespace retina {
namespace {

std::string crash_text;  // of the present try

void name_crash(int signal) {  // only what a signal handler may call
  [[maybe_unused]] const auto written =
      ::write(STDERR_FILENO, crash_text.data(), crash_text.size());
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void require(bool kept, const char* promise) {
  if (!kept) throw Error(ErrorKind::kAnswerNo, promise);
}

void require_short_line(const std::string& message, std::size_t most_characters) {
  require(!message.empty() && message.find('\n') == std::string::npos &&
              message.size() < most_characters,
          "an error message is not one short line");
}

int fuzz_main(int argc, char** argv, const char* program,
              const std::function<FuzzTry(Dice& dice, std::int64_t number)>& make,
              const std::function<void()>& prepare) {
  return run_program(program, [&] {
    std::int64_t runs = 20'000, first = 0, accepted = 0;
    std::uint64_t seed = 1;
    Cli cli(program, cat(program, " [options]"), "Gives damaged files to a reader of ours.");
    cli.option("runs", runs, "N", "damaged files to try");
    cli.option("first", first, "N", "number of the first");
    cli.option("seed", seed, "N", "of the damage");
    if (cli.parse(argc, argv) == CliOutcome::kDone) return 0;
    prepare();
    for (const int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGBUS}) std::signal(signal, name_crash);
    std::size_t largest_use = 0;
    const auto start = std::chrono::steady_clock::now();
    for (std::int64_t number = first; number < first + runs; ++number) {
      crash_text = cat(program, ": crashed in run ", number, "\n");
      Dice dice(seed, static_cast<std::uint32_t>(number));
      const FuzzTry one = make(dice, number);
      const std::size_t before = peak = live;
      try {
        accepted += one.run() ? 1 : 0;
        const std::size_t used = peak - before;
        largest_use = std::max(largest_use, used);
        require(used <= one.most_bytes, "used more memory than the input's size allows");
        require(live == before, "memory was not given back");
      } catch (const std::exception& error) {
        throw Error(
            ErrorKind::kAnswerNo, cat("run ", number, ": ", error.what()),
            cat("repeat it: ", program, " --seed ", seed, " --first ", number, " --runs 1"));
      }
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::cout << program << ": " << runs << " runs from " << first << ", seed " << seed << ": "
              << accepted << " accepted, the rest refused in one line; most memory " << largest_use
              << " bytes; " << seconds.count() << " s\n";
    return 0;
  });
}

}  // namespace retina
