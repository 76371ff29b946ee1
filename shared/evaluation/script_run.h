// A converted model over pictures: what detecting and classifying with one have in common. Only
// script_*.cpp include this.
#pragma once

#include <c10/core/Device.h>
#include <torch/csrc/jit/api/module.h>

#include <functional>
#include <string>

#include "shared/data/sample_source.h"
#include "shared/evaluation/detect.h"
#include "shared/evaluation/script_model.h"

namespace retina {

struct ScriptModel::State {
  std::string path;
  InferenceHeader header;
  torch::jit::Module module;
  c10::Device device = c10::kCPU;
};

// Called with each batch and what `method` of the module returned for it.
using ScriptAnswer = std::function<void(const Batch& batch, const c10::IValue& answer)>;

// Gives `method` of the model this rank's share of the samples at their own sizes, images of equal
// size together: batches are formed over all of them first, so that no answer depends on the number
// of ranks. Not collective. Reports progress and what is left out as `options` say. Throws what the
// source throws.
void run_script(ScriptModel& model, const std::string& method, const SampleSource& source,
                Communicator& ranks, const DetectOptions& options, const ScriptAnswer& use);

// Throws kData: the model's answer has another form than inference_file.h says. `problem` follows
// "its answer".
[[noreturn]] void refuse_answer(const ScriptModel::State& state, const std::string& problem);

}  // namespace retina
