// What reads foreign bytes, each as a function of bytes alone: for libFuzzer (one program each,
// RETINA_FUZZ) and for the replay of the kept corpus in every build.
#pragma once

#include <string_view>
#include <vector>

namespace retina {

struct FuzzedParser {
  const char* name = "";  // of its folder in corpus/, too
  // Accepts the bytes or refuses them by Error. What breaks a promise of the parser's header throws
  // std::logic_error.
  void (*run)(std::string_view bytes) = nullptr;
};

// record, manifest, instances and results (COCO's JSON), voc, csv, yolo, folders, cifar10, jpeg.
const std::vector<FuzzedParser>& fuzzed_parsers();

}  // namespace retina
