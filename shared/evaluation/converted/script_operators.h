// What a converted model does, checked after LibTorch has loaded and compiled it and before any of
// it runs: TorchScript has operators that write files (aten::save, aten::from_file). What loading
// itself could run is refused earlier (shared/checkpoint/foreign/script_archive.h).
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace torch::jit {
struct Module;
}

namespace retina {

// The operators that models of retina-convert use, sorted: all of them, and no others
// (InferenceOperators.AreThoseOfTheModelsThatTheConverterMakes). jobs/serving/checked_model.py has
// the same ones.
std::span<const std::string_view> script_operators();

// Throws Error{kData} beginning with `subject` and naming the function and its operator, or the
// tensor: every function of the module's compilation unit, whatever calls it, uses script_operators
// alone and calls methods of its own modules, and every tensor lies within its storage.
void check_script(const torch::jit::Module& module, const std::string& subject);

}  // namespace retina
