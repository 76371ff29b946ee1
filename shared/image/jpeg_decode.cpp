#include <csetjmp>
#include <cstdio>
// jpeglib.h needs FILE and size_t declared before it.
#include <jpeglib.h>
// For the messages' numbers; must follow jpeglib.h.
#include <jerror.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstring>
#include <limits>
#include <new>
#include <optional>
#include <string_view>
#include <vector>

#include "shared/base/cat.h"
#include "shared/base/error.h"
#include "shared/image/decode_status.h"
#include "shared/image/format_rows.h"
#include "shared/image/jpeg.h"

namespace retina {
namespace {

// Limits of progressive scans. A file of thousands of tiny scans takes minutes to decode, one of 49
// million pixels and 500 scans a minute. Real ones have about 10: an image may have as many as
// together scan this many pixels, within bounds.
constexpr std::uint64_t kScannedPixels = 2'000'000'000, kMostScans = 500, kLeastMostScans = 50;

// Computes MULDIV255 of Pillow's Convert.c: a * b / 255, rounded.
int scaled(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

// Converts one row of CMYK as libjpeg gives it, inverted (Adobe's habit; Pillow treats every CMYK
// JPEG so).
void cmyk_to_rgb(const std::uint8_t* cmyk, std::uint8_t* rgb, int width) {
  for (int x = 0; x < width; ++x, cmyk += 4, rgb += 3) {
    const int white = cmyk[3];
    for (int c = 0; c < 3; ++c) {
      rgb[c] = static_cast<std::uint8_t>(white - scaled(255 - cmyk[c], white));
    }
  }
}

}  // namespace

// libjpeg's source of bytes.
struct JpegSource : jpeg_source_mgr {
  ImageBytes* bytes = nullptr;
  std::uint64_t at = 0;  // offset of the buffer's end
  std::array<JOCTET, 1 << 16> buffer;
  std::array<JOCTET, 2> end_marker = {0xFF, JPEG_EOI};

  std::uint64_t left_bytes() const { return bytes_in_buffer + (bytes->size_bytes() - at); }

  static JpegSource& of(j_decompress_ptr info) { return *static_cast<JpegSource*>(info->src); }

  static void nothing(j_decompress_ptr) {}

  // Fills the buffer; at the end it acts like jpeg_mem_src() and jpeg_stdio_src().
  static boolean fill(j_decompress_ptr info) {
    JpegSource& source = of(info);
    source.next_input_byte = source.buffer.data();
    source.bytes_in_buffer = source.bytes->read_at(
        source.at, reinterpret_cast<char*>(source.buffer.data()), source.buffer.size());
    source.at += source.bytes_in_buffer;
    if (source.bytes_in_buffer == 0) {
      info->err->msg_code = JWRN_JPEG_EOF;
      info->err->emit_message(reinterpret_cast<j_common_ptr>(info), -1);
      source.next_input_byte = source.end_marker.data();
      source.bytes_in_buffer = source.end_marker.size();
    }
    return TRUE;
  }

  static void skip(j_decompress_ptr info, long count) {
    JpegSource& source = of(info);
    while (count > static_cast<long>(source.bytes_in_buffer)) {
      count -= static_cast<long>(source.bytes_in_buffer);
      fill(info);
    }
    if (count <= 0) return;
    source.next_input_byte += count;
    source.bytes_in_buffer -= static_cast<std::size_t>(count);
  }

  void begin(ImageBytes& content) {
    bytes = &content;
    const std::string_view all = content.in_memory();
    next_input_byte = reinterpret_cast<const JOCTET*>(all.data());
    bytes_in_buffer = at = all.size();
    init_source = nothing;
    fill_input_buffer = fill;
    skip_input_data = skip;
    resync_to_restart = jpeg_resync_to_restart;
    term_source = nothing;
  }
};

// libjpeg calls back into this and leaves by longjmp: every function that calls setjmp holds plain
// values only, so that no destructor is ever jumped over.
struct JpegReader {
  JpegReader() {
    if (create()) return;
    if (lacks_memory) throw std::bad_alloc();
    throw Error(ErrorKind::kUnavailable, cat("libjpeg: ", error_text.data()));
  }
  ~JpegReader() { jpeg_destroy_decompress(&info); }
  JpegReader(const JpegReader&) = delete;
  JpegReader& operator=(const JpegReader&) = delete;

