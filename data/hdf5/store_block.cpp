#include "data/hdf5/store_block.hpp"

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"
#include "data/text/csv_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <string_view>

namespace cohort {

namespace {

constexpr std::string_view kMagic = "cohort-store ";
constexpr std::string_view kFirstLine = "cohort-store 1\n";
constexpr std::size_t kBytesDigits = 20;
constexpr std::size_t kCrcDigits = 8;

void require_block(bool intact, const std::string& path) {
    require_file(intact, path, "the store is damaged", "a valid first block of 512 bytes",
                 "one with changed bytes");
}

/// @param length  of the file  @param crc_behind  CRC-32 of what is behind the block
StoreStamp verify(const StoreBlock& block, std::uint64_t length, const std::string& path,
                  const std::function<std::uint32_t()>& crc_behind) {
    const std::string_view text(reinterpret_cast<const char*>(block.data()), block.size());
    require_file(text.starts_with(kMagic), path, "not a cohort store",
                 "a file beginning with 'cohort-store'",
                 length == 0 ? "an empty file" : "other bytes");
    if (!text.starts_with(kFirstLine)) {
        const std::string version(text.substr(kMagic.size(), text.find('\n') - kMagic.size()));
        fail<FileError>({.where = path,
                         .what = "a store of another version",
                         .expected = "1",
                         .got = version.size() < kBytesDigits ? version : "unreadable text"});
    }
    const std::size_t bytes_at = kFirstLine.size() + std::strlen("bytes ");
    const std::size_t crc_at = bytes_at + kBytesDigits + std::strlen("\ncrc32 ");
    const auto bytes = parsed<std::uint64_t>(text.substr(bytes_at, kBytesDigits));
    const auto crc = parsed<std::uint32_t>(text.substr(crc_at, kCrcDigits), 16);
    require_block(bytes && crc, path);
    require_file(*bytes == length, path,
                 length < *bytes ? "the store is truncated" : "the store has grown",
                 fmt::format("{} bytes", *bytes), fmt::format("{}", length));
    require_block(block == make_store_block(*bytes, *crc), path);
    const std::uint32_t actual = crc_behind();
    require_file(actual == *crc, path, "the store is damaged (checksum of the whole file)",
                 fmt::format("CRC-32 {:08x}", *crc), fmt::format("{:08x}", actual));
    return {*bytes, *crc};
}

}  // namespace

StoreBlock make_store_block(std::uint64_t file_bytes, std::uint32_t crc32) {
    const std::string text =
        fmt::format("{}bytes {:020}\ncrc32 {:08x}\n", kFirstLine, file_bytes, crc32);
    StoreBlock block{};
    std::memcpy(block.data(), text.data(), text.size());
    return block;
}

StoreStamp verify_store_file(const std::string& path) {
    const FileDescriptor file = open_readable(path);
    const std::uint64_t length = file_bytes(file, path);
    StoreBlock block{};
    read_at(file, path, 0, std::span(block).first(std::min<std::uint64_t>(length, block.size())));
    return verify(block, length, path,
                  [&] { return file_crc32(file, path, kStoreBlockBytes, length); });
}

StoreStamp verify_store_image(std::span<const std::byte> bytes, const std::string& name) {
    StoreBlock block{};
    std::copy_n(bytes.begin(), std::min(bytes.size(), block.size()), block.begin());
    return verify(block, bytes.size(), name,
                  [&] { return crc32_of(bytes.subspan(kStoreBlockBytes)); });
}

hid_t store_type(std::size_t element) {
    return std::array{H5T_NATIVE_FLOAT, H5T_NATIVE_DOUBLE, H5T_NATIVE_INT64, H5T_NATIVE_UINT64,
                      H5T_NATIVE_UINT8}
        .at(element);
}

}  // namespace cohort
