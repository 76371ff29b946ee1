#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>

#include <set>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/foreign/stored_zip.h"
#include "shared/checkpoint/format.h"
#include "shared/checkpoint/sealed_file.h"
#include "shared/onnx/onnx_file.h"

namespace retina {
namespace {

namespace format = checkpoint_format;
using ZipReader = caffe2::serialize::PyTorchStreamReader;

std::vector<std::int64_t> read_sizes(const JsonView& list) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < list.size(); ++i) {
    sizes.push_back(list.at(i).as_int());
    if (sizes.back() < 0) list.fail("a negative size");
  }
  return sizes;
}

// Returns the number of elements that a tensor of this shape and these strides spans; nullopt if
// that overflows.
std::optional<std::uint64_t> span_of(const std::vector<std::int64_t>& shape,
                                     const std::vector<std::int64_t>& strides) {
  std::uint64_t span = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == 0) return 0;
    std::uint64_t reach = 0;
    if (__builtin_mul_overflow(static_cast<std::uint64_t>(shape[i] - 1),
                               static_cast<std::uint64_t>(strides[i]), &reach) ||
        __builtin_add_overflow(span, reach, &span)) {
      return std::nullopt;
    }
  }
  return span;
}

// Reads one tensor. `records` are those read so far; a second tensor of one record would multiply
// the file's size.
NamedTensor read_tensor(ZipReader& zip, const JsonView& entry, std::set<std::string>& records) {
  const auto dtype = format::dtype_of(entry.at("dtype").as_string());
  if (!dtype) entry.at("dtype").fail("an unknown element type");
  const auto shape = read_sizes(entry.at("shape"));
  const auto strides = read_sizes(entry.at("strides"));
  if (shape.size() != strides.size()) entry.fail("shape and strides differ in length");
  const std::string record = format::tensor_record(entry.at("record").as_uint());
  if (!zip.hasRecord(record)) entry.fail(cat("its record ", record, " is missing"));
  if (!records.insert(record).second) {
    entry.fail(cat("its record ", record, " is used by another tensor"));
  }
  // The size is compared before anything is allocated.
  const std::size_t size_bytes = zip.getRecordSize(record);
  const auto span = span_of(shape, strides);
  if (!span || *span > size_bytes || *span * c10::elementSize(*dtype) != size_bytes) {
    entry.fail(cat("its record has ", size_bytes, " bytes, which does not match its shape"));
  }
  at::Tensor tensor = at::empty_strided(shape, strides, at::TensorOptions().dtype(*dtype));
  if (!tensor.is_non_overlapping_and_dense()) entry.fail("its elements overlap");
  if (size_bytes > 0) zip.getRecord(record, tensor.data_ptr(), size_bytes);
  return {.name = entry.at("name").as_string(), .tensor = std::move(tensor)};
}

NamedTensors read_tensors(ZipReader& zip, const JsonView& list, std::set<std::string>& records) {
  NamedTensors tensors;
  for (std::size_t i = 0; i < list.size(); ++i) {
    tensors.push_back(read_tensor(zip, list.at(i), records));
  }
  return tensors;
}

CheckpointHeader read_header(const JsonView& index) {
  return {.trainer_json = index.at("trainer").as_string(),
          .config_json = index.at("config").as_string(),
          .categories = read_categories(index.at("categories"))};
}

// Reads the zip's directory by our own reader first. Throws kData unless all records are stored,
// lie within the file, and have one name each below the folder that LibTorch writes: LibTorch's
// reader would inflate whatever a small file claims.
void check_records(const std::string& path) {
  for (const std::string_view name : StoredZip::open(path).names()) {
    if (!name.starts_with("archive/") || name.find("..") != std::string_view::npos) {
      throw Error(ErrorKind::kData,
                  cat(path, ": holds the record ", printable(name), ", which is not one of ours"),
                  "use a file that retina-train or retina-convert wrote");
    }
  }
}

JsonFile read_index(ZipReader& zip, const std::string& path) {
  if (!zip.hasRecord(format::kIndexRecord)) {
    throw Error(ErrorKind::kData, cat(path, ": not a checkpoint of retina-train"));
  }
  std::string text(zip.getRecordSize(format::kIndexRecord), '\0');
  zip.getRecord(format::kIndexRecord, text.data(), text.size());
  return parse_versioned_json(text, path, format::kVersion);
}

// Calls `read(zip, index)` on the file once its seal and its directory have been checked;
// exceptions of LibTorch's reader become kData.
template <class Read>
auto with_index(const std::string& path, Read read) {
  if (is_onnx_file(path)) {
    read_inference_header(path);  // throws if it is an inference model
    throw Error(ErrorKind::kData,
                cat(path, ": is an inference model that retina-convert wrote, not a checkpoint"),
                "give the run's folder, or the checkpoint that it was made from");
  }
  check_seal(path, "checkpoint");
  check_records(path);
  try {
    ZipReader zip(path);
    const JsonFile index = read_index(zip, path);
    return read(zip, index.root());
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kData,
                cat(path, ": cannot be read as a zip (", library_reason(error.what()), ")"));
  }
}

}  // namespace

Checkpoint load_checkpoint(const std::string& path, CheckpointPart part) {
  return with_index(path, [&](ZipReader& zip, const JsonView& index) {
    CheckpointHeader header = read_header(index);
    Checkpoint checkpoint{.trainer_json = std::move(header.trainer_json),
                          .config_json = std::move(header.config_json),
                          .categories = std::move(header.categories)};
    std::set<std::string> records;
    checkpoint.model = read_tensors(zip, index.at(format::kModelGroup), records);
    if (part == CheckpointPart::kAll) {
      checkpoint.optimizer = read_tensors(zip, index.at(format::kOptimizerGroup), records);
    }
    return checkpoint;
  });
}

void check_has_heads(const Checkpoint& checkpoint, const std::string& path) {
  const JsonFile config = JsonFile::parse(checkpoint.config_json, path);
  const JsonView root = config.root();
  if (!root.has("import") || !root.at("import").at("backbone_only").as_bool()) return;
  throw Error(ErrorKind::kConfig, cat(path, ": holds only a backbone, its heads are untrained"),
              cat("train it with retina-train --init ", path));
}

CheckpointHeader read_checkpoint_header(const std::string& path) {
  return with_index(path, [](ZipReader&, const JsonView& index) { return read_header(index); });
}

}  // namespace retina
