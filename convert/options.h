// What retina-convert is asked to do.
#pragma once

#include <string>

#include "shared/base/cli.h"
#include "shared/model/postprocess.h"

namespace retina {

struct ConvertOptions {
  std::string checkpoint{};  // read
  std::string output{};      // the inference model, written
  // Built into the model as defaults; its attributes of the same names can be changed later.
  PostprocessOptions postprocess{};
  // Images that the written model is compared on; more find rarer differences, slower.
  int proof_image_count = 4;
  // Shards to take the proof's images from; empty: generated images.
  std::string proof_data{};
  // Where the proof runs: auto, cpu or cuda. The model itself is bound to none.
  std::string device = "cpu";
  // Replace an output that was made differently, or is no inference model.
  bool overwrite = false;

  // Throws Error{kUsage} naming the option.
  void validate() const;
};

// Adds every option to the command line; `options` is filled when it is parsed.
void declare_options(Cli& cli, ConvertOptions& options);

}  // namespace retina
