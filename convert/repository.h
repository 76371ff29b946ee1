// The converted model as a folder that model servers load, one layout for two of them:
//   DIR/NAME/1/model.onnx         the model; 1 is its version
//   DIR/NAME/config.pbtxt           for NVIDIA Triton, ONNX Runtime: uint8 pixels in, tensors out
//   DIR/NAME/model-settings.json  for MLServer with jobs/serving: JPEGs in, boxes or classes out
//   DIR/NAME/labels.txt           the name of label k on line k, counted from 0
// Each server ignores the other's file.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "shared/onnx/inference_header.h"

namespace retina {

class ModelRepository {
 public:
  // `service_name` is the model's name in URLs and passes is_service_name.
  ModelRepository(const std::string& folder, std::string service_name);

  const std::string& model_folder() const { return folder_; }  // DIR/NAME
  std::string model_path() const { return folder_ + "/1/model.onnx"; }

  // Checks, before a long conversion, that the repository can be written. Throws kConfig when one
  // of the text files exists with other content than `header` gives and `overwrite` is not set,
  // kCannotCreate when such a file has no model beside it, which makes it another program's, or
  // when DIR cannot be made. The caller checks the model's own content.
  void prepare(const InferenceHeader& header, bool overwrite) const;

  // Brings the folder up to date with the model file `model`: writes each file that is missing or
  // differs, atomically, model-settings.json last. Returns false when nothing had to be written
  // (then nothing is touched: the folder may be read-only). Throws kCannotCreate, kIo, and kConfig
  // when another process is writing.
  bool write(const std::string& model, const InferenceHeader& header) const;

 private:
  struct TextFile {
    std::string path{}, content{};
  };
  std::vector<TextFile> text_files(const InferenceHeader& header) const;
  std::string parent_, name_, folder_;
};

// Returns whether `name` consists of letters, digits, _ . - (the first no dot or dash), at most
// 128: it becomes a folder and part of URLs.
bool is_service_name(const std::string& name);

}  // namespace retina
