// onnx-fuzz: damages inference models at random, as bytes and as fields that are dropped, repeated,
// swapped and changed at any depth, and gives them to the check. What is accepted must be the sound
// model but for trained numbers; what is not is refused in one line, within memory that the
// input's size bounds.
#include <onnx/onnx_pb.h>

#include <limits>

#include "shared/base/error.h"
#include "shared/onnx/onnx_check.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/wire.h"
#include "tests/fuzz/fuzz_loop.h"
#include "tests/onnx/small_model.h"

namespace retina {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;  // beside the input
constexpr std::size_t kMaxMessage = 2000;

// Where in a file trained numbers stand.
struct TrainedNumbers {
  std::size_t begin = 0, size_bytes = 0;
};

struct Sound {
  InferenceHeader header{};
  std::string model{};  // without seal
  std::unique_ptr<OnnxPattern> pattern{};
  std::vector<TrainedNumbers> trained{};
};

// A classifier of the smallest size: most of the file is graph.
Sound sound_model(WeightType weights) {
  ModelConfig config = classifier_config();
  config.min_side_px = config.max_side_px = 10;
  Sound sound{.header = header_of(config, {.weights = weights})};
  sound.model = small_model(sound.header).bytes;
  sound.pattern = std::make_unique<OnnxPattern>(sound.header, "case");
  std::size_t place = 0;
  const onnx::ModelProto message = as_message(sound.model);
  for (const onnx::TensorProto& tensor : message.graph().initializer()) {
    const std::string& name = tensor.name();
    if (name.starts_with("integer") || name.starts_with("number") ||
        name.starts_with("normalisation")) {
      continue;
    }
    place = sound.model.find(tensor.raw_data(), sound.model.find(name, place));
    sound.trained.push_back({.begin = place, .size_bytes = tensor.raw_data().size()});
  }
  return sound;
}

// Returns whether numbers in trained tensors are all that differs: decided by other means than the
// check's.
bool may_be_accepted(const Sound& sound, const std::string& model) {
  if (model.size() != sound.model.size()) return false;
  std::string with_sound_numbers = model;
  for (const TrainedNumbers& tensor : sound.trained) {
    sound.model.copy(&with_sound_numbers[tensor.begin], tensor.size_bytes, tensor.begin);
  }
  return with_sound_numbers == sound.model;
}

// The message with one field at some depth dropped, repeated, swapped with the next, emptied or
// otherwise changed; lengths around it follow.
std::string with_changed_field(std::string_view message, Dice& dice, int depth) {
  std::vector<WireField> fields;
  WireReader reader(message);
  while (const auto field = reader.next()) fields.push_back(*field);
  if (fields.empty()) return std::string(message) + "x";
  const std::size_t chosen = dice.below(fields.size());
  const std::size_t how = dice.below(8);
  std::string changed;
  for (std::size_t place = 0; place < fields.size(); ++place) {
    const WireField& field = fields[place];
    if (place != chosen) {
      changed += field.encoded;
      continue;
    }
    switch (how) {
      case 0:
        break;  // dropped
      case 1:
        changed += cat(field.encoded, field.encoded);
        break;  // repeated
      case 2:   // swapped
        if (place + 1 < fields.size()) changed += fields[++place].encoded;
        changed += field.encoded;
        break;
      case 3:  // under another number
        changed +=
            cat(wire_prefix(static_cast<std::uint32_t>(1 + dice.below(20)), field.bytes.size()),
                field.bytes);
        break;
      default:
        if (field.has_length && depth > 0 && field.bytes.size() > 1 && how < 7) {
          const std::string inner = with_changed_field(field.bytes, dice, depth - 1);
          changed += cat(wire_prefix(field.number, inner.size()), inner);
        } else if (field.has_length) {
          std::string text(field.bytes);
          if (!text.empty())
            text[dice.below(text.size())] ^= static_cast<char>(1 + dice.below(255));
          changed += cat(wire_prefix(field.number, text.size()), text);
        } else {
          std::string text(field.encoded);
          text.back() ^= static_cast<char>(1 + dice.below(127));
          changed += text;
        }
    }
  }
  return changed;
}

// Returns true if the check took the model.
bool run_case(const Sound& sound, const std::string& model) {
  const std::optional<std::string> difference = sound.pattern->difference(sealed(model));
  if (difference) require_short_line(*difference, kMaxMessage);
  require(!difference == may_be_accepted(sound, model),
          difference ? "refused the sound model" : "accepted what is not the sound model");
  return !difference;
}

// Gives a file's bytes the whole way, its own header included.
bool run_whole_case(const std::string& model) {
  try {
    check_onnx_model(sealed(model), "case");
    return true;
  } catch (const Error& error) {
    require(error.kind() == ErrorKind::kData, "refused with another kind than kData");
    require_short_line(error.what(), kMaxMessage);
    return false;
  }
}

struct Corpus {
  std::vector<Sound> all{};
  std::vector<std::string> models{};

  Corpus() {
    for (const WeightType weights : {WeightType::kF32, WeightType::kF16, WeightType::kInt8}) {
      all.push_back(sound_model(weights));
      models.push_back(all.back().model);
    }
  }
};

FuzzTry make_try(Dice& dice, std::int64_t number) {
  static const Corpus corpus;
  static const std::vector<std::string> words = {"Loop",
                                                 "Conv",
                                                 "\x12",
                                                 "\x0a\x06images",
                                                 "\x08\x08",
                                                 std::string(8, '\xff'),
                                                 std::string(8, '\0')};
  const Sound& sound = corpus.all[dice.below(corpus.all.size())];
  std::string model;
  if (dice.below(3) > 0) {
    model = with_changed_field(sound.model, dice, 5);
  } else {
    model = sound.model;
    mutate(model, dice, corpus.models, words);
  }
  // A changed header makes a graph of its own: dearer, so rarer.
  const bool is_whole = number % 50 == 0;
  const std::size_t most_bytes =
      is_whole ? std::numeric_limits<std::size_t>::max() : 3 * model.size() + kMostBytes;
  const auto run = [&sound, model = std::move(model), is_whole] {
    const bool is_accepted = run_case(sound, model);
    if (is_whole) require(run_whole_case(model) || !is_accepted, "refused by its header alone");
    return is_accepted;
  };
  return {.run = run, .most_bytes = most_bytes};
}

}  // namespace
}  // namespace retina

int main(int argc, char** argv) {
  return retina::fuzz_main(argc, argv, "onnx-fuzz", retina::make_try);
}
