#include "shared/checkpoint/foreign/pickle_reader.h"

#include "shared/base/error.h"
#include "shared/checkpoint/foreign/pickle_stack.h"

namespace retina {
namespace {

using enum PickleKind;

// Opcodes by the names of Python's pickletools.
enum Opcode : unsigned char {
  kMark = '(',
  kStop = '.',
  kPop = '0',
  kPopMark = '1',
  kDup = '2',
  kNoneOp = 'N',
  kBinInt = 'J',
  kBinInt1 = 'K',
  kBinInt2 = 'M',
  kBinFloat = 'G',
  kBinString = 'T',
  kShortBinString = 'U',
  kBinUnicode = 'X',
  kBinBytes = 'B',
  kShortBinBytes = 'C',
  kEmptyTuple = ')',
  kEmptyList = ']',
  kEmptyDict = '}',
  kTupleOp = 't',
  kAppend = 'a',
  kAppends = 'e',
  kSetItem = 's',
  kSetItems = 'u',
  kGlobalOp = 'c',
  kReduce = 'R',
  kBuild = 'b',
  kBinPersId = 'Q',
  kBinGet = 'h',
  kLongBinGet = 'j',
  kBinPut = 'q',
  kLongBinPut = 'r',
  kProto = 0x80,
  kNewObj = 0x81,
  kTuple1 = 0x85,
  kTuple2 = 0x86,
  kTuple3 = 0x87,
  kNewTrue = 0x88,
  kNewFalse = 0x89,
  kLong1 = 0x8a,
  kShortBinUnicode = 0x8c,
  kBinUnicode8 = 0x8d,
  kEmptySet = 0x8f,
  kAddItems = 0x90,
  kStackGlobal = 0x93,
  kMemoize = 0x94,
  kFrame = 0x95,
};

constexpr std::size_t kIntBytes = sizeof(std::int64_t);

class Reader {
 public:
  Reader(std::string_view bytes, const PickleLimits& limits)
      : bytes_(bytes), limits_(limits), stack_(limits) {}

  std::size_t place() const { return place_; }

  PickleDocument run() {
    while (step()) {
    }
    PickleDocument document = stack_.finish();
    document.size_bytes = place_;
    return document;
  }

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

  void push_int(std::int64_t integer) { stack_.push_new({.kind = kInt, .integer = integer}); }

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

  // One opcode; false at STOP.
  bool step() {
    const auto opcode = static_cast<unsigned char>(take(1)[0]);
    switch (opcode) {
      case kStop:
        return false;
      case kProto:
        check_protocol();
        return true;
      case kFrame:
        take(8);
        return true;
      case kMark:
        stack_.open_bracket();
        return true;
      case kPop:
        stack_.pop();
        return true;
      case kPopMark:
        stack_.close_bracket();
        return true;
      case kDup:
        stack_.push(stack_.top());
        return true;
      case kBinPut:
        stack_.memoize(take_number(1), bytes_.size());
        return true;
      case kLongBinPut:
        stack_.memoize(take_number(4), bytes_.size());
        return true;
      case kMemoize:
        stack_.memoize_next(bytes_.size());
        return true;
      case kBinGet:
        stack_.recall(take_number(1));
        return true;
      case kLongBinGet:
        stack_.recall(take_number(4));
        return true;
      default:
        if (!push_scalar(opcode) && !push_structure(opcode)) {
          throw PickleProblem{
              cat("opcode ", static_cast<int>(opcode), " is not one that torch.save writes")};
        }
        return true;
    }
  }

  // Opcodes that carry their value; false for others.
  bool push_scalar(unsigned char opcode) {
    switch (opcode) {
      case kNoneOp:
        stack_.push_new({.kind = kNone});
        return true;
      case kNewTrue:
      case kNewFalse:
        stack_.push_new({.kind = kBool, .integer = opcode == kNewTrue ? 1 : 0});
        return true;
      case kBinInt:
        push_int(static_cast<std::int32_t>(take_number(4)));
        return true;
      case kBinInt1:
        push_int(static_cast<std::int64_t>(take_number(1)));
        return true;
      case kBinInt2:
        push_int(static_cast<std::int64_t>(take_number(2)));
        return true;
      case kLong1:
        push_long(static_cast<std::size_t>(take_number(1)));
        return true;
      case kBinFloat:
        take(8);
        stack_.push_new({.kind = kFloat});
        return true;
      case kShortBinString:
      case kShortBinUnicode:
      case kShortBinBytes:
        stack_.push_new({.kind = kText, .text = take_text(1)});
        return true;
      case kBinString:
      case kBinUnicode:
      case kBinBytes:
        stack_.push_new({.kind = kText, .text = take_text(4)});
        return true;
      case kBinUnicode8:
        stack_.push_new({.kind = kText, .text = take_text(8)});
        return true;
      default:
        return false;
    }
  }

  // Opcodes that combine what the stack holds; false for others.
  bool push_structure(unsigned char opcode) {
    switch (opcode) {
      case kEmptyTuple:
        stack_.push_new({.kind = kTuple});
        return true;
      case kEmptyList:
        stack_.push_new({.kind = kList});
        return true;
      case kEmptyDict:
        stack_.push_new({.kind = kDict});
        return true;
      case kEmptySet:
        stack_.push_new({.kind = kInert});
        return true;
      case kTuple1:
      case kTuple2:
      case kTuple3:
        stack_.push_tuple(opcode - kTuple1 + 1U);
        return true;
      case kTupleOp:
        stack_.push_new({.kind = kTuple, .items = stack_.close_bracket()});
        return true;
      case kAppend: {
        const PickleRef item = stack_.pop();
        stack_.append({item}, kList);
        return true;
      }
      case kAppends:
        append_bracket(kList);
        return true;
      case kAddItems:
        append_bracket(kInert);
        return true;
      case kSetItems:
        append_bracket(kDict);
        return true;
      case kSetItem: {
        const PickleRef item = stack_.pop(), key = stack_.pop();
        stack_.append({key, item}, kDict);
        return true;
      }
      case kGlobalOp: {
        const std::string_view module = take_line();
        push_global(stack_, module, take_line());
        return true;
      }
      case kStackGlobal: {
        const PickleRef name = stack_.pop(), module = stack_.pop();
        if (stack_.at(module).kind != kText || stack_.at(name).kind != kText) {
          throw PickleProblem{"a name in the pickle is not a string"};
        }
        push_global(stack_, stack_.at(module).text, stack_.at(name).text);
        return true;
      }
      case kReduce:
      case kNewObj:
        call_global(stack_, opcode == kNewObj);
        return true;
      case kBuild:
        apply_state(stack_);
        return true;
      case kBinPersId:
        push_storage(stack_);
        return true;
      default:
        return false;
    }
  }

  void append_bracket(PickleKind kind) {
    const std::vector<PickleRef> items = stack_.close_bracket();
    stack_.append(items, kind);
  }

  std::string_view bytes_;
  const PickleLimits& limits_;
  PickleStack stack_;
  std::size_t place_ = 0;
};

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
