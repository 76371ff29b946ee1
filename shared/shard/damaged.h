// Reports of damage, the same for every reader of a shard set.
#pragma once

#include <cstdint>
#include <string>

#include "shared/base/cat.h"
#include "shared/base/error.h"

namespace retina {

inline constexpr const char* kDamagedHint =
    "the data set is damaged; copy it again, or pack it again with coco-pack";

// Throws kData for damage at `place`: a file, or a record in it.
[[noreturn]] inline void fail_damaged(const std::string& place, const std::string& problem,
                                      const char* hint = kDamagedHint) {
  throw Error(ErrorKind::kData, cat(place, ": ", problem), hint);
}

// Throws kData for a part of a set, "index", "record", whose version is not `want`.
[[noreturn]] inline void fail_version(const std::string& place, const char* part,
                                      std::int64_t version, std::int64_t want) {
  const bool is_newer = version > want;
  fail_damaged(place,
               cat("was written by ", is_newer ? "a newer" : "an earlier", " version (got ", part,
                   " version ", version, ", want ", want, ")"),
               is_newer ? "update retina-batch, or pack the data with this version"
                        : "pack the data again: coco-pack with --overwrite");
}

// Returns true for fail_version()'s error about a newer version.
inline bool is_of_newer_version(const Error& error) {
  return error.hint().starts_with("update retina-batch");
}

}  // namespace retina
