#include "shared/checkpoint/foreign/pickle_reader.h"

#include <algorithm>
#include <iterator>

#include "shared/base/error.h"
#include "shared/checkpoint/foreign/pickle_stack.h"

namespace retina {
namespace {

using enum PickleKind;

constexpr std::size_t kIntBytes = sizeof(std::int64_t);

class Reader {
 public:
  Reader(std::string_view bytes, const PickleLimits& limits)
      : bytes_(bytes), limits_(limits), stack_(limits) {}

  std::size_t place() const { return place_; }

  PickleDocument run();

 private:
  std::string_view take(std::uint64_t count) {
    if (count > bytes_.size() - place_) throw PickleProblem{"the pickle is cut short"};
    const std::string_view taken = bytes_.substr(place_, static_cast<std::size_t>(count));
    place_ += static_cast<std::size_t>(count);
    return taken;
  }

  std::uint64_t take_number(std::size_t count) {
    const std::string_view taken = take(count);
    std::uint64_t number = 0;
    for (std::size_t i = 0; i < count; ++i) {
      number |= static_cast<std::uint64_t>(static_cast<unsigned char>(taken[i])) << (8 * i);
    }
    return number;
  }

  std::string_view take_text(std::size_t length_bytes) {
    const std::uint64_t length = take_number(length_bytes);
    if (length > limits_.max_text_bytes) {
      throw PickleProblem{cat("a string in the pickle is too long (got ", length,
                              " bytes, want at most ", limits_.max_text_bytes, ")")};
    }
    return take(length);
  }

  std::string_view take_line() {
    const std::size_t length = bytes_.substr(place_, limits_.max_text_bytes).find('\n');
    if (length == std::string_view::npos) throw PickleProblem{"a name in the pickle has no end"};
    const std::string_view line = take(length);
    take(1);
    return line;
  }

  void push_empty(PickleKind kind) { stack_.push_new({.kind = kind}); }

  void push_int(std::int64_t integer, PickleKind kind = kInt) {
    stack_.push_new({.kind = kind, .integer = integer});
  }

  void memoize(std::size_t place_bytes) { stack_.memoize(take_number(place_bytes), bytes_.size()); }

  void push_long(std::size_t size_bytes) {
    if (size_bytes > kIntBytes) {
      return stack_.push_new({.kind = kBigInt, .text = take(size_bytes)});
    }
    const std::uint64_t number = take_number(size_bytes);
    const auto missing_bits = static_cast<int>(8 * (kIntBytes - size_bytes));
    // Two's complement of any length: the arithmetic shift repeats the sign.
    if (size_bytes == 0) return push_int(0);
    push_int(static_cast<std::int64_t>(number << missing_bits) >> missing_bits);
  }

  void check_protocol() {
    const std::uint64_t version = take_number(1);
    if (version < 2 || version > 5) {
      throw PickleProblem{cat("pickle protocol ", version, " is not known (want 2 to 5)")};
    }
  }

  void push_text(std::size_t length_bytes) {
    stack_.push_new({.kind = kText, .text = take_text(length_bytes)});
  }

  void push_float() {
    take(8);
    stack_.push_new({.kind = kFloat});
  }

  void push_stack_global() {
    const PickleRef name = stack_.pop(), module = stack_.pop();
    if (stack_.at(module).kind != kText || stack_.at(name).kind != kText) {
      throw PickleProblem{"a name in the pickle is not a string"};
    }
    push_global(stack_, stack_.at(module).text, stack_.at(name).text);
  }

  void push_line_global() {
    const std::string_view module = take_line();
    push_global(stack_, module, take_line());
  }

  void append_item() {
    const PickleRef item = stack_.pop();
    stack_.append({item}, kList);
  }

  void set_item() {
    const PickleRef item = stack_.pop(), key = stack_.pop();
    stack_.append({key, item}, kDict);
  }

  void append_bracket(PickleKind kind) {
    const std::vector<PickleRef> items = stack_.close_bracket();
    stack_.append(items, kind);
  }

  // A byte of the pickle and its action, under pickletools' name.
  struct Opcode {
    unsigned char code;
    void (*act)(Reader&);
  };
  static const Opcode kOpcodes[];

