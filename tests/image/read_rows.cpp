// read_rows FILE ROWS: reads an image in chunks of so many rows, and prints the peak of this
// process's resident memory in bytes. With an empty name it reads nothing.
#include <sys/resource.h>

#include <cstdlib>
#include <iostream>

#include "shared/base/error.h"
#include "shared/base/program.h"
#include "shared/image/row_reader.h"

// AddressSanitizer would hold on to what is freed: libtiff allocates a buffer for each tile.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() {
  return "quarantine_size_mb=1";
}

int main(int argc, char** argv) {
  using namespace retina;
  return run_program("read_rows", [&] {
    if (argc != 3) throw Error(ErrorKind::kUsage, "want a file and a number of rows");
    std::string problem;
    if (*argv[1] != '\0') {
      RowReader reader(argv[1]);
      Image rows;
      while (reader.status().ok && reader.next_row() < reader.height()) {
        reader.read(std::atoi(argv[2]), rows);
      }
      problem = reader.status().problem;
    }
    rusage used{};
    getrusage(RUSAGE_SELF, &used);
    std::cout << used.ru_maxrss * 1024L << '\n';
    if (!problem.empty()) throw Error(ErrorKind::kData, problem);
    return 0;
  });
}
