// How every reader of a shard set reports damage.
#pragma once

#include <cstdint>
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

// Throws kData for a part of a set, "index", "record", whose version is above `most`.
[[noreturn]] inline void fail_newer(const std::string& place, const char* part,
                                    std::int64_t version, std::int64_t most) {
  fail_damaged(place,
               cat("was written by a newer version (got ", part, " version ", version,
                   ", want at most ", most, ")"),
               "update retina-batch, or pack the data with this version");
}

// Whether it is that error.
inline bool is_of_newer_version(const Error& error) {
  return error.hint().starts_with("update retina-batch");
}

}  // namespace retina