  std::string_view bytes_;
  const PickleLimits& limits_;
  PickleStack stack_;
  std::size_t place_ = 0;
};

const Reader::Opcode Reader::kOpcodes[] = {
    {0x80, [](Reader& r) { r.check_protocol(); }},                      // PROTO
    {0x95, [](Reader& r) { r.take(8); }},                               // FRAME
    {'(', [](Reader& r) { r.stack_.open_bracket(); }},                  // MARK
    {'0', [](Reader& r) { r.stack_.pop(); }},                           // POP
    {'1', [](Reader& r) { r.stack_.close_bracket(); }},                 // POP_MARK
    {'2', [](Reader& r) { r.stack_.push(r.stack_.top()); }},            // DUP
    {'q', [](Reader& r) { r.memoize(1); }},                             // BINPUT
    {'r', [](Reader& r) { r.memoize(4); }},                             // LONG_BINPUT
    {0x94, [](Reader& r) { r.stack_.memoize_next(r.bytes_.size()); }},  // MEMOIZE
    {'h', [](Reader& r) { r.stack_.recall(r.take_number(1)); }},        // BINGET
    {'j', [](Reader& r) { r.stack_.recall(r.take_number(4)); }},        // LONG_BINGET
    // Values.
    {'N', [](Reader& r) { r.push_empty(kNone); }},                                       // NONE
    {0x88, [](Reader& r) { r.push_int(1, kBool); }},                                     // NEWTRUE
    {0x89, [](Reader& r) { r.push_int(0, kBool); }},                                     // NEWFALSE
    {'J', [](Reader& r) { r.push_int(static_cast<std::int32_t>(r.take_number(4))); }},   // BININT
    {'K', [](Reader& r) { r.push_int(static_cast<std::int64_t>(r.take_number(1))); }},   // BININT1
    {'M', [](Reader& r) { r.push_int(static_cast<std::int64_t>(r.take_number(2))); }},   // BININT2
    {0x8a, [](Reader& r) { r.push_long(static_cast<std::size_t>(r.take_number(1))); }},  // LONG1
    {'G', [](Reader& r) { r.push_float(); }},                                            // BINFLOAT
    {'U', [](Reader& r) { r.push_text(1); }},   // SHORT_BINSTRING
    {0x8c, [](Reader& r) { r.push_text(1); }},  // SHORT_BINUNICODE
    {'C', [](Reader& r) { r.push_text(1); }},   // SHORT_BINBYTES
    {'T', [](Reader& r) { r.push_text(4); }},   // BINSTRING
    {'X', [](Reader& r) { r.push_text(4); }},   // BINUNICODE
    {'B', [](Reader& r) { r.push_text(4); }},   // BINBYTES
    {0x8d, [](Reader& r) { r.push_text(8); }},  // BINUNICODE8
    // Containers.
    {')', [](Reader& r) { r.push_empty(kTuple); }},     // EMPTY_TUPLE
    {']', [](Reader& r) { r.push_empty(kList); }},      // EMPTY_LIST
    {'}', [](Reader& r) { r.push_empty(kDict); }},      // EMPTY_DICT
    {0x8f, [](Reader& r) { r.push_empty(kInert); }},    // EMPTY_SET
    {0x85, [](Reader& r) { r.stack_.push_tuple(1); }},  // TUPLE1
    {0x86, [](Reader& r) { r.stack_.push_tuple(2); }},  // TUPLE2
    {0x87, [](Reader& r) { r.stack_.push_tuple(3); }},  // TUPLE3
    {'t',
     [](Reader&
            r) { r.stack_.push_new({.kind = kTuple, .items = r.stack_.close_bracket()}); }},  // TUPLE
    {'a', [](Reader& r) { r.append_item(); }},            // APPEND
    {'e', [](Reader& r) { r.append_bracket(kList); }},    // APPENDS
    {0x90, [](Reader& r) { r.append_bracket(kInert); }},  // ADDITEMS
    {'s', [](Reader& r) { r.set_item(); }},               // SETITEM
    {'u', [](Reader& r) { r.append_bracket(kDict); }},    // SETITEMS
    // Opcodes that would call Python.
    {'c', [](Reader& r) { r.push_line_global(); }},          // GLOBAL
    {0x93, [](Reader& r) { r.push_stack_global(); }},        // STACK_GLOBAL
    {'R', [](Reader& r) { call_global(r.stack_, false); }},  // REDUCE
    {0x81, [](Reader& r) { call_global(r.stack_, true); }},  // NEWOBJ
    {'b', [](Reader& r) { apply_state(r.stack_); }},         // BUILD
    {'Q', [](Reader& r) { push_storage(r.stack_); }},        // BINPERSID
};

PickleDocument Reader::run() {
  while (true) {
    const auto opcode = static_cast<unsigned char>(take(1)[0]);
    if (opcode == '.') break;  // STOP
    const auto* const found =
        std::find_if(std::begin(kOpcodes), std::end(kOpcodes),
                     [&](const Opcode& known) { return known.code == opcode; });
    if (found == std::end(kOpcodes)) {
      throw PickleProblem{
          cat("opcode ", static_cast<int>(opcode), " is not one that torch.save writes")};
    }
    found->act(*this);
  }
  PickleDocument document = stack_.finish();
  document.size_bytes = place_;
  return document;
}

}  // namespace

PickleDocument read_pickle(std::string_view bytes, const std::string& subject,
                           const PickleLimits& limits) {
  Reader reader(bytes, limits);
  try {
    return reader.run();
  } catch (const PickleProblem& problem) {
    throw Error(ErrorKind::kData,
                cat(subject, ": ", problem.text, " (byte ", reader.place(), " of the pickle)"),
                problem.hint);
  }
}

}  // namespace retina
