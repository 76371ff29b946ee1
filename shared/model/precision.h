// --precision of the programs that run a network.
#pragma once

#include "shared/base/choices.h"

namespace retina {

enum class Precision { kFp32, kBf16 };

inline const Choices<Precision> kPrecisions = {{"fp32", Precision::kFp32},
                                               {"bf16", Precision::kBf16}};

}  // namespace retina
