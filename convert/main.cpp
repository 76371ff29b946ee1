// retina-convert: turns a checkpoint into one ONNX file for inference, and weights of torchvision
// into a checkpoint.
#include <iostream>

#include "convert/convert.h"
#include "convert/import/import.h"
#include "shared/base/program.h"
#include "shared/base/short_spins.h"
#include "shared/base/working_folder.h"
#include "shared/cli/cli.h"
#include "shared/model/device.h"

int main(int argc, char** argv) {
  return retina::run_program("retina-convert", [&] {
    retina::register_torch_versions();
    retina::ConvertOptions options;
    retina::Cli cli(
        "retina-convert",
        "retina-convert --checkpoint RUN|C.pt --output MODEL.onnx [options]\n"
        "retina-convert --import WEIGHTS.pth --output C.pt [--task detect|classify]"
        " [--categories FILE|coco]",
        "turns a checkpoint into one self-contained ONNX inference model and verifies that "
        "it\ngives the same detections or classes; or weights of torchvision into a checkpoint.");
    declare_options(cli, options);
    if (cli.parse(argc, argv) == retina::CliOutcome::kDone) return 0;
    std::cout << (options.weights.empty() ? convert(options)
                                          : import_weights(options.import_options()))
              << std::flush;
    return 0;
  });
}
