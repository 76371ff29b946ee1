// How every reader of a shard set tells of damage.
#pragma once

#include <string>

#include "shared/base/cat.h"
#include "shared/base/error.h"

namespace retina {

inline constexpr const char* kDamagedHint =
    "the data set is damaged; copy it again, or pack it again with coco-pack";

// Throws kData; place: a file, or a record in it.
[[noreturn]] inline void fail_damaged(const std::string& place, const std::string& problem,
                                      const char* hint = kDamagedHint) {
  throw Error(ErrorKind::kData, cat(place, ": ", problem), hint);
}

}  // namespace retina
