// --precision of the programs that run a network.
#pragma once

#include "shared/base/choices.h"

namespace retina {

enum class Precision { kFp32, kBf16, kFp16, kAuto };  // kAuto: not decided yet; of retina-train

inline const Choices<Precision> kPrecisions = {
    {"fp32", Precision::kFp32}, {"bf16", Precision::kBf16}, {"fp16", Precision::kFp16}};

}  // namespace retina
