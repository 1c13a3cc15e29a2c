// Which format an image file has, and its bytes.
#include "data/import/image_file.hpp"

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"

#include "data/file/file_io.hpp"
#include "data/import/image_codec.hpp"
#include "data/import/import_formats.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

namespace cohort {

namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kLargestFile = std::uint64_t{1} << 30U;
constexpr std::int64_t kMostPixels = std::int64_t{1} << 28U;

constexpr std::string_view kPng = "\x89PNG\r\n\x1A\n";
constexpr std::string_view kJpeg = "\xFF\xD8\xFF";

/// Formats that are known, but not read: how files begin, '?' being any byte.
constexpr std::array kMarks =
    std::to_array<std::pair<std::string_view, std::string_view>>({{"RIFF????WEBP", "WebP"},
                                                                  {"GIF8", "GIF"},
                                                                  {"BM????\0\0\0\0"sv, "BMP"},
                                                                  {"II*\0"sv, "TIFF"},
                                                                  {"MM\0*"sv, "TIFF"},
                                                                  {"????ftypavif", "AVIF"},
                                                                  {"????ftyphei", "HEIF"},
                                                                  {"????ftypmif1", "HEIF"},
                                                                  {"\xFF\x0A", "JPEG XL"},
                                                                  {"????JXL \r\n", "JPEG XL"},
                                                                  {"????jP  \r\n", "JPEG2000"},
                                                                  {"\xFF\x4F\xFF\x51", "JPEG2000"},
                                                                  {"P4\n", "PPM"},
                                                                  {"P5\n", "PPM"},
                                                                  {"P6\n", "PPM"}});

/// The same by the ends of names.
constexpr std::array kEndings =
    std::to_array<std::pair<std::string_view, std::string_view>>({{".webp", "WebP"},
                                                                  {".gif", "GIF"},
                                                                  {".bmp", "BMP"},
                                                                  {".tif", "TIFF"},
                                                                  {".tiff", "TIFF"},
                                                                  {".avif", "AVIF"},
                                                                  {".heic", "HEIF"},
                                                                  {".heif", "HEIF"},
                                                                  {".jxl", "JPEG XL"},
                                                                  {".jp2", "JPEG2000"},
                                                                  {".ppm", "PPM"},
                                                                  {".pgm", "PPM"},
                                                                  {".pbm", "PPM"},
                                                                  {".pnm", "PPM"}});

std::string start_of(const std::string& path) {
    constexpr std::uint64_t kStartBytes = 16;
    const FileDescriptor file = open_readable(path);
    std::string start(std::min(file_bytes(file, path), kStartBytes), '\0');
    read_at(file, path, 0, std::as_writable_bytes(std::span(start)));
    return start;
}

/// Empty: none.
std::string_view other_format_of(std::string_view start) {
    const auto* found = std::ranges::find_if(kMarks, [&](const auto& each) {
        const std::string_view mark = each.first;
        return start.size() >= mark.size() &&
               std::equal(mark.begin(), mark.end(), start.begin(),
                          [](char wanted, char got) { return wanted == '?' || wanted == got; });
    });
    return found == kMarks.end() ? std::string_view() : found->second;
}

std::vector<std::uint8_t> file_contents(const std::string& path) {
    const FileDescriptor file = open_readable(path);
    const std::uint64_t bytes = file_bytes(file, path);
    require_file(bytes <= kLargestFile, path, "too large for an image", "at most 1 GiB",
                 fmt::format("{} bytes", bytes));
    std::vector<std::uint8_t> contents(bytes);
    read_at(file, path, 0, std::as_writable_bytes(std::span(contents)));
    return contents;
}

/// The result of the reader for the file's format.
template <class Reader>
auto read_with(const std::string& path, Reader png, Reader jpeg) {
    const std::vector<std::uint8_t> bytes = file_contents(path);
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (text.starts_with(kPng)) {
        return png(path, bytes);
    }
    if (!text.starts_with(kJpeg)) {
        const std::string_view other = other_format_of(text);
        require_file(false, path, "not an image that can be read", "PNG or JPEG",
                     other.empty() ? "other first bytes" : other);
    }
    return jpeg(path, bytes);
}

}  // namespace

void check_image_size(const std::string& path, std::int64_t height, std::int64_t width) {
    require_file(
        height >= 1 && width >= 1 && height <= kMostPixels / std::max<std::int64_t>(width, 1), path,
        "unusable size of an image", fmt::format("1 to {} pixels", kMostPixels),
        fmt::format("{}x{}", height, width));
}

void fail_damaged_image(const std::string& path, std::string_view reason) {
    fail<FileError>({.where = path, .what = "the image is damaged or unusable", .got = reason});
}

bool named_image(const std::string& path) {
    const std::string name = plain_name(path);
    return name.ends_with(".png") || name.ends_with(".jpg") || name.ends_with(".jpeg");
}

bool begins_as_image(const std::string& path) {
    const std::string start = start_of(path);
    return start.starts_with(kPng) || start.starts_with(kJpeg);
}

std::string_view other_image_format(const std::string& path) {
    const std::string_view by_start = other_format_of(start_of(path));
    const std::string name = plain_name(path);
    const auto* found = std::ranges::find_if(
        kEndings, [&](const auto& each) { return name.ends_with(each.first); });
    return !by_start.empty() || found == kEndings.end() ? by_start : found->second;
}

ImageFacts image_facts(const std::string& path) {
    return read_with(path, png_facts, jpeg_facts);
}

Image read_image(const std::string& path) {
    return read_with(path, read_png, read_jpeg);
}

}  // namespace cohort
