#include "shared/checkpoint/foreign/pickle_reader.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "shared/base/error.h"
#include "shared/base/foreign_content.h"
#include "shared/base/printable.h"

namespace retina {
namespace {

using enum PickleKind;

constexpr std::size_t kIntBytes = sizeof(std::int64_t);
// Far above any real file (ResNet-152's training checkpoint: 60,000), far below trouble.
constexpr std::size_t kMostValues = 2'000'000;

// Meaning of a name of the allow-list.
enum class GlobalKind : std::uint8_t {
  kOrderedDict,    // () or (list of pairs,)
  kRebuildTensor,  // (storage, offset, sizes, strides, ...)
  kWrapTensor,     // (tensor, ...): _rebuild_parameter, Parameter
  kTuple,          // (sequence,): torch.Size
  kStorage,        // the type of a storage; never called
  kInert,          // no tensor depends on the result
};

struct PickleGlobal {
  std::string_view module{}, name{};
  GlobalKind kind = GlobalKind::kInert;
  ElementKind element = ElementKind::kFloat32;  // of kStorage
};

constexpr std::array kGlobals = {
    PickleGlobal{"collections", "OrderedDict", GlobalKind::kOrderedDict},
    // "_rebuild_tensor" was written by PyTorch before 0.4.
    PickleGlobal{"torch._utils", "_rebuild_tensor", GlobalKind::kRebuildTensor},
    PickleGlobal{"torch._utils", "_rebuild_tensor_v2", GlobalKind::kRebuildTensor},
    PickleGlobal{"torch._utils", "_rebuild_parameter", GlobalKind::kWrapTensor},
    PickleGlobal{"torch._utils", "_rebuild_parameter_with_state", GlobalKind::kWrapTensor},
    PickleGlobal{"torch.nn.parameter", "Parameter", GlobalKind::kWrapTensor},
    PickleGlobal{"torch", "Size", GlobalKind::kTuple},
    PickleGlobal{"torch", "FloatStorage", GlobalKind::kStorage, ElementKind::kFloat32},
    PickleGlobal{"torch", "DoubleStorage", GlobalKind::kStorage, ElementKind::kFloat64},
    PickleGlobal{"torch", "HalfStorage", GlobalKind::kStorage, ElementKind::kFloat16},
    PickleGlobal{"torch", "BFloat16Storage", GlobalKind::kStorage, ElementKind::kBfloat16},
    PickleGlobal{"torch", "LongStorage", GlobalKind::kStorage, ElementKind::kInt64},
    PickleGlobal{"torch", "IntStorage", GlobalKind::kStorage, ElementKind::kInt32},
    PickleGlobal{"torch", "ShortStorage", GlobalKind::kStorage, ElementKind::kInt16},
    PickleGlobal{"torch", "CharStorage", GlobalKind::kStorage, ElementKind::kInt8},
    PickleGlobal{"torch", "ByteStorage", GlobalKind::kStorage, ElementKind::kUint8},
    PickleGlobal{"torch", "BoolStorage", GlobalKind::kStorage, ElementKind::kBool},
    // Other content of training checkpoints: options, counters, devices.
    PickleGlobal{"argparse", "Namespace"},
    PickleGlobal{"collections", "Counter"},
    PickleGlobal{"collections", "defaultdict"},
    PickleGlobal{"builtins", "set"},
    PickleGlobal{"__builtin__", "set"},
    PickleGlobal{"_codecs", "encode"},
    PickleGlobal{"torch", "device"},
    PickleGlobal{"torch", "float32"},
    PickleGlobal{"torch", "float16"},
    PickleGlobal{"torch", "bfloat16"},
};

// Runs a pickle's opcodes on its stack. A name that Python would import is one of the allow-list,
// and a call of it makes plain data.
class Reader {
 public:
  Reader(std::string_view bytes, const std::string& subject) : bytes_(bytes), subject_(subject) {}

  PickleDocument run();

