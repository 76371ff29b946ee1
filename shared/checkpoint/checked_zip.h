// Opening a sealed file for reading: the seal first, then LibTorch's zip reader.
#pragma once

#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>

#include <string>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/sealed_file.h"

namespace retina {

using ZipReader = caffe2::serialize::PyTorchStreamReader;

// Calls `read(ZipReader&)` on the verified file; what LibTorch's reader throws becomes bad data.
template <class Read>
auto with_checked_zip(const std::string& path, const std::string& what, Read read) {
  check_seal(path, what);
  try {
    ZipReader zip(path);
    return read(zip);
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kData, cat(path, ": ", error.what_without_backtrace()));
  }
}

// A JSON record with a `format_version` of at most `version`. Throws kData, for a missing record
// with "not a WHAT".
JsonFile read_versioned_json(ZipReader& zip, const std::string& record, const std::string& path,
                             const std::string& what, int version);

// The list written by `write_categories`.
std::vector<CheckpointCategory> read_categories(const JsonView& list);
void write_categories(JsonWriter& json, const std::vector<CheckpointCategory>& categories);

}  // namespace retina
