// A TorchScript archive before LibTorch opens it. Loading one runs what the file says: a class's
// `__setstate__`, default arguments, constants of a class, C++ classes that a pickle names. Any of
// them can write files, and a storage that is longer than its record is read beyond its end. So an
// archive from elsewhere must have the form that retina-convert gives it, which has no room for any
// of these. What its methods do is checked after loading
// (shared/evaluation/converted/script_operators.h).
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "shared/checkpoint/foreign/stored_zip.h"

namespace retina {

// What to do about a model that is refused.
inline constexpr const char* kTrustHint =
    "convert the checkpoint yourself, or give --trust if you know who made this file";

// `read` gives a record's bytes: TorchScript compresses its code. Throws Error{kData} beginning
// with `subject` and naming the record, and the line of code, that retina-convert would not have
// written.
void check_script_archive(const StoredZip& zip,
                          const std::function<std::string(std::string_view)>& read,
                          const std::string& subject);

}  // namespace retina
