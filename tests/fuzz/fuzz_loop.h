// The loop of pth-fuzz and onnx-fuzz: random tries, each within the memory that its input's size
// allows, by operators new and delete of its own. A try depends on --seed and its number alone:
// --first N --runs 1 repeats it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "tests/fuzz/mutate.h"

namespace retina {

struct FuzzTry {
  std::function<bool()> run{};  // returns whether the input was accepted; throws as require()
  std::size_t most_bytes = 0;   // that it may use beside what it was made with
};

// Throws kAnswerNo for a broken promise.
void require(bool kept, const char* promise);
// Requires that a refusal is one short line.
void require_short_line(const std::string& message, std::size_t most_characters);

// Runs a program of that name with tries of `make`, and what `prepare` does once before.
int fuzz_main(
    int argc, char** argv, const char* program,
    const std::function<FuzzTry(Dice& dice, std::int64_t number)>& make,
    const std::function<void()>& prepare = [] {});

}  // namespace retina
