// Reads a Python pickle (protocols 2 to 5) as torch.save writes it, into plain data. First stage of
// retina-convert --import, on bytes that anybody may have made: it calls nothing, takes only the
// names of pickle_globals.h, and uses memory in proportion to the pickle's length.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "shared/checkpoint/foreign/pickle_value.h"

namespace retina {

// Far above any real file (ResNet-152's training checkpoint: 60,000 values), far below trouble.
struct PickleLimits {
  std::size_t max_values = 2'000'000;  // also of items that copies take, and of memo places
  std::size_t max_brackets = 1000;     // open at a time
  std::size_t max_text_bytes = 1 << 20;
};

// Reads the pickle that starts `bytes`; what comes after its end is left to the caller. Texts of
// the result point into `bytes`. Memory: at most 256 bytes for each byte of the pickle, whatever
// it says. Throws Error{kData} beginning with `subject`: cut short, an opcode or a name that is not
// allowed, a limit, a stack that does not fit.
PickleDocument read_pickle(std::string_view bytes, const std::string& subject,
                           const PickleLimits& limits = {});

}  // namespace retina