 private:
  [[noreturn]] void fail(const std::string& problem, const std::string& hint = "") const {
    throw Error(ErrorKind::kData,
                cat(subject_, ": ", problem, " (byte ", place_, " of the pickle)"), hint);
  }

  // Bytes of the pickle.
  std::string_view take(std::uint64_t count);
  std::uint64_t take_number(std::size_t count);
  std::string_view take_line();

  // The stack: each opcode pushes at most one value, or one that is known.
  PickleValue& at(PickleRef ref) { return document_.values[ref]; }
  void push(PickleValue made);
  void push_int(std::int64_t integer) { push({.kind = kInt, .integer = integer}); }
  void push_long(std::size_t size_bytes);
  void push_text(std::size_t length_bytes) {
    push({.kind = kText, .text = take(take_number(length_bytes))});
  }
  void push_tuple(std::size_t count);
  PickleRef top() const;
  PickleRef pop();
  // Closes the last bracket and returns everything above it.
  std::vector<PickleRef> close_bracket();
  // Adds `items` to the list, dict (key, value, ...) or inert value on top.
  void append(const std::vector<PickleRef>& items, PickleKind kind);
  void append_item();
  void set_item();
  void append_bracket(PickleKind kind) {
    const std::vector<PickleRef> items = close_bracket();
    append(items, kind);
  }
  void memoize(std::uint64_t place) { memo_[place] = top(); }
  void recall(std::uint64_t place);

  // Opcodes that would call Python.
  void push_global(std::string_view module, std::string_view name);
  void push_line_global();
  void push_stack_global();
  PickleRef argument(PickleRef arguments, std::size_t index, PickleKind kind);
  std::vector<PickleRef> pairs_of(PickleRef arguments);
  void call(bool as_new_object);
  void build();
  void push_storage();

  // A byte of the pickle and its action, under pickletools' name.
  struct Opcode {
    unsigned char code;
    void (*act)(Reader&);
  };
  static const Opcode kOpcodes[];

