// decode_image FILE: its pixels as the programs see them, as a PPM on stdout.
#include <iostream>

#include "shared/base/error.h"
#include "shared/base/file.h"
#include "shared/base/program.h"
#include "shared/image/image_file.h"

int main(int argc, char** argv) {
  using namespace retina;
  return run_program("decode_image", [&] {
    if (argc != 2) throw Error(ErrorKind::kUsage, "want one file");
    JpegDecoder decoder;
    Image image;
    const DecodeStatus status = decode_any_image(read_file(argv[1]), decoder, image);
    if (!status.ok) throw Error(ErrorKind::kData, status.problem);
    std::cout << "P6\n" << image.width << ' ' << image.height << "\n255\n";
    std::cout.write(reinterpret_cast<const char*>(image.rgb.data()),
                    static_cast<std::streamsize>(image.rgb.size()));
    return 0;
  });
}