  jpeg_decompress_struct info{};
  JpegSource source{};
  jpeg_error_mgr errors{};
  jpeg_progress_mgr progress{};
  std::jmp_buf escape{};
  std::array<char, JMSG_LENGTH_MAX> error_text{}, warning_text{};
  bool lacks_memory = false;  // this, not the file, was the last error
  bool ended_early = false;   // libjpeg asked for bytes after the last one
  bool ran_dry = false;       // entropy data ended inside a scan
  bool lacks_rows = false;    // at the end marker, a row of blocks or more too early
  bool is_complete = false;   // every coefficient of every component came in some scan
  std::vector<std::uint8_t> cmyk_row{};
  double max_seconds = std::numeric_limits<double>::infinity();
  std::chrono::steady_clock::time_point begin_time{};

  static JpegReader& of(j_common_ptr info) { return *static_cast<JpegReader*>(info->client_data); }

  [[noreturn]] static void on_error(j_common_ptr info) {
    JpegReader& state = of(info);
    info->err->format_message(info, state.error_text.data());
    const int code = info->err->msg_code;
    state.lacks_memory = code == JERR_OUT_OF_MEMORY || code == JERR_NO_BACKING_STORE;
    std::longjmp(state.escape, 1);
  }

  static void on_message(j_common_ptr info, int level) {
    if (level >= 0) return;
    JpegReader& state = of(info);
    if (state.warning_text[0] == '\0') {
      info->err->format_message(info, state.warning_text.data());
    }
    if (info->err->msg_code == JWRN_JPEG_EOF) state.ended_early = true;
    if (info->err->msg_code == JWRN_HIT_MARKER) {
      state.ran_dry = true;
      state.lacks_rows = state.lacks_rows || ends_before_last_row(state.info);
    }
  }

  // Returns true if the end marker comes before the last row of blocks. The marker alone proves
  // nothing: tools put it behind half a stream. A flipped bit, too, makes the decoder lose count
  // and run into it, but by less than a row of blocks.
  static bool ends_before_last_row(const jpeg_decompress_struct& info) {
    return info.unread_marker == JPEG_EOI && info.input_iMCU_row + 1 < info.total_iMCU_rows;
  }

  static void on_progress(j_common_ptr info) {
    JpegReader& state = of(info);
    const std::uint64_t pixel_count =
        std::uint64_t{state.info.image_width} * state.info.image_height;
    const std::uint64_t most =
        std::clamp(kScannedPixels / pixel_count, kLeastMostScans, kMostScans);
    if (static_cast<std::uint64_t>(state.info.input_scan_number) > most) {
      state.refuse("more than %g scans", static_cast<double>(most));
    }
    const std::chrono::duration<double> elapsed =
        std::chrono::steady_clock::now() - state.begin_time;
    if (elapsed.count() >= state.max_seconds) {
      state.refuse("takes longer than %g seconds to decode", state.max_seconds);
    }
  }

  [[noreturn]] void refuse(const char* format, double limit) {
    std::snprintf(error_text.data(), error_text.size(), format, limit);
    std::longjmp(escape, 1);
  }

  static void no_output(j_common_ptr) {}

  bool create() {
    info.err = jpeg_std_error(&errors);
    errors.error_exit = on_error;
    errors.emit_message = on_message;
    errors.output_message = no_output;
    progress.progress_monitor = on_progress;
    info.client_data = this;
    if (setjmp(escape) != 0) return false;
    jpeg_create_decompress(&info);
    info.client_data = this;
    info.progress = &progress;
    return true;
  }

  bool read_header(ImageBytes& bytes) {
    // Begins anew: an aborted decoder keeps the last image's tables, and an image without any would
    // get them.
    jpeg_destroy_decompress(&info);
    lacks_memory = ended_early = ran_dry = lacks_rows = is_complete = false;
    error_text[0] = warning_text[0] = '\0';
    begin_time = std::chrono::steady_clock::now();
    if (!create()) return false;
    if (setjmp(escape) != 0) return false;
    source.begin(bytes);
    info.src = &source;
    jpeg_read_header(&info, TRUE);
    const bool is_cmyk = info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
    info.out_color_space = is_cmyk ? JCS_CMYK : JCS_RGB;
    info.dct_method = JDCT_ISLOW;
    info.do_fancy_upsampling = TRUE;
    return true;
  }

  // Starts decoding, after the header.
  bool start() {
    if (info.out_color_space == JCS_CMYK) cmyk_row.resize(std::size_t{info.image_width} * 4);
    return start_decompress();
  }

  bool start_decompress() {
    if (setjmp(escape) != 0) return false;
    jpeg_start_decompress(&info);
    is_complete = all_coefficients_seen();
    return true;
  }