  std::string_view bytes_;
  const std::string& subject_;
  std::size_t place_ = 0;
  PickleDocument document_{};
  std::vector<PickleRef> stack_{};
  std::map<std::uint64_t, PickleRef> memo_{};
  std::vector<std::size_t> brackets_{};  // the stack's height at the opening of each
};

std::string_view Reader::take(std::uint64_t count) {
  if (count > bytes_.size() - place_) fail("the pickle is cut short");
  const std::string_view taken = bytes_.substr(place_, static_cast<std::size_t>(count));
  place_ += taken.size();
  return taken;
}

std::uint64_t Reader::take_number(std::size_t count) {
  const std::string_view taken = take(count);
  std::uint64_t number = 0;
  for (std::size_t i = 0; i < count; ++i) {
    number |= static_cast<std::uint64_t>(static_cast<unsigned char>(taken[i])) << (8 * i);
  }
  return number;
}

std::string_view Reader::take_line() {
  const std::size_t end = bytes_.find('\n', place_);
  if (end == std::string_view::npos) fail("the pickle is cut short");
  const std::string_view line = take(end - place_);
  take(1);
  return line;
}

void Reader::push(PickleValue made) {
  if (document_.values.size() == kMostValues) fail("the pickle has too many values");
  stack_.push_back(static_cast<PickleRef>(document_.values.size()));
  document_.values.push_back(std::move(made));
}

void Reader::push_long(std::size_t size_bytes) {
  if (size_bytes > kIntBytes) return push({.kind = kBigInt, .text = take(size_bytes)});
  if (size_bytes == 0) return push_int(0);
  const auto missing_bits = static_cast<int>(8 * (kIntBytes - size_bytes));
  // Two's complement of any length: the arithmetic shift repeats the sign.
  push_int(static_cast<std::int64_t>(take_number(size_bytes) << missing_bits) >> missing_bits);
}

PickleRef Reader::top() const {
  if (stack_.size() <= (brackets_.empty() ? 0 : brackets_.back())) {
    fail("the pickle takes from an empty stack");
  }
  return stack_.back();
}

PickleRef Reader::pop() {
  const PickleRef taken = top();
  stack_.pop_back();
  return taken;
}

std::vector<PickleRef> Reader::close_bracket() {
  if (brackets_.empty()) fail("the pickle closes a bracket that is not open");
  std::vector<PickleRef> items(stack_.begin() + static_cast<std::ptrdiff_t>(brackets_.back()),
                               stack_.end());
  stack_.resize(brackets_.back());
  brackets_.pop_back();
  return items;
}

void Reader::push_tuple(std::size_t count) {
  std::vector<PickleRef> items(count);
  for (std::size_t i = count; i-- > 0;) items[i] = pop();
  push({.kind = kTuple, .items = std::move(items)});
}

void Reader::append(const std::vector<PickleRef>& items, PickleKind kind) {
  PickleValue& target = at(top());
  if (target.kind == kInert) return;
  if (target.kind != kind || (kind == kDict && items.size() % 2 != 0)) {
    fail("the pickle adds items to a value that does not take them");
  }
  target.items.insert(target.items.end(), items.begin(), items.end());
}

void Reader::append_item() {
  const PickleRef item = pop();
  append({item}, kList);
}

void Reader::set_item() {
  const PickleRef item = pop(), key = pop();
  append({key, item}, kDict);
}

void Reader::recall(std::uint64_t place) {
  const auto found = memo_.find(place);
  if (found == memo_.end()) fail(cat("memo place ", place, " was never filled"));
  stack_.push_back(found->second);
}

void Reader::push_global(std::string_view module, std::string_view name) {
  const auto found = std::find_if(kGlobals.begin(), kGlobals.end(), [&](const PickleGlobal& one) {
    return one.module == module && one.name == name;
  });
  if (found != kGlobals.end()) return push({.kind = kGlobal, .integer = found - kGlobals.begin()});
  const std::string place = cat(escaped(module), ".", escaped(name));
  if (const auto model = foreign_model(place)) {
    fail(cat("is ", model->what, " (it needs ", place, ")"), model->hint);
  }
  fail(cat("the pickle asks for ", place, ", which is not allowed"),
       "only dicts of tensors are accepted: save model.state_dict() with torch.save in Python");
}

void Reader::push_line_global() {
  const std::string_view module = take_line();
  push_global(module, take_line());
}

void Reader::push_stack_global() {
  const PickleValue &name = at(pop()), &module = at(pop());
  if (module.kind != kText || name.kind != kText) fail("a name in the pickle is not a string");
  push_global(std::string_view(module.text), std::string_view(name.text));
}

// Returns argument `index` of the tuple `arguments`, which must be of `kind`.
PickleRef Reader::argument(PickleRef arguments, std::size_t index, PickleKind kind) {
  const std::vector<PickleRef>& items = at(arguments).items;
  if (index >= items.size() || at(items[index]).kind != kind) {
    fail("a call in the pickle has different arguments from PyTorch's");
  }
  return items[index];
}

// Returns the content of an OrderedDict: Python 2 gave it as one list of [key, value] lists, which
// are taken apart: a list used a million times does not multiply.
std::vector<PickleRef> Reader::pairs_of(PickleRef arguments) {
  std::vector<PickleRef> items;
  if (at(arguments).items.empty()) return items;
  for (const PickleRef ref : std::exchange(at(argument(arguments, 0, kList)).items, {})) {
    const std::vector<PickleRef> pair = std::exchange(at(ref).items, {});
    if (pair.size() != 2) fail("an OrderedDict's item is not a pair");
    items.insert(items.end(), pair.begin(), pair.end());
  }
  return items;
}

void Reader::call(bool as_new_object) {
  const PickleRef arguments = pop(), function = pop();
  if (at(function).kind != kGlobal || at(arguments).kind != kTuple) {
    fail("the pickle calls something that is not a function");
  }
  switch (kGlobals.at(static_cast<std::size_t>(at(function).integer)).kind) {
    case GlobalKind::kOrderedDict:
      return push({.kind = kDict, .items = pairs_of(arguments)});
    case GlobalKind::kRebuildTensor:
      return push({.kind = kTensor,
                   .items = {argument(arguments, 0, kStorage), argument(arguments, 1, kInt),
                             argument(arguments, 2, kTuple), argument(arguments, 3, kTuple)}});
    case GlobalKind::kWrapTensor:
      // PyTorch 0.1 made an empty Parameter and gave it its tensor with BUILD.
      if (as_new_object && at(arguments).items.empty()) return push({.kind = kShell});
      return stack_.push_back(argument(arguments, 0, kTensor));
    case GlobalKind::kTuple:
      return stack_.push_back(argument(arguments, 0, kTuple));
    case GlobalKind::kInert:
      return push({.kind = kInert});
    case GlobalKind::kStorage:
      break;
  }
  fail("the pickle calls a storage type");
}

// Applies BUILD: only the state of an empty Parameter, a tuple, holds a tensor of a state dict.
void Reader::build() {
  const PickleRef state = pop(), target = top();
  if (at(target).kind != kShell) return;
  at(target) = PickleValue(at(argument(state, 0, kTensor)));
}

// Pushes a storage; its id is ('storage', type, key, location, elements[, view]).
void Reader::push_storage() {
  const PickleRef id = pop();
  if (at(argument(id, 0, kText)).text != "storage") {
    fail("a persistent id in the pickle is not a storage");
  }
  const std::int64_t place = at(argument(id, 1, kGlobal)).integer;
  const PickleGlobal& type = kGlobals.at(static_cast<std::size_t>(place));
  if (type.kind != GlobalKind::kStorage) {
    fail(cat("a storage has the type ", type.module, ".", type.name));
  }
  const std::vector<PickleRef>& items = at(id).items;
  if (items.size() > 5 && at(items[5]).kind != kNone) {
    fail("a storage is a view of another, as PyTorch before 0.4 wrote them",
         "load the file in Python and save it again");
  }
  push({.kind = kStorage,
        .element = type.element,
        .integer = at(argument(id, 4, kInt)).integer,
        .text = at(argument(id, 2, kText)).text});
}

const Reader::Opcode Reader::kOpcodes[] = {
    {0x80, [](Reader& r) { r.take(1); }},                              // PROTO
    {0x95, [](Reader& r) { r.take(8); }},                              // FRAME
    {'(', [](Reader& r) { r.brackets_.push_back(r.stack_.size()); }},  // MARK
    {'0', [](Reader& r) { r.pop(); }},                                 // POP
    {'1', [](Reader& r) { r.close_bracket(); }},                       // POP_MARK
    {'q', [](Reader& r) { r.memoize(r.take_number(1)); }},             // BINPUT
    {'r', [](Reader& r) { r.memoize(r.take_number(4)); }},             // LONG_BINPUT
    {0x94, [](Reader& r) { r.memoize(r.memo_.size()); }},              // MEMOIZE
    {'h', [](Reader& r) { r.recall(r.take_number(1)); }},              // BINGET
    {'j', [](Reader& r) { r.recall(r.take_number(4)); }},              // LONG_BINGET
    // Values.
    {'N', [](Reader& r) { r.push({.kind = kNone}); }},                                   // NONE
    {0x88, [](Reader& r) { r.push({.kind = kBool, .integer = 1}); }},                    // NEWTRUE
    {0x89, [](Reader& r) { r.push({.kind = kBool}); }},                                  // NEWFALSE
    {'J', [](Reader& r) { r.push_int(static_cast<std::int32_t>(r.take_number(4))); }},   // BININT
    {'K', [](Reader& r) { r.push_int(static_cast<std::int64_t>(r.take_number(1))); }},   // BININT1
    {'M', [](Reader& r) { r.push_int(static_cast<std::int64_t>(r.take_number(2))); }},   // BININT2
    {0x8a, [](Reader& r) { r.push_long(static_cast<std::size_t>(r.take_number(1))); }},  // LONG1
    {'G', [](Reader& r) { r.take(8), r.push({.kind = kFloat}); }},                       // BINFLOAT
    {'U', [](Reader& r) { r.push_text(1); }},   // SHORT_BINSTRING
    {0x8c, [](Reader& r) { r.push_text(1); }},  // SHORT_BINUNICODE
    {'C', [](Reader& r) { r.push_text(1); }},   // SHORT_BINBYTES
    {'T', [](Reader& r) { r.push_text(4); }},   // BINSTRING
    {'X', [](Reader& r) { r.push_text(4); }},   // BINUNICODE
    {'B', [](Reader& r) { r.push_text(4); }},   // BINBYTES
    {0x8d, [](Reader& r) { r.push_text(8); }},  // BINUNICODE8
    // Containers.
    {')', [](Reader& r) { r.push({.kind = kTuple}); }},                              // EMPTY_TUPLE
    {']', [](Reader& r) { r.push({.kind = kList}); }},                               // EMPTY_LIST
    {'}', [](Reader& r) { r.push({.kind = kDict}); }},                               // EMPTY_DICT
    {0x8f, [](Reader& r) { r.push({.kind = kInert}); }},                             // EMPTY_SET
    {0x85, [](Reader& r) { r.push_tuple(1); }},                                      // TUPLE1
    {0x86, [](Reader& r) { r.push_tuple(2); }},                                      // TUPLE2
    {0x87, [](Reader& r) { r.push_tuple(3); }},                                      // TUPLE3
    {'t', [](Reader& r) { r.push({.kind = kTuple, .items = r.close_bracket()}); }},  // TUPLE
    {'a', [](Reader& r) { r.append_item(); }},                                       // APPEND
    {'e', [](Reader& r) { r.append_bracket(kList); }},                               // APPENDS
    {0x90, [](Reader& r) { r.append_bracket(kInert); }},                             // ADDITEMS
    {'s', [](Reader& r) { r.set_item(); }},                                          // SETITEM
    {'u', [](Reader& r) { r.append_bracket(kDict); }},                               // SETITEMS
    // Opcodes that would call Python.
    {'c', [](Reader& r) { r.push_line_global(); }},    // GLOBAL
    {0x93, [](Reader& r) { r.push_stack_global(); }},  // STACK_GLOBAL
    {'R', [](Reader& r) { r.call(false); }},           // REDUCE
    {0x81, [](Reader& r) { r.call(true); }},           // NEWOBJ
    {'b', [](Reader& r) { r.build(); }},               // BUILD
    {'Q', [](Reader& r) { r.push_storage(); }},        // BINPERSID
};

PickleDocument Reader::run() {
  while (true) {
    const auto opcode = static_cast<unsigned char>(take(1)[0]);
    if (opcode == '.') break;  // STOP
    const auto* const found =
        std::find_if(std::begin(kOpcodes), std::end(kOpcodes),
                     [&](const Opcode& known) { return known.code == opcode; });
    if (found == std::end(kOpcodes)) {
      fail(cat("opcode ", static_cast<int>(opcode), " is not one that torch.save writes"));
    }
    found->act(*this);
  }
  if (!brackets_.empty() || stack_.size() != 1) {
    fail(cat("the pickle ends with ", stack_.size(), " values (want 1)"));
  }
  document_.root = stack_.back();
  document_.size_bytes = place_;
  return std::move(document_);
}

}  // namespace

std::size_t element_bytes(ElementKind kind) {
  constexpr std::array<std::size_t, 10> kBytes = {4, 8, 2, 2, 8, 4, 2, 1, 1, 1};
  return kBytes.at(static_cast<std::size_t>(kind));
}

PickleDocument read_pickle(std::string_view bytes, const std::string& subject) {
  return Reader(bytes, subject).run();
}

}  // namespace retina
