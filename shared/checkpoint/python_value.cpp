#include "shared/checkpoint/python_value.h"

#include <ATen/core/Dict.h>
#include <ATen/core/List.h>
#include <ATen/core/jit_type.h>

#include "shared/base/json.h"

namespace retina {
namespace {

// Containers of Any: the pickler writes them without TorchScript's type tags, as plain Python.
c10::impl::GenericDict any_dict() {
  return c10::impl::GenericDict(c10::StringType::get(), c10::AnyType::get());
}

c10::IValue convert(const rapidjson::Value& value) {
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
      for (const auto& element : value.GetArray()) list.push_back(convert(element));
      return list;
    }
    case rapidjson::kObjectType: {
      auto dict = any_dict();
      for (const auto& member : value.GetObject()) {
        dict.insert_or_assign(std::string(member.name.GetString(), member.name.GetStringLength()),
                              convert(member.value));
      }
      return dict;
    }
  }
  return {};
}

}  // namespace

c10::IValue python_value(const std::string& json_text, const std::string& name) {
  return convert(JsonFile::parse(json_text, name).root().raw());
}

c10::IValue python_dict(const NamedTensors& tensors) {
  auto dict = any_dict();
  for (const auto& [name, tensor] : tensors) dict.insert(name, tensor);
  return dict;
}

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

}  // namespace retina
