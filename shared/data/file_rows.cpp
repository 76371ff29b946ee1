#include "shared/data/file_rows.h"

#include <algorithm>
#include <utility>

#include "shared/data/listed_folder.h"
#include "shared/image/row_reader.h"

namespace retina {
namespace {

std::optional<FileProblem> problem_of(const DecodeStatus& status) {
  const std::string reason = unusable_reason(status, policy_on_foreign_files(status));
  if (reason.empty()) return std::nullopt;
  return FileProblem{.kind = status.unsupported ? "format" : "damaged", .reason = reason};
}

// Returns the problem of a file that was just opened, or nothing.
std::optional<FileProblem> problem_of(const std::string& path, const DecodeStatus& status,
                                      const DecodeRequest& request) {
  std::optional<FileProblem> problem = problem_of(status);
  if (problem && !request.stretch) {
    problem->reason = reason_with_cure(path, status, problem->reason);
  }
  return problem;
}

std::optional<FileProblem> changed_problem(const ImageSize& got, const ImageSize& expected) {
  if (got.width == expected.width && got.height == expected.height) return std::nullopt;
  return FileProblem{.kind = "damaged", .reason = "the file changed while it was used"};
}

class FileRows : public ImageRows {
 public:
  FileRows(const ImageFolder& folder, const std::string& name, const DecodeRequest& request) {
    FoundFile file;
    problem_ = folder.find(name, file);
    if (problem_) return;
    problem_ = unless_unreadable(folder, file.path, [&]() -> std::optional<FileProblem> {
      reader_.emplace(file.path, RowOptions{.stretch = request.stretch});
      auto problem = problem_of(file.path, reader_->status(), request);
      return problem ? problem
                     : changed_problem({reader_->width(), reader_->height()}, request.expected);
    });
  }

  std::optional<FileProblem> read(int count, Image& out) override {
    if (!problem_) {
      problem_ = unless_too_large([&] { return problem_of(reader_->read(count, out)); });
    }
    return problem_;
  }
  std::optional<FileProblem> skip(int count) override {
    if (!problem_) problem_ = unless_too_large([&] { return problem_of(reader_->skip(count)); });
    return problem_;
  }

 private:
  std::optional<RowReader> reader_{};
  std::optional<FileProblem> problem_{};
};

}  // namespace

ImageSize whole_size_of(const ImageSize& image) {
  if (std::int64_t{image.width} * image.height <= kMostWholePixels) return image;
  const int longer = std::max(image.width, image.height);
  const int divisor = (longer + kReducedSidePx - 1) / kReducedSidePx;
  return {.width = (image.width + divisor - 1) / divisor,
          .height = (image.height + divisor - 1) / divisor};
}

std::unique_ptr<ImageRows> open_file_rows(const ImageFolder& folder, const std::string& name,
                                          const DecodeRequest& request) {
  return std::make_unique<FileRows>(folder, name, request);
}

std::optional<FileProblem> decode_reduced_file(const ImageFolder& folder, const std::string& name,
                                               const ReducedRequest& request, Image& out) {
  FoundFile file;
  if (auto problem = folder.find(name, file)) return problem;
  return unless_unreadable(folder, file.path, [&]() -> std::optional<FileProblem> {
    ReducedImage reduced = read_reduced(file.path, request.max_side_px, request.file.stretch);
    if (auto problem = problem_of(file.path, reduced.status, request.file)) return problem;
    if (auto problem = changed_problem({reduced.width, reduced.height}, request.file.expected)) {
      return problem;
    }
    out = std::move(reduced.image);
    return std::nullopt;
  });
}

}  // namespace retina
