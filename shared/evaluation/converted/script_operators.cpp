#include "shared/evaluation/converted/script_operators.h"

#include <ATen/EmptyTensor.h>
#include <torch/csrc/jit/api/function_impl.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <algorithm>

#include "shared/base/error.h"
#include "shared/base/printable.h"
#include "shared/checkpoint/foreign/script_archive.h"

namespace retina {
namespace {

// prim::CallMethod's callees are walked; prim::CallFunction, prim::fork, prim::Closure,
// prim::CreateObject, prim::SetAttr and similar ones are not on the list.
constexpr std::string_view kOperators[] = {
    "aten::Float",
    "aten::Int",
    "aten::__getitem__",
    "aten::__not__",
    "aten::add",
    "aten::any",
    "aten::append",
    "aten::arange",
    "aten::cat",
    "aten::clamp",
    "aten::constant_pad_nd",
    "aten::conv2d",
    "aten::copy_",
    "aten::dim",
    "aten::div",
    "aten::eq",
    "aten::equal",
    "aten::exp",
    "aten::expand",
    "aten::flatten",
    "aten::floordiv",
    "aten::group_norm",
    "aten::gt",
    "aten::index",
    "aten::le",
    "aten::len",
    "aten::linear",
    "aten::logical_and",
    "aten::logical_not",
    "aten::lt",
    "aten::max",
    "aten::max_pool2d",
    "aten::mean",
    "aten::min",
    "aten::mul",
    "aten::nonzero",
    "aten::permute",
    "aten::relu",
    "aten::relu_",
    "aten::remainder",
    "aten::repeat",
    "aten::reshape",
    "aten::select",
    "aten::sigmoid",
    "aten::size",
    "aten::slice",
    "aten::softmax",
    "aten::sort",
    "aten::squeeze",
    "aten::stack",
    "aten::sub",
    "aten::tensor",
    "aten::to",
    "aten::topk",
    "aten::triu",
    "aten::unsqueeze",
    "aten::upsample_bilinear2d",
    "aten::upsample_nearest2d",
    "aten::zeros",
    "aten::zeros_like",
    "prim::CallMethod",
    "prim::Constant",
    "prim::GetAttr",
    "prim::If",
    "prim::ListConstruct",
    "prim::Loop",
    "prim::RaiseException",
    "prim::TupleConstruct",
    "prim::TupleUnpack",
    "prim::device",
    "prim::dtype",
    "prim::is_cuda",
    "prim::max",
    "prim::min",
};

class ScriptCheck {
 public:
  ScriptCheck(const torch::jit::Module& module, const std::string& subject)
      : module_(module), unit_(module._ivalue()->compilation_unit()), subject_(subject) {}

  void check_functions() {
    for (torch::jit::Function* function : unit_->get_functions()) {
      function_ = function->qualname().qualifiedName();
      if (!function->isGraphFunction()) refuse("is not TorchScript");
      check_block(*torch::jit::toGraphFunction(*function).graph()->block());
    }
  }

  // LibTorch takes shapes and strides as the file gives them.
  void check_tensors() const {
    const c10::IValue object(module_._ivalue());
    object.visit([&](const c10::IValue& value) {
      if (value.isTensor() && !lies_in_its_storage(value.toTensor())) {
        throw Error(ErrorKind::kData, cat(subject_, ": a tensor does not lie within its storage"),
                    kTrustHint);
      }
      return false;
    });
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    throw Error(ErrorKind::kData,
                cat(subject_, ": its function ", printable(function_), " ", problem,
                    ", which no model of retina-convert does"),
                kTrustHint);
  }

  void check_block(const torch::jit::Block& block) const {
    for (const torch::jit::Node* node : block.nodes()) {
      const std::string_view name = node->kind().toQualString();
      if (!std::binary_search(std::begin(kOperators), std::end(kOperators), name)) {
        refuse(cat("uses ", printable(name)));
      }
      for (const c10::Symbol attribute : node->attributeNames()) {
        const torch::jit::AttributeKind kind = node->kindOf(attribute);
        if (kind == torch::jit::AttributeKind::g || kind == torch::jit::AttributeKind::gs) {
          refuse(cat("hides a graph in ", name));
        }
      }
      if (node->kind() == c10::prim::CallMethod) check_callee(*node);
      for (const torch::jit::Block* inner : node->blocks()) check_block(*inner);
    }
  }

  // The callee must be one of the functions that are walked: no class of C++, no interface.
  void check_callee(const torch::jit::Node& node) const {
    const auto type = node.input(0)->type()->cast<c10::ClassType>();
    if (!type || !type->is_module() || type->compilation_unit() != unit_) {
      refuse("calls a method of something that is not one of its own modules");
    }
  }

  static bool lies_in_its_storage(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.layout() != at::kStrided || tensor.is_quantized()) return false;
    try {
      const std::size_t needed_bytes = at::detail::computeStorageNbytes(
          tensor.sizes(), tensor.strides(), tensor.dtype().itemsize(),
          static_cast<std::size_t>(tensor.storage_offset()));
      return needed_bytes <= tensor.storage().nbytes();
    } catch (const c10::Error&) {  // sizes that overflow
      return false;
    }
  }

  const torch::jit::Module& module_;
  std::shared_ptr<const torch::jit::CompilationUnit> unit_;
  const std::string& subject_;
  std::string function_{};
};

}  // namespace

std::span<const std::string_view> script_operators() {
  return kOperators;
}

void check_script(const torch::jit::Module& module, const std::string& subject) {
  ScriptCheck check(module, subject);
  check.check_functions();
  check.check_tensors();
}

}  // namespace retina
