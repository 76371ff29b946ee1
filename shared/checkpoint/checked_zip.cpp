#include "shared/checkpoint/checked_zip.h"

#include "shared/base/foreign_content.h"
#include "shared/base/printable.h"

namespace retina {

StoredZip open_records(const std::string& path) {
  if (const auto kind = file_kind_of(path); kind && kind->is_old_model) {
    throw Error(ErrorKind::kData, cat(path, ": ", kind->what), kind->hint);
  }
  StoredZip zip = StoredZip::open(path);
  for (const std::string_view name : zip.names()) {
    if (!name.starts_with("archive/") || name.find("..") != std::string_view::npos) {
      throw Error(ErrorKind::kData,
                  cat(path, ": holds the record ", printable(name), ", which is not one of ours"),
                  "use a file that retina-train or retina-convert wrote");
    }
  }
  return zip;
}

JsonFile read_versioned_json(ZipReader& zip, const std::string& record, const std::string& path,
                             const std::string& what, int version) {
  if (!zip.hasRecord(record)) throw Error(ErrorKind::kData, cat(path, ": not ", what));
  std::string text(zip.getRecordSize(record), '\0');
  zip.getRecord(record, text.data(), text.size());
  return parse_versioned_json(text, path, version);
}

}  // namespace retina
