// PNG through libpng, whose errors come by longjmp. No gamma is set, so pixels stay as stored.
#include "data/import/image_codec.hpp"

#include <csetjmp>
#include <cstddef>
#include <cstring>

#include <png.h>

namespace cohort {

namespace {

constexpr std::size_t kSignatureBytes = 8;

/// What libpng's calls back need.
struct PngSource {
    std::span<const std::uint8_t> left;
    std::string text;  ///< of the error
};

extern "C" {
[[noreturn]] void cohort_png_failed(png_structp png, png_const_charp text) {
    static_cast<PngSource*>(png_get_error_ptr(png))->text = text;
    png_longjmp(png, 1);
}
void cohort_png_warned(png_structp /*png*/, png_const_charp /*text*/) {
}
void cohort_png_read(png_structp png, png_bytep to, std::size_t count) {
    auto& left = static_cast<PngSource*>(png_get_io_ptr(png))->left;
    if (count > left.size()) {
        png_error(png, "the file ends too early");
    }
    std::memcpy(to, left.data(), count);
    left = left.subspan(count);
}
}

/// One PNG in memory. Its methods that return false leave a text; nothing with a destructor lives
/// in them, since errors jump over them.
class PngReader {
public:
    explicit PngReader(std::span<const std::uint8_t> bytes)
        : source_{bytes, ""},
          png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, &source_, cohort_png_failed,
                                      cohort_png_warned)),
          info_(png_ == nullptr ? nullptr : png_create_info_struct(png_)) {}
    PngReader(const PngReader&) = delete;
    PngReader& operator=(const PngReader&) = delete;
    ~PngReader() { png_destroy_read_struct(&png_, &info_, nullptr); }

    [[nodiscard]] bool begin() {
        if (info_ == nullptr || setjmp(png_jmpbuf(png_)) != 0) {
            return false;
        }
        png_set_read_fn(png_, &source_, cohort_png_read);
        png_read_info(png_, info_);
        return true;
    }
    [[nodiscard]] std::int64_t height() const { return png_get_image_height(png_, info_); }
    [[nodiscard]] std::int64_t width() const { return png_get_image_width(png_, info_); }
    [[nodiscard]] bool colour() const {
        return (png_get_color_type(png_, info_) & PNG_COLOR_MASK_COLOR) != 0;
    }
    /// Asks for 8 bits and no palette: 1 to 4 channels.
    [[nodiscard]] bool expand() {
        if (setjmp(png_jmpbuf(png_)) != 0) {
            return false;
        }
        png_set_expand(png_);
        png_set_scale_16(png_);
        passes_ = png_set_interlace_handling(png_);
        png_read_update_info(png_, info_);
        return true;
    }
    [[nodiscard]] std::size_t channels() const { return png_get_channels(png_, info_); }
    [[nodiscard]] std::size_t row_bytes() const { return png_get_rowbytes(png_, info_); }
    [[nodiscard]] bool read(std::uint8_t* pixels) {
        if (setjmp(png_jmpbuf(png_)) != 0) {
            return false;
        }
        const std::size_t rows = png_get_image_height(png_, info_);
        for (int pass = 0; pass < passes_; ++pass) {
            for (std::size_t row = 0; row < rows; ++row) {
                png_read_row(png_, pixels + row * row_bytes(), nullptr);
            }
        }
        return true;
    }
    [[nodiscard]] const std::string& text() const { return source_.text; }

private:
    PngSource source_;
    png_structp png_;
    png_infop info_;
    int passes_ = 1;
};

/// The chunk eXIf. libpng knows it in some versions only.
bool png_turned(std::span<const std::uint8_t> bytes) {
    constexpr std::size_t kFrame = 12;  // length, kind, checksum
    for (std::size_t at = kSignatureBytes; at + kFrame <= bytes.size();) {
        const std::size_t length = png_get_uint_32(&bytes[at]);
        if (length > bytes.size() - at - kFrame) {
            return false;
        }
        if (std::memcmp(&bytes[at + 4], "eXIf", 4) == 0) {
            return exif_turned(bytes.subspan(at + 8, length));
        }
        at += kFrame + length;
    }
    return false;
}

void begin_png(PngReader& reader, const std::string& path) {
    if (!reader.begin()) {
        fail_damaged_image(path, reader.text());
    }
    check_image_size(path, reader.height(), reader.width());
}

}  // namespace

ImageFacts png_facts(const std::string& path, std::span<const std::uint8_t> bytes) {
    PngReader reader(bytes);
    begin_png(reader, path);
    return {.height = reader.height(),
            .width = reader.width(),
            .colour = reader.colour(),
            .turned = png_turned(bytes)};
}

Image read_png(const std::string& path, std::span<const std::uint8_t> bytes) {
    PngReader reader(bytes);
    begin_png(reader, path);
    Image image{.channels = reader.colour() ? 3 : 1,
                .height = reader.height(),
                .width = reader.width(),
                .pixels = {}};
    if (reader.expand()) {
        image.pixels.resize(static_cast<std::size_t>(image.height) * reader.row_bytes());
    }
    if (image.pixels.empty() || !reader.read(image.pixels.data())) {
        fail_damaged_image(path, reader.text());
    }
    const auto colours = static_cast<std::size_t>(image.channels);
    if (reader.channels() != colours) {
        image.pixels = over_white(image.pixels, colours);
    }
    return image;
}

}  // namespace cohort
