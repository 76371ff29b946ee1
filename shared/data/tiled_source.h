// Overlapping tiles of another source's images, each a sample of its own: retina-eval --tile.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "shared/data/sample_source.h"
#include "shared/image/tile_grid.h"

namespace retina {

struct TilingOptions {
  std::vector<int> sides_px = {};  // each side has its own grid; several sides give several scales
  double overlap = 0.2;            // see tile_grid.h
  bool with_whole = true;          // also whole images that are larger than a tile
};

// Cuts the images of a source into tiles. Entries of the index are tiles, with their places; those
// of an image come in the order of their lower edges, after the whole image. An image is decoded
// once, from top to bottom, for all tiles that are loaded in about that order: rows stay until the
// last tile that shows them is done, which is about two rows of tiles of the largest side. A
// request for rows that are gone decodes the image again from its start. Pixels are those of the
// decoded image, whatever the order and the threads.
class TiledSource : public SampleSource {
 public:
  // Keeps a reference to `images`, which must outlive this.
  TiledSource(const RowSource& images, const TilingOptions& options);
  ~TiledSource() override;

  const ImageIndex& index() const override { return index_; }
  bool shares_work() const override { return true; }
  // Returns the place of a tile's image in the index of `images`.
  std::size_t image_of(std::size_t place) const { return cuts_[place].image; }
  // Loads a tile, without boxes. A problem with the image is that of the tile whose rows it
  // concerns.
  Sample load(const BatchRequest& request, std::size_t place, JpegDecoder& decoder,
              PixelTarget pixels) const override;

 private:
  class Window;
  struct Cut {
    std::size_t image = 0;
    TileRect rect{};
    bool is_whole = false;
  };

  void add_image(std::size_t image, const TilingOptions& options);
  std::shared_ptr<Window> window_of(std::size_t image) const;
  std::optional<FileProblem> cut_out(std::size_t place, Image& out) const;

  const RowSource& images_;
  ImageIndex index_{};
  std::vector<Cut> cuts_{};              // [entries of index_]
  std::vector<std::size_t> first_of_{};  // an image's first tile in index_, and the end
  mutable std::mutex mutex_;
  mutable std::map<std::size_t, std::shared_ptr<Window>> windows_;  // images in progress
};

}  // namespace retina
