// retina-convert: turns a checkpoint into one TorchScript file for inference.
#include <iostream>

#include "convert/convert.h"
#include "shared/base/program.h"
#include "shared/model/device.h"

int main(int argc, char** argv) {
  return retina::run_program("retina-convert", [&] {
    retina::register_torch_versions();
    retina::ConvertOptions options;
    retina::Cli cli("retina-convert",
                    "retina-convert --checkpoint C.pt --output MODEL.pt [options]",
                    "Turns a checkpoint into one self-contained TorchScript inference model and "
                    "proves that it\ngives the same detections.");
    declare_options(cli, options);
    if (cli.parse(argc, argv) == retina::CliOutcome::kDone) return 0;
    std::cout << convert(options) << std::flush;
    return 0;
  });
}