  // Reads the next rows into `rgb`, which must have room for them.
  bool read_rows(std::uint8_t* rgb, unsigned count) {
    if (setjmp(escape) != 0) return false;
    copy_rows(rgb, count);
    return true;
  }

  // Copies rows; a function of its own, since setjmp() does not preserve a loop's variables.
  [[gnu::noinline]] void copy_rows(std::uint8_t* rgb, unsigned count) {
    const bool is_cmyk = info.out_color_space == JCS_CMYK;
    for (; count > 0; --count, rgb += std::size_t{info.output_width} * 3) {
      JSAMPROW target = is_cmyk ? cmyk_row.data() : rgb;
      jpeg_read_scanlines(&info, &target, 1);
      if (is_cmyk) cmyk_to_rgb(target, rgb, static_cast<int>(info.output_width));
    }
  }

  // Finishes, after the last row.
  bool finish() {
    if (setjmp(escape) != 0) return false;
    jpeg_finish_decompress(&info);
    return true;
  }

  // Returns true if nothing follows the header of the first scan.
  bool is_blank() const { return source.left_bytes() == 0; }

  // Returns true if the file cannot hold its blocks. Each takes at least one bit: its DC
  // coefficient has a Huffman code in every sequential file and in the first scan of every
  // progressive one (ITU T.81, F.1.2.1, G.1.2.1). For a blank file, which has none on purpose, all
  // of its bytes count.
  bool is_too_short() const {
    if (info.arith_code != FALSE) return false;
    std::uint64_t block_count = 0;
    for (int c = 0; c < info.num_components; ++c) {
      block_count +=
          std::uint64_t{info.comp_info[c].width_in_blocks} * info.comp_info[c].height_in_blocks;
    }
    return block_count / 8 > (is_blank() ? source.bytes->size_bytes() : source.left_bytes());
  }

  // Returns true if every coefficient was in some scan: a file cut between two scans ends without
  // any complaint except about the missing end marker.
  bool all_coefficients_seen() const {
    for (int c = 0; c < info.num_components; ++c) {
      if (info.comp_info[c].quant_table == nullptr) return false;  // no scan had this component
      if (info.coef_bits == nullptr) continue;                     // not progressive
      // Bits of the coefficient still to come; -1: none has come.
      const int* bits = info.coef_bits[c];
      if (std::any_of(bits, bits + DCTSIZE2, [](int missing) { return missing != 0; })) {
        return false;
      }
    }
    return true;
  }

  // Returns true if libjpeg holds the coefficients of the whole image.
  bool has_several_scans() { return jpeg_has_multiple_scans(&info) != FALSE; }

  void fill(DecodeStatus& status) const {
    source.bytes->rethrow();
    if (lacks_memory) throw std::bad_alloc();
    status.first_warning = warning_text.data();
    if (!status.ok) status.problem = error_text.data();
  }

  // Fills in whether the image is truncated, after the pixels.
  void fill_truncation(DecodeStatus& status) const {
    // The arithmetic decoder feeds itself zeros at the end of the file without a complaint.
    status.truncated =
        !is_complete || lacks_rows || (ended_early && (ran_dry || info.arith_code != FALSE));
    if (status.truncated && status.first_warning.empty()) {
      status.first_warning = "its last scans are missing";
    }
  }

  DecodeStatus read_size(ImageBytes& bytes, int& width, int& height) {
    DecodeStatus status{.ok = read_header(bytes)};
    if (status.ok) {
      width = static_cast<int>(info.image_width);
      height = static_cast<int>(info.image_height);
    }
    fill(status);
    return status;
  }

  // Makes the status not ok if the file is too short for its pixels.
  DecodeStatus check_length(DecodeStatus status) const {
    if (!is_too_short()) return status;
    status.ok = false;
    status.problem = cat("truncated: ", source.bytes->size_bytes(), " bytes cannot hold ",
                         info.image_width, "x", info.image_height, " pixels");
    return status;
  }
};

namespace {

// Reads the rows of a JPEG.
class JpegRows : public FormatRows {
 public:
  bool read_row(std::uint8_t* rgb) override {
    ok_ = ok_ && reader_.read_rows(rgb, 1) && finish_after_last();
    return ok_;
  }

  // Reads rows, since after jpeg_skip_scanlines() the next ones differ (libjpeg-turbo 2.1.5).
  bool skip_rows(int count) override {
    skipped_.resize(std::size_t{reader_.info.output_width} * 3);
    for (int i = 0; i < count && ok_; ++i) read_row(skipped_.data());
    return ok_;
  }

