#include "shared/checkpoint/checked_zip.h"

#include "shared/base/printable.h"

namespace retina {

StoredZip open_records(const std::string& path) {
  // TorchScript compresses its code.
  StoredZip zip = StoredZip::open(path, "archive/code/");
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

JsonFile parse_versioned_json(std::string_view text, const std::string& path, int version) {
  JsonFile json = JsonFile::parse(text, path);
  const std::int64_t got = json.root().at("format_version").as_int();
  if (got > version) {
    throw Error(ErrorKind::kData,
                cat(path, ": written by a newer version (format got ", got, ", want at most ",
                    version, ")"),
                "update retina-batch");
  }
  return json;
}

Categories read_categories(const JsonView& list) {
  Categories categories;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonView entry = list.at(i);
    categories.push_back({.id = entry.at("id").as_int(),
                          .name = entry.at("name").as_string(),
                          .supercategory = entry.at("supercategory").as_string()});
  }
  return categories;
}

void write_categories(JsonWriter& json, const Categories& categories) {
  json.key("categories").begin_array();
  for (const auto& [id, name, supercategory] : categories) {
    json.begin_object().field("id", id).field("name", name);
    json.field("supercategory", supercategory).end_object();
  }
  json.end_array();
}

}  // namespace retina
