// Makes a program run on fake_device.h: linked in beside its main(). The environment says what goes
// wrong, RETINA_FAKE_MEMORY_BYTES, RETINA_FAKE_OUT_OF_MEMORY_AT, RETINA_FAKE_BROKEN_FROM and
// RETINA_FAKE_BROKEN_KERNEL; RETINA_FAKE_SEED is for what is left to chance. At its end it writes
// what was counted to the file RETINA_FAKE_REPORT, or, without one, exits with 86 where there are
// violations.
#include <cstdlib>
#include <iostream>
#include <string>

#include "shared/base/file.h"
#include "shared/base/json.h"
#include "tests/gpu/emulation/grid.h"
#include "tests/gpu/fake_device/fake_device.h"

namespace retina::fake_device {
namespace {

template <class Number>
void take(const char* name, Number& number) {
  if (const char* const text = std::getenv(name)) number = static_cast<Number>(std::stoll(text));
}

struct Program {
  Program() {
    Faults faults;
    take("RETINA_FAKE_MEMORY_BYTES", faults.memory_bytes);
    take("RETINA_FAKE_OUT_OF_MEMORY_AT", faults.out_of_memory_at);
    take("RETINA_FAKE_BROKEN_FROM", faults.broken_from);
    take("RETINA_FAKE_SEED", faults.seed);
    if (const char* const name = std::getenv("RETINA_FAKE_BROKEN_KERNEL")) {
      faults.broken_kernels = {name};
    }
    reset(faults);
  }

  ~Program() {
    const std::vector<std::string> found = violations();  // looks at what is still under way, too
    const char* const report = std::getenv("RETINA_FAKE_REPORT");
    if (report == nullptr) {
      for (const std::string& what : found) std::cerr << "fake device: " << what << '\n';
      if (!found.empty()) std::_Exit(86);
      return;
    }
    const Counts counted = counts();
    JsonWriter json;
    json.begin_object()
        .field("operations", counted.operations)
        .field("allocations", counted.allocations)
        .field("waits", counted.waits)
        .field("late_copies", counted.late_copies)
        .field("kernel_launches", counted.kernels);
    json.key("waiting").begin_array();
    for (const std::string& who : counted.waiting) json.value(who);
    json.end_array().key("violations").begin_array();
    for (const std::string& what : found) json.value(what);
    json.end_array().key("kernels").begin_array();
    for (const std::string& name : emulation::launched_kernels()) json.value(name);
    json.end_array().end_object();
    write_file_atomically(report, json.text());
  }
};

const Program kProgram;

}  // namespace
}  // namespace retina::fake_device