  DecodeStatus status() const override {
    DecodeStatus status{.ok = ok_, .is_blank = is_blank_};
    reader_.fill(status);
    if (ok_) reader_.fill_truncation(status);
    return status;
  }

  DecodeStatus open(ImageBytes& bytes, int shrink, int& width, int& height) {
    DecodeStatus status = reader_.read_size(bytes, width, height);
    if (status.ok) status = reader_.check_length(status);
    if (!status.ok) return status;
    if (reader_.has_several_scans() &&
        has_too_many_pixels(width, height, kDefaultMaxPixels, status.problem)) {
      return {.ok = false,
              .problem = cat("a progressive JPEG, which must be held in memory: ", status.problem,
                             "; make it a baseline one with jpegtran"),
              .unsupported = true};
    }
    is_blank_ = reader_.is_blank();
    reader_.info.scale_num = 1;
    reader_.info.scale_denom = static_cast<unsigned>(shrink);
    ok_ = reader_.start();
    width = static_cast<int>(reader_.info.output_width);
    height = static_cast<int>(reader_.info.output_height);
    return this->status();
  }

 private:
  bool finish_after_last() {
    return reader_.info.output_scanline < reader_.info.output_height || reader_.finish();
  }

  JpegReader reader_{};
  std::vector<std::uint8_t> skipped_{};  // a row
  bool ok_ = false, is_blank_ = false;
};

}  // namespace

struct JpegDecoder::State {
  std::uint64_t max_pixels = 0;
  JpegReader reader{};
  std::optional<ImageBytes> bytes{};  // of the last file, which libjpeg may still point to
  std::vector<std::uint8_t> small{};  // check()'s pixels

  // Decodes, after the header: all rows, each side `shrink` times smaller.
  DecodeStatus decode(unsigned shrink, std::vector<std::uint8_t>& rgb) {
    DecodeStatus status{.is_blank = reader.is_blank()};
    reader.info.scale_denom = shrink;
    status.ok = reader.start();
    if (status.ok) {
      rgb.resize(std::size_t{reader.info.output_height} * reader.info.output_width * 3);
      status.ok = reader.read_rows(rgb.data(), reader.info.output_height) && reader.finish();
    }
    reader.fill(status);
    if (status.ok) reader.fill_truncation(status);
    return status;
  }
};

JpegDecoder::JpegDecoder(std::uint64_t max_pixels, double max_seconds)
    : state_(std::make_unique<State>()) {
  state_->max_pixels = max_pixels;
  state_->reader.max_seconds = max_seconds;
}

JpegDecoder::~JpegDecoder() = default;
JpegDecoder::JpegDecoder(JpegDecoder&&) noexcept = default;
JpegDecoder& JpegDecoder::operator=(JpegDecoder&&) noexcept = default;

DecodeStatus JpegDecoder::read_size(std::string_view bytes, int& width, int& height) {
  if (image_format(bytes) != "JPEG") {
    return {.ok = false, .problem = describe_other_format(bytes, "JPEG")};
  }
  return state_->reader.read_size(state_->bytes.emplace(bytes), width, height);
}

DecodeStatus JpegDecoder::check_header(std::string_view bytes, int& width, int& height) {
  DecodeStatus status = read_size(bytes, width, height);
  if (!status.ok) return status;
  if (has_too_many_pixels(width, height, state_->max_pixels, status.problem)) {
    status.ok = false;
    return status;
  }
  return state_->reader.check_length(status);
}

DecodeStatus JpegDecoder::decode(std::string_view bytes, Image& out) {
  const DecodeStatus status = check_header(bytes, out.width, out.height);
  return status.ok ? state_->decode(1, out.rgb) : status;
}

// Decodes at an eighth of the size: libjpeg reads every code of the file and skips nearly all of
// the rest of the work.
DecodeStatus JpegDecoder::check(std::string_view bytes, int& width, int& height) {
  const DecodeStatus status = check_header(bytes, width, height);
  return status.ok ? state_->decode(8, state_->small) : status;
}

std::uint64_t JpegDecoder::max_pixels() const {
  return state_->max_pixels;
}

OpenRows open_jpeg_rows(ImageBytes& bytes, int shrink) {
  OpenRows out;
  auto rows = std::make_unique<JpegRows>();
  out.status = rows->open(bytes, shrink, out.width, out.height);
  if (out.status.ok) out.rows = std::move(rows);
  return out;
}

}  // namespace retina
