#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>
#include <caffe2/serialize/inline_container.h>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/format.h"
#include "shared/checkpoint/sealed_file.h"

namespace retina {
namespace {

namespace format = checkpoint_format;
using Zip = caffe2::serialize::PyTorchStreamReader;

JsonFile read_index(Zip& zip, const std::string& path) {
  if (!zip.hasRecord(format::kIndexRecord)) {
    throw Error(ErrorKind::kData, cat(path, ": not a checkpoint of retina-train"));
  }
  std::string text(zip.getRecordSize(format::kIndexRecord), '\0');
  zip.getRecord(format::kIndexRecord, text.data(), text.size());
  JsonFile index = JsonFile::parse(text, path);
  const std::int64_t version = index.root().at("format_version").as_int();
  if (version > format::kVersion) {
    throw Error(ErrorKind::kData,
                cat(path, ": written by a newer version (format got ", version, ", want at most ",
                    format::kVersion, ")"),
                "update retina-batch");
  }
  return index;
}

std::vector<CheckpointCategory> read_categories(const JsonView& list) {
  std::vector<CheckpointCategory> categories;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonView entry = list.at(i);
    categories.push_back({.id = entry.at("id").as_int(),
                          .name = entry.at("name").as_string(),
                          .supercategory = entry.at("supercategory").as_string()});
  }
  return categories;
}

std::vector<std::int64_t> read_sizes(const JsonView& list) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < list.size(); ++i) {
    sizes.push_back(list.at(i).as_int());
    if (sizes.back() < 0) list.fail("a negative size");
  }
  return sizes;
}

// Elements that a tensor of this shape and these strides spans; nullopt when that overflows.
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

NamedTensor read_tensor(Zip& zip, const JsonView& entry) {
  const auto dtype = format::dtype_of(entry.at("dtype").as_string());
  if (!dtype) entry.at("dtype").fail("an unknown element type");
  const auto shape = read_sizes(entry.at("shape"));
  const auto strides = read_sizes(entry.at("strides"));
  if (shape.size() != strides.size()) entry.fail("shape and strides differ in length");
  const std::string record = format::tensor_record(entry.at("record").as_uint());
  if (!zip.hasRecord(record)) entry.fail(cat("its record ", record, " is missing"));
  // Compared before anything is allocated.
  const std::size_t size_bytes = zip.getRecordSize(record);
  const auto span = span_of(shape, strides);
  if (!span || *span > size_bytes || *span * c10::elementSize(*dtype) != size_bytes) {
    entry.fail(cat("its record has ", size_bytes, " bytes, which is not its shape's size"));
  }
  at::Tensor tensor = at::empty_strided(shape, strides, at::TensorOptions().dtype(*dtype));
  if (size_bytes > 0) zip.getRecord(record, tensor.data_ptr(), size_bytes);
  return {.name = entry.at("name").as_string(), .tensor = std::move(tensor)};
}

std::vector<NamedTensor> read_tensors(Zip& zip, const JsonView& list) {
  std::vector<NamedTensor> tensors;
  for (std::size_t i = 0; i < list.size(); ++i) tensors.push_back(read_tensor(zip, list.at(i)));
  return tensors;
}

CheckpointHeader read_header(const JsonView& index) {
  return {.trainer_json = index.at("trainer").as_string(),
          .config_json = index.at("config").as_string(),
          .categories = read_categories(index.at("categories"))};
}

// Runs `read` on the verified file; what LibTorch's zip reader throws becomes bad data.
template <class Read>
auto with_zip(const std::string& path, Read read) {
  check_seal(path, "checkpoint");
  try {
    Zip zip(path);
    const JsonFile index = read_index(zip, path);
    return read(zip, index.root());
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kData, cat(path, ": ", error.what_without_backtrace()));
  }
}

}  // namespace

Checkpoint load_checkpoint(const std::string& path) {
  return with_zip(path, [](Zip& zip, const JsonView& index) {
    CheckpointHeader header = read_header(index);
    return Checkpoint{.model = read_tensors(zip, index.at(format::kModelGroup)),
                      .optimizer = read_tensors(zip, index.at(format::kOptimizerGroup)),
                      .trainer_json = std::move(header.trainer_json),
                      .config_json = std::move(header.config_json),
                      .categories = std::move(header.categories)};
  });
}

CheckpointHeader read_checkpoint_header(const std::string& path) {
  return with_zip(path, [](Zip&, const JsonView& index) { return read_header(index); });
}

}  // namespace retina
