#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>
#include <ATen/ops/from_blob.h>
#include <caffe2/serialize/inline_container.h>
#include <torch/csrc/jit/serialization/pickler.h>

#include <unordered_set>

#include "shared/base/error.h"
#include "shared/base/json.h"
#include "shared/checkpoint/checkpoint.h"
#include "shared/checkpoint/format.h"
#include "shared/checkpoint/sealed_file.h"

namespace retina {
namespace {

namespace format = checkpoint_format;

// Returns the tensors as written: on the host, dense, each with a storage of its own and nothing
// else in it (a parameter may be a view into a large flat buffer). `owners` keeps the memory alive.
NamedTensors as_stored(const NamedTensors& tensors, std::vector<at::Tensor>& owners) {
  NamedTensors stored;
  std::unordered_set<std::string> names;
  for (const auto& [name, tensor] : tensors) {
    RETINA_CHECK(tensor.defined(), name);
    RETINA_CHECK(format::name_of(tensor.scalar_type()).has_value(), name);
    RETINA_CHECK(names.insert(name).second, "two tensors are named ", name);
    at::Tensor host = tensor.detach().cpu();
    if (!host.is_non_overlapping_and_dense()) host = host.contiguous();
    stored.push_back(
        {name, at::from_blob(host.data_ptr(), host.sizes(), host.strides(), host.options())});
    owners.push_back(std::move(host));
  }
  return stored;
}

// Makes a dict of Any: the pickler writes it without TorchScript's type tags, as plain Python.
c10::impl::GenericDict any_dict() {
  return c10::impl::GenericDict(c10::StringType::get(), c10::AnyType::get());
}

// Converts JSON to the Python value that torch.load shows: objects become dicts, numbers ints and
// floats, integers beyond 2^63-1 decimal strings, as the pickle's integers have 64 bits.
c10::IValue python_value(const rapidjson::Value& value) {
  switch (value.GetType()) {
    case rapidjson::kNullType:
      return {};
    case rapidjson::kFalseType:
    case rapidjson::kTrueType:
      return value.GetBool();
    case rapidjson::kStringType:
      return std::string(value.GetString(), value.GetStringLength());
    case rapidjson::kNumberType:
      if (value.IsInt64()) return value.GetInt64();
      if (value.IsUint64()) return std::to_string(value.GetUint64());
      return value.GetDouble();
    case rapidjson::kArrayType: {
      c10::impl::GenericList list(c10::AnyType::get());
      for (const auto& element : value.GetArray()) list.push_back(python_value(element));
      return list;
    }
    case rapidjson::kObjectType: {
      auto dict = any_dict();
      for (const auto& member : value.GetObject()) {
        dict.insert_or_assign(std::string(member.name.GetString(), member.name.GetStringLength()),
                              python_value(member.value));
      }
      return dict;
    }
  }
  return {};
}

// Makes a dict with string keys in the given order.
c10::IValue python_dict(const NamedTensors& tensors) {
  auto dict = any_dict();
  for (const auto& [name, tensor] : tensors) dict.insert(name, tensor);
  return dict;
}

// Converts the categories to a list of dicts.
c10::IValue python_value(const Categories& categories) {
  c10::impl::GenericList list(c10::AnyType::get());
  for (const auto& category : categories) {
    auto dict = any_dict();
    dict.insert("id", category.id);
    dict.insert("name", category.name);
    dict.insert("supercategory", category.supercategory);
    list.push_back(dict);
  }
  return list;
}

c10::IValue python_root(const Checkpoint& checkpoint, const NamedTensors& model,
                        const NamedTensors& optimizer) {
  const JsonFile trainer = JsonFile::parse(checkpoint.trainer_json, "trainer");
  auto root = any_dict();
  root.insert(format::kModelGroup, python_dict(model));
  root.insert(format::kOptimizerGroup, python_dict(optimizer));
  root.insert("trainer", python_value(trainer.root().raw()));
  root.insert("config", checkpoint.config_json);
  root.insert("categories", python_value(checkpoint.categories));
  root.insert("format_version", format::kVersion);
  return root;
}

void add_tensors(JsonWriter& json, const char* group, const NamedTensors& tensors,
                 std::size_t first_record) {
  json.key(group).begin_array();
  for (const auto& [name, tensor] : tensors) {
    json.begin_object().field("name", name).field("dtype", *format::name_of(tensor.scalar_type()));
    json.list("shape", tensor.sizes()).list("strides", tensor.strides());
    json.field("record", static_cast<std::uint64_t>(first_record++)).end_object();
  }
  json.end_array();
}

std::string index_json(const Checkpoint& checkpoint, const NamedTensors& model,
                       const NamedTensors& optimizer) {
  JsonWriter json;
  json.begin_object().field("format_version", format::kVersion);
  json.field("trainer", checkpoint.trainer_json).field("config", checkpoint.config_json);
  write_categories(json, checkpoint.categories);
  add_tensors(json, format::kModelGroup, model, 0);
  add_tensors(json, format::kOptimizerGroup, optimizer, model.size());
  return json.end_object().text();
}

void write_records(caffe2::serialize::PyTorchStreamWriter& zip, const Checkpoint& checkpoint) {
  std::vector<at::Tensor> owners;
  const auto model = as_stored(checkpoint.model, owners);
  const auto optimizer = as_stored(checkpoint.optimizer, owners);

  std::string pickle;
  // Without type tags: torch.load(weights_only=True) refuses the tags that torch::pickle_save adds.
  torch::jit::Pickler pickler(
      [&](const char* bytes, std::size_t size_bytes) { pickle.append(bytes, size_bytes); }, nullptr,
      nullptr, nullptr, nullptr, /*tag_aggregates=*/false);
  pickler.protocol();
  pickler.pushIValue(python_root(checkpoint, model, optimizer));
  pickler.stop();
  const auto& tensors = pickler.tensorData();  // in the order of their storages' numbers
  RETINA_CHECK(tensors.size() == model.size() + optimizer.size());

  const std::string index = index_json(checkpoint, model, optimizer);
  zip.writeRecord(format::kPickleRecord, pickle.data(), pickle.size());
  zip.writeRecord(format::kIndexRecord, index.data(), index.size());
  zip.writeRecord("byteorder", "little", 6);
  for (std::size_t record = 0; record < tensors.size(); ++record) {
    const auto& storage = tensors[record].storage();
    zip.writeRecord(format::tensor_record(record), storage.data(), storage.nbytes());
  }
  zip.writeEndOfFile();
}

}  // namespace

std::uint64_t save_checkpoint(const std::string& path, const Checkpoint& checkpoint) {
  return write_sealed(path, [&](const ByteSink& sink) {
    caffe2::serialize::PyTorchStreamWriter zip(sink);
    write_records(zip, checkpoint);
  });
}

}  // namespace retina
