// Opening a sealed file for reading: the seal, then the directory, then LibTorch's zip reader. The
// seal finds damage, not malice: anyone can seal a file that they made.
#pragma once

#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>

#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/foreign/stored_zip.h"
#include "shared/checkpoint/sealed_file.h"

namespace retina {

using ZipReader = caffe2::serialize::PyTorchStreamReader;

// The directory as our own reader has it. Throws kData unless all records are stored, lie within
// the file, and have one name each below the folder that LibTorch writes: LibTorch's reader would
// inflate whatever a small file claims. A TorchScript model of an earlier version is named as such.
StoredZip open_records(const std::string& path);

// Calls `read(ZipReader&)` on the verified file; what LibTorch's reader throws becomes bad data.
template <class Read>
auto with_checked_zip(const std::string& path, const std::string& what, Read read) {
  check_seal(path, what);
  open_records(path);
  try {
    ZipReader zip(path);
    return read(zip);
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kData,
                cat(path, ": cannot be read as a zip (", library_reason(error.what()), ")"));
  }
}

// A JSON record with a `format_version` of at most `version`. Throws kData, for a missing record
// with "not a WHAT".
JsonFile read_versioned_json(ZipReader& zip, const std::string& record, const std::string& path,
                             const std::string& what, int version);

}  // namespace retina
