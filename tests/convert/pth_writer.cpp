#include "tests/convert/pth_writer.h"

#include "shared/checkpoint/foreign/stored_zip.h"

namespace retina {
namespace {

std::string little(std::uint64_t value, std::size_t size_bytes) {
  std::string digits;
  for (std::size_t i = 0; i < size_bytes; ++i) {
    digits += static_cast<char>(static_cast<unsigned char>(value >> (8 * i)));
  }
  return digits;
}

// What a file's local header and its directory entry share.
std::string entry_fields(const std::string& name, const std::string& content) {
  return little(0x0800, 2) + little(0, 2) + little(0, 4) + little(crc32(content), 4) +
         little(content.size(), 4) + little(content.size(), 4) + little(name.size(), 2);
}

}  // namespace

PickleText& PickleText::op(std::string_view opcodes) {
  text_ += opcodes;
  return *this;
}

PickleText& PickleText::text(std::string_view value) {
  return op("X").op(little(value.size(), 4)).op(value);
}

PickleText& PickleText::number(std::int64_t value) {
  return op("\x8a\x08").op(little(static_cast<std::uint64_t>(value), 8));
}

PickleText& PickleText::numbers(const std::vector<std::int64_t>& values) {
  op("(");
  for (const std::int64_t value : values) number(value);
  return op("t");
}

PickleText& PickleText::global(std::string_view module, std::string_view name) {
  return op("c").op(module).op("\n").op(name).op("\n");
}

PickleText& PickleText::storage(std::string_view type, std::string_view key, std::int64_t count,
                                bool legacy) {
  op("(").text("storage").global("torch", type).text(key).text("cpu").number(count);
  return op(legacy ? "NtQ" : "tQ");
}

PickleText& PickleText::tensor(std::string_view type, std::string_view key, std::int64_t count,
                               std::int64_t offset, const std::vector<std::int64_t>& shape,
                               const std::vector<std::int64_t>& strides, bool legacy) {
  global("torch._utils", "_rebuild_tensor_v2").op("(").storage(type, key, count, legacy);
  number(offset).numbers(shape).numbers(strides).op("\x89");
  return global("collections", "OrderedDict").op(")RtR");
}

std::string stored_zip(const NamedBytes& files, bool zip64) {
  std::string zip, directory;
  for (const auto& [name, content] : files) {
    const std::string fields = entry_fields(name, content);
    directory += "PK\1\2" + little(0, 2) + little(0, 2) + fields + little(0, 2) + little(0, 2) +
                 little(0, 2) + little(0, 2) + little(0, 4) + little(zip.size(), 4) + name;
    zip += "PK\3\4" + little(0, 2) + fields + little(0, 2) + name + content;
  }
  const std::size_t directory_offset = zip.size();
  zip += directory;
  if (zip64) {
    const std::size_t record_offset = zip.size();
    zip += "PK\6\6" + little(44, 8) + little(0, 2) + little(0, 2) + little(0, 4) + little(0, 4) +
           little(files.size(), 8) + little(files.size(), 8) + little(directory.size(), 8) +
           little(directory_offset, 8);
    zip += "PK\6\7" + little(0, 4) + little(record_offset, 8) + little(1, 4);
  }
  return zip + "PK\5\6" + little(0, 2) + little(0, 2) + little(files.size(), 2) +
         little(files.size(), 2) + little(directory.size(), 4) + little(directory_offset, 4) +
         little(0, 2);
}

std::string pth_zip(const std::string& pickle, const NamedBytes& storages) {
  NamedBytes files = {{"archive/data.pkl", pickle}, {"archive/byteorder", "little"}};
  for (const auto& [key, bytes] : storages) files.emplace_back("archive/data/" + key, bytes);
  files.emplace_back("archive/version", "3\n");
  return stored_zip(files);
}

std::string pth_legacy(const std::string& pickle, const std::vector<LegacyStorage>& storages) {
  const std::string magic("\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.", 15);
  const std::string protocol("\x80\x02M\xe9\x03.", 6);
  PickleText machine, keys;
  machine.op("}").text("little_endian").op("\x88s");
  keys.op("](");
  std::string contents;
  for (const LegacyStorage& storage : storages) {
    keys.text(storage.key);
    contents += little(storage.bytes.size() / storage.element_bytes, 8) + storage.bytes;
  }
  keys.op("e");
  return magic + protocol + machine.stop() + pickle + keys.stop() + contents;
}

}  // namespace retina
