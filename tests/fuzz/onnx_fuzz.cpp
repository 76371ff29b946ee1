// onnx-fuzz: damages inference models at random, as bytes and as fields that are dropped, repeated,
// swapped and changed at any depth, and gives them to the check. What is accepted must be the sound
// model but for trained numbers; what is not is refused in one line, within memory that the
// input's size bounds.
// A run depends on --seed and its number alone: --first N --runs 1 repeats it.
#include <onnx/onnx_pb.h>

#include <chrono>
#include <iostream>

#include "shared/base/cli.h"
#include "shared/base/error.h"
#include "shared/base/program.h"
#include "shared/onnx/onnx_check.h"
#include "shared/onnx/onnx_file.h"
#include "shared/onnx/wire.h"
#include "tests/fuzz/memory_meter.h"
#include "tests/fuzz/mutate.h"
#include "tests/onnx/small_model.h"

namespace retina {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;  // beside the input
constexpr std::size_t kMaxMessage = 2000;

struct FuzzOptions {
  std::int64_t runs = 20'000, first = 0;
  std::uint64_t seed = 1;
};

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

// A broken promise: the number of the run says how to repeat it.
void require(bool kept, const char* promise) {
  if (!kept) throw Error(ErrorKind::kAnswerNo, promise);
}

// Whether numbers in trained tensors are all that differs: decided by other means than the check's.
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

// True when the check took it.
bool run_case(const Sound& sound, const std::string& model) {
  const std::string file = sealed(model);
  const std::optional<std::string> difference = sound.pattern->difference(file);
  if (!difference) return true;
  require(difference->find('\n') == std::string::npos && difference->size() < kMaxMessage &&
              !difference->empty(),
          "a difference is not one short line");
  return false;
}

// The whole way of a file's bytes, its own header included.
bool run_whole_case(const std::string& model) {
  try {
    check_onnx_model(sealed(model), "case");
    return true;
  } catch (const Error& error) {
    const std::string message = error.what();
    require(error.kind() == ErrorKind::kData, "refused with another kind than kData");
    require(message.find('\n') == std::string::npos && message.size() < kMaxMessage,
            "an error message is not one short line");
    return false;
  }
}

void fuzz(const FuzzOptions& options) {
  std::vector<Sound> all;
  std::vector<std::string> models;
  for (const WeightType weights : {WeightType::kF32, WeightType::kF16, WeightType::kInt8}) {
    all.push_back(sound_model(weights));
    models.push_back(all.back().model);
  }
  const std::vector<std::string> words = {"Loop",
                                          "Conv",
                                          "\x12",
                                          "\x0a\x06images",
                                          "\x08\x08",
                                          std::string(8, '\xff'),
                                          std::string(8, '\0')};
  std::int64_t accepted = 0, header_count = 0;
  std::size_t largest_use = 0;
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t run = options.first; run < options.first + options.runs; ++run) {
    Dice dice(options.seed, static_cast<std::uint32_t>(run));
    const Sound& sound = all[dice.below(all.size())];
    std::string model;
    if (dice.below(3) > 0) {
      model = with_changed_field(sound.model, dice, 5);
    } else {
      model = sound.model;
      mutate(model, dice, models, words);
    }
    const std::size_t before = live_bytes();
    reset_peak();
    try {
      const bool is_accepted = run_case(sound, model);
      require(is_accepted == may_be_accepted(sound, model),
              is_accepted ? "accepted what is not the sound model" : "refused the sound model");
      // A changed header makes a graph of its own: dearer, so rarer.
      if (run % 50 == 0) {
        ++header_count;
        const bool whole = run_whole_case(model);
        require(!is_accepted || whole, "refused by its header alone");
      }
      accepted += is_accepted;
      largest_use = std::max(largest_use, peak_bytes() - before);
      require(run % 50 == 0 || peak_bytes() - before <= 3 * model.size() + kMostBytes,
              "used more memory than the input's size allows");
      require(live_bytes() == before, "memory was not given back");
    } catch (const std::exception& error) {
      throw Error(ErrorKind::kAnswerNo, cat("run ", run, ": ", error.what()),
                  cat("repeat it: onnx-fuzz --seed ", options.seed, " --first ", run, " --runs 1"));
    }
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  std::cout << "onnx-fuzz: " << options.runs << " runs from " << options.first << ", seed "
            << options.seed << ": " << accepted << " accepted, the rest refused in one line; "
            << header_count << " with the header that they had; most memory " << largest_use
            << " bytes; " << seconds.count() << " s\n";
}

}  // namespace
}  // namespace retina

int main(int argc, char** argv) {
  return retina::run_program("onnx-fuzz", [&] {
    retina::FuzzOptions options;
    retina::Cli cli("onnx-fuzz", "onnx-fuzz [options]",
                    "Gives damaged inference models to the check of what they hold.");
    cli.option("runs", options.runs, "N", "damaged models to try");
    cli.option("first", options.first, "N", "number of the first");
    cli.option("seed", options.seed, "N", "of the damage");
    if (cli.parse(argc, argv) == retina::CliOutcome::kDone) return 0;
    retina::fuzz(options);
    return 0;
  });
}
